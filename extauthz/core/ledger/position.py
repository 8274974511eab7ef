"""What a workload costs and where it counts. A cost is a product, so a thousand replicas cost no more work than one."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import NamedTuple

from extauthz.core.ledger.coverage import Nodes
from extauthz.core.model import Amounts


class Product(NamedTuple):
    """A replica count and the cost of one pod."""

    replicas: int
    per_pod: Amounts
    """Nano-units by quota key."""
    beside: Amounts = MappingProxyType({})
    """What is added for this very count, nano-units."""


class Charge(NamedTuple):
    """What ``charge`` has worked out."""

    replicas: int
    """The highest replica count in it."""
    amounts: Amounts
    """The whole cost, nano-units by quota key."""
    per_object: Amounts
    """The part that does not depend on the replica count (``count/…`` keys)."""


def charge(products: Iterable[Product], per_object: Amounts) -> Charge:
    """The highest cost of ``products`` for each key, and ``per_object`` once."""
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
        used, used_in, (top, before, per_object), envelope_in, unknown, pod = self
        higher = {
            key: amount
            for key, each in self.pod.items()
            if (amount := replicas * each + per_object.get(key, 0)) > before.get(key, 0)
        }
        if not higher and replicas <= top:
            return self
        charge = Charge(max(top, replicas), {**before, **higher}, per_object)
        return Position(used, used_in, charge, envelope_in, unknown, pod)


class Step(NamedTuple):
    """What one more write does to the entry that a workload is charged through."""

    before: Position
    after: Position
    base: Position
    """As ``before``, without pending writes of the workload itself."""
    own: Position
    """As ``base``, with this write alone, and with creates that pend where there is no object."""

    @property
    def multiplies_unknown(self) -> bool:
        """It adds pods of unknown cost, or is the first to do so."""
        before, after, base, own = (at.envelope.replicas for at in self)
        return not self.before.unknown or after > before or own > base


NOTHING = charge((), {})
NOWHERE = Position(NOTHING, (), NOTHING, (), False)
