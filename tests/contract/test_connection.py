"""The contract of a connection with an API server: who asks, how that is renewed, how refusals and outages are told."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from extauthz.core.model import Tree
from extauthz.inputs.kube.connection import ApiError, Unreachable, connect
from extauthz.inputs.kube.session import NoClusterError
from tests.controlplane.access import service_account
from tests.controlplane.plane import Plane, write_kubeconfig
from tests.support.apireading import Fault
from tests.support.apiserver import ApiServer
from tests.support.certs import Authority

NAMESPACES = "/api/v1/namespaces"


class Server(NamedTuple):
    """An API server, and two tokens that it takes."""

    port: int
    ca: Path
    tokens: tuple[str, str]

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


@pytest.fixture(scope="module", autouse=True)
def leaves_nothing_open() -> Iterator[None]:
    """What was left open is told here, and not in whichever test comes next."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def api(authority: Authority) -> Iterator[ApiServer]:
    with ApiServer(authority.issue("apiserver")) as api:
        yield api


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.controlplane)])
def server(request: pytest.FixtureRequest) -> Server:
    if request.param == "real":
        plane: Plane = request.getfixturevalue("plane")
        first, second = (service_account(plane, "default", name, "cluster-admin") for name in ("first", "second"))
        return Server(plane.port, plane.ca, (first, second))
    api: ApiServer = request.getfixturevalue("api")
    api.tokens = {"first", "second"}
    return Server(api.port, request.getfixturevalue("authority").ca, ("first", "second"))


def plugin(folder: Path, answer: Tree) -> Mapping[str, Tree]:
    """An exec plugin as a kubeconfig has it. It counts its runs beside itself."""
    script = folder / "plugin"
    script.write_text(
        f"#!{sys.executable}\nopen({str(folder / 'runs')!r}, 'a').write('.')\n"
        f"print(open({str(folder / 'answer')!r}).read())\n"
    )
    script.chmod(stat.S_IRWXU)
    answer_with(folder, answer)
    api_version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": api_version, "command": str(script), "interactiveMode": "Never"}}


def answer_with(folder: Path, status: Tree) -> None:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (folder / "answer").write_text(json.dumps(credential))


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text())


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


USERS: dict[str, Callable[[Path, str], Mapping[str, Tree]]] = {
    "token": lambda folder, token: {"token": token},
    "token-file": lambda folder, token: {"tokenFile": written(folder / "token", token + "\n")},
    "relative-token-file": lambda folder, token: {"tokenFile": Path(written(folder / "token", token)).name},
    "exec-plugin": lambda folder, token: plugin(folder, {"token": token}),
}


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
async def test_a_kubeconfig_says_who_asks(server: Server, tmp_path, user):
    write_kubeconfig(tmp_path / "config", server.url, server.ca, user(tmp_path, server.tokens[0]))
    async with connect(tmp_path / "config") as connection:
        assert (await connection.call("GET", NAMESPACES))["metadata"]["resourceVersion"]
        assert connection.server == server.url
        assert connection.calls == {"get": 1}


@pytest.mark.controlplane
@pytest.mark.parametrize("inline", [False, True], ids=["files", "inline"])
async def test_a_client_certificate_says_who_asks(plane: Plane, tmp_path, inline: bool):
    files = {"client-certificate": plane.folder / "admin.crt", "client-key": plane.folder / "admin.key"}
    encoded = {f"{name}-data": base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    user = encoded if inline else {name: str(path) for name, path in files.items()}
    write_kubeconfig(tmp_path / "config", plane.url, plane.ca, user)
    async with connect(tmp_path / "config") as connection:
        me = await connection.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body={})
    assert me["status"]["userInfo"]["groups"] == ["system:masters", "system:authenticated"]


def pod(folder: Path, server: Server, token: str) -> Mapping[str, Tree]:
    """What a pod finds, as arguments of ``connect``."""
    (folder / "ca.crt").write_bytes(server.ca.read_bytes())
    (folder / "token").write_text(token)
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
    return {"environ": environ, "service_account": folder}


async def test_a_pod_asks_with_its_service_account(server: Server, tmp_path):
    async with connect(**pod(tmp_path, server, server.tokens[0])) as connection:
        assert (await connection.call("GET", NAMESPACES))["items"] is not None


async def test_a_token_that_is_no_longer_taken_is_read_again_at_once(server: Server, tmp_path):
    async with connect(**pod(tmp_path, server, "expired")) as connection:
        with pytest.raises(ApiError) as refusal:
            await connection.call("GET", NAMESPACES)
        assert (refusal.value.status, refusal.value.reason) == (401, "Unauthorized")
        (tmp_path / "token").write_text(server.tokens[1])
        assert (await connection.call("GET", NAMESPACES))["items"] is not None


