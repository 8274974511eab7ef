"""What changes under way hold in memory is bounded: for each tenant, for what no quota covers, and for all."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from extauthz.core.decision.gate import MAX_BYTES, MAX_BYTES_IN_QUOTA, MAX_BYTES_UNCOVERED, MAX_IDENTICAL, Gate
from extauthz.core.ledger.entry import Event, PendingWrite
from extauthz.core.ledger.pending_writes import RECORD_BYTES, held_by
from extauthz.core.model import (
    COMMIT,
    NO_PRECONDITION,
    Decision,
    Observed,
    Operation,
    Template,
    Verdict,
    WorkloadRef,
    Write,
)
from extauthz.core.objects.fields import labels_text
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, quota, scale, snapshot, workload
from tests.unit.asking import adopt, told

TENANTS = [f"t{n}" for n in range(11)]


def asker() -> Asker:
    """Eleven tenants under one parent, each with a workload of its name, and one that no quota covers."""
    quotas = [quota("all", {"pods": "999"}, namespaces={"workspace": "acme"})]
    quotas += [
        quota(name, {"pods": "99"}, namespaces={"workspace": "acme"}, workloads={"app": name}, parent="all")
        for name in TENANTS
    ]
    objects = [workload(name, 1, labels={"app": name, "team": "a"}) for name in TENANTS]
    objects.append(workload("free", 1, labels={"team": "a"}, namespace="elsewhere"))
    return Asker(gate(quotas, *objects, namespaces={"team-a": {"workspace": "acme"}, "elsewhere": {}}))


def template(length: int) -> Template:
    return Template(json.dumps({"template": {"spec": {"containers": [{"name": "x" * length}]}}}).encode())


LONG = template(3_000_000)
"""It costs nothing. What a webhook reads is shorter (``admission.MAX_COUNTS_BYTES``)."""


def reading(name: str, namespace: str = "team-a", template: Template = LONG) -> Write:
    """An object that an API server is about to store."""
    team = {"app": name, "team": "a"} if namespace == "team-a" else {"team": "a"}
    after = Observed(1, template, labels_text(team))
    return Write(WorkloadRef("apps", "deployments", namespace, name), Operation.UPDATE, False, False, 1, after)


def change(ask: Asker, name: str, namespace: str = "team-a") -> Decision:
    ask.count += 1
    return ask.gate.decide(reading(name, namespace), f"d{ask.count}", ask.now_s)


def fill(ask: Asker, name: str, namespace: str = "team-a") -> tuple[int, str]:
    """How many large patches are taken, and the reason of the first that is not."""
    for count in range(20):
        decision = ask.gate.decide(reading(name, namespace), f"{name}-{count}", 0.0)
        if decision.todo is not COMMIT:
            return count, decision.reason
    raise AssertionError("there is no bound")


def held(made: Gate) -> int:
    return made.ledger.pending.bytes_held


def test_a_tenant_grows_to_its_bound_and_its_neighbours_and_autoscalers_go_on():
    ask = asker()
    taken, reason = fill(ask, "t0")
    assert (taken > 1, reason) == (True, "too-many-bytes-in-quota")
    refused = change(ask, "t0")
    assert refused.verdict is Verdict.UNAVAILABLE
    assert "KiB of changes under workspace quota t0 that may still land; try again in about" in refused.sentence
    assert ask(scale("t0", 5)).verdict is Verdict.ALLOW, "a count holds nothing"
    assert fill(ask, "t1")[0] == taken
    assert 2 * 0.7 * MAX_BYTES_IN_QUOTA < held(ask.gate) <= 2 * MAX_BYTES_IN_QUOTA


def test_no_tenant_uses_up_what_is_for_all():
    ask = asker()
    assert [fill(ask, name)[1] for name in TENANTS][-1] == "too-many-bytes"
    assert held(ask.gate) <= MAX_BYTES
    assert "KiB of changes that may still land" in change(ask, "t10").sentence


def test_what_no_quota_covers_is_bounded_and_never_refused():
    """So a ledger keeps room for those that have a quota."""
    ask = asker()
    found = [ask.gate.decide(reading("free", "elsewhere", template(30_000)), f"free-{at}", 0.0) for at in range(8)]
    assert {one.verdict for one in found} == {Verdict.ALLOW}
    assert [one.todo is COMMIT for one in found] == [True] * 2 + [False] * 6
    assert MAX_BYTES_UNCOVERED // 2 - 30_000 < held(ask.gate) <= MAX_BYTES_UNCOVERED // 2
    assert change(ask, "t0").todo is COMMIT


def test_counts_that_no_quota_covers_are_bounded_together_and_never_refused():
    """Any client may send them, for names that need not exist."""
    ask = asker()
    found = [ask(scale(f"none-{number}", 2, namespace="elsewhere")) for number in range(1000)]
    assert {one.verdict for one in found} == {Verdict.ALLOW}
    assert 300 < ask.gate.ledger.pending_writes < 500
    assert held(ask.gate) <= MAX_BYTES_UNCOVERED // 2
    ask.gate.ledger.pending.consistent_read(ask.now_s + 200.0)
    assert held(ask.gate) == 0


def test_what_another_gate_has_allowed_holds_as_much():
    ask, other = asker(), asker()
    change(ask, "t0")
    ask(scale("free", 2, namespace="elsewhere"))
    adopt(other.gate, told(ask.gate))
    assert held(other.gate) == held(ask.gate) > 3_000_000


def test_what_has_ended_holds_nothing():
    ask = asker()
    first, second = change(ask, "t0"), change(ask, "t0")
    fill(ask, "t0")
    for decision in (first, second):
        ask.gate.ledger.pending.settle(str(decision.pending_write), Event.REFUSED, 1.0)
    assert change(ask, "t0").todo is COMMIT
    ask.gate.ledger.pending.consistent_read(90.0)
    assert (held(ask.gate), ask.gate.ledger.pending.bytes_held_in("t0"), ask.gate.ledger.pending_writes) == (0, 0, 0)


def test_a_question_holds_nothing():
    ask = asker()
    assert ask.gate.decide(reading("t0"), "q", 0.0, charge=False).verdict is Verdict.ALLOW
    assert held(ask.gate) == 0


# What is counted.


def test_templates_and_labels_are_counted_by_their_text_and_a_count_by_its_record_where_no_quota_covers_it():
    made = PendingWrite("d1", 1, (), (), creates=False, precondition=NO_PRECONDITION, expires_s=1.0, source="10.0.0.9")
    ref, nodes = WorkloadRef("apps", "deployments", "shop", "web"), asker().gate.ledger.coverage.tree.nodes
    assert (held_by(ref, made, nodes), held_by(ref, made, ())) == (0, RECORD_BYTES + 30)
    made.templates, made.labels = (Template(b"12345"), Template(b"123")), ("a=1", "b=22")
    assert held_by(ref, made, nodes) == 15


def test_a_create_holds_its_template():
    ask = asker()
    made = ask(create(workload("new", 0, labels={"app": "t0"})))
    assert made.todo is COMMIT
    assert 0 < ask.gate.ledger.pending.bytes_held_in("t0") < 500


TEN = [quota("acme", {"requests.cpu": "10"})]
WEB = workload("web", 1)


def test_what_stands_for_one_more_write_may_land_for_as_long_as_that():
    ask = Asker(gate(TEN, WEB))
    for _ in range(MAX_IDENTICAL):
        ask(scale("web", 2))
    ask.now_s = 60.0
    assert ask(scale("web", 2)).pending_write == f"d{MAX_IDENTICAL}"
    pending = ask.gate.ledger.pending
    assert [pending.consistent_read(at_s) for at_s in (149.0, 150.0)] == [MAX_IDENTICAL - 1, 1]


@pytest.mark.parametrize(
    "pass_time",
    [
        pytest.param(lambda made, now_s: made.tick(now_s), id="tick"),
        pytest.param(lambda made, now_s: made.load_quotas(QuotaTree.build(TEN), now_s), id="quotas"),
        pytest.param(lambda made, now_s: made.load_state(snapshot(WEB), now_s), id="state"),
    ],
)
def test_writes_whose_window_has_elapsed_stand_for_no_new_one(pass_time: Callable[[Gate, float], None]):
    ask = Asker(gate(TEN, WEB))
    for _ in range(MAX_IDENTICAL):
        ask(scale("web", 2))
    assert ask(scale("web", 2)).pending_write == f"d{MAX_IDENTICAL}", "the newest stands for it"
    ask.now_s = 200.0
    pass_time(ask.gate, ask.now_s)
    assert ask(scale("web", 2)).pending_write == f"d{MAX_IDENTICAL + 2}"


def test_what_a_gate_knows_is_outdated_only_while_it_is_told_so():
    made = gate(TEN, WEB)
    seen = [made.is_stale]
    for why in ("no watch", None):
        made.stale(why)
        seen.append(made.is_stale)
    assert seen == [False, True, False]
