"""``extauthz top``, ``headroom`` and ``check`` at a gate's ``--api`` address, judged by a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from extauthz.cli import main
from extauthz.testing.certs import Authority
from tests.controlplane.access import RBAC, service_account
from tests.controlplane.api import eventually
from tests.controlplane.plane import Plane, write_kubeconfig
from tests.controlplane.test_api import ROOT, Api, api, authority, owner, role

pytestmark = pytest.mark.controlplane

__all__ = ("api", "authority", "owner")


@pytest.fixture
def token(owner: str, api: Api, tmp_path: Path) -> Path:
    eventually(lambda: api.ask(f"{ROOT}/quotas/api-acme", owner)[0] == 200, "the owner's right")
    file = tmp_path / "token"
    file.write_text(f"{owner}\n")
    return file


def test_a_token_file_shows_what_its_owner_may_see(api: Api, token: Path, capsys: pytest.CaptureFixture[str]):
    at = ("--server", api.url, "--ca", str(api.ca), "--token-file", str(token))
    assert main(["top", *at]) == 0
    table = capsys.readouterr().out
    assert ("api-acme" in table, "api-bolt" in table) == (True, False)
    assert main(["headroom", "deploy/web", "-n", "api-shop", *at]) == 0
    assert "has 2 replicas and may have 8." in capsys.readouterr().out
    assert main(["check", "deploy/web", "-n", "api-shop", "--replicas", "9", *at]) == 1
    assert "exceeded-quota" in capsys.readouterr().out
    assert main(["headroom", "deploy/safe", "-n", "api-vault", *at]) == 69
    assert 'you may not get namespace "api-vault"' in capsys.readouterr().err


def test_the_current_user_of_a_kubeconfig_is_shown(
    api: Api, plane: Plane, token: Path, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    at = ("--server", api.url, "--ca", str(api.ca), "--kubeconfig", str(tmp_path / "kubeconfig"))
    write_kubeconfig(tmp_path / "kubeconfig", plane.url, plane.ca, {"tokenFile": str(token)})
    assert main(["top", *at]) == 0
    assert "api-acme" in capsys.readouterr().out
    pair = authority.issue("cara", organization="api-cli")
    _may_get_quotas(plane, api, authority)
    user = {"client-certificate": str(pair.cert), "client-key": str(pair.key)}
    write_kubeconfig(tmp_path / "kubeconfig", plane.url, plane.ca, user)
    assert main(["top", *at]) == 0
    assert "api-bolt" in capsys.readouterr().out


def test_a_client_certificate_shows_what_its_group_may_see(
    api: Api, plane: Plane, authority: Authority, capsys: pytest.CaptureFixture[str]
):
    _may_get_quotas(plane, api, authority)
    pair = authority.issue("cara", organization="api-cli")
    at = ("--server", api.url, "--ca", str(api.ca), "--client-cert", str(pair.cert), "--client-key", str(pair.key))
    assert main(["top", *at]) == 0
    assert "api-bolt" in capsys.readouterr().out


def _may_get_quotas(plane: Plane, api: Api, authority: Authority) -> None:
    pair = authority.issue("cara", organization="api-cli")
    if api.ask(f"{ROOT}/quotas/api-bolt", pair=pair)[0] != 200:
        rule = {"apiGroups": ["extauthz.dev"], "resources": ["workspacequotas"], "verbs": ["get"]}
        role(plane, "api-cli-quotas", [rule], {"kind": "Group", "name": "api-cli", "apiGroup": RBAC})
        # A refusal is kept for 10 s.
        eventually(lambda: api.ask(f"{ROOT}/quotas/api-bolt", pair=pair)[0] == 200, "the right of the group")


@pytest.mark.parametrize(
    ("flags", "code", "cure"),
    [
        (("--ca",), 69, "(show who asks with --token-file, --client-cert and --client-key, or --kubeconfig)"),
        (("--token-file",), 69, "shows a certificate that is not trusted"),
    ],
)
def test_what_is_missing_is_named(
    api: Api, token: Path, flags: tuple[str, ...], code: int, cure: str, capsys: pytest.CaptureFixture[str]
):
    values = {"--ca": str(api.ca), "--token-file": str(token)}
    assert main(["top", "--server", api.url, *(word for flag in flags for word in (flag, values[flag]))]) == code
    assert cure in capsys.readouterr().err


def test_a_token_of_nobody_is_told(api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "bad").write_text("worthless")
    assert main(["top", "--server", api.url, "--ca", str(api.ca), "--token-file", str(tmp_path / "bad")]) == 69
    assert "show a bearer token that the API server takes" in capsys.readouterr().err


def test_a_token_for_somebody_else_is_no_good(
    api: Api, plane: Plane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "other").write_text(service_account(plane, "default", "api-owner", audience="somebody.else"))
    assert main(["top", "--server", api.url, "--ca", str(api.ca), "--token-file", str(tmp_path / "other")]) == 69
    assert "show a bearer token" in capsys.readouterr().err