async def test_a_rotated_token_is_used_before_the_old_one_is_refused(api: ApiServer, server: Server, tmp_path):
    now = [0.0]
    async with connect(**pod(tmp_path, server, server.tokens[0]), clock=lambda: now[0]) as connection:
        await connection.call("GET", NAMESPACES)
        (tmp_path / "token").write_text("expired")
        await connection.call("GET", NAMESPACES)
        now[0] += 61
        (tmp_path / "token").unlink()
        await connection.call("GET", NAMESPACES)  # amid a rotation: what was read before still does
        now[0] += 61
        (tmp_path / "token").write_text("expired")
        with pytest.raises(ApiError, match="401"):
            await connection.call("GET", NAMESPACES)


async def test_a_kubeconfigs_token_file_is_read_again_before_the_old_token_is_refused(server: Server, tmp_path):
    now = [0.0]
    user = USERS["token-file"](tmp_path, server.tokens[0])
    write_kubeconfig(tmp_path / "config", server.url, server.ca, user)
    async with connect(tmp_path / "config", clock=lambda: now[0]) as connection:
        (tmp_path / "token").write_text("expired")
        await connection.call("GET", NAMESPACES)
        now[0] += 61
        with pytest.raises(ApiError, match="401"):
            await connection.call("GET", NAMESPACES)


FAR = "2999-01-01T00:00:00Z"
PAST = "1999-01-01T00:00:00Z"
EXPIRIES = {"far": ({"expirationTimestamp": FAR}, 2), "untold": ({}, 2), "past": ({"expirationTimestamp": PAST}, 3)}


@pytest.mark.parametrize(("expiry", "in_all"), EXPIRIES.values(), ids=EXPIRIES)
async def test_a_plugin_runs_when_its_credentials_expire_or_are_refused_and_not_before(
    server: Server, tmp_path, expiry: dict[str, str], in_all: int
):
    now = [0.0]
    user = plugin(tmp_path, {"token": "expired"})
    write_kubeconfig(tmp_path / "config", server.url, server.ca, user)
    async with connect(tmp_path / "config", clock=lambda: now[0]) as connection:
        assert runs(tmp_path) == 1
        answer_with(tmp_path, {"token": server.tokens[0], **expiry})
        await connection.call("GET", NAMESPACES)
        assert runs(tmp_path) == 2
        now[0] += 3600
        await connection.call("GET", NAMESPACES)
        assert runs(tmp_path) == in_all


async def test_a_plugin_that_fails_to_renew_is_asked_again_and_what_it_brought_is_used_meanwhile(
    server: Server, tmp_path
):
    now = [0.0]
    user = plugin(tmp_path, {"token": server.tokens[0], "expirationTimestamp": PAST})
    write_kubeconfig(tmp_path / "config", server.url, server.ca, user)
    async with connect(tmp_path / "config", clock=lambda: now[0]) as connection:
        for answer, in_all in [({}, 2), ({}, 3), ({"token": server.tokens[1]}, 4), ({}, 4)]:
            answer_with(tmp_path, answer)
            now[0] += 61
            assert (await connection.call("GET", NAMESPACES))["items"] is not None
            assert runs(tmp_path) == in_all


async def test_an_authority_that_was_replaced_is_read_again_at_once(server: Server, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    arguments = pod(tmp_path, server, server.tokens[0])
    (tmp_path / "ca.crt").write_bytes(Authority(folder, "other CA").ca.read_bytes())
    async with connect(**arguments) as connection:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await connection.call("GET", NAMESPACES)
        (tmp_path / "ca.crt").write_bytes(server.ca.read_bytes())
        assert (await connection.call("GET", NAMESPACES))["items"] is not None


async def test_a_refusal_has_the_fields_of_its_status(server: Server, tmp_path):
    async with connect(**pod(tmp_path, server, server.tokens[0])) as connection:
        with pytest.raises(ApiError) as refusal:
            await connection.call("GET", "/api/v1/namespaces/default/configmaps/nope")
    assert (refusal.value.status, refusal.value.reason) == (404, "NotFound")
    assert refusal.value.message == 'configmaps "nope" not found'


@pytest.mark.controlplane
async def test_a_reader_without_rights_is_told_so_by_the_server(plane: Plane, tmp_path):
    token = service_account(plane, "default", "nobody")
    async with connect(**pod(tmp_path, Server(plane.port, plane.ca, ("", "")), token)) as connection:
        with pytest.raises(ApiError, match='cannot list resource "deployments" in API group "apps"') as refusal:
            await connection.call("GET", "/apis/apps/v1/deployments")
    assert (refusal.value.status, refusal.value.reason) == (403, "Forbidden")


async def test_one_connection_serves_many_calls(api: ApiServer, server: Server, tmp_path):
    async with connect(**pod(tmp_path, server, server.tokens[0])) as connection:
        for _ in range(5):
            await connection.call("GET", NAMESPACES)
        (pool,) = connection._session._access.client.rest_client.pool_manager.connector._conns.values()
    assert len(pool) == 1


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[int, list[str]]]:
    """A proxy for TLS: its port, and which servers it was asked for."""
    asked: list[str] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().split()[1])
        host, port = asked[-1].split(":")
        theirs, ours = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pipe(reader, ours), pipe(theirs, writer), return_exceptions=True)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        yield listener.sockets[0].getsockname()[1], asked


