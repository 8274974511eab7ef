"""Pods that come with a whole snapshot of the cluster."""

from __future__ import annotations

from extauthz.core.model import Observed, OwnerRef, WorkloadRef
from extauthz.core.objects.workloads import intern
from extauthz.testing.builders import gate, pod, quota, snapshot

LONELY = WorkloadRef("", "pods", "team-a", "lonely")
SOMEBODY = OwnerRef("batch", "Job", "nightly", "uid-nightly")


def test_pods_count_with_the_snapshot_that_has_them_and_no_longer_with_the_next():
    made = gate([quota("acme", {"requests.cpu": "10"})])
    with_pod = snapshot()
    with_pod.workloads.append((LONELY, Observed(1, intern({"template": pod({"cpu": "2"})}), owner=SOMEBODY)))
    seen = []
    for state in (with_pod, snapshot()):
        made.load_state(state, 0.0)
        seen.append(next(row.used for row in made.usage()) // 10**9)
    assert seen == [2, 0]
