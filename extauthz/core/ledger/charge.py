"""What a workload costs, kept as a product so that a thousand replicas cost no more to add up than one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from extauthz.core.model import Amounts


class Charge(NamedTuple):
    """``replicas`` times ``per_pod``, and ``per_object`` once (``count/…`` keys). Amounts in nano-units."""

    replicas: int
    per_pod: Amounts
    per_object: Amounts

    def amount(self, key: str) -> int:
        """The cost in one quota key."""
        return self.replicas * self.per_pod.get(key, 0) + self.per_object.get(key, 0)


NOTHING = Charge(0, {}, {})


def highest(footprints: Iterable[Amounts]) -> Amounts:
    """The maximum, key by key. Equal objects are passed through, so the usual case copies nothing."""
    result: Amounts = {}
    for footprint in footprints:
        if footprint is result or not footprint:
            continue
        if not result:
            result = footprint
            continue
        merged = dict(result)
        for key, amount in footprint.items():
            merged[key] = max(merged.get(key, 0), amount)
        result = merged
    return result
