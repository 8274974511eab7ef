"""What a workload costs, kept as products so that a thousand replicas cost no more to add up than one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from extauthz.core.model import Amounts


class Product(NamedTuple):
    """So many replicas of so dear a pod."""

    replicas: int
    per_pod: Amounts
    """Nano-units by quota key."""


class Charge(NamedTuple):
    """The dearest of ``products``, key by key, and ``per_object`` once (``count/…`` keys)."""

    products: tuple[Product, ...]
    per_object: Amounts

    def amount(self, key: str) -> int:
        """The cost in one quota key, nano-units."""
        dearest = 0
        for replicas, per_pod in self.products:
            dearest = max(dearest, replicas * per_pod.get(key, 0))
        return dearest + self.per_object.get(key, 0)

    @property
    def replicas(self) -> int:
        """The highest replica count in it."""
        return max((product.replicas for product in self.products), default=0)


NOTHING = Charge((), {})


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
