"""What a workload costs and where it counts; used and reserved of every quota; and whether a change of position fits.

A cost is a product, so a thousand replicas cost no more work than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final, NamedTuple

from extauthz.core.footprint import UNKNOWN_DEVICES, UNSPECIFIED
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.model import Amounts, Shortage
from extauthz.core.quota.tree import QuotaNode, QuotaTree
from extauthz.core.resources import is_device


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


_KEPT_CHARGES: Final = 8_192
"""Each takes less than a KiB. Sizes of pods are few, and counts are small."""


@lru_cache(_KEPT_CHARGES)
def charge_of(replicas: int, pod: Shared, per_object: Shared) -> Charge:
    """The cost of ``replicas`` equal pods, remembered: nearly every workload."""
    cost = charge((Product(replicas, pod),), per_object)
    return cost._replace(pod=pod)


_NO_CHANGE: Final = Shared()


def _times(before: Charge, after: Charge) -> Amounts | None:
    """The difference of two counts of one pod; ``None``: they differ in more."""
    pod = after.pod
    if pod is None or before.pod is not pod or before.per_object is not after.per_object:
        return None
    return charge_of(after.replicas - before.replicas, pod, _NO_CHANGE).amounts


def difference(before: Charge, after: Charge) -> Amounts:
    """How much more ``after`` has of each key, or less."""
    if before is after:
        return _NO_CHANGE
    times = _times(before, after)
    if times is not None:
        return times
    some, others = before.amounts, after.amounts
    return {key: more for key in some.keys() | others.keys() if (more := others.get(key, 0) - some.get(key, 0))}


def rise(before: Charge, after: Charge) -> Amounts:
    """What ``after`` has more of, and how much more."""
    if before is after:
        return _NO_CHANGE
    times = _times(before, after)
    if times is not None:
        return times if after.replicas > before.replicas else _NO_CHANGE
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
    def is_rare(self) -> bool:
        """It has what few have: an unknown cost, unknown devices, or quotas in which it may come not to count."""
        return self.unknown or self.takes_unknown_devices or bool(self.unsure_in)

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

    def never_fits(self, limits: Iterable[tuple[str, int]]) -> bool:
        """Whether what the workload would come to by itself is more than one of these limits, whatever others use."""
        alone = self.this_write_only.envelope.amounts
        return any(alone.get(key, 0) > most for key, most in limits)


NOTHING = charge((), {})


NOWHERE = Position(NOTHING, (), NOTHING, (), False)


# The accounts of quotas.


class UsageRow(NamedTuple):
    """One key of one quota, nano-units."""

    quota: str
    resource: str
    used: int
    reserved: int
    hard: int
    kept: int = 0
    """What is kept of it for the guarantees of quotas below."""
    guaranteed: int = 0
    """What is kept for it of the quotas above; 0: no guarantee is in force."""


class Difference(NamedTuple):
    """One number of one quota that is not what was counted."""

    quota: str
    what: str
    """``used requests.cpu``, ``reserved pods``, ``kept pods`` (in nano-units), ``workloads`` …"""
    kept: int
    counted: int


class StepGrowth(NamedTuple):
    """What a step does to all quotas."""

    shortages: tuple[Shortage, ...]
    """What does not fit, in quotas that enforce."""
    audit: tuple[Shortage, ...]
    """What does not fit, in quotas that only audit."""
    grows: Nodes
    """Quotas that enforce and in which the write raises a key above what is observed, or above the envelope."""
    unpriced: Nodes
    """Quotas whose usage is not known, because a workload has no known footprint."""
    illegible: Nodes
    """Quotas whose limits are not known. Everything that they cover counts as growth."""
    unspecified: tuple[tuple[QuotaNode, str], ...]
    """Quotas, also those that only audit, and keys of theirs of which more pods state nothing."""
    unknown_devices: Nodes
    """Quotas that enforce and limit devices, under which more pods claim some of which it is not known what they are.
    """

    @property
    def is_uncertain(self) -> bool:
        """Something that bears on it is not known: of quotas, of what they have in use, or of devices."""
        return bool(self.unpriced or self.illegible or self.unknown_devices)


# The account of one quota, and what guarantees keep of it (docs/internals/ledger.md).
#
# Of a quota is *idle* what is kept for it of those above: what it is guaranteed and is not charged, or what is kept of
# it for its own children, if that is more. Of a quota is *kept* what is idle of all its children.

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

    def of(self, key: str) -> tuple[int, int]:
        """Used and reserved of a key."""
        return self.used.get(key, 0), self.reserved.get(key, 0)

    def is_unbounded(self, key: str) -> bool:
        """Whether it is not known what some workload takes of a key, and no child of the quota bounds that."""
        return self.unbounded > (0 if is_device(key) else self.unbounded_of_devices)

    def available(self, key: str, hard: int) -> int:
        """What is left of a key; below zero: the quota is over. This is the only comparison with a limit."""
        return hard - self.used.get(key, 0) - self.reserved.get(key, 0)

    def change(self, node: QuotaNode, used: Amounts, reserved: Amounts) -> None:
        """Count what more is used and reserved, or less."""
        if reserved and self.reserved is _EMPTY:
            self.reserved = {}
        for sums, changes in (self.used, used), (self.reserved, reserved):
            for key, more in changes.items():
                if key in node.hard:
                    total = sums[key] = sums.get(key, 0) + more
                    assert total >= 0, f"{key} of {node.quota.name} fell below zero"

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
        charged = _counted_in(at, node)[1].amounts
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


_UNTOUCHED: Final = Account()
_NOTHING_KEPT: Final[Mapping[tuple[QuotaNode, str], int]] = {}

_UNSPECIFIED_KEYS = frozenset(UNSPECIFIED.values())


class Accounts:
    """One account a quota. A quota in mode Audit reserves nothing: it is charged as observed.

    Args:
        only: roots of the trees that count here; ``None``: all count.
    """

    def __init__(self, tree: QuotaTree, only: Set[str] | None = None) -> None:
        self._nodes = tree.nodes
        self._keeps = tree.keeps
        self._is_followed = tree.keeps or tree.has_turns
        self.turned: set[QuotaNode] = set()
        """Roots with turns under which something has changed since somebody has emptied this."""
        self._accounts: dict[QuotaNode, Account] = {}
        self._only = only
        self._anew: Set[str] = frozenset()
        """Roots of trees that are being counted anew. The old sums are shown meanwhile, and nothing is granted by
        them."""
        self._unknown: set[QuotaNode] = set()
        """Those that have workloads of unknown cost."""

    def under(self, tree: QuotaTree, anew: Set[str]) -> Accounts:
        """The same accounts under another tree, by the names of quotas. It costs their number, not that of workloads.

        Args:
            anew: roots in whose trees all will be counted anew. In all others nothing has changed but limits.
        """
        moved, known = Accounts(tree), {node.quota.name: account for node, account in self._accounts.items()}
        for node in tree.nodes:
            account = known.get(node.quota.name)
            if account is not None:
                moved._accounts[node] = account
                if account.unpriced:
                    moved._unknown.add(node)
        moved._anew = anew
        if self._keeps or moved._keeps:
            moved._keep_all()
        return moved

    def is_counting(self, node: QuotaNode) -> bool:
        """Whether a quota is being counted anew."""
        return node.root in self._anew

    def take(self, counted: Accounts) -> None:
        """Trees were ``counted`` anew, and those sums are whole: from now on they are in force."""
        self._anew, anew = frozenset(), self._anew
        self._accounts = {node: one for node, one in self._accounts.items() if node.root not in anew}
        self._accounts |= counted._accounts
        self._unknown = {node for node, one in self._accounts.items() if one.unpriced}
        self.turned.update(node for node in counted._accounts if node.turn_s is not None)
        if self._keeps:
            self._keep_all()

    def _keep_all(self) -> None:
        """Work out what guarantees keep of all quotas."""
        for node in self._nodes:
            self._accounts.setdefault(node, Account()).keep_all(node)
        settle(self._accounts, self._accounts)

    def move(self, before: Position, after: Position) -> None:
        """Count ``before`` out and ``after`` in. Where that fails, these trees must be counted anew."""
        nodes = _either(before.envelope_in, after.envelope_in)
        if self._anew or self._only is not None:
            nodes = tuple(node for node in nodes if self._counts(node))
        stays = before.used_in is after.used_in is before.envelope_in is after.envelope_in
        everywhere = _changes(before.used, before.envelope, after.used, after.envelope) if stays else None
        is_rare = before.is_rare or after.is_rare
        for node in nodes:
            account = self._accounts.get(node)
            if account is None:
                account = self._accounts[node] = Account(node)
            shared = everywhere if not node.audits else None
            account.change(node, *(shared or _changes_in(node, before, after)))
            if not stays:
                account.workloads += (node in after.used_in) - (node in before.used_in)
            if is_rare:
                _count_rare(node, account, before, -1)
                _count_rare(node, account, after, 1)
                (self._unknown.add if account.unpriced else self._unknown.discard)(node)
        if self._is_followed:
            self._follow(nodes)

    def _counts(self, node: QuotaNode) -> bool:
        return node.root in self._only if self._only is not None else node.root not in self._anew

    def _set_aside(self, node: QuotaNode, key: str, growth: int, grows: Nodes) -> int:
        """What its children may still use of a key, where it is not known what they have in use: up to their limits.

        Args:
            growth: what a step is about to add in the quotas ``grows``.
        """
        aside = 0
        for child in self._unknown if node in self._unknown else ():
            if child.parent is node and child.bounds:
                account = self._accounts[child]
                left = account.available(key, child.hard[key]) - (growth if child in grows else 0)
                if not account.is_unbounded(key):
                    left = min(left, self._set_aside(child, key, growth, grows))
                aside += max(left, 0)
        return aside

    def _follow(self, nodes: Nodes) -> None:
        """Something has changed in quotas. Ancestors are among them."""
        if self._keeps:
            settle(self._accounts, nodes)
        self.turned.update(node for node in nodes if node.turn_s is not None)

    def weigh(self, step: Step, *others: Step) -> StepGrowth:
        """Check what a write does, in one step or in several together.

        Only keys that it grows are checked, in every quota and ancestor: those that it raises above the envelope, or
        above what is observed. Where a quota is over its limit, an envelope from before is no licence to grow back
        (design.md rule 10). What is kept for guarantees is taken from nobody who has it: only what rises above the
        envelope, and is not kept for those that grow, must leave it.
        """
        rises, nodes = [_rises(step), *map(_rises, others)], step.after.envelope_in
        for other in others:
            nodes = _either(nodes, other.after.envelope_in)
        here = partial(_here, rises) if others else rises[0].here
        kept = self._kept_from(rises, nodes)
        refused: list[Shortage] = []
        audited: list[Shortage] = []
        unpriced: list[QuotaNode] = []
        illegible: list[QuotaNode] = []
        grows: list[QuotaNode] = []
        of_devices: list[QuotaNode] = []
        for node in nodes:
            risen, above, grows_here = here(node)
            if not (risen or above or grows_here or (kept and any(node is at for at, _ in kept))):
                continue  # what grows nothing passes, however far over the quota is
            takes = node.limits_devices and (UNKNOWN_DEVICES in risen or UNKNOWN_DEVICES in above)
            is_illegible = bool(node.illegible)  # nobody can tell what it limits
            grows_here = grows_here or takes or is_illegible
            account = self._accounts.get(node, _UNTOUCHED)
            keys = [key for key in node.hard if key in risen or key in above]
            is_unpriced = account.unbounded > 0 and (grows_here or any(map(account.is_unbounded, keys)))
            for key in keys if not kept else node.hard:
                if key in keys or (node, key) in kept:
                    aside = self._set_aside(node, key, risen.get(key, 0), nodes)
                    grown = risen.get(key, 0), above.get(key, 0)
                    short = _shortage(account, node, key, grown, aside, kept.get((node, key), 0))
                    if short is not None:
                        (audited if node.audits else refused).append(short)
            if node.audits:
                continue
            if grows_here or keys:
                grows.append(node)
                of_devices += [node] if takes else []
                unpriced += [node] if is_unpriced else []
                illegible += [node] if is_illegible else []
        return StepGrowth(
            tuple(refused),
            tuple(audited),
            tuple(grows),
            tuple(unpriced),
            tuple(illegible),
            tuple(dict.fromkeys([row for one in rises for row in _unspecified(one)])),
            tuple(of_devices),
        )

    def _kept_from(self, rises: Sequence[_Rises], nodes: Nodes) -> Mapping[tuple[QuotaNode, str], int]:
        """What guarantees keep for others of what a write takes. What only moves gives guarantees back."""
        if not self._keeps or not any(one.risen or not one.stays or one.step.after.unsure_in for one in rises):
            return _NOTHING_KEPT
        in_order = sorted(nodes, key=lambda node: node.index)
        return kept_for_others(self._accounts, [_grown(rises, node) for node in in_order])

    # What turns look at.

    def charged(self, node: QuotaNode, key: str) -> int:
        """Used and reserved of a key."""
        return sum(self._accounts.get(node, _UNTOUCHED).of(key))

    def room_left(self, step: Step) -> Iterator[tuple[QuotaNode, str, int]]:
        """What a step leaves to others, of quotas and keys that it raises by more than is kept for it."""
        growths, beyond = self._growths_and_kept(step)
        for node, growth, _ in growths:
            hard, account = node.hard, self._accounts.get(node, _UNTOUCHED)
            for key, more in growth.items() if not node.audits else ():
                if key in hard and not (key in node.promised and (node, key) not in beyond):
                    yield node, key, account.available(key, hard[key]) - more - beyond.get((node, key), 0)

    def needs_with_kept(self, step: Step) -> Iterator[tuple[QuotaNode, str, int]]:
        """What must be left in quotas where a step takes more than is kept for it: its own, and what is still kept for
        others. A write that moves a workload may take what was kept, and raise nothing."""
        growths, beyond = self._growths_and_kept(step)
        raised = {node: growth for node, growth, _ in growths}
        for (node, key), kept in beyond.items():
            yield node, key, raised[node].get(key, 0) + kept

    def room_needed(self, step: Step) -> Iterator[tuple[QuotaNode, str, int]]:
        """By how much a step raises quotas and keys beyond what is kept for it."""
        growths, beyond = self._growths_and_kept(step)
        for node, growth, _ in growths:
            kept = self._of(node).kept
            for key, more in growth.items() if not node.audits else ():
                need = more - kept.get(key, 0) + beyond.get((node, key), 0)
                if need > 0 and key in node.hard:
                    yield node, key, need

    def _growths_and_kept(self, step: Step) -> tuple[list[Grown], Mapping[tuple[QuotaNode, str], int]]:
        """By how much each quota grows, and what guarantees then keep of it for others."""
        rises = [_rises(step)]
        growths = [_grown(rises, node) for node in step.after.envelope_in]
        return growths, kept_for_others(self._accounts, growths) if self._keeps else _NOTHING_KEPT

    def takes_only_kept(self, step: Step) -> bool | None:
        """Whether a step takes nothing but what is kept for it; ``None``: no guarantee is about what it costs."""
        cost = step.after.envelope.amounts
        if not any(cost.get(key) for node in step.after.envelope_in for key in node.guaranteed):
            return None
        _, beyond = self._growths_and_kept(step)
        return not any(key in node.hard for node, key in beyond)

    def rows(self) -> Iterator[UsageRow]:
        """Every key of every quota, quotas in the tree's order."""
        for node in self._nodes:
            yield from self.rows_of(node)

    def rows_of(self, node: QuotaNode) -> Iterator[UsageRow]:
        """Every key of one quota."""
        account = self._of(node)
        kept, guaranteed = account.kept.get, node.guaranteed.get
        for key, hard in node.hard.items():
            yield UsageRow(node.quota.name, key, *account.of(key), hard, kept(key, 0), guaranteed(key, 0))

    def _of(self, node: QuotaNode) -> Account:
        return self._accounts.get(node) or (Account(node) if node.holds else _UNTOUCHED)

    def covered_by(self, node: QuotaNode) -> tuple[int, int]:
        """How many workloads that are charged by themselves one quota covers, descendants included; and of how many of
        them the cost is not known."""
        account = self._accounts.get(node, _UNTOUCHED)
        return account.workloads, account.unpriced

    def differences(self, counted: Accounts) -> Iterator[Difference]:
        """Where these numbers differ from what was ``counted``, for the same tree."""
        for node in self._nodes:
            ours, theirs = self._of(node), counted._of(node)
            if ours.same(theirs):
                continue  # nearly always, of ten thousand quotas
            kept, right = ours.numbers(), theirs.numbers()
            for what in sorted(kept.keys() | right.keys()):
                if kept.get(what, 0) != right.get(what, 0):
                    yield Difference(node.quota.name, what, kept.get(what, 0), right.get(what, 0))


