"""One write, any entrance (docs/design.md rule 11): what Envoy's way has recorded is decided alike by the webhook."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extauthz.core.effects.resolve import resolve
from extauthz.core.intake import admission, read
from extauthz.core.model import Decision, NotAWrite, Observed, Operation, Outcome, Reading, Write
from extauthz.core.objects.metadata import labels_dict, labels_text
from extauthz.core.objects.workloads import intern, prune
from extauthz.testing import builders
from extauthz.testing.builders import gate, quota
from tests.unit.intake.test_recorded import RECORDED, request_of

CONTAINER = {"name": "user-container", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = intern(prune({"template": {"spec": {"containers": [CONTAINER]}}}))
LABELS = labels_text({"app": "web"})

WRITES = [
    pytest.param(found, id=f"{number}-{row['client'].split()[0]}-{row['method']}")
    for number, row in enumerate(RECORDED, 1)
    if isinstance(found := read(request_of(row)), Write)
]
OTHERS = [found for row in RECORDED if isinstance(found := read(request_of(row)), NotAWrite)]


def before(write: Write) -> Observed | None:
    """The object that the write finds; none where it makes one."""
    if write.operation is Operation.CREATE:
        return None
    version = write.precondition.resource_version or "1"
    return Observed(2, TEMPLATE, LABELS, uid=write.precondition.uid or "u1", resource_version=version)


def tree(write: Write, observed: Observed) -> dict[str, Any]:
    """An object as an API server shows it, as far as the gate reads it."""
    spec: dict[str, Any] = {"replicas": observed.replicas}
    if not write.scale:
        assert observed.template is not None
        spec |= json.loads(observed.template.text)
    metadata: dict[str, Any] = {"name": write.ref.name, "namespace": write.ref.namespace, "uid": observed.uid}
    metadata |= {"resourceVersion": observed.resource_version, "labels": labels_dict(observed.labels)}
    if observed.owner is not None:
        owner = observed.owner
        reference = {"apiVersion": f"{owner.group}/v1", "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        metadata["ownerReferences"] = [reference | {"controller": True}]
    return {"metadata": metadata, "spec": spec}


def after(write: Write, found: Observed | None, outcome: Outcome) -> Observed:
    base = found or Observed(0, None, "", uid="new", resource_version="")
    return Observed(
        base.replicas if outcome.replicas is None else outcome.replicas,
        outcome.templates[0] if outcome.templates else base.template,
        base.labels if outcome.labels is None else outcome.labels,
        uid=base.uid,
        resource_version=base.resource_version,
        owner=outcome.owner if outcome.owner is not None else base.owner,
    )


def admitted(write: Write, found: Observed | None) -> Reading:
    """What the webhook is asked about the object that the write leaves."""
    outcome = resolve(write, found)
    assert isinstance(outcome, Outcome)
    old = tree(write, found) if found is not None else None
    resource = {"group": write.ref.group, "version": "v1", "resource": write.ref.resource}
    subresource = "scale" if write.scale else ""
    new = tree(write, after(write, found, outcome))
    asked = builders.admission(new, old, resource=resource, subresource=subresource, dryRun=write.dry_run)
    review = admission.read(json.dumps(asked).encode())
    assert isinstance(review, admission.Review)
    return review.question.reading


def decided(reading: Reading, write: Write, found: Observed | None, cpu: str) -> Decision:
    namespaces = {write.ref.namespace: {"workspace": "acme"}}
    asked = gate([quota("acme", {"requests.cpu": cpu})], namespaces=namespaces)
    if found is not None:
        asked.observe(write.ref, found)
    return asked.decide(reading, "d1", 1.0)


@pytest.mark.parametrize("cpu", ["0", "2", "3", "1000"])
@pytest.mark.parametrize("write", WRITES)
def test_what_was_recorded_on_envoys_way_is_decided_alike_by_the_webhook(write: Write, cpu: str):
    found = before(write)
    ours = decided(write, write, found, cpu)
    theirs = decided(admitted(write, found), write, found, cpu)
    assert (ours.verdict, ours.shortages, ours.fits) == (theirs.verdict, theirs.shortages, theirs.fits)
    assert (ours.ref, ours.scale, ours.dry_run) == (theirs.ref, theirs.scale, theirs.dry_run)
    if ours.verdict != "allow":
        assert (ours.reason, ours.sentence) == (theirs.reason, theirs.sentence)


def test_the_recorded_writes_are_refused_and_allowed():
    verdicts = {decided(one.values[0], one.values[0], before(one.values[0]), "3").verdict for one in WRITES}
    assert {"allow", "deny"} <= verdicts
    assert (len(WRITES), len(OTHERS), len(RECORDED)) == (18, 49, 67)
