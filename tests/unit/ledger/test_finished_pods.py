"""A pod that has finished leaves its object, and the claims of its ephemeral volumes, until it is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.intake.admission import manifest
from extauthz.core.model import Decision, Unreadable, Verdict, WorkloadRef
from extauthz.inputs.cluster.object_readers import COUNTED
from extauthz.testing import Asker, pod
from tests.unit.asking import asker, books

STORAGE = "requests.storage"
RENDER = WorkloadRef("batch", "jobs", "team-a", "render")
SCRATCH = {"spec": {"resources": {"requests": {"storage": "10"}}}}
OWNED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "render", "uid": "u9", "controller": True}]


def job(status: Any = None, **spec: Any) -> dict[str, Any]:
    template = pod({"cpu": "1"})
    template["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": SCRATCH}}]
    metadata = {"name": "render", "namespace": "team-a", "uid": "u9", "resourceVersion": "1"}
    given = {"selector": {"matchLabels": {"job": "render"}}, "template": template, "backoffLimit": 0} | spec
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": given, "status": status or {}}


def its_pod(number: int, phase: str) -> list[dict[str, Any]]:
    """One of its pods, and the claim of that."""
    name, spec = f"render-{number}", job()["spec"]["template"]["spec"]
    metadata = {"namespace": "team-a", "uid": f"u-{name}", "resourceVersion": "1"}
    made = {"name": name, "labels": {"job": "render"}, "ownerReferences": OWNED} | metadata
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec, "status": {"phase": phase}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": f"{name}-scratch"} | metadata}
        | SCRATCH,
    ]


def see(ask: Asker, *objects: dict[str, Any]) -> None:
    for tree in objects:
        found = COUNTED[tree["apiVersion"].rpartition("/")[0], tree["kind"]](tree)
        assert found is not None
        ask.gate.observe(*found)


def create(ask: Asker, made: dict[str, Any]) -> Decision:
    write = manifest(RENDER, made)
    assert not isinstance(write, Unreadable)
    return ask.gate.decide(write, "d1", 0.0)


@pytest.mark.parametrize(
    ("spec", "in_all"),
    [
        pytest.param({"completions": 5, "parallelism": 2}, 5, id="completions"),
        pytest.param({"completions": 5, "parallelism": 2, "backoffLimit": 3}, 5 + 3, id="completions-and-retries"),
        pytest.param({"completions": 5, "backoffLimit": None}, 5 + 6, id="retries-by-default"),
        pytest.param({"completions": 2, "parallelism": 9}, 2, id="no-more-than-are-to-complete"),
        pytest.param({"parallelism": 3, "backoffLimit": 1}, 3 + 1, id="a-work-queue"),
        pytest.param({"completions": 4, "backoffLimitPerIndex": 1, "backoffLimit": None}, 4 * 2, id="retries-by-index"),
        pytest.param({"completions": 4, "backoffLimitPerIndex": 9, "backoffLimit": 1}, 4 + 1, id="the-lower-of-both"),
        pytest.param({"completions": 5, "suspend": True}, 0, id="none-while-it-is-suspended"),
    ],
)
def test_a_job_is_charged_with_what_all_of_its_pods_leave(spec, in_all):
    ask = asker(hard="99", **{STORAGE: "999", "count/pods": "99"})
    assert create(ask, job(**spec)).verdict is Verdict.ALLOW
    assert (books(ask, key=STORAGE), books(ask, key="count/pods")) == ((0, 10 * in_all), (0, in_all))
    if in_all:
        for hard in ({STORAGE: str(10 * in_all - 1)}, {"count/pods": str(in_all - 1)}):
            assert create(asker(hard="99", **hard), job(**spec)).verdict is Verdict.DENY


def test_what_it_is_charged_with_stays_the_same_while_its_pods_come_and_finish():
    ask = asker(hard="99", **{STORAGE: "999", "count/pods": "99", "pods": "9"})
    for finished in range(4):
        see(ask, job({"succeeded": finished}, completions=4, parallelism=2))
        assert books(ask, key="pods") == (min(2, 4 - finished), 0)
        assert books(ask, key=STORAGE) == (40, 0)
        assert books(ask, key="count/pods") == (4, 0)
        see(ask, *its_pod(finished, "Running"))
        see(ask, its_pod(finished, "Succeeded")[0])
        assert (books(ask, key=STORAGE), books(ask, key="count/pods")) == ((40, 0), (4, 0))
    ask.gate.observe(RENDER, None, version="9")
    assert (books(ask, key="pods"), books(ask, key=STORAGE), books(ask, key="count/pods")) == ((0, 0), (40, 0), (4, 0))
    for number in range(4):
        for tree in its_pod(number, "Succeeded"):
            plural = "pods" if tree["kind"] == "Pod" else "persistentvolumeclaims"
            ask.gate.observe(WorkloadRef("", plural, "team-a", tree["metadata"]["name"]), None)
    assert (books(ask, key=STORAGE), books(ask, key="count/pods")) == ((0, 0), (0, 0))


def test_pods_that_have_finished_beyond_what_it_asks_for_count_beside_it():
    ask = asker(hard="99", **{STORAGE: "999", "count/pods": "99"})
    see(ask, job(completions=1))
    for number in range(3):  # failures that a policy ignores
        see(ask, *its_pod(number, "Failed"))
    assert books(ask, key="count/pods") == (3, 0)
    assert books(ask, key=STORAGE) == (30, 0)
