"""The largest count that a refusal names."""

from __future__ import annotations

from extauthz.core.model import Verdict
from extauthz.testing.builders import Asker, gate, quota, scale, workload


def test_a_resource_that_is_over_and_that_the_workload_does_not_use_keeps_no_count_from_being_named():
    hard = {"requests.cpu": "10", "requests.nvidia.com/gpu": "1"}
    other = workload("other", 1, {"cpu": "0", "nvidia.com/gpu": "2"})
    ask = Asker(gate([quota("acme", hard)], workload("web", 1), other))
    denied = ask(scale("web", 11))
    assert (denied.verdict, denied.fits) == (Verdict.DENY, 10)
    assert [short.resource for short in denied.shortages] == ["requests.cpu"]
