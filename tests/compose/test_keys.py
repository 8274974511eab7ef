"""What the service ``keys`` makes fits together."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from extauthz.demo.envoy import validate
from tests.support import compose as keys

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    keys.make_keys(folder)
    return folder


@pytest.mark.envoy
def test_envoy_takes_its_configuration(made: Path):
    assert validate(made / "envoy.json") == ""


def test_what_was_made_stays_when_it_runs_again(made: Path):
    before = {file.name: file.read_bytes() for file in made.iterdir()}
    keys.make_keys(made)
    assert {file.name: file.read_bytes() for file in made.iterdir()} == before


def test_each_token_is_known_to_the_api_server_by_its_user(made: Path):
    known = {row[0]: row[1] for row in csv.reader((made / keys.TOKENS).read_text().splitlines())}
    for user in keys.USERS:
        shown = json.loads((made / user.file).read_text())["users"][0]["user"]["token"]
        assert known[shown] == user.name


def test_keys_are_for_their_owner_only(made: Path):
    secret = [file for file in made.iterdir() if file.suffix in (".key", ".kubeconfig", ".csv")]
    assert len(secret) > len(keys.USERS)
    assert {file.stat().st_mode & 0o077 for file in secret} == {0}


def test_services_are_called_and_listen_as_their_certificates_say():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    places_used = (keys.APISERVER, keys.ENVOY, keys.GATE, keys.METRICS)
    assert {host for host, _ in places_used} <= set(services)
    assert f"--secure-port={keys.APISERVER[1]}" in services["kube-apiserver"]["command"]
    assert f"--grpc=:{keys.GATE[1]}" in services["gate"]["command"]
    assert f"127.0.0.1:{keys.PUBLISHED.rpartition(':')[2]}:{keys.APISERVER[1]}" in services["kube-apiserver"]["ports"]


def test_each_image_may_come_from_a_registry_of_ones_own():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    named = {name: service["image"].partition(":-")[0] for name, service in services.items()}
    own = dict.fromkeys(("keys", "metrics", "kubelet", "show"), "${STAND_INS_IMAGE")
    assert named == own | {
        name: f"${{{name.upper().replace('-', '_')}_IMAGE"
        for name in ("etcd", "kube-apiserver", "envoy", "kube-controller-manager", "gate", "kubectl")
    }


@pytest.mark.parametrize("service", yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"])
def test_a_service_asks_for_no_more_than_it_needs(service: str):
    asked = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"][service]
    assert (asked["user"], asked["read_only"], asked["cap_drop"]) == ("65532:65532", True, ["ALL"])
    assert asked["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in asked.get("ports", []))
