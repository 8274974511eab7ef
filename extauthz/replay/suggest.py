"""Quotas that would have held what was wanted."""

from __future__ import annotations

import yaml

from extauthz.core import quantities
from extauthz.core.quota.spec import dumped, written
from extauthz.replay.measures import rounded_up
from extauthz.replay.run import Result


def suggested(result: Result, percent: float) -> str:
    """All quotas in YAML, each with that percentile of what was wanted as ``hard``, rounded up to a whole pod of its
    dearest workload. What was never wanted keeps its limit.

    Args:
        percent: above 0; 100: the peak.
    """
    return yaml.safe_dump_all([_one(result, at, percent) for at in range(len(result.tree.nodes))], sort_keys=False)


def _one(result: Result, at: int, percent: float) -> object:
    quota = result.tree.nodes[at].quota
    spec = dumped(quota)
    for key, hard in quota.hard.items():
        row = (quota.name, key)
        level = result.wanted.get(row)
        wanted = 0 if level is None else level.peak if percent >= 100 else level.percentile(percent / 100)
        amount = rounded_up(wanted, result.dearest.get(row, 0)) if wanted else hard
        spec["hard"][key] = quantities.format(amount, key)
    spec.pop("overrides", None)
    guaranteed = {key: min(amount, quantities.parse(spec["hard"][key])) for key, amount in quota.guaranteed.items()}
    if guaranteed:
        spec["guaranteed"] = {key: quantities.format(amount, key) for key, amount in guaranteed.items()}
    return written(quota.name, spec)
