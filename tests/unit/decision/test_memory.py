"""What changes under way hold in memory is bounded: for each tenant, for what no quota covers, and for all."""

from __future__ import annotations

import tracemalloc
from functools import cache

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.pending_limits import MAX_BYTES, MAX_BYTES_IN_QUOTA
from extauthz.core.intake.read import read
from extauthz.core.ledger import memory
from extauthz.core.ledger.pending_write import Event, PendingWrite
from extauthz.core.model import (
    NO_PRECONDITION,
    MergePatch,
    Operation,
    Request,
    Template,
    Verdict,
    WorkloadRef,
    Write,
)
from extauthz.testing.builders import Asker, create, gate, patch, path, quota, scale, workload

TENANTS = [f"t{n}" for n in range(11)]
LARGE = {f"example.dev/note-{n}": {"a": [n]} for n in range(20_000)}
"""Values of no meaning to the gate, in a body of 0.7 MB."""


def asker() -> Asker:
    """Eleven tenants under one parent, each with a workload of its name, and one that no quota covers."""
    quotas = [quota("all", {"requests.cpu": "999"}, namespaces={"workspace": "acme"})]
    quotas += [
        quota(name, {"requests.cpu": "99"}, namespaces={"workspace": "acme"}, workloads={"app": name}, parent="all")
        for name in TENANTS
    ]
    objects = [workload(name, 1, labels={"app": name, "team": "a"}) for name in TENANTS]
    objects.append(workload("free", 1, labels={"team": "a"}, namespace="elsewhere"))
    return Asker(gate(quotas, *objects, namespaces={"team-a": {"workspace": "acme"}, "elsewhere": {}}))


def large(name: str, kind: str = "merge", namespace: str = "team-a") -> Request:
    """It leaves the labels as they are, so that many may be under way at once."""
    metadata = {"labels": {"team": "a"}, "annotations": LARGE}
    if kind == "json":
        body = [{"op": "add", "path": f"/metadata/{key}", "value": value} for key, value in metadata.items()]
        return patch(path(name, namespace=namespace), body, "json")
    return patch(path(name, namespace=namespace), {"metadata": metadata}, kind)


@cache
def first_reading() -> Write:
    found = read(large("t0"))
    assert isinstance(found, Write)
    return found


def reading(name: str, namespace: str) -> Write:
    found = first_reading()
    return found._replace(ref=found.ref._replace(name=name, namespace=namespace))


def fill(ask: Asker, name: str, namespace: str = "team-a") -> tuple[int, str]:
    """How many large patches are taken, and the reason of the first that is not."""
    for count in range(20):
        decision = ask.gate.decide(reading(name, namespace), f"{name}-{count}", 0.0)
        if not decision.pends:
            return count, decision.reason
    raise AssertionError("there is no bound")


def held(made: Gate) -> int:
    return made.ledger.pending.bytes_held


def test_a_tenant_grows_to_its_bound_and_its_neighbours_and_autoscalers_go_on():
    ask = asker()
    taken, reason = fill(ask, "t0")
    assert (taken > 1, reason) == (True, "too-many-bytes-in-quota")
    refused = ask(large("t0"))
    assert refused.verdict is Verdict.UNAVAILABLE
    assert "KiB of changes under workspace quota t0 that may still land; try again in about" in refused.sentence
    assert ask(scale("t0", 5)).verdict is Verdict.ALLOW, "a count holds nothing"
    assert fill(ask, "t1")[0] == taken
    assert 2 * 0.7 * MAX_BYTES_IN_QUOTA < held(ask.gate) <= 2 * MAX_BYTES_IN_QUOTA


def test_no_tenant_uses_up_what_is_for_all():
    ask = asker()
    assert [fill(ask, name)[1] for name in TENANTS][-1] == "too-many-bytes"
    assert held(ask.gate) <= MAX_BYTES
    assert "KiB of changes that may still land" in ask(large("t10")).sentence


def test_what_no_quota_covers_is_bounded_and_never_refused():
    ask = asker()
    fill(ask, "free", "elsewhere")
    assert ask(large("free", namespace="elsewhere")).verdict is Verdict.ALLOW
    assert held(ask.gate) <= MAX_BYTES_IN_QUOTA
    assert ask(large("t0")).pends


def test_what_has_ended_holds_nothing():
    ask = asker()
    first, second = ask(large("t0")), ask(large("t0"))
    fill(ask, "t0")
    for decision in (first, second):
        ask.gate.ledger.pending.settle(str(decision.pending_write), Event.REFUSED, 1.0)
    assert ask(large("t0")).pends
    ask.gate.ledger.pending.consistent_read(90.0)
    assert (held(ask.gate), ask.gate.ledger.pending.bytes_held_in("t0"), ask.gate.ledger.pending_writes) == (0, 0, 0)


def test_a_question_holds_nothing():
    ask = asker()
    assert ask(large("t0"), charge=False).verdict is Verdict.ALLOW
    assert held(ask.gate) == 0


def test_the_costliest_body_that_is_read_fits():
    costly = {"text": "\U0001f600" + "a" * 2_000_000, "list": [{"a": 1}] * 49_000}
    ask = asker()
    assert ask(patch(path("t0"), {"metadata": {"labels": {"team": "a"}, "annotations": costly}})).pends
    assert MAX_BYTES_IN_QUOTA / 2 < held(ask.gate) < MAX_BYTES_IN_QUOTA


# What is counted.


@pytest.mark.parametrize("kind", ["json", "merge", "strategic", "apply"])
def test_a_patch_holds_about_what_is_counted(kind: str):
    request = large("t0", kind)
    write = read(request)
    del write
    tracemalloc.start()
    write = read(request)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(write, Write)
    counted = memory.held_by(pending_write(write=write))
    assert 0.8 * taken < counted < 2 * taken


def pending_write(**more: object) -> PendingWrite:
    return PendingWrite("d1", None, (), (), creates=False, precondition=NO_PRECONDITION, expires_s=1.0, **more)  # type: ignore[arg-type]


def test_templates_and_labels_are_counted_by_their_text_and_a_count_by_nothing():
    made = pending_write()
    assert memory.held_by(made) == 0
    made.templates, made.labels = (Template(b"12345"), Template(b"123")), ("a=1", "b=22")
    assert memory.held_by(made) == 15


def test_long_names_of_fields_are_counted_as_long_values_are():
    ref = WorkloadRef("apps", "deployments", "team-a", "web")
    changes = [MergePatch({"x" * 1000: "y"}), MergePatch({"x": "y" * 1000})]
    writes = [Write(ref, Operation.PATCH, False, False, change) for change in changes]
    sizes = [memory.held_by(pending_write(write=write)) for write in writes]
    assert sizes[0] == sizes[1] > 1000


def test_a_create_holds_its_template():
    ask = asker()
    made = ask(create(workload("new", 0, labels={"app": "t0"})))
    assert made.pends
    assert 0 < ask.gate.ledger.pending.bytes_held_in("t0") < 500


def test_a_count_alone_holds_nothing():
    ask = Asker(gate([quota("acme", {"pods": "9"})], workload("web", 1)))
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW
    (entry,) = ask.gate.ledger.workloads
    assert [one.held_bytes for one in entry.live_pending_writes()] == [0]
    assert ask.gate.ledger.pending.bytes_held == 0
