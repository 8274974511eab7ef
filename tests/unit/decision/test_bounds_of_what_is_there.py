"""A bound of replicas against what a workload may have already."""

from __future__ import annotations

from extauthz.core.decision.bounds import Bounds
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.testing.builders import Asker, create, gate, owned_by, quota, scale, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")


def test_of_an_object_that_is_made_nothing_is_there_yet():
    ask = Asker(gate([quota("acme", {"pods": "20"})]))
    ask.gate.bounds = Bounds(10.0, 60.0)
    ask.gate.bounds.answered(WEB, 0, 0.0)
    denied = ask(create(workload("web", 5)))
    assert (denied.verdict, denied.reason, denied.evidence.fits, denied.replicas_before) == (
        *(Verdict.DENY, "exceeded-max-scale"),
        *(0, None),
    )
    assert "requested: replicas=5, used: replicas=0, limited: replicas=0" in denied.sentence


def test_what_older_revisions_still_run_is_there():
    """A count up to theirs is no growth, whatever the bound; one above them is."""
    revision = workload("web-0", 2, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
    reasons = []
    for count in (2, 3):
        ask = Asker(gate([quota("acme", {"pods": "20"})], workload("web", 0), revision))
        ask.gate.bounds = Bounds(10.0, 60.0)
        reasons.append(ask(scale("web", count)).reason)
    assert reasons == ["no-growth", "max-scale-unasked"]