def _counted_in(at: Position, node: QuotaNode) -> tuple[Charge, Charge]:
    """What ``node`` counts of a position: used, and all that is charged."""
    used = at.used if node in at.used_in else NOTHING
    charges = not node.audits and node in at.envelope_in
    return used, at.envelope if charges else used


def _changes_in(node: QuotaNode, before: Position, after: Position) -> tuple[Amounts, Amounts]:
    """What a move changes of one quota: used and reserved."""
    return _changes(*_counted_in(before, node), *_counted_in(after, node))


def _changes(used: Charge, charged: Charge, used_after: Charge, charged_after: Charge) -> tuple[Amounts, Amounts]:
    more, charged_more = difference(used, used_after), difference(charged, charged_after)
    if not more:
        return more, charged_more  # nearly always
    keys = more.keys() | charged_more.keys()
    return more, {key: net for key in keys if (net := charged_more.get(key, 0) - more.get(key, 0))}


def _count_rare(node: QuotaNode, account: Account, at: Position, times: int) -> None:
    """Count so many times more what few positions have: an unknown cost, and quotas that they may leave."""
    account.count_unsure(node, at, times)
    of_devices = not at.unknown and node.limits_devices and at.takes_unknown_devices
    if not (at.unknown or of_devices) or node not in at.envelope_in:
        return
    account.unpriced += times
    if not any(one.parent is node and one.bounds for one in at.envelope_in):
        account.unbounded += times
        account.unbounded_of_devices += times * of_devices


