"""What a workload costs, and where it counts.

A cost is a product, so a thousand replicas cost no more work than one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from extauthz.core.footprint import UNKNOWN_DEVICES
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.model import Amounts


class Shared(dict[str, int]):
    """Amounts that many workloads have, nano-units by quota key. Nobody changes them, so they can be a key: each is
    equal to itself alone, as whoever has equal amounts shares one (``PodCosts``)."""

    __slots__ = ()
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__  # type: ignore[assignment]


class Product(NamedTuple):
    """A replica count and the cost of one pod."""

    replicas: int
    per_pod: Amounts
    """Nano-units by quota key."""
    extra: Amounts = MappingProxyType({})
    """What is added for this very count, nano-units."""


class Charge(NamedTuple):
    """What ``charge`` has worked out."""

    replicas: int
    """The highest replica count in it."""
    amounts: Amounts
    """The whole cost, nano-units by quota key."""
    per_object: Amounts
    """The part that does not depend on the replica count (``count/…`` keys)."""
    pod: Shared | None = None
    """The cost of one pod, if the whole cost is a product of that and the count, and a shared ``per_object``."""

    def with_count(self, replicas: int, per_pod: Amounts) -> Charge:
        """The highest cost for each key of this one and of a count of pods that cost ``per_pod``."""
        top, before, per_object, pod = self
        if pod is not None and pod is per_pod and isinstance(per_object, Shared):
            return charge_of(replicas, pod, per_object) if replicas > top else self  # one product: nothing to compare
        higher = {
            key: amount
            for key, each in per_pod.items()
            if (amount := replicas * each + per_object.get(key, 0)) > before.get(key, 0)
        }
        if not higher and replicas <= top:
            return self  # the same object, by which callers know that nothing grows
        return Charge(max(top, replicas), {**before, **higher}, per_object)

    def at_least(self, base: Charge, more: Amounts) -> Charge:
        """This one, of which each key in ``more`` is so much above ``base`` at least."""
        if not more:
            return self
        amounts = {key: max(self.amounts.get(key, 0), base.amounts.get(key, 0) + by) for key, by in more.items()}
        return Charge(self.replicas, {**self.amounts, **amounts}, self.per_object)


def charge(products: Iterable[Product], per_object: Amounts) -> Charge:
    """The highest cost of ``products`` for each key, and ``per_object`` once."""
    top = 0
    amounts: dict[str, int] = {}
    for replicas, per_pod, extra in products:
        if replicas > top:
            top = replicas
        cost = {key: amount for key, each in per_pod.items() if (amount := replicas * each)}
        for key, amount in extra.items() if extra else ():
            cost[key] = cost.get(key, 0) + amount
        if not amounts:
            amounts = cost
            continue
        for key, amount in cost.items():
            if amount > amounts.get(key, 0):
                amounts[key] = amount
    for key, amount in per_object.items():
        amounts[key] = amounts.get(key, 0) + amount
    return Charge(top, amounts, per_object)


def charge_one(replicas: int, pod: Amounts, per_object: Amounts) -> Charge:
    """The cost of ``replicas`` equal pods."""
    if isinstance(pod, Shared) and isinstance(per_object, Shared):
        return charge_of(replicas, pod, per_object)
    return charge((Product(replicas, pod),), per_object)


_KEPT_CHARGES: Final = 8_192
"""Each takes less than a KiB. Sizes of pods are few, and counts are small."""


@lru_cache(_KEPT_CHARGES)
def charge_of(replicas: int, pod: Shared, per_object: Shared) -> Charge:
    """The same, remembered: nearly every workload."""
    cost = charge((Product(replicas, pod),), per_object)
    return cost._replace(pod=pod)


NO_CHANGE: Final = Shared()


def _times(before: Charge, after: Charge) -> Amounts | None:
    """The difference of two counts of one pod; ``None``: they differ in more."""
    pod = after.pod
    if pod is None or before.pod is not pod or before.per_object is not after.per_object:
        return None
    return charge_of(after.replicas - before.replicas, pod, NO_CHANGE).amounts


def difference(before: Charge, after: Charge) -> Amounts:
    """How much more ``after`` has of each key, or less."""
    if before is after:
        return NO_CHANGE
    times = _times(before, after)
    if times is not None:
        return times
    some, others = before.amounts, after.amounts
    return {key: more for key in some.keys() | others.keys() if (more := others.get(key, 0) - some.get(key, 0))}


def rise(before: Charge, after: Charge) -> Amounts:
    """What ``after`` has more of, and how much more."""
    if before is after:
        return NO_CHANGE
    times = _times(before, after)
    if times is not None:
        return times if after.replicas > before.replicas else NO_CHANGE
    some = before.amounts
    return {key: more for key, amount in after.amounts.items() if (more := amount - some.get(key, 0)) > 0}


def highest(footprints: Iterable[Amounts]) -> Amounts:
    """The maximum for each key. Equal objects are passed through, so the usual case copies nothing."""
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


class Position(NamedTuple):
    """The cost of an entry and its children, and its quotas."""

    used: Charge
    used_in: Nodes
    envelope: Charge
    envelope_in: Nodes
    unknown: bool
    """The cost of some template is not known."""
    pod: Amounts | None = None
    """What each replica costs, if only the count of the head may change."""
    unsure_in: Nodes = ()
    """Quotas of ``envelope_in`` in which it may come not to count: it uses nothing of what these are guaranteed."""

    @property
    def takes_unknown_devices(self) -> bool:
        """Some pod claims devices, and it is not known which."""
        return UNKNOWN_DEVICES in self.envelope.amounts

    @property
    def settled(self) -> Position:
        """Where it counts without pending writes. Only if ``pod`` is known."""
        assert self.pod is not None, "other writes than of the count are under way"
        if self.envelope is self.used:
            return self
        return Position(self.used, self.used_in, self.used, self.used_in, self.unknown, self.pod)

    @property
    def trees(self) -> frozenset[str]:
        """Names of the root quotas in whose trees it counts, or may come to count."""
        return frozenset([node.root for node in self.envelope_in])

    def with_count(self, replicas: int) -> Position:
        """Where it would count with one more write of the head's count alone. Only if ``pod`` is known."""
        assert self.pod is not None, "other writes are under way"
        used, used_in, envelope, envelope_in, unknown, pod, _ = self
        after = envelope.with_count(replicas, self.pod)
        return self if after is envelope else Position(used, used_in, after, envelope_in, unknown, pod)


class Step(NamedTuple):
    """What one more write does to the entry that a workload is charged through."""

    before: Position
    after: Position
    observed_only: Position
    """As ``before``, without pending writes of the workload itself and of its family."""
    this_write_only: Position
    """As ``observed_only``, with this write alone, and with creates that pend where there is no object."""
    dearer_unknown: bool = False
    """It brings a template that costs more than the one before, and nobody knows how much. What pods that are there
    hold is known, and would hide it."""

    @property
    def adds_unknown(self) -> bool:
        """It adds pods of unknown cost, is the first to do so, or has dearer ones come in their place."""
        before, after, observed, this = (at.envelope.replicas for at in self[:4])
        return not self.before.unknown or after > before or this > observed or self.dearer_unknown


NOTHING = charge((), {})


NOWHERE = Position(NOTHING, (), NOTHING, (), False)
