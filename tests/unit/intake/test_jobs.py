"""Jobs at the webhook: they count as many pods as may run at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extauthz.core.intake.admission import Review, read
from extauthz.core.model import NotAWrite, Operation, Precondition, Reading, Verdict, Write
from extauthz.testing.builders import admission, gate, pod, quota

JOBS = {"group": "batch", "version": "v1", "resource": "jobs"}
DONE = {"conditions": [{"type": "Complete", "status": "True"}]}


def job(status: dict[str, Any] | None = None, *, cpu: str = "1", labels: Any = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "train", "namespace": "team-a", "uid": "u", "resourceVersion": "7", "labels": labels or {}}
    spec = {"template": pod({"cpu": cpu})} | spec
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, "status": status or {}}


def review(new: Any, old: Any = None) -> Review:
    found = read(json.dumps(admission(new, old, resource=JOBS, name="train")).encode())
    assert isinstance(found, Review)
    return found


def reading(new: Any, old: Any = None) -> Reading:
    return review(new, old).question.reading


@pytest.mark.parametrize(
    ("made", "pods"),
    [
        (job(), 1),
        (job(parallelism=8), 8),
        (job(parallelism=8, completions=3), 3),
        (job(parallelism=8, suspend=True), 0),
        (job(parallelism=0), 0),
    ],
)
def test_a_new_one_counts_as_many_pods_as_may_run_at_once(made, pods):
    found = reading(made)
    assert isinstance(found, Write)
    assert (found.operation, found.replicas, found.ref.name) == (Operation.CREATE, pods, "train")
    assert found.object is not None
    assert found.object.template is not None


@pytest.mark.parametrize(
    ("before", "after", "pods"),
    [
        (job(parallelism=2), job(parallelism=5), 5),
        (job(parallelism=5, suspend=True), job(parallelism=5), 5),
        (job({"succeeded": 6}, parallelism=2, completions=8), job({"succeeded": 6}, parallelism=5, completions=8), 2),
        (job({"succeeded": 6}, parallelism=5, completions=8), job({"succeeded": 6}, parallelism=5, completions=9), 3),
        (job(parallelism=5), job(parallelism=5, suspend=True), 0),
    ],
)
def test_an_update_is_a_count_on_the_version_that_it_found(before, after, pods):
    found = review(after, before)
    write = found.question.reading
    if before["spec"] != after["spec"] and isinstance(write, Write):
        assert (write.replicas, write.object, write.precondition) == (pods, None, Precondition("7", "u"))
        assert found.count_path == "/spec/parallelism"
    else:
        assert (write, pods) == (write, 2), "as many may run as before"
        assert isinstance(write, NotAWrite)


@pytest.mark.parametrize(
    ("before", "after"),
    [(job(DONE, parallelism=2), job(DONE, parallelism=9)), (job(), job(ttlSecondsAfterFinished=9))],
)
def test_what_changes_no_count_is_no_write(before, after):
    assert isinstance(reading(after, before), NotAWrite)


def test_another_template_or_label_is_an_object():
    for changed in (job(cpu="3", suspend=True), job(labels={"tier": "b"})):
        found = reading(changed, job(suspend=True))
        assert isinstance(found, Write)
        assert found.object is not None


def test_jobs_are_decided_like_any_workload():
    asked = gate([quota("acme", {"requests.cpu": "4"})])
    refused = asked.decide(reading(job(parallelism=5)), "d1", 0.0)
    assert (refused.verdict, refused.reason) == (Verdict.DENY, "exceeded-quota")
    assert refused.sentence.startswith('jobs.batch "train" is forbidden: exceeded workspace quota: acme')
    assert refused.sentence.endswith("largest allowed parallelism: 4")
    waits = job(parallelism=5, suspend=True)
    assert asked.decide(reading(waits), "d2", 0.0).verdict is Verdict.ALLOW
    assert asked.ledger.pending_writes == 1
    assert next(asked.usage()).reserved == 0
