"""A token that nobody issued, at the real gate behind the real Envoy: who takes no answer holds no room by that."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import WindowUpdated
from h2.settings import SettingCodes

from extauthz.core.ledger.entry import Event
from extauthz.tools.render import envoy
from extauthz.tools.render.options import Anonymous, Endpoint, SidecarOptions
from tests.controlplane.access import RBAC, service_account
from tests.controlplane.living import deployment
from tests.controlplane.plane import Plane
from tests.envoy.test_settling import Real
from tests.support.certs import Authority
from tests.support.stack import PATCH, SCALE, Stack, scale_body
from tests.waiting import eventually

TEAM = "code-401"


@contextmanager
def window_of_none(authority: Authority, port: int) -> Iterator[None]:
    """``web`` to 3, all the room there is, by a client that takes no byte of an answer's body."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection(("127.0.0.1", port), 10)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        peer = H2Connection(H2Configuration(client_side=True))
        peer.initiate_connection()
        peer.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        path = f"/apis/apps/v1/namespaces/{TEAM}/deployments/web/scale"
        head = {":method": "PATCH", ":scheme": "https", ":path": path, ":authority": "x"}
        head |= {"authorization": "Bearer invented", "content-type": "application/merge-patch+json"}
        peer.send_headers(1, list(head.items()))
        peer.send_data(1, scale_body(3), end_stream=True)
        connection.sendall(peer.data_to_send())
        yield


