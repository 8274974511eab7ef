"""What a workload and its family are charged, to the last unit."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.model import Observed, OwnerRef, Unknown, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe, pod_template
from extauthz.testing import Asker, create, gate, owned_by, patch, path, pod, quota, scale, workload

CPU = 10**9
GPU = "requests.nvidia.com/gpu"
WEB = WorkloadRef("apps", "deployments", "team-a", "web")
HARD = {"requests.cpu": "100", GPU: "100", "pods": "100", "count/deployments.apps": "2", "count/replicasets.apps": "9"}


def asker(*objects: dict[str, Any]) -> Asker:
    return Asker(gate([quota("acme", HARD)], *objects))


def books(ask: Asker, key: str) -> tuple[int, int]:
    """Used and reserved, in nano-units."""
    (row,) = [row for row in ask.gate.usage() if row.resource == key]
    return row.used, row.reserved


def counted(ask: Asker, kind: str = "deployments") -> tuple[int, int]:
    used, reserved = books(ask, f"count/{kind}.apps")
    return used // CPU, reserved // CPU


def allowed(ask: Asker, *requests: Any) -> None:
    assert [ask(one).verdict for one in requests] == [Verdict.ALLOW] * len(requests)


# Objects.


def member(name: str, replicas: int, requests: dict[str, str] | None = None) -> dict[str, Any]:
    """A ReplicaSet of ``web``."""
    more = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")}
    made = workload(name, replicas, requests, kind="ReplicaSet", **more)
    made["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    return made


def test_a_member_that_may_be_made_is_reserved_and_not_yet_used():
    ask = asker(workload("web", 2))
    allowed(ask, create(member("web-1", 0)))
    assert counted(ask, "replicasets") == (0, 1)


def test_a_deployment_that_has_gone_is_counted_no_more_while_a_write_of_its_count_is_open():
    ask = asker(workload("web", 2), workload("other", 1))
    allowed(ask, scale("web", 3))
    ask.gate.observe(WEB, None, version="9")
    assert counted(ask) == (1, 0)
    allowed(ask, create(workload("api", 1)))


def test_a_deployment_that_may_be_made_and_scaled_is_counted_once():
    ask = asker()
    allowed(ask, create(workload("api", 1)), scale("api", 2))
    assert counted(ask) == (0, 1)


def test_a_replica_set_whose_labels_a_deployment_does_not_select_is_charged_beside_it():
    """Its controller lets go of it, whatever the ReplicaSet itself selects."""
    ask = asker(workload("web", 2))
    made = member("web-1", 2)
    made["metadata"]["labels"] = {"app": "other"}
    ask.gate.observe(*observe(made))
    assert books(ask, "pods") == (4 * CPU, 0)


# Counts.


@pytest.mark.parametrize("counts", [(3, 5), (5, 3)])
def test_of_several_counts_the_highest_meets_the_template_that_is_under_way(counts: tuple[int, int]):
    ask = asker(workload("web", 2))
    dearer = patch(path("web"), {"spec": {"template": pod({"cpu": "2"})}})
    allowed(ask, dearer, *(scale("web", count) for count in counts))
    assert books(ask, "requests.cpu") == (2 * CPU, 8 * CPU)


# Pods that cost more than their owner's template.


def see_pods(ask: Asker, count: int, requests: dict[str, str], owner: str = "web-1", first: int = 0) -> None:
    for number in range(first, first + count):
        of = OwnerRef("apps", "ReplicaSet", owner, f"uid-{owner}")
        ref = WorkloadRef("", "pods", "team-a", f"{owner}-{number}")
        ask.gate.observe(ref, Observed(1, pod_template(pod(requests)["spec"]), "app=web", owner=of))
    assert ask.gate.ledger.drift() == {}


def family(replicas: int, requests: dict[str, str] | None = None) -> Asker:
    ask = asker(workload("web", replicas, requests))
    ask.gate.observe(*observe(member("web-1", replicas, requests)))
    return ask


def test_a_resized_pod_is_charged_beyond_its_template_though_its_rollout_has_a_free_pod():
    ask = family(4)
    see_pods(ask, 3, {"cpu": "1"})
    see_pods(ask, 1, {"cpu": "2"}, first=3)
    assert books(ask, "requests.cpu") == (5 * CPU, 0)


def test_what_a_sidecar_adds_is_charged_exactly_and_nothing_else_with_it():
    ask = family(4)
    see_pods(ask, 4, {"cpu": "1", "nvidia.com/gpu": "1"})
    assert (books(ask, GPU), books(ask, "requests.cpu")) == ((4 * CPU, 0), (4 * CPU, 0))


def test_a_sidecar_of_an_old_member_takes_no_more_than_what_the_owner_asks_for_in_its_place():
    ask = asker(workload("web", 4, {"nvidia.com/gpu": "1"}))
    ask.gate.observe(*observe(member("web-0", 2, {"cpu": "1"})))
    see_pods(ask, 2, {"cpu": "1", "nvidia.com/gpu": "1"}, "web-0")
    assert books(ask, GPU) == (4 * CPU, 0)


# Pods of unknown cost: only their number is known.


def unknown(replicas: int) -> Asker:
    return family(replicas, {"cpu": "one"})


LET_GO = {"metadata": {"labels": {"app": "other"}}}


def test_a_label_that_frees_a_member_of_unknown_cost_adds_pods_as_its_owner_makes_others():
    assert unknown(2)(patch(path("web-1", resource="replicasets"), LET_GO)).reason == "unknown-footprint"


def test_pods_of_unknown_cost_that_are_let_go_leave_no_room_for_a_higher_count():
    ask = unknown(2)
    ask.gate.policy = Policy(window_s=90.0, allows={Unknown.FOOTPRINT})
    allowed(ask, patch(path("web-1", resource="replicasets"), LET_GO))
    ask.gate.policy = Policy(window_s=90.0)
    assert ask(scale("web", 3)).reason == "unknown-footprint"
    allowed(ask, scale("web", 2))


def test_the_first_pod_of_unknown_cost_that_a_member_asks_for_is_growth_though_its_owner_asks_for_none():
    assert unknown(0)(scale("web-1", 1, resource="replicasets")).reason == "unknown-footprint"


def test_no_pod_of_unknown_cost_comes_of_a_label_where_the_count_is_zero():
    allowed(unknown(0), patch(path("web"), {"metadata": {"labels": {"tier": "a"}}}))
