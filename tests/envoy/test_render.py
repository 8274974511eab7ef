"""``extauthz render envoy``: what it prints is what the repository shows, and the real Envoy takes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from extauthz.cli import main
from extauthz.render import envoy, routes
from extauthz.render.options import Endpoint, GateTls, Outage, Profile, SidecarOptions
from extauthz.testing.certs import Authority
from extauthz.testing.envoy import validate

REPOSITORY = Path(__file__).parents[2]


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["render", "envoy", *words]) == 0
    return capsys.readouterr().out


def test_the_sidecar_in_the_repository_is_what_render_prints(capsys):
    assert (REPOSITORY / "envoy" / "sidecar.yaml").read_text() == rendered(capsys), "run `make render`"


def test_yaml_and_json_are_the_same_configuration(capsys):
    assert yaml.safe_load(rendered(capsys)) == json.loads(rendered(capsys, "-o", "json"))


VARIANTS = {
    "defaults": {},
    "scale-only": {"profile": Profile.SCALE},
    "allow-on-outage": {"on_outage": Outage.ALLOW},
    "unix-sockets": {
        "gate": Endpoint("", 0, "/run/extauthz/gate.sock"),
        "admin": Endpoint("", 0, "/run/extauthz/admin.sock"),
    },
    "ipv6-everywhere": {
        "listen": Endpoint("::", 6443),
        "apiserver": Endpoint("fd00::1", 443),
        "apiserver_name": "fd00::1",
    },
    "no-admin-no-log-nothing-exempt": {"admin": None, "access_log": None, "exempt_namespaces": ()},
    "short-and-long-exempt": {"exempt_namespaces": ("n", "n" * 63)},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("tls", [None, "tls", "mtls"], ids=["plain-gate", "tls-gate", "mtls-gate"])
def test_envoy_takes_what_is_rendered(authority: Authority, tmp_path: Path, variant: dict, tls: str | None):
    pair = authority.issue("sidecar")
    files = {"cert_file": str(pair.cert), "key_file": str(pair.key), "apiserver_ca_file": str(authority.ca)}
    gate_tls = {
        None: None,
        "tls": GateTls(str(authority.ca), "gate"),
        "mtls": GateTls(str(authority.ca), "gate", str(pair.cert), str(pair.key)),
    }[tls]
    config = tmp_path / "envoy.json"
    config.write_text(envoy.to_json(envoy.sidecar(SidecarOptions(**files | variant, gate_tls=gate_tls))))
    assert validate(config) == ""


def test_validate_says_what_is_wrong(tmp_path: Path):
    config = tmp_path / "envoy.json"
    config.write_text('{"static_resources": {"listeners": [{"nmae": "x"}]}}')
    assert "nmae" in validate(config)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--listen", "6443"], "has no port"),
        (["--exempt-namespace", "a/b"], "is no name of a namespace"),
        (["--gate-timeout", "0"], "is no number of seconds"),
        (["--write-timeout", "nan"], "is no number of seconds"),
        (["--on-outage", "ignore"], "ignore"),
    ],
)
def test_wrong_usage_is_told_apart_and_explained(capsys, words: list[str], complaint: str):
    with pytest.raises(SystemExit) as error:
        main(["render", "envoy", *words])
    assert error.value.code == 64
    assert complaint in capsys.readouterr().err


def test_options_of_the_command_reach_the_configuration(capsys):
    words = ["--gate", "unix:/run/g.sock", "--write-timeout", "7", "--exempt-namespace", "mine", "--gate-ca", "/ca"]
    text = rendered(capsys, *words)
    for expected in ("path: /run/g.sock", "timeout: 7s", "/namespaces/mine/", "filename: /ca"):
        assert expected in text
    assert "extauthz-system" not in text


def test_no_growth_route_is_without_a_timeout_and_none_retries():
    """The ledger's W counts on it (DESIGN §6, rule 3e)."""
    config = envoy.to_tree(envoy.sidecar(SidecarOptions()))
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    checked = {rule.name for rule in routes.rules(Profile.WRITES, ()) if rule.checked}
    actions = {
        route["name"]: route["route"]
        for route in manager["route_config"]["virtual_hosts"][0]["routes"]
        if "typed_per_filter_config" not in route
    }
    assert actions.keys() == checked
    for action in actions.values():
        assert action["timeout"] == "65s"
        assert "retry_policy" not in action
