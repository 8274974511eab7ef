"""``extauthz render envoy``: what it prints is what the repository shows, and the real Envoy takes it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.demo.envoy import Envoy, validate, write_secrets
from extauthz.tools.render import envoy, options, routes
from extauthz.tools.render.options import Endpoint, GateTls, Outage, Profile, SidecarOptions
from tests.support.certs import Authority, Pair

REPOSITORY = Path(__file__).parents[2]


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["render", "envoy", *words]) == 0
    return capsys.readouterr().out


SHOWN = [file for file in sorted((REPOSITORY / "envoy").rglob("*.yaml")) if "# Made by `" in file.read_text()]
BEHIND_A_SERVICE = (
    "--gate extauthz.extauthz-system.svc:9191 --gate-failover extauthz-gates.extauthz-system.svc:9191 "
    "--gate-name extauthz.extauthz-system.svc --gate-ca /etc/extauthz/gate/ca.crt "
    "--gate-cert /etc/extauthz/gate/tls.crt --gate-key /etc/extauthz/gate/tls.key"
)
WAYS = {
    "sidecar": "",
    "kube-controller-manager": "--profile scale --listen 127.0.0.1:7443 --apiserver 127.0.0.1:6443",
    "autoscaler": f"--profile autoscaler {BEHIND_A_SERVICE}",
    "autoscaler-allow-on-outage": f"--profile autoscaler --on-outage allow {BEHIND_A_SERVICE}",
    "egress-gateway": f"--profile writes --anonymous verify --listen 0.0.0.0:6443 {BEHIND_A_SERVICE}",
}
"""The ways of docs/render.md and envoy/README.md to stand before an API server."""


def made_by(file: Path) -> list[str]:
    """The command that the file's first line says it was made by."""
    command = file.read_text().partition("`")[2].partition("`")[0]
    program, what, which, *words = shlex.split(command)
    assert [program, what, which] == ["extauthz", "render", "envoy"]
    return words


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.stem)
def test_what_the_repository_shows_is_what_render_prints(capsys, file: Path):
    assert file.read_text() == rendered(capsys, *made_by(file)), "run `make render`"


@pytest.mark.parametrize("way", WAYS)
def test_envoy_starts_with_each_way(capsys, authority: Authority, tmp_path: Path, way: str):
    """``--mode validate`` does not notice everything: it takes patterns that a start refuses."""
    pair, printed = authority.issue("shown"), yaml.safe_load(rendered(capsys, *WAYS[way].split()))

    def here(tree: dict) -> None:
        """The file's configuration, on ports of our own and with certificates that are there."""
        tree.clear()
        tree.update(printed)
        for place in (tree["admin"], tree["static_resources"]["listeners"][0]):
            place["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": 0}
        give_files(tree, str(pair.cert), str(pair.key), str(authority.ca), str(tmp_path / "access.log"))
        give_secrets(tree, tmp_path)

    gate_tls = GateTls(str(authority.ca), "gate", str(pair.cert), str(pair.key))
    with Envoy(SidecarOptions(**files_of(pair, authority), gate_tls=gate_tls), tmp_path, here) as envoy:
        assert envoy.port
        assert validate(tmp_path / "envoy.json") == ""


def give_files(tree: dict | list, cert: str, key: str, ca: str, log: str) -> None:
    there = {"certificate_chain": cert, "private_key": key, "trusted_ca": ca}
    for name, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if name in there:
            value["filename"] = there[name]
        elif value == "/dev/stdout":
            tree[name] = log
        elif isinstance(value, dict | list):
            give_files(value, cert, key, ca, log)


def files_of(pair: Pair, authority: Authority) -> dict[str, str]:
    return {"cert_file": str(pair.cert), "key_file": str(pair.key), "apiserver_ca_file": str(authority.ca)}


def give_secrets(tree: Any, folder: Path) -> None:
    """The other parts of the configuration, from this folder."""
    for value in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(value, dict) and "path_config_source" in value:
            source = value["path_config_source"]
            source["path"] = str(folder / Path(source["path"]).name)
            source["watched_directory"]["path"] = str(folder)
        elif isinstance(value, dict | list):
            give_secrets(value, folder)