class _Rises(NamedTuple):
    """How a step raises what is charged."""

    step: Step
    risen: Amounts
    """Above the envelope, where the quotas do not differ."""
    above: Amounts
    """Above what is observed, likewise."""
    stays: bool
    """The workload counts in the same quotas, whatever lands."""

    def here(self, node: QuotaNode) -> tuple[Amounts, Amounts, bool]:
        """Of one quota: what rises above the envelope, and above what is observed; and whether pods of unknown cost
        come."""
        before, after = self.step.before, self.step.after
        is_unknown = after.unknown and self.step.adds_unknown
        if self.stays and not node.audits:
            return self.risen, self.above, is_unknown  # nearly always
        is_unknown = is_unknown or (after.unknown and node not in before.envelope_in)
        return *_above(self.step, node, self.risen, self.above), is_unknown


def _rises(step: Step) -> _Rises:
    before, after, observed_only, this_write_only, _ = step
    risen = rise(before.envelope, after.envelope)
    above = risen if this_write_only is after else rise(observed_only.envelope, this_write_only.envelope)
    stays = before.envelope_in is after.envelope_in is observed_only.envelope_in is this_write_only.envelope_in
    return _Rises(step, risen, above, stays)


def _shortage(
    account: Account, node: QuotaNode, key: str, grown: tuple[int, int], aside: int, others: int
) -> Shortage | None:
    """What a quota has too little of; ``None``: it fits.

    Args:
        grown: above the envelope, and above what is observed.
        aside: what is set aside for children whose use is not known.
        others: what guarantees keep for others.
    """
    growth, above = grown
    hard = node.hard[key]
    available = account.available(key, hard)
    if growth <= available - max(aside, others):
        return None
    used, reserved = account.of(key)
    others = others if growth > available - others else 0
    return Shortage(node.quota.name, node.path, key, growth or above, used, reserved + aside, hard, others)


