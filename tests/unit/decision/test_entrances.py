"""One count, any entrance (design.md rule 11): what Envoy's way has recorded is decided alike by the webhook."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extauthz.core.intake import admission, read
from extauthz.core.model import Decision, NotACount, NotAWrite, Observed, Reading, Write
from extauthz.core.objects.metadata import labels_text
from extauthz.core.objects.workloads import intern, prune
from extauthz.testing import builders, kubecalls
from extauthz.testing.builders import gate, quota
from tests.unit.intake.test_recorded import RECORDED, request_of

CONTAINER = {"name": "user-container", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = intern(prune({"template": {"spec": {"containers": [CONTAINER]}}}))
LABELS = labels_text({"app": "web"})

READINGS = [read(request_of(row)) for row in RECORDED]
WRITES = [
    pytest.param(found, id=f"{number}-{row['client'].split()[0]}-{row['method']}")
    for number, (row, found) in enumerate(zip(RECORDED, READINGS, strict=True), 1)
    if isinstance(found, Write)
]


def before(write: Write) -> Observed:
    """The object that the write finds."""
    version = write.precondition.resource_version or "1"
    return Observed(2, TEMPLATE, LABELS, uid=write.precondition.uid or "u1", resource_version=version)


def tree(write: Write, observed: Observed, replicas: int) -> dict[str, Any]:
    """An object, or its Scale, as an API server shows it."""
    shown = kubecalls.document(write.ref, observed)
    spec = {"replicas": replicas} if write.scale else shown["spec"] | {"replicas": replicas}
    return shown | {"spec": spec}


def admitted(write: Write, found: Observed) -> Reading:
    """What the webhook is asked about the object that the write leaves."""
    resource = {"group": write.ref.group, "version": "v1", "resource": write.ref.resource}
    old, new = tree(write, found, found.replicas), tree(write, found, write.replicas)
    more = {"subresource": "scale"} if write.scale else {}
    asked = builders.admission(new, old, resource=resource, dryRun=write.dry_run, **more)
    review = admission.read(json.dumps(asked).encode())
    assert isinstance(review, admission.Review)
    return review.question.reading


def decided(reading: Reading, write: Write, found: Observed, cpu: str) -> Decision:
    namespaces = {write.ref.namespace: {"workspace": "acme"}}
    asked = gate([quota("acme", {"requests.cpu": cpu})], namespaces=namespaces)
    asked.observe(write.ref, found)
    return asked.decide(reading, "d1", 1.0)


@pytest.mark.parametrize("cpu", ["0", "2", "3", "1000"])
@pytest.mark.parametrize("write", WRITES)
def test_what_was_recorded_on_envoys_way_is_decided_alike_by_the_webhook(write: Write, cpu: str):
    found = before(write)
    ours = decided(write, write, found, cpu)
    reading = admitted(write, found)
    if isinstance(reading, NotAWrite):
        assert (write.replicas, ours.verdict) == (found.replicas, "allow"), "it leaves the count as it is"
        return
    theirs = decided(reading, write, found, cpu)
    assert (ours.verdict, ours.evidence.shortages, ours.evidence.fits) == (
        theirs.verdict,
        theirs.evidence.shortages,
        theirs.evidence.fits,
    )
    assert (ours.ref, ours.scale, ours.dry_run) == (theirs.ref, theirs.scale, theirs.dry_run)
    if ours.verdict != "allow":
        assert (ours.reason, ours.sentence) == (theirs.reason, theirs.sentence)


def test_the_recorded_writes_are_refused_and_allowed():
    verdicts = {decided(one.values[0], one.values[0], before(one.values[0]), "3").verdict for one in WRITES}
    assert {"allow", "deny"} <= verdicts
    kinds = [sum(isinstance(found, kind) for found in READINGS) for kind in (Write, NotACount, NotAWrite)]
    assert (kinds, len(RECORDED)) == ([14, 4, 49], 67)
