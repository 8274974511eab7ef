"""The ledger object in the Kubernetes API: what is asked, and what each answer means. Without a server."""

from __future__ import annotations

from typing import Any, cast

import pytest

from extauthz.inputs.kube.connection import ApiError, Connection, Unreachable
from extauthz.serve.ledger_store.kubernetes import NAME, WITHIN_S, KubernetesStore, _Handler
from extauthz.serve.ledger_store.store import Conflict, Stored, Unclear, WriteRefusedError

BEFORE = Stored("old", "7", "u")
ONE = "/apis/extauthz.dev/v1alpha1/workspaceledgers/cluster"
ALL = "/apis/extauthz.dev/v1alpha1/workspaceledgers"


def ledger(payload: str = "p", version: str = "8", name: str = NAME) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version, "uid": "u"}, "spec": {"payload": payload}}


class Server:
    """In place of a connection."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[tuple[str, str, Any, float]] = []

    async def call(self, method: str, path: str, *, body: Any = None, timeout_s: float) -> dict[str, Any]:
        self.asked.append((method, path, body, timeout_s))
        if self.error is not None:
            raise self.error
        return ledger()

    @property
    def store(self) -> KubernetesStore:
        return KubernetesStore(cast("Connection", self))


def refusal(status: int) -> ApiError:
    return ApiError(status, "Why", "says the server")


async def test_the_first_write_makes_the_object_and_the_next_ones_are_bound_to_the_one_that_was_seen():
    server = Server()
    assert await server.store.put("p", 3, None) == Stored("p", "8", "u")
    assert await server.store.put("p", 3, BEFORE) == Stored("p", "8", "u")
    kind = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceLedger"}
    spec = {"payload": "p", "intents": 3}
    bound = {"name": "cluster", "resourceVersion": "7", "uid": "u"}
    assert server.asked == [
        ("POST", ALL, {**kind, "metadata": {"name": "cluster"}, "spec": spec}, WITHIN_S),
        ("PUT", ONE, {**kind, "metadata": bound, "spec": spec}, WITHIN_S),
    ]


@pytest.mark.parametrize("before", [None, BEFORE])
@pytest.mark.parametrize("status", [*range(400, 432), 500, 502, 503, 504])
async def test_a_failed_write_was_not_carried_out_or_may_have_been(status: int, before: Stored | None):
    if status == 409 or (status == 404 and before is not None):
        wanted: type[Exception] = Conflict
    elif status in (400, 401, 403, 404, 405, 413, 415, 422, 429):
        wanted = WriteRefusedError
    else:
        wanted = Unclear
    with pytest.raises(wanted) as raised:
        await Server(refusal(status)).store.put("p", 3, before)
    if wanted is not Conflict:
        assert "says the server" in str(raised.value)


async def test_without_an_answer_a_write_may_have_been_carried_out():
    with pytest.raises(Unclear, match="cut"):
        await Server(Unreachable("cut")).store.put("p", 3, BEFORE)


async def test_the_newest_state_is_read_by_name():
    server = Server()
    assert await server.store.get() == Stored("p", "8", "u")
    assert server.asked == [("GET", ONE, None, WITHIN_S)]
    assert await Server(refusal(404)).store.get() is None


@pytest.mark.parametrize("error", [refusal(403), refusal(500), Unreachable("says the server")])
async def test_what_cannot_be_read_is_not_taken_for_gone(error: Exception):
    with pytest.raises(WriteRefusedError, match="says the server"):
        await Server(error).store.get()


@pytest.mark.parametrize("tree", [{"spec": None}, {"spec": {}}, {}, {"spec": {"payload": ""}}])
async def test_an_object_that_no_gate_wrote_holds_no_payload(tree: dict[str, Any]):
    heard = Heard()
    handler = _Handler(heard)
    handler.changed("ADDED", handler.convert({**tree, "metadata": ledger()["metadata"]}))
    assert heard.all == ["changed ''"]


# Followed by a reflector.


class Heard:
    """A follower that remembers."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def changed(self, stored: Stored) -> None:
        self.all.append(f"changed {stored.payload!r}")

    def gone(self) -> None:
        self.all.append("gone")

    def listed(self) -> None:
        self.all.append("listed")


async def test_a_follower_is_told_that_the_object_is_gone_once_and_only_where_it_was_there():
    heard = Heard()
    handler = _Handler(heard)
    there, other = handler.convert(ledger("a")), handler.convert(ledger("b", name="acme"))
    await handler.replaced([other], "1")
    await handler.replaced([other, there], "2")
    handler.changed("MODIFIED", other)
    handler.changed("DELETED", other)
    handler.changed("MODIFIED", there)
    await handler.replaced([other], "3")
    await handler.replaced([other], "4")
    handler.changed("ADDED", there)
    handler.changed("DELETED", there)
    handler.reached("5")
    await handler.replaced([], "6")
    assert heard.all == [
        *("listed", "changed 'a'", "listed", "changed 'a'", "gone", "listed", "listed"),
        *("changed 'a'", "gone", "listed"),
    ]