def _here(rises: Iterable[_Rises], node: QuotaNode) -> tuple[Amounts, Amounts, bool]:
    """``_Rises.here`` of all steps of a write."""
    found = [one.here(node) for one in rises if node in one.step.after.envelope_in]
    if len(found) == 1:
        return found[0]  # nearly always
    risen, above, is_unknown = zip(*found, strict=True)
    return _summed(risen), _summed(above), any(is_unknown)


def _summed(several: Iterable[Amounts]) -> Amounts:
    total: dict[str, int] = {}
    for amounts in several:
        for key, amount in amounts.items():
            total[key] = total.get(key, 0) + amount
    return total


def _above(step: Step, node: QuotaNode, risen: Amounts, above: Amounts) -> tuple[Amounts, Amounts]:
    """What the write grows in one quota: above the envelope there, and above what is observed there.

    In a quota where the workload only comes to count by another write that pends, all of it is above what is observed.
    """
    before, after, observed_only, this_write_only, _ = step
    risen_here = rise(_counted_in(before, node)[1], after.envelope)
    above_here = rise(_counted_in(observed_only, node)[1], this_write_only.envelope)
    if node.audits:  # nothing is reserved there: what else pends is not this write's growth
        keys = risen.keys() | above.keys() if node in before.envelope_in else risen_here.keys()
        return {k: v for k, v in risen_here.items() if k in keys}, {k: v for k, v in above_here.items() if k in keys}
    return risen_here, above_here


def _grown(rises: Iterable[_Rises], node: QuotaNode) -> Grown:
    """By how much a quota grows above the envelope."""
    more, sure = [], []
    for one in [one for one in rises if node in one.step.after.envelope_in]:
        before, after, *_ = one.step
        more.append(one.here(node)[0])
        stays = difference(_counted_in(before, node)[1], NOTHING) if node not in before.unsure_in else _NO_CHANGE
        sure.append(stays if node in after.unsure_in else more[-1])
    return Grown(node, _summed(more), _summed(sure))


def _unspecified(rises: _Rises) -> list[tuple[QuotaNode, str]]:
    """Quotas, and keys of them that more pods say nothing of."""
    step, risen, above, _ = rises
    if step.after.envelope.amounts.keys().isdisjoint(_UNSPECIFIED_KEYS):
        return []  # nearly always
    found: list[tuple[QuotaNode, str]] = []
    for node in step.after.envelope_in:
        risen_here, above_here = _above(step, node, risen, above)
        more = risen_here.keys() | above_here.keys()
        found += [(node, key) for key in node.hard if UNSPECIFIED.get(key) in more]
    return found


def _either(some: Nodes, others: Nodes) -> Nodes:
    return others if some is others else some + tuple(node for node in others if node not in some)
