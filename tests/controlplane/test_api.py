"""The HTTP API for others, judged by a real API server: its RBAC, tokens of service accounts, client certificates; and
the commands that ask it."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.testing import workload
from tests.controlplane.access import RBAC, service_account
from tests.controlplane.plane import Plane, write_kubeconfig
from tests.servers.running import Running
from tests.support import objects
from tests.support.certs import Authority, Pair
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

ROOT = "/api/v1"
VIEW = "system:aggregate-to-view"
"""What ``view`` consists of; no controller aggregates it here."""

WEB = ROOT + "/namespaces/api-shop/workloads/deployments.apps/web"


class Api:
    """A gate that serves the API, with no other rights on the cluster than to judge people."""

    def __init__(self, gate: Running, authority: Authority, folder: Path) -> None:
        self.gate, self._authority, self.folder = gate, authority, folder

    @property
    def url(self) -> str:
        return f"https://{self.gate.events('serving')[-1]['api']}"

    @property
    def ca(self) -> Path:
        return self._authority.ca

    def ask(self, path: str, token: str = "", pair: Pair | None = None) -> tuple[int, Any]:
        host, _, port = self.gate.events("serving")[-1]["api"].rpartition(":")
        context = ssl.create_default_context(cafile=str(self._authority.ca))
        if pair is not None:
            context.load_cert_chain(*pair)
        with closing(http.client.HTTPSConnection(host, int(port), timeout=10, context=context)) as connection:
            connection.request("GET", path, headers={"authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            body = answer.read()
            is_page = answer.headers.get_content_type() == "text/html"
            return answer.status, body.decode() if is_page else json.loads(body)

    def names(self, path: str, token: str) -> list[str]:
        status, page = self.ask(path, token)
        assert status == 200, page
        return [one["name"] for one in page["items"]]


def role(plane: Plane, name: str, rules: list[dict[str, Any]], subject: dict[str, str], namespace: str = "") -> None:
    """A role and its binding, in a namespace or in all of the cluster."""
    cluster = "" if namespace else "Cluster"
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    plane.api.create({"apiVersion": f"{RBAC}/v1", "kind": f"{cluster}Role", "metadata": metadata, "rules": rules})
    reference = {"apiGroup": RBAC, "kind": f"{cluster}Role", "name": name}
    binding = {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
    plane.api.create({"apiVersion": f"{RBAC}/v1", "kind": f"{cluster}RoleBinding"} | binding)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("api"))


AUDIENCE = "extauthz.example"


@pytest.fixture(scope="module")
def api(plane: Plane, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder: Path = tmp_path_factory.mktemp("gate")
    for name in ("api-shop", "api-vault"):
        plane.api.create(objects.namespace(name))
    quotas = [objects.quota(name, {"pods": "9"}) for name in ("api-acme", "api-bolt")]
    namespaces = [objects.namespace(name, workspace="api-acme") for name in ("api-shop", "api-vault")]
    items = [*namespaces, workload("web", 2, namespace="api-shop"), workload("safe", 1, namespace="api-vault")]
    (folder / "quotas.yaml").write_text(yaml.safe_dump_all(quotas))
    (folder / "state.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    token = service_account(plane, "default", "api-gate", "system:auth-delegator")
    write_kubeconfig(folder / "kubeconfig", plane.url, plane.ca, {"token": token})
    pair = authority.issue("gate")
    flags = ("--api", "127.0.0.1:0", "--api-cert", str(pair.cert))
    flags += ("--api-client-ca", str(authority.ca), "--kubeconfig", str(folder / "kubeconfig"))
    with Running(folder, *flags) as gate:
        yield Api(gate, authority, folder)


@pytest.fixture(scope="module")
def for_audience(
    api: Api, plane: Plane, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    """The same with ``--api-audience``."""
    folder, made = tmp_path_factory.mktemp("audience"), api.folder
    for name in ("quotas.yaml", "state.json"):
        (folder / name).write_bytes((made / name).read_bytes())
    pair = authority.issue("gate-for-audience")
    flags = ("--api", "127.0.0.1:0", "--api-cert", str(pair.cert))
    flags += ("--kubeconfig", str(made / "kubeconfig"), "--api-audience", AUDIENCE)
    with Running(folder, *flags) as gate:
        yield Api(gate, authority, folder)


@pytest.fixture(scope="module")
def owner(plane: Plane) -> str:
    """A token of a service account that may get one quota, and what ``view`` allows in one namespace."""
    token = service_account(plane, "default", "api-owner")
    subject = {"kind": "ServiceAccount", "name": "api-owner", "namespace": "default"}
    rule = {"apiGroups": ["extauthz.dev"], "resources": ["workspacequotas"], "verbs": ["get"]}
    role(plane, "api-own-quota", [rule | {"resourceNames": ["api-acme"]}], subject)
    plane.api.create(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "api-view", "namespace": "api-shop"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": VIEW},
            "subjects": [subject],
        }
    )
    return token


def test_an_owner_sees_what_rbac_lets_them_get(api: Api, owner: str):
    eventually(lambda: api.names(f"{ROOT}/quotas?limit=10", owner) == ["api-acme"], "the quota of the owner")
    assert api.ask(f"{ROOT}/quotas/api-bolt", owner)[0] == 403
    assert api.names(f"{ROOT}/quotas/api-acme/workloads", owner) == ["web"]
    assert api.ask(f"{WEB}/headroom", owner)[1]["replicas"] == 8
    assert api.ask(WEB.replace("api-shop", "api-vault"), owner)[0] == 403


def test_who_may_get_all_sees_all(plane: Plane, api: Api):
    token = service_account(plane, "default", "api-admin", "cluster-admin")
    assert api.names(f"{ROOT}/quotas", token) == ["api-acme", "api-bolt"]
    assert sorted(api.names(f"{ROOT}/quotas/api-acme/workloads", token)) == ["safe", "web"]


def test_a_client_certificate_is_a_user_whom_rbac_knows(plane: Plane, api: Api, authority: Authority):
    subject = {"kind": "Group", "name": "api-auditors", "apiGroup": RBAC}
    rule = {"apiGroups": ["extauthz.dev"], "resources": ["workspacequotas"], "verbs": ["get"]}
    role(plane, "api-all-quotas", [rule], subject)
    auditor = authority.issue("ada", organization="api-auditors")
    eventually(lambda: api.ask(f"{ROOT}/quotas/api-bolt", pair=auditor)[0] == 200, "the right of the group")
    assert api.ask(f"{ROOT}/quotas/api-bolt", pair=authority.issue("eve"))[0] == 403


def test_a_token_of_nobody_is_refused(api: Api, owner: str):
    assert api.ask(f"{ROOT}/quotas")[0] == 401
    assert api.ask(f"{ROOT}/quotas", owner[:-6] + "AAAAAA")[0] == 401


def test_the_log_names_the_service_account_and_holds_no_token(api: Api, owner: str):
    api.ask(f"{ROOT}/quotas/api-acme", owner)
    user = "system:serviceaccount:default:api-owner"
    eventually(lambda: user in {line["user"] for line in api.gate.events("api")}, "a line")
    assert owner not in api.gate.log_file.read_text()


def test_with_an_audience_only_tokens_for_it_are_good(plane: Plane, api: Api, for_audience: Api):
    plain = service_account(plane, "default", "api-admin", "cluster-admin")
    meant = service_account(plane, "default", "api-admin", audience=AUDIENCE)
    assert [one.ask(f"{ROOT}/quotas", meant)[0] for one in (api, for_audience)] == [401, 200]
    assert [one.ask(f"{ROOT}/quotas", plain)[0] for one in (api, for_audience)] == [200, 401]


# By the command line.


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
    assert main(["check", "deploy/web", "-n", "api-shop", *at]) == 0
    assert "has 2 replicas and may have 8." in capsys.readouterr().out
    assert main(["check", "deploy/web", "-n", "api-shop", "--replicas", "9", *at]) == 1
    assert "exceeded-quota" in capsys.readouterr().out
    assert main(["check", "deploy/safe", "-n", "api-vault", *at]) == 69
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


def _may_get_quotas(plane: Plane, api: Api, authority: Authority) -> None:
    pair = authority.issue("cara", organization="api-cli")
    if api.ask(f"{ROOT}/quotas/api-bolt", pair=pair)[0] != 200:
        rule = {"apiGroups": ["extauthz.dev"], "resources": ["workspacequotas"], "verbs": ["get"]}
        role(plane, "api-cli-quotas", [rule], {"kind": "Group", "name": "api-cli", "apiGroup": RBAC})
        # A refusal is kept for 10 s.
        eventually(lambda: api.ask(f"{ROOT}/quotas/api-bolt", pair=pair)[0] == 200, "the right of the group")
