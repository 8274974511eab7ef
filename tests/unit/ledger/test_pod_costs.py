"""Costs of pods are kept once they are worked out, within bounds."""

from __future__ import annotations

from extauthz.core.ledger.pod_costs import PodCosts
from extauthz.core.objects.workloads import intern
from extauthz.testing.builders import pod


def test_footprints_are_right_beyond_what_is_kept_of_them():
    costs = PodCosts()
    costs.max_footprints = 2
    for _ in range(2):
        for cpu in range(1, 6):
            template = intern({"template": pod({"cpu": str(cpu)})})
            assert costs.per_pod("anywhere", template)["requests.cpu"] == cpu * 10**9
