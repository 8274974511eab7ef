"""A token that nobody issued, at the real gate behind the real Envoy: who takes no answer holds no room by that."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes

from extauthz.core.ledger.entry import Event
from extauthz.render import routes
from extauthz.render.options import Anonymous, Endpoint
from extauthz.testing.certs import Authority
from extauthz.testing.stack import PATCH, Stack, scale_body
from tests.controlplane.access import RBAC, service_account
from tests.controlplane.living import deployment
from tests.controlplane.plane import Plane
from tests.envoy.test_settling import Real
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
    assert manager["stream_flush_timeout"] == f"{routes.FLUSH_S:g}s"
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
    assert routes.FLUSH_S <= 10


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