def test_yaml_and_json_are_the_same_configuration(capsys):
    assert yaml.safe_load(rendered(capsys)) == json.loads(rendered(capsys, "-o", "json"))


VARIANTS = {
    "defaults": {},
    "scale-only": {"profile": Profile.SCALE},
    "autoscaler": {"profile": Profile.AUTOSCALER},
    "allow-on-outage": {"on_outage": Outage.ALLOW},
    "unix-sockets": {
        "gate": Endpoint("", 0, "/run/extauthz/gate.sock"),
        "admin": Endpoint("", 0, "/run/extauthz/admin.sock"),
    },
    "gates-by-name": {
        "gate": Endpoint("extauthz.extauthz-system.svc", 9191),
        "failover_gates": (Endpoint("extauthz-gates.extauthz-system.svc", 9191), Endpoint("10.0.0.9", 9191)),
    },
    "gates-by-socket": {
        "gate": Endpoint("", 0, "/run/extauthz/gate.sock"),
        "failover_gates": (Endpoint("10.0.0.9", 9191),),
    },
    "ipv6-everywhere": {
        "listen": Endpoint("::", 6443),
        "apiserver": Endpoint("fd00::1", 443),
        "apiserver_name": "fd00::1",
    },
    "no-admin-no-log-nothing-exempt": {"admin": None, "access_log": None, "exempt_namespaces": ()},
    "clamp": {"clamp": True},
    "short-and-long-exempt": {"exempt_namespaces": ("n", "n" * 63)},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("tls", [None, "tls", "mtls"], ids=["plain-gate", "tls-gate", "mtls-gate"])
def test_envoy_takes_what_is_rendered(authority: Authority, tmp_path: Path, variant: dict, tls: str | None):
    pair = authority.issue("sidecar")
    gate_tls = {
        None: None,
        "tls": GateTls(str(authority.ca), "gate"),
        "mtls": GateTls(str(authority.ca), "gate", str(pair.cert), str(pair.key)),
    }[tls]
    config = tmp_path / "envoy.json"
    files = files_of(pair, authority) | {"secrets_dir": str(tmp_path)}
    options = SidecarOptions(**files | variant, gate_tls=gate_tls)
    write_secrets(options, tmp_path)
    config.write_text(json.dumps(envoy.sidecar(options)))
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
        (["--requester", "*"], "is no user; write for example system:serviceaccount:"),
        (["--gate-timeout", "0"], "is no number of seconds"),
        (["--write-timeout", "nan"], "is no number of seconds"),
        (["--on-outage", "ignore"], "ignore"),
        (["--profile", "kcm"], "kcm"),
    ],
)
def test_wrong_usage_is_told_apart_and_explained(capsys, words: list[str], complaint: str):
    with pytest.raises(SystemExit) as error:
        main(["render", "envoy", *words])
    assert error.value.code == 64
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--gate-ca", "/ca", "--gate-cert", "/c"], "go together"),
        (["--gate-ca", "/ca", "--gate-key", "/k"], "go together"),
        (["--gate-cert", "/c", "--gate-key", "/k"], "needs --gate-ca"),
    ],
)
def test_half_of_mtls_is_no_plain_text(capsys, words: list[str], complaint: str):
    assert main(["render", "envoy", *words]) == 64
    told = capsys.readouterr()
    assert complaint in told.err
    assert told.out == ""


def test_a_socket_and_a_name_are_not_looked_up_alike(capsys):
    assert main(["render", "envoy", "--gate", "unix:/g.sock", "--gate-failover", "gates.example:9191"]) == 64
    told = capsys.readouterr()
    assert "unix:/g.sock and the name gates.example:9191 do not go together" in told.err
    assert told.out == ""


def test_every_choice_has_a_flag_that_says_its_default(capsys):
    with pytest.raises(SystemExit):
        main(["render", "envoy", "--help"])
    text = capsys.readouterr().out
    parts = text.partition("\nprofiles:\n")[0].split("\n  -")[2:]
    no_flags = {"gate_tls", "access_log", "body_timeout_s"}
    assert len(parts) == len(fields(SidecarOptions)) - len(no_flags) + len(fields(GateTls)) + 2, "--part, --output"
    for part in parts:
        assert "Default:" in part
    for profile in Profile:
        assert f"\n  {profile} " in text


