"""What an owner sees of a real HPA at the quota's edge: one event for all its tries, the quota's status, good news."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.workspace import Workspace
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")

TRIES = 4


def status(acme: Workspace) -> Any:
    return acme.api.get("WorkspaceQuota", acme.name).get("status", {})


def conditions(acme: Workspace) -> dict[str, str]:
    """Those that are not True, but that its maximum never fits: when that is seen is not sure."""
    found = {one["type"]: one["reason"] for one in status(acme)["conditions"] if one["status"] != "True"}
    return {name: reason for name, reason in found.items() if name != "HasHeadroom"}


def told(acme: Workspace, reason: str) -> list[str]:
    """The kinds of the objects that have an event with this reason."""
    return sorted(event["involvedObject"]["kind"] for event in acme.events(reason, "web"))


def refusals(acme: Workspace) -> int:
    """How often the gate has refused ``web``."""
    workload = f"deployments.apps/{acme.namespace}/web"
    decisions = acme.world.gate.events("decision")
    return sum((one["verdict"], one.get("workload")) == ("deny", workload) for one in decisions)


def test_an_owner_is_told_once_that_the_quota_is_full_and_once_that_there_is_room(world, workspace):
    assert world.manager.running
    acme = workspace({"requests.cpu": "4"})
    acme.always_grows(8)

    sentence = f"exceeded workspace quota: {acme.name}"
    assert sentence in acme.await_refused()
    assert any(sentence in event["message"] for event in acme.events("FailedRescale", "web"))
    both = ["Deployment", "HorizontalPodAutoscaler"]
    eventually(lambda: told(acme, "WorkspaceQuotaExceeded") == both)
    eventually(lambda: status(acme).get("summary") == {"cpu": "4/4"}, lambda: status(acme))
    eventually(lambda: refusals(acme) >= TRIES, lambda: refusals(acme))
    assert told(acme, "WorkspaceQuotaExceeded") == both, "one event for all tries"
    assert told(acme, "WorkspaceQuotaHasRoom") == []
    assert conditions(acme) == {}

    acme.set_hard({"requests.cpu": "2"})
    eventually(lambda: conditions(acme) == {"WithinHard": "OverLimit"}, lambda: status(acme))

    acme.set_hard({"requests.cpu": "8"})
    eventually(lambda: told(acme, "WorkspaceQuotaHasRoom") == both)
    eventually(lambda: status(acme)["summary"] == {"cpu": "8/8"}, lambda: status(acme))
    assert conditions(acme) == {}
    (event,) = (
        one for one in acme.events("WorkspaceQuotaExceeded", "web") if one["involvedObject"]["kind"] in both[1:]
    )
    assert event["series"]["count"] >= TRIES