@pytest.mark.parametrize("spared", [False, True], ids=["by-proxy", "no-proxy"])
async def test_the_proxy_of_the_environment_is_used_unless_the_server_is_spared(
    server: Server, tmp_path, monkeypatch: pytest.MonkeyPatch, spared: bool
):
    async with proxy() as (port, asked):
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1" if spared else "example.com")
        async with connect(**pod(tmp_path, server, server.tokens[0])) as connection:
            for _ in range(2):
                await connection.call("GET", NAMESPACES)
    assert asked == ([] if spared else [f"127.0.0.1:{server.port}"]), "one connection, for both calls"


async def test_a_netrc_says_nothing_to_the_api_server(server: Server, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """kubectl does not read it either."""
    monkeypatch.setenv("NETRC", written(tmp_path / "netrc", "machine 127.0.0.1 login me password mine\n"))
    async with connect(**pod(tmp_path, server, server.tokens[0])) as connection:
        await connection.call("GET", NAMESPACES)


async def test_events_are_listed_by_what_they_are_about(server: Server, tmp_path):
    path = "/api/v1/namespaces/default/events"
    taken: list[Tree] = []
    async with connect(**pod(tmp_path, server, server.tokens[0])) as connection:
        for name in ("one", "other"):
            about = {"kind": "Deployment", "namespace": "default", "name": name}
            body = {"metadata": {"name": f"{name}.1", "namespace": "default"}, "involvedObject": about, "reason": "R"}
            await connection.call("POST", path, body={"apiVersion": "v1", "kind": "Event"} | body)
        await connection.items(path, taken.append, query=[("fieldSelector", "involvedObject.name=one")])
    assert [one["involvedObject"]["name"] for one in taken] == ["one"]


async def test_a_server_that_is_not_there_is_named(authority: Authority, tmp_path):
    server = Server(1, authority.ca, ("", ""))
    async with connect(**pod(tmp_path, server, "t")) as connection:
        with pytest.raises(Unreachable, match=r"https://127\.0\.0\.1:1: .*[Cc]onnect"):
            await connection.call("GET", NAMESPACES)


async def test_an_answer_that_does_not_come_is_not_waited_for(api: ApiServer, authority: Authority, tmp_path):
    server = Server(api.port, authority.ca, ("first", ""))
    async with connect(**pod(tmp_path, server, "first")) as connection:
        api.reading.faults.append(Fault(then="hang"))
        with pytest.raises(Unreachable, match=r"nothing came within 1 s"):
            await connection.call("GET", NAMESPACES, timeout_s=1)


NO_CLUSTER: dict[str, tuple[str | None, str]] = {
    "missing": (None, "no such file"),
    "empty": ("", "it must be YAML with a cluster"),
    "no-yaml": ("{", "it must be YAML with a cluster"),
    "no-mapping": ("[]", "it must be YAML with a cluster"),
    "no-clusters": ("{}", "Expected key current-context"),
    "no-context": ('{"clusters": [], "contexts": [], "users": [], "current-context": "x"}', "name x"),
    "no-authority": (
        '{"clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority": "nope"}}],'
        ' "users": [{"name": "u", "user": {}}], "current-context": "x",'
        ' "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}',
        "nope",
    ),
}


@pytest.mark.parametrize(("text", "says"), NO_CLUSTER.values(), ids=NO_CLUSTER)
async def test_a_kubeconfig_that_is_of_no_use_is_named(tmp_path, text: str | None, says: str):
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(NoClusterError, match=f"kubeconfig {path} is of no use: .*{says}"):
        async with connect(path):
            pass


async def test_a_plugin_that_brings_nothing_is_told(authority: Authority, tmp_path):
    write_kubeconfig(tmp_path / "config", "https://127.0.0.1:1", authority.ca, plugin(tmp_path, {}))
    with pytest.raises(NoClusterError, match="its exec plugin brought no credentials"):
        async with connect(tmp_path / "config"):
            pass


async def test_outside_a_pod_and_without_a_kubeconfig_the_cure_is_told(tmp_path):
    with pytest.raises(NoClusterError, match="outside a pod, name a kubeconfig"):
        async with connect(environ={}, service_account=tmp_path):
            pass


@pytest.mark.parametrize("off_s", [0.0, 60.0, -60.0])
async def test_every_answer_says_whether_the_clock_is_right(server: Server, tmp_path, off_s: float):
    """A refusal and the beginning of a watch do, too."""
    write_kubeconfig(tmp_path / "config", server.url, server.ca, {"token": server.tokens[0]})
    async with connect(tmp_path / "config", wall=lambda: time.time() + off_s) as connection:
        with pytest.raises(ApiError):
            await connection.call("GET", "/api/v1/namespaces/nobody")
        first = connection.clock.off_s
        async with connection.watch(NAMESPACES, silence_s=10.0):
            pass
        assert off_s * first >= 0
        assert abs(off_s) - 20.0 < abs(first) <= abs(connection.clock.off_s) <= abs(off_s)
