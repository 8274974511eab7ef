"""A StatefulSet whose range of ordinals moves has the pods of both ranges, until the old ones are gone (KEP-3335)."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.model import Observed, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.inputs.cluster.object_readers import COUNTED
from extauthz.testing import Asker, owned_by, patch, path, pod, scale, snapshot, workload
from tests.unit.asking import asker, books

DB = WorkloadRef("apps", "statefulsets", "team-a", "db")
MOVE = patch(path("db", resource="statefulsets"), {"spec": {"ordinals": {"start": 4}}})


def db(start: int, replicas: int = 4, version: str = "1", *, acted_on: bool = True) -> dict[str, Any]:
    made = workload("db", replicas, kind="StatefulSet", version=version, generation=int(version))
    made["spec"]["ordinals"] = {"start": start}
    made["status"] = {"observedGeneration": int(version) - (not acted_on)}
    return made


def its_pod(ordinal: int, phase: str = "Running") -> tuple[WorkloadRef, Observed]:
    owners = owned_by("db", kind="StatefulSet")
    named = {"name": f"db-{ordinal}", "namespace": "team-a", "uid": f"u{ordinal}", "resourceVersion": "1"}
    metadata = named | {"labels": {"app": "db"}, "ownerReferences": owners}
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod({"cpu": "1"})["spec"]}
    tree["status"] = {"phase": phase}
    found = COUNTED["", "Pod"](tree)
    assert found is not None
    return found


def with_pods(*ordinals: int, hard: str = "10") -> Asker:
    ask = asker(db(0), hard=hard)
    for ordinal in ordinals:
        ask.gate.observe(*its_pod(ordinal))
    return ask


def moved(ask: Asker) -> None:
    """It is stored, its controller has acted on it, and watches have shown all until then."""
    ask.gate.observe(*observe(db(4, version="2", acted_on=False)))
    assert books(ask) == (8, 0)
    ask.gate.observe(*observe(db(4, version="3")))
    assert books(ask) == (8, 0)
    for kind in (("apps", "controllerrevisions"), ("", "pods")):
        ask.gate.reached(kind, "9")


def test_a_move_needs_room_for_both_ranges():
    assert with_pods(*range(4), hard="7")(MOVE).verdict is Verdict.DENY
    ask = with_pods(*range(4), hard="8")
    assert (ask(MOVE).verdict, books(ask)) == (Verdict.ALLOW, (4, 4))


def test_both_ranges_count_until_the_old_pods_are_gone():
    ask = with_pods(*range(4))
    moved(ask)
    for ordinal in range(4, 8):
        assert books(ask) == (8, 0)
        ask.gate.observe(*its_pod(ordinal))
    for ordinal in range(4):
        assert books(ask) == (8 - ordinal, 0)
        ask.gate.observe(its_pod(ordinal)[0], None)
    assert books(ask) == (4, 0)
    assert (ask(scale("db", 6, resource="statefulsets")).verdict, books(ask)) == (Verdict.ALLOW, (4, 2))


@pytest.mark.parametrize(("phase", "used"), [("Running", 4 + 1), ("Failed", 4)])
def test_a_pod_outside_the_range_counts_beside_it_until_it_has_finished(phase: str, used: int):
    ask = with_pods(*range(3))
    ask.gate.observe(*its_pod(7, phase))
    assert books(ask) == (used, 0)


def test_a_gate_that_starts_in_between_counts_both():
    ask = asker(db(4))
    ask.gate.load_state(_state(db(4), *map(its_pod, (1, 2, 3, 4))), 0.0)
    assert books(ask) == (4 + 3, 0)
    ask.gate.load_state(_state(db(4), *map(its_pod, (4, 5, 6, 7))), 0.0)
    assert books(ask) == (4, 0)


def _state(made: dict[str, Any], *pods: tuple[WorkloadRef, Observed]) -> Any:
    state = snapshot(made)
    state.workloads += pods
    return state


def test_a_count_that_grows_meanwhile_grows_both_ranges_while_old_pods_may_still_be_made():
    ask = with_pods(*range(4), hard="99")
    ask.gate.observe(*observe(db(4, version="2", acted_on=False)))
    assert (ask(scale("db", 6, resource="statefulsets")).verdict, books(ask)) == (Verdict.ALLOW, (8, 2))


@pytest.mark.parametrize(("start", "count", "room"), [(1, 4, 5), (3, 2, 7), (9, 4, 8), (2, 6, 8)])
def test_a_write_that_moves_the_range_needs_room_for_both_at_the_higher_count(start: int, count: int, room: int):
    body = {"spec": {"ordinals": {"start": start}, "replicas": count}}
    for hard in (room - 1, room):
        verdict = with_pods(*range(4), hard=str(hard))(patch(path("db", resource="statefulsets"), body)).verdict
        assert verdict is (Verdict.ALLOW if hard == room else Verdict.DENY)


def test_a_count_from_zero_needs_both_ranges_while_the_range_moves():
    ask = asker(db(0, replicas=0), hard="3")
    ask.gate.observe(*observe(db(4, replicas=0, version="2", acted_on=False)))
    assert books(ask) == (0, 0)
    assert ask(scale("db", 2, resource="statefulsets")).verdict is Verdict.DENY
    assert (ask(scale("db", 1, resource="statefulsets")).verdict, books(ask)) == (Verdict.ALLOW, (0, 2))
