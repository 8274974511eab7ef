"""The account of one quota, and what guarantees keep of it (docs/internals/ledger.md).

Of a quota is *idle* what is kept for it of those above: what it is guaranteed and is not charged, or what is kept of
it for its own children, if that is more. Of a quota is *kept* what is idle of all its children.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from extauthz.core.ledger.charges import NOTHING, Charge, Position
from extauthz.core.model import Amounts
from extauthz.core.quota.tree import QuotaNode
from extauthz.core.resources import is_device

_EMPTY: dict[str, int] = {}
_SAID = ("used", "reserved", "kept", "workloads", "unpriced", "unbounded", "unbounded_of_devices")


class Account:
    """Amounts in nano-units, by quota key.

    Args:
        node: the quota; ``None``: one without guarantees.
    """

    __slots__ = (
        "idle",
        "kept",
        "reserved",
        "unbounded",
        "unbounded_of_devices",
        "unpriced",
        "unsure",
        "used",
        "workloads",
    )

    def __init__(self, node: QuotaNode | None = None) -> None:
        self.used: dict[str, int] = {}
        self.reserved = _EMPTY
        """A table is made only once something is reserved: most quotas see no growth."""
        self.unsure = _EMPTY
        """What is charged of workloads that may come to count elsewhere."""
        self.kept = _EMPTY
        self.idle = _EMPTY
        if node is not None and node.holds:
            self.keep_all(node)
        self.unpriced = 0
        self.unbounded = 0
        """Those of them that no child of the quota bounds."""
        self.unbounded_of_devices = 0
        """Those of these of which it is only not known what devices they take."""
        self.workloads = 0

    def keep_all(self, node: QuotaNode) -> None:
        """Keep what its guarantees, and those below it, ask for while nothing is used. Then ``settle`` is due."""
        self.kept, self.idle = dict(node.promised), dict(node.holds)

    def copy(self) -> Account:
        """One that can be changed without changing this one."""
        other = Account()
        for name in self.__slots__:
            held = getattr(self, name)
            setattr(other, name, dict(held) if isinstance(held, dict) else held)
        return other

    def of(self, key: str) -> tuple[int, int]:
        """Used and reserved of a key."""
        return self.used.get(key, 0), self.reserved.get(key, 0)

    def is_unbounded(self, key: str) -> bool:
        """Whether it is not known what some workload takes of a key, and no child of the quota bounds that."""
        return self.unbounded > (0 if is_device(key) else self.unbounded_of_devices)

    def available(self, key: str, hard: int) -> int:
        """What is left of a key; below zero: the quota is over. This is the only comparison with a limit."""
        return hard - self.used.get(key, 0) - self.reserved.get(key, 0)

    def idle_after(self, node: QuotaNode, key: str, growth: int, kept: int) -> int:
        """What is idle of a key once the quota has grown, and so much is kept of it."""
        unused = self.available(key, node.guaranteed.get(key, 0)) + self.unsure.get(key, 0)
        return max(0, unused - growth, kept)

    def count_unsure(self, node: QuotaNode, at: Position, times: int) -> None:
        """Note a workload, so many times more, if it may come not to count."""
        if node not in at.unsure_in:
            return
        if self.unsure is _EMPTY:
            self.unsure = {}
        charged = counted_in(at, node)[1].amounts
        for key in node.hard:
            self.unsure[key] = self.unsure.get(key, 0) + times * charged.get(key, 0)

    def numbers(self) -> dict[str, int]:
        """All that it says, by the names that a ``Difference`` has."""
        used = {f"used {key}": amount for key, amount in self.used.items()}
        reserved = {f"reserved {key}": amount for key, amount in self.reserved.items()}
        kept = {f"kept {key}": amount for key, amount in self.kept.items()}
        counts = {"workloads of unknown cost": self.unpriced, "of these bounded by no child": self.unbounded}
        counts |= {"of these only for their devices": self.unbounded_of_devices}
        return {**used, **reserved, **kept, "workloads": self.workloads, **counts}

    def same(self, other: Account) -> bool:
        """Whether both say the same."""
        return all(getattr(self, name) == getattr(other, name) for name in _SAID)


class Grown(NamedTuple):
    """How a step changes a quota, in nano-units by key."""

    node: QuotaNode
    more: Amounts
    """By how much what is charged grows."""
    surely: Amounts
    """By how much what uses its guarantee grows; below zero: the workload may come not to count there."""


def settle(accounts: Mapping[QuotaNode, Account], nodes: Iterable[QuotaNode]) -> None:
    """Work out anew what is idle in these quotas, and with it what is kept of those above. Ancestors are among them."""
    for node in sorted(nodes, key=lambda node: node.index, reverse=True):
        account = accounts[node]
        for key, before in account.idle.items():
            now = account.idle_after(node, key, 0, account.kept.get(key, 0))
            account.idle[key] = now
            if node.parent is not None and now != before:
                accounts[node.parent].kept[key] += now - before


def kept_for_others(
    accounts: Mapping[QuotaNode, Account], growths: Sequence[Grown]
) -> dict[tuple[QuotaNode, str], int]:
    """What is still kept of quotas and keys once they have grown, where they grow by more than is kept for them.

    Growth within guarantees takes nothing that was not kept for it.

    Args:
        growths: each quota after its parent.
    """
    beyond: dict[tuple[QuotaNode, str], int] = {}
    less: dict[tuple[QuotaNode, str], int] = {}
    for node, growth, surely in reversed(growths):
        for key in node.holds:
            more, sure, fell = growth.get(key, 0), surely.get(key, 0), less.get((node, key), 0)
            if not (more or sure or fell):
                continue
            account = accounts.get(node) or Account(node)
            kept = account.kept.get(key, 0) - fell
            if more > fell and key in node.promised and not node.audits:
                beyond[node, key] = kept
            if node.parent is not None:
                fall = account.idle[key] - account.idle_after(node, key, sure, kept)
                less[node.parent, key] = less.get((node.parent, key), 0) + fall
    return beyond


def counted_in(at: Position, node: QuotaNode) -> tuple[Charge, Charge]:
    """What ``node`` counts of a position: used, and all that is charged."""
    used = at.used if node in at.used_in else NOTHING
    charges = not node.audits and node in at.envelope_in
    return used, at.envelope if charges else used
