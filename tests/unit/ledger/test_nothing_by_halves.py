"""If anything fails within a grant, nothing is left of it: an exception is planted at every step of one."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from extauthz.core.ledger.accounts import Shared
from extauthz.core.ledger.entry import Entry
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.ledger.ownership import Ownership
from extauthz.core.ledger.pending_writes import PendingWrites
from extauthz.core.model import Request, Verdict
from extauthz.testing import Asker, create, gate, owned_by, patch, path, quota, scale, workload

LEDGER = str(Path(sys.modules[Ledger.__module__].__file__ or "").parent)

HARD = {"requests.cpu": "20", "pods": "20", "requests.storage": "20"}
PLAIN = [quota("acme", HARD)]
GUARANTEED = [
    quota("corp", HARD),
    quota("acme", HARD, parent="corp", guaranteed={"requests.cpu": "5"}),
    quota("rest", HARD, parent="corp", namespaces={"workspace": "rest"}, guaranteed={"requests.cpu": "5"}),
]
OLD = workload("old", 2, {"cpu": "1"}, kind="ReplicaSet", labels={"app": "web"})
JOINING = patch(path("old", resource="replicasets"), {"metadata": {"ownerReferences": owned_by("web")}})
STATEFUL = workload("db", 2, kind="StatefulSet")
STATEFUL["spec"]["volumeClaimTemplates"] = [
    {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1"}}}}
]

GRANTS: dict[str, Request] = {
    "count": scale("web", 4),
    "template": patch(path(), {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}, "replicas": 3}}),
    "create": create(workload("new", 2)),
    "create-owned": create(workload("web-2", 2, kind="ReplicaSet", ownerReferences=owned_by("web"))),
    "create-stateful": create(STATEFUL),
    "joins": JOINING,
}


class Planted(Exception):  # noqa: N818 (it is no error of ours)
    """At one step."""


class Plant:
    """Raises at the n-th call within the ledger's rooms, while ``Ledger.record`` runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ledger: Ledger, at: int) -> None:
        self.left, self.reached = at, False
        self._record = ledger.record
        monkeypatch.setattr(ledger, "record", self._planted)

    def _planted(self, *proposed: Any) -> None:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            self._record(*proposed)
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or self.reached or not frame.f_code.co_filename.startswith(LEDGER):
            return
        if frame.f_code.co_name.startswith("<"):  # no function: what it is part of has been reached
            return
        self.left -= 1
        if self.left < 0:
            self.reached = True
            sys.settrace(None)
            raise Planted(frame.f_code.co_qualname)


def asker(quotas: list[Any]) -> Asker:
    ask = Asker(gate(quotas, workload("web", 2), OLD))
    ask(scale("web", 3))
    return ask


def state(ask: Asker) -> dict[str, Any]:
    ledger, pending = ask.gate.ledger, ask.gate.ledger.pending
    return {
        "rows": list(ask.gate.usage()),
        "pending": [(ref, one.id) for ref, one in pending],
        "bounds": (dict(pending._of_source), dict(pending._of_tree), dict(pending._bytes), pending.bytes_held),
        "left over": (dict(pending._trees), set(pending._held), set(pending._on_owners), set(pending._answered)),
        "workloads": {
            one.ref: (
                one.head and one.head.ref,
                set(one.children or ()),
                set(one.pending_writes or ()),
            )
            for one in ledger.workloads
        },
        "drift": dict(ledger.drift()),
    }


@pytest.mark.parametrize("quotas", [PLAIN, GUARANTEED], ids=["plain", "guaranteed"])
@pytest.mark.parametrize("grant", GRANTS)
def test_an_exception_at_any_step_of_a_grant_leaves_all_as_it_was(
    grant: str, quotas: list[Any], monkeypatch: pytest.MonkeyPatch
):
    steps = 0
    while True:
        ask = asker(quotas)
        before = state(ask)
        with monkeypatch.context() as patched:
            Plant(patched, ask.gate.ledger, steps)
            if not _raises(ask, GRANTS[grant]):
                break
        assert state(ask) == before, f"step {steps}"
        again = ask(GRANTS[grant])
        assert again.verdict is Verdict.ALLOW
        assert again.pending_write is not None
        ask.gate.ledger.pending.forget(again.pending_write)
        assert state(ask)["rows"] == before["rows"]
        steps += 1
    assert steps > 5, "there are steps"


def _raises(ask: Asker, request: Request) -> bool:
    try:
        ask(request)
    except Planted:
        return True
    return False


@pytest.mark.parametrize(
    ("of", "name", "grant"),
    [(Ownership, "regroup", "create"), (Entry, "add", "create"), (PendingWrites, "add_to_owner", "joins")],
)
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_where_a_part_fails_nothing_is_left(
    of: type, name: str, grant: str, done: bool, monkeypatch: pytest.MonkeyPatch
):
    """The same where coverage sees it, which looks on by the hook that plants."""
    ask = asker(PLAIN)
    before, part = state(ask), getattr(of, name)
    with monkeypatch.context() as patched:

        def raising(*told: object) -> None:
            patched.undo()
            if done:
                part(*told)
            raise Planted

        patched.setattr(of, name, raising)
        assert _raises(ask, GRANTS[grant])
    assert state(ask) == before


def test_what_another_gate_tells_counts_for_the_bound_of_bytes():
    ask, other = asker(PLAIN), asker(PLAIN)
    ask(GRANTS["create"])
    held = ask.gate.ledger.pending.bytes_held
    other.gate.ledger.pending.forget("d1")
    for ref, told in ask.gate.ledger.pending:
        other.gate.ledger.adopt(ref, told)
    assert other.gate.ledger.pending.bytes_held == held > 0


def test_shared_amounts_that_are_equal_have_equal_hashes():
    some, others = Shared({"pods": 1}), Shared({"pods": 1})
    assert (some == others) == (hash(some) == hash(others))
    assert some != others
    assert some == some
    assert some == {"pods": 1}, "beside amounts that nobody shares they are what they hold"