def test_options_of_the_command_reach_the_configuration(capsys):
    words = ["--gate", "unix:/run/g.sock", "--write-timeout", "7", "--exempt-namespace", "mine", "--gate-ca", "/ca"]
    text = rendered(capsys, *words, "--secrets", "/s")
    for expected in ("path: /run/g.sock", "per_try_timeout: 7s", "/namespaces/mine/", "path: /s/gate-ca.yaml"):
        assert expected in text
    assert "extauthz-system" not in text
    assert "filename: /ca\n" in rendered(capsys, *words, "--part", "gate-ca")


def test_with_clamp_the_body_is_lowered_before_it_is_decided_and_only_where_it_is_decided(capsys):
    tree = json.loads(rendered(capsys, "--clamp", "-o", "json"))
    (manager,) = tree["static_resources"]["listeners"][0]["filter_chains"][0]["filters"]
    names = [one["name"].rpartition(".")[2] for one in manager["typed_config"]["http_filters"]]
    assert names == ["ext_proc", "ext_authz", "rbac", "router"]
    (host,) = manager["typed_config"]["route_config"]["virtual_hosts"]
    every = {f"envoy.filters.http.{name}" for name in ("ext_proc", "ext_authz", "rbac")}
    for one in host["routes"]:
        assert set(one.get("typed_per_filter_config", {})) in (set(), every), one["name"]
    assert "ext_proc" not in rendered(capsys)


def test_of_headers_ext_proc_may_change_the_length_alone_and_sees_none():
    manager = envoy.filter_chain(SidecarOptions(clamp=True))["filters"][0]["typed_config"]
    (lowering,) = (one["typed_config"] for one in manager["http_filters"] if one["name"] == envoy.EXT_PROC)
    assert lowering["mutation_rules"] == {"disallow_all": True, "allow_expression": {"regex": "content-length"}}
    assert lowering["processing_mode"]["request_header_mode"] == "SKIP"


GATE_CA = ["--gate-ca", "/g/ca"]


@pytest.mark.parametrize(
    "tls",
    [[], GATE_CA, [*GATE_CA, "--gate-cert", "/g/c", "--gate-key", "/g/k"]],
    ids=["plain-gate", "tls-gate", "mtls-gate"],
)
def test_there_is_a_part_for_each_file_that_the_bootstrap_looks_for(capsys, tls: list[str]):
    there = set()
    for part in options.PARTS:
        if main(["render", "envoy", *tls, "--part", part]) == 0:
            (secret,) = yaml.safe_load(capsys.readouterr().out)["resources"]
            assert secret["name"] == part
            there.add(f"/etc/extauthz/envoy/{part}.yaml")
        else:
            assert f"--part {part} is for TLS to the gate: add --gate-ca" in capsys.readouterr().err
    assert {*looked_for(yaml.safe_load(rendered(capsys, *tls)))} == there


def looked_for(tree: Any) -> Iterator[str]:
    """The files of the bootstrap's other parts."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if key == "path_config_source":
            yield value["path"]
        elif isinstance(value, dict | list):
            yield from looked_for(value)


@pytest.mark.parametrize("outage", Outage)
@pytest.mark.parametrize("profile", Profile)
def test_no_growth_route_is_without_a_timeout_and_none_retries(profile: Profile, outage: Outage):
    """The ledger's W counts on it (design.md L3)."""
    config = envoy.sidecar(SidecarOptions(profile=profile, on_outage=outage))
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    checked = {rule.name for rule in routes.rules(profile, ()) if rule.checked}
    actions = {
        route["name"]: route["route"]
        for route in manager["route_config"]["virtual_hosts"][0]["routes"]
        if "typed_per_filter_config" not in route
    }
    assert actions.keys() == checked
    for action in actions.values():
        assert action["retry_policy"] == {"num_retries": 0, "per_try_timeout": "65s"}