def impatient(tree: Any) -> None:
    (listener,) = tree["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][-1]["typed_config"]
    assert manager["stream_flush_timeout"] == "10s"
    manager["stream_flush_timeout"] = "1s"


def test_a_stranger_who_takes_no_answer_holds_room_for_seconds_alone(authority: Authority, tmp_path: Path) -> None:
    """It was held for as long as a stream may last, 127 s."""
    real = Real(authority, tmp_path)
    real.alter = impatient
    with real:
        assert real.has_room(TEAM)
        real.api.failing = 401
        with window_of_none(authority, real.envoy.port):
            eventually(lambda: real.answers(Event.REFUSED) == 1)
            real.api.failing = 0
            assert real.has_room(TEAM)


NAMESPACE = "tokens"


@pytest.fixture(scope="module")
def verifying(plane: Plane, launch: Callable[..., Iterator[Stack]]) -> Iterator[Stack]:
    """Before a real API server."""
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    plane.api.create(deployment("web", 1, NAMESPACE))
    options = {"apiserver": Endpoint("127.0.0.1", plane.port), "apiserver_ca_file": str(plane.ca)}
    yield from launch(anonymous=Anonymous.VERIFY, **options)


def written(stack: Stack, token: str, replicas: int, path: str = "deployments/web/scale", **more: str) -> int:
    headers = PATCH | {"authorization": token} | {name.replace("_", "-"): value for name, value in more.items()}
    target = f"/apis/apps/v1/namespaces/{NAMESPACE}/{path}"
    return stack.send("PATCH", target, content=scale_body(replicas), headers=headers, h2=True).status_code


@pytest.mark.controlplane
def test_of_a_token_that_nobody_issued_the_gate_is_not_asked(plane: Plane, verifying: Stack) -> None:
    """So it holds no room, whenever its request is reset. One reset held it for a landing window."""
    honest = service_account(plane, NAMESPACE, "honest", "cluster-admin")
    for token in ("Bearer invented", f"Bearer {honest[:-9]}forgotten", "Basic YTpi", "nothing known"):
        assert written(verifying, token, 2) == 401
        assert written(verifying, f"Bearer {honest}", 2) == 200, "nobody else is taken along"
    assert len(verifying.gate.checks) == 4, "those of who is known"
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/web"
    assert verifying.send("GET", path, headers={"authorization": "Bearer invented"}).status_code == 401
    assert verifying.send("GET", path, headers={"authorization": f"Bearer {honest}"}).status_code == 200


def may(plane: Plane, name: str, **rule: list[str]) -> str:
    """Somebody with that right alone."""
    meta = {"name": name, "namespace": NAMESPACE}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": [rule]}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    ref = {"apiGroup": RBAC, "kind": "Role", "name": name}
    binding = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": meta, "roleRef": ref}
    plane.api.create(role)
    plane.api.create(binding | {"subjects": [subject]})
    return f"Bearer {service_account(plane, NAMESPACE, name)}"


SPELLINGS = ("deployments/web/scale", "deployments/web", "deployments/web/scale/", "deployments/w%65b/scale?x=%22")


@pytest.mark.controlplane
def test_of_whom_the_api_server_lets_not_write_the_gate_is_not_asked(plane: Plane, verifying: Stack) -> None:
    """One reset before the 403 held room for a landing window."""
    verifying.forget()
    reads = may(plane, "reads", apiGroups=["apps"], resources=["deployments", "deployments/scale"], verbs=["get"])
    other = may(
        plane,
        "other",
        apiGroups=["apps"],
        resources=["deployments", "deployments/scale"],
        verbs=["*"],
        resourceNames=["no-web"],
    )
    for token in (reads, other):
        assert [written(verifying, token, 2, path) for path in SPELLINGS] == [403] * len(SPELLINGS)
    assert written(verifying, reads, 2, f"deployments/web{'/' * 30_000}x") == 403, "and soon"
    boss = service_account(plane, NAMESPACE, "honest", "cluster-admin")
    as_reads = f"system:serviceaccount:{NAMESPACE}:reads"
    assert written(verifying, f"Bearer {boss}", 2, impersonate_user=as_reads) == 403
    assert not verifying.gate.checks
    scales = may(plane, "scales", apiGroups=["apps"], resources=["deployments/scale"], verbs=["patch"])
    assert written(verifying, scales, 2) == 200
    assert written(verifying, scales, 2, "deployments/web") == 403
    as_scales = f"system:serviceaccount:{NAMESPACE}:scales"
    assert written(verifying, f"Bearer {boss}", 2, impersonate_user=as_scales) == 200
    assert [written(verifying, f"Bearer {boss}", 2, path) for path in SPELLINGS[:3]] == [200] * 3
    assert len(verifying.gate.checks) == 5


def test_while_the_api_server_gives_no_answer_the_gate_is_not_asked(launch: Callable[..., Iterator[Stack]]) -> None:
    """Who could slow its answers down, would be asked about else."""
    for stack in launch(anonymous=Anonymous.VERIFY):
        stack.api.failing = 500
        assert written(stack, "Bearer somebody", 2) == 503
        assert not stack.gate.checks


# Strangers who send bodies that never end, through the real Envoy: its memory is bounded, and who is honest loses
# nothing.


BODIES = 250
SENT = 3 * 1024 * 1024 - 1
"""Bytes of each, if Envoy takes them."""

MIB = 1024 * 1024
GROWS_MIB = 64


class Flood:
    """One HTTP/2 connection with as many bodies as Envoy lets it begin."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._socket = connection
        self._h2 = H2Connection(H2Configuration(client_side=True))
        self._h2.initiate_connection()
        self._left: dict[int, int] = {}
        self._exchange()

    def begin(self, most: int) -> int:
        """How many were begun."""
        allowed = self._h2.remote_settings.max_concurrent_streams
        for _ in range(min(most, allowed)):
            stream = self._h2.get_next_available_stream_id()
            head = {":method": "PATCH", ":scheme": "https", ":path": SCALE, ":authority": "x"}
            head |= {"authorization": "Bearer invented", "content-type": "application/merge-patch+json"}
            self._h2.send_headers(stream, list(head.items()))
            self._left[stream] = SENT
        self._exchange()
        return len(self._left)

    def push(self) -> int:
        """Send what there are windows for, until Envoy gives no more. The bytes."""
        sent, silent = 0, 0
        while silent < 3:
            before = sent
            for stream, left in self._left.items():
                size = min(left, self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
                if size > 0:
                    self._h2.send_data(stream, bytes(size))
                    self._left[stream] -= size
                    sent += size
            self._exchange()
            silent = silent + 1 if sent == before else 0
        return sent

    def _exchange(self) -> None:
        self._socket.settimeout(10)
        self._socket.sendall(self._h2.data_to_send())
        self._socket.settimeout(0.3)
        try:
            while data := self._socket.recv(65536):
                if any(isinstance(event, WindowUpdated) for event in self._h2.receive_data(data)):
                    break
        except TimeoutError:
            pass
        self._socket.settimeout(10)
        self._socket.sendall(self._h2.data_to_send())


@contextmanager
def flooded(stack: Stack) -> Iterator[tuple[int, int]]:
    """Bodies that were begun, and bytes that were taken."""
    with ExitStack() as open_ones:
        begun = sent = 0
        while begun < BODIES:
            flood = Flood(open_ones.enter_context(stack.connect("h2")))
            begun += flood.begin(BODIES - begun)
            sent += flood.push()
        yield begun, sent


def memory_mib(stack: Stack) -> float:
    status = Path(f"/proc/{stack.envoy.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def test_bodies_that_never_end_take_little_and_honest_clients_lose_nothing(stack: Stack) -> None:
    """Without bounds Envoy grew from 66 to 812 MiB by one connection, and kept it for half a minute."""
    before = memory_mib(stack)
    with flooded(stack) as (begun, sent):
        grown = memory_mib(stack) - before
        print(f"{begun} bodies, {sent / MIB:.0f} MiB taken: {before:.0f} MiB and {grown:.0f} more; at most {GROWS_MIB}")
        answers = [stack.send("PATCH", SCALE, content=scale_body(3), headers=PATCH).status_code for _ in range(20)]
        assert answers == [200] * 20
    assert begun == BODIES
    assert sent >= BODIES * 1000, "else nothing was tried"
    assert grown < GROWS_MIB
    heap = envoy.sidecar(SidecarOptions())["overload_manager"]["resource_monitors"][0]["typed_config"]
    assert (before + GROWS_MIB) * MIB < int(heap["max_heap_size_bytes"])
