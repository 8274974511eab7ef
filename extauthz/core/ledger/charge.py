"""What a workload costs, kept as products so that a thousand replicas cost no more to add up than one."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import NamedTuple

from extauthz.core.model import Amounts


class Product(NamedTuple):
    """So many replicas of so dear a pod."""

    replicas: int
    per_pod: Amounts
    """Nano-units by quota key."""
    beside: Amounts = MappingProxyType({})
    """What comes on top, nano-units, for this very count."""


class Charge(NamedTuple):
    """What ``charge`` has worked out."""

    replicas: int
    """The highest replica count in it."""
    amounts: Amounts
    """The whole cost, nano-units by quota key."""
    per_object: Amounts
    """The part of it that no replica count changes (``count/…`` keys)."""


def charge(products: Iterable[Product], per_object: Amounts) -> Charge:
    """The dearest of ``products``, key by key, and ``per_object`` once."""
    top = 0
    amounts: dict[str, int] = {}
    for replicas, per_pod, beside in products:
        if replicas > top:
            top = replicas
        for key, each in per_pod.items():
            amount = replicas * each
            if beside:
                amount += beside.get(key, 0)
            if amount > amounts.get(key, 0):
                amounts[key] = amount
        for key in beside.keys() - per_pod.keys() if beside else ():
            amounts[key] = max(amounts.get(key, 0), beside[key])
    for key, amount in per_object.items():
        amounts[key] = amounts.get(key, 0) + amount
    return Charge(top, amounts, per_object)


NOTHING = charge((), {})


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
