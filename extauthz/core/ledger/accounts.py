"""Used and reserved of every quota, and whether a change of position fits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Set
from typing import Final, NamedTuple

from extauthz.core.footprint import UNKNOWN_DEVICES, UNSPECIFIED
from extauthz.core.ledger.account import Account, Grown, counted_in, kept_for_others, settle
from extauthz.core.ledger.charges import NO_CHANGE, NOTHING, Position, Step, difference, rise
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.model import Amounts, Shortage
from extauthz.core.quota.tree import QuotaNode, QuotaTree


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


class Covered(NamedTuple):
    """How many workloads one quota covers, descendants included."""

    quota: str
    workloads: int
    """Workloads that are charged by themselves. A ReplicaSet of a Deployment is not."""
    unpriced: int
    """Those of them whose cost is not known."""


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
    unpriced: tuple[str, ...]
    """Quotas whose usage is not known, because a workload has no known footprint."""
    illegible: tuple[str, ...]
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

    def followed_by(self, other: StepGrowth) -> StepGrowth:
        """Of two steps that one write does, one after the other. A quota tells of the first that does not fit."""
        return StepGrowth(
            _each(self.shortages, other.shortages),
            _each(self.audit, other.audit),
            (*self.grows, *(node for node in other.grows if node not in self.grows)),
            tuple(dict.fromkeys((*self.unpriced, *other.unpriced))),
            tuple(dict.fromkeys((*self.illegible, *other.illegible))),
            tuple(dict.fromkeys((*self.unspecified, *other.unspecified))),
            tuple(dict.fromkeys((*self.unknown_devices, *other.unknown_devices))),
        )


def _each(first: tuple[Shortage, ...], then: tuple[Shortage, ...]) -> tuple[Shortage, ...]:
    told = {(row.quota, row.resource) for row in first}
    return (*first, *(row for row in then if (row.quota, row.resource) not in told))


_UNTOUCHED: Final = Account()
_NOTHING_KEPT: Final[Mapping[tuple[QuotaNode, str], int]] = {}

_UNSPECIFIED_KEYS = frozenset(UNSPECIFIED.values())


class Accounts:
    """One account a quota. A quota in mode Audit reserves nothing: it is charged as observed."""

    def __init__(self, tree: QuotaTree) -> None:
        self._nodes = tree.nodes
        self._keeps = tree.keeps
        self._is_followed = tree.keeps or tree.has_turns
        self.turned: set[QuotaNode] = set()
        """Roots with turns under which something has changed since somebody has emptied this."""
        self._accounts: dict[QuotaNode, Account] = {}
        self._anew: Set[str] = frozenset()
        """Roots of trees that are being counted anew. The old sums are shown meanwhile, and nothing is granted by
        them."""
        self._new: dict[QuotaNode, Account] = {}
        """The new sums, as far as they are counted."""
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

    def all_counted(self) -> None:
        """The new sums are whole: from now on they are in force."""
        anew, self._anew = self._anew, frozenset()
        new, self._new = self._new, {}
        self._accounts = {node: one for node, one in self._accounts.items() if node.root not in anew} | new
        self._unknown = {node for node, one in self._accounts.items() if one.unpriced}
        self.turned.update(node for node in new if node.turn_s is not None)
        if self._keeps:
            self._keep_all()

    def _keep_all(self) -> None:
        """Work out what guarantees keep of all quotas."""
        for node in self._nodes:
            self._accounts.setdefault(node, Account()).keep_all(node)
        settle(self._accounts, self._accounts)

    def moved(self, before: Position, after: Position) -> Accounts:
        """A copy after ``move``. It costs the number of quotas."""
        copy = Accounts.__new__(Accounts)
        copy._nodes, copy._accounts, copy._unknown = self._nodes, dict(self._accounts), set(self._unknown)
        copy._keeps, copy._is_followed, copy.turned = self._keeps, self._is_followed, set()
        copy._anew, copy._new = self._anew, {}
        for node in _either(before.envelope_in, after.envelope_in):
            if node in self._accounts:
                copy._accounts[node] = self._accounts[node].copy()
        copy.move(before, after, is_counted=False)
        return copy

    def move(self, before: Position, after: Position, *, is_counted: bool = True) -> None:
        """Count ``before`` out and ``after`` in. If that fails, nothing has changed.

        Args:
            is_counted: the workload is part of the new sums already.
        """
        nodes = _either(before.envelope_in, after.envelope_in)
        if not (self._anew or self._is_followed or _is_rare(before, after)):
            self._move(self._accounts, before, after, nodes)
            return
        tables, unknown = (self._accounts, self._new), set(self._unknown)
        saved = [{node: table[node].copy() for node in nodes if node in table} for table in tables]
        sure = tuple(node for node in nodes if node.root not in self._anew)
        try:
            self._move(self._accounts, before, after, sure)
            if is_counted:
                self._move(self._new, before, after, tuple(node for node in nodes if node.root in self._anew))
            if self._is_followed:
                self._follow(sure)
        except Exception:
            for table, accounts in zip(tables, saved, strict=True):
                for node in nodes:
                    table.pop(node, None)
                table.update(accounts)
            self._unknown = unknown
            raise

    def move_new(self, before: Position, after: Position) -> None:
        """Move in the new sums alone."""
        nodes = _either(before.envelope_in, after.envelope_in)
        self._move(self._new, before, after, tuple(node for node in nodes if node.root in self._anew))

    def _move(self, table: dict[QuotaNode, Account], before: Position, after: Position, nodes: Nodes) -> None:
        """All sums are worked out before the first is put down."""
        if _only_reserves(before, after):
            _reserve(table, difference(before.envelope, after.envelope), nodes)
            return
        moves = [(table.get(node) or Account(node), node) for node in nodes]
        sums = [_sums(account, node, before, after) for account, node in moves]
        is_rare = _is_rare(before, after)
        for (account, node), (used, reserved, workloads) in zip(moves, sums, strict=True):
            table[node] = account
            account.used |= used
            if reserved:
                account.reserved = {**account.reserved, **reserved}
            account.workloads += workloads
            if is_rare:
                _count_rare(node, account, before, -1)
                _count_rare(node, account, after, 1)
                if table is self._accounts:
                    (self._unknown.add if account.unpriced else self._unknown.discard)(node)

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

    def weigh(self, step: Step) -> StepGrowth:
        """Check a step: only keys that the write grows are checked, in every quota and ancestor.

        It grows a key that it raises above the envelope, or above what is observed: where a quota is over its limit, an
        envelope from before is no licence to grow back (design.md rule 10). What is kept for guarantees is taken from
        nobody who has it: only what rises above the envelope, and is not kept for those that grow, must leave it.
        """
        rises = _rises(step)
        kept = self._kept_from(rises)
        refused: list[Shortage] = []
        audited: list[Shortage] = []
        unpriced: list[str] = []
        illegible: list[str] = []
        grows: list[QuotaNode] = []
        of_devices: list[QuotaNode] = []
        for node in step.after.envelope_in:
            risen, above, grows_here = rises.here(node)
            if not (risen or above or grows_here or (kept and any(node is at for at, _ in kept))):
                continue  # what grows nothing passes, however far over the quota is
            takes = node.limits_devices and (UNKNOWN_DEVICES in risen or UNKNOWN_DEVICES in above)
            grows_here = grows_here or takes or node.illegible  # of an illegible one nobody can tell what it limits
            account = self._accounts.get(node, _UNTOUCHED)
            keys = [key for key in node.hard if key in risen or key in above]
            is_unpriced = account.unbounded > 0 and (grows_here or any(map(account.is_unbounded, keys)))
            for key in keys if not kept else node.hard:
                if key in keys or (node, key) in kept:
                    aside = self._set_aside(node, key, risen.get(key, 0), step.after.envelope_in)
                    grown = risen.get(key, 0), above.get(key, 0)
                    short = _shortage(account, node, key, grown, aside, kept.get((node, key), 0))
                    if short is not None:
                        (audited if node.audits else refused).append(short)
            if node.audits:
                continue
            illegible += [node.quota.name] if node.illegible else []
            if grows_here or keys:
                grows.append(node)
                of_devices += [node] if takes else []
                unpriced += [node.quota.name] if is_unpriced else []
        return StepGrowth(
            tuple(refused),
            tuple(audited),
            tuple(grows),
            tuple(unpriced),
            tuple(illegible),
            _unspecified(step, rises.risen, rises.above),
            tuple(of_devices),
        )

    def _kept_from(self, rises: _Rises) -> Mapping[tuple[QuotaNode, str], int]:
        """What guarantees keep for others of what a step takes. What only moves gives guarantees back."""
        if not self._keeps or not (rises.risen or not rises.stays or rises.step.after.unsure_in):
            return _NOTHING_KEPT
        return kept_for_others(self._accounts, rises.growths())

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
        growths = _rises(step).growths()
        return growths, kept_for_others(self._accounts, growths) if self._keeps else _NOTHING_KEPT

    def largest_replicas(self, step: Step, per_pod: Amounts, free: Nodes = ()) -> int | None:
        """The highest count that would fit in place of the proposed one; ``None``: no count is bound, or not even zero
        fits.

        Args:
            per_pod: what the pod costs that the count multiplies.
            free: quotas that bound nothing.
        """
        best: int | None = None
        observed = step.observed_only.settled if step.observed_only.pod is not None else step.observed_only
        for node in step.after.envelope_in:
            for key, hard in node.hard.items() if not node.audits and node not in free else ():
                charged = counted_in(step.before, node)[1].amounts.get(key, 0)
                room = self._accounts.get(node, _UNTOUCHED).available(key, hard) - self._set_aside(node, key, 0, ())
                bounds = [(charged + room, step.after)]
                if room < 0:  # over: nothing above what is observed
                    seen = counted_in(observed, node)[1].amounts.get(key, 0)
                    bounds = [(charged, step.after), (seen, step.this_write_only)]
                for most, at in bounds:
                    left, each = most - at.envelope.per_object.get(key, 0), per_pod.get(key, 0)
                    if each:
                        best = min(left // each, best) if best is not None else left // each
        if best is None or not self._keeps:
            return best  # the smallest over all keys and quotas; there are no guarantees to ask
        first = bisect_left(range(best + 1), True, key=lambda count: self._lends(step, per_pod, count, free))
        return first - 1 if first else None

    def _lends(self, step: Step, per_pod: Amounts, count: int, free: Nodes) -> bool:
        """Whether a count in place of the proposed one takes what is kept for others."""
        growths = _growths(step, per_pod, count)
        grown = {node: more for node, more, _ in growths}
        return any(
            grown[node].get(key, 0) > self._accounts.get(node, _UNTOUCHED).available(key, node.hard[key]) - kept
            for (node, key), kept in kept_for_others(self._accounts, growths).items()
            if key in node.hard and node not in free
        )

    def guaranteed_replicas(self, step: Step, per_pod: Amounts, most: int) -> int | None:
        """The highest count, of those up to ``most``, that takes nothing but what is kept for it; ``None``: no
        guarantee is about what these pods cost."""
        if not any(per_pod.get(key) for node in step.after.envelope_in for key in node.guaranteed):
            return None  # nobody is guaranteed what it takes

        def takes_more(count: int) -> bool:
            beyond = kept_for_others(self._accounts, _growths(step, per_pod, count))
            return any(key in node.hard for node, key in beyond)

        return bisect_left(range(most + 1), True, key=takes_more) - 1

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

    def covered_by(self, node: QuotaNode) -> Covered:
        """How many workloads one quota covers."""
        account = self._accounts.get(node, _UNTOUCHED)
        return Covered(node.quota.name, account.workloads, account.unpriced)

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


def _sums(
    account: Account, node: QuotaNode, before: Position, after: Position
) -> tuple[dict[str, int], dict[str, int], int]:
    """What is used and reserved of the keys that a move changes, and how many workloads more there are."""
    (used_before, charged_before), (used_after, charged_after) = counted_in(before, node), counted_in(after, node)
    used_more, charged_more = difference(used_before, used_after), difference(charged_before, charged_after)
    used, reserved = {}, {}
    for key in node.hard:
        more, charged = used_more.get(key, 0), charged_more.get(key, 0)
        if more:
            used[key] = account.used.get(key, 0) + more
            assert used[key] >= 0, f"use of {key} in {node.quota.name} fell below zero"
        if charged != more:
            reserved[key] = account.reserved.get(key, 0) + charged - more
            assert reserved[key] >= 0, f"reserve of {key} in {node.quota.name} fell below zero"
    return used, reserved, (node in after.used_in) - (node in before.used_in)


def _reserve(table: Mapping[QuotaNode, Account], changes: Amounts, nodes: Nodes) -> None:
    """A move for nearly every grant, and for its end: only the envelope changes."""
    totals: list[tuple[dict[str, int], str, int]] = []
    for node in nodes:
        if node.audits:
            continue
        account = table[node]
        reserved = account.reserved = account.reserved or {}  # its own: many share an empty one
        for key in node.hard:
            if key in changes:
                total = reserved.get(key, 0) + changes[key]
                assert total >= 0, f"reserve of {key} in {node.quota.name} fell below zero"
                totals.append((reserved, key, total))
    for amounts, key, total in totals:
        amounts[key] = total


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


def _is_rare(before: Position, after: Position) -> bool:
    """One of them has what few positions have."""
    return any(at.unknown or at.takes_unknown_devices or at.unsure_in for at in (before, after))


def _growths(step: Step, per_pod: Amounts, count: int) -> list[Grown]:
    """By how much each quota grows with a count in place of the proposed one."""
    per_object = step.after.envelope.per_object
    to = {key: count * per_pod.get(key, 0) + per_object.get(key, 0) for key in per_pod.keys() | per_object.keys()}
    found: list[Grown] = []
    for node in step.after.envelope_in:
        before = counted_in(step.before, node)[1].amounts
        more = {key: more for key, amount in to.items() if (more := amount - before.get(key, 0)) > 0}
        found.append(_grown(step, node, more))
    return found


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
        return *_here(self.step, node, self.risen, self.above), is_unknown

    def growths(self) -> list[Grown]:
        """By how much each quota grows above the envelope."""
        return [_grown(self.step, node, self.here(node)[0]) for node in self.step.after.envelope_in]


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


def _here(step: Step, node: QuotaNode, risen: Amounts, above: Amounts) -> tuple[Amounts, Amounts]:
    """What the write grows in one quota: above the envelope there, and above what is observed there.

    In a quota where the workload only comes to count by another write that pends, all of it is above what is observed.
    """
    before, after, observed_only, this_write_only, _ = step
    risen_here = rise(counted_in(before, node)[1], after.envelope)
    above_here = rise(counted_in(observed_only, node)[1], this_write_only.envelope)
    if node.audits:  # nothing is reserved there: what else pends is not this write's growth
        keys = risen.keys() | above.keys() if node in before.envelope_in else risen_here.keys()
        return {k: v for k, v in risen_here.items() if k in keys}, {k: v for k, v in above_here.items() if k in keys}
    return risen_here, above_here


def _grown(step: Step, node: QuotaNode, growth: Amounts) -> Grown:
    before, after, *_ = step
    if node not in after.unsure_in:
        return Grown(node, growth, growth)
    return Grown(
        node, growth, NO_CHANGE if node in before.unsure_in else difference(counted_in(before, node)[1], NOTHING)
    )


def _unspecified(step: Step, risen: Amounts, above: Amounts) -> tuple[tuple[QuotaNode, str], ...]:
    """Quotas, and keys of them that more pods say nothing of."""
    if step.after.envelope.amounts.keys().isdisjoint(_UNSPECIFIED_KEYS):
        return ()  # nearly always
    found: list[tuple[QuotaNode, str]] = []
    for node in step.after.envelope_in:
        risen_here, above_here = _here(step, node, risen, above)
        more = risen_here.keys() | above_here.keys()
        found += [(node, key) for key in node.hard if UNSPECIFIED.get(key) in more]
    return tuple(found)


def _only_reserves(before: Position, after: Position) -> bool:
    return (
        after.used is before.used
        and after.used_in is before.used_in
        and after.envelope_in is before.envelope_in is after.used_in
        and after.unsure_in == before.unsure_in == ()
        and after.unknown == before.unknown
        and after.takes_unknown_devices == before.takes_unknown_devices
    )


def _either(some: Nodes, others: Nodes) -> Nodes:
    return others if some is others else some + tuple(node for node in others if node not in some)
