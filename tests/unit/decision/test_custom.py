"""Objects of custom resources at the webhook: one that declares a template, and one that its pods price."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extauthz.core.model import Decision, Observed, Operation, Precondition, Verdict, WorkloadRef, Write
from extauthz.core.objects import workloads
from extauthz.testing import builders
from extauthz.testing.builders import Asker, pod, quota

KNOB = WorkloadRef("example.dev", "widgets", "team-a", "knob")
CORE = workloads.intern(workloads.prune({"template": pod({"cpu": "1"})}))
SEEN = Observed(2, CORE, "app=knob", uid="u", resource_version="7")


@pytest.fixture
def ask() -> Asker:
    made = Asker(builders.gate([quota("acme", {"requests.cpu": "5"})]))
    made.gate.observe_kind("example.dev", "Widget", "widgets")
    made.gate.observe(KNOB, SEEN)
    return made


def decided(ask: Asker, replicas: int, made: Observed | None, operation: Operation = Operation.UPDATE) -> Decision:
    ref, bound = KNOB, Precondition("7", "u")
    if operation is Operation.CREATE:
        ref, bound = KNOB._replace(name="new"), Precondition(uid="new")
    write = Write(ref, operation, False, False, replicas, made, bound)
    return ask.gate.decide(write, "w1", ask.now_s)


@pytest.mark.parametrize("template", [CORE, None], ids=["declared", "priced-by-its-pods"])
def test_an_object_is_weighed_by_its_template_or_by_what_its_pods_cost(ask, template):
    def of(replicas: int) -> Observed:
        return Observed(replicas, template, "app=knob,more=1")

    refused = decided(ask, 8, of(8))
    assert (refused.verdict, refused.reason, refused.evidence.fits) == (Verdict.DENY, "exceeded-quota", 5)
    assert decided(ask, 5, of(5)).reason == "fits"
    assert ask.gate.ledger.drift() == {}
    ask.gate.observe(KNOB, replace(SEEN, replicas=5, resource_version="8"))
    assert ask.gate.ledger.pending_writes == 0


@pytest.mark.parametrize(("replicas", "reason"), [(1, "unknown-footprint"), (0, "no-growth")])
def test_of_a_new_one_without_a_template_nobody_knows_what_its_pods_will_cost(ask, replicas, reason):
    assert decided(ask, replicas, Observed(replicas, None), Operation.CREATE).reason == reason


@pytest.mark.parametrize(("replicas", "verdict"), [(3, Verdict.ALLOW), (4, Verdict.DENY)])
def test_a_new_one_costs_what_its_template_does(ask, replicas, verdict):
    assert decided(ask, replicas, Observed(replicas, CORE), Operation.CREATE).verdict is verdict
