"""The lines of trees whose root has ``spec.sharing.turns: Share``: who is refused for want of room stands in one.

One line a tree, in one order: who went to its end less often; whose rank is smaller (that of a policy; else all have
0); who has no replicas; whose child of the root uses the
smaller share; who asked first. Of every quota that refused somebody, what the first of them needs is kept. It is kept
from those that come after it in the order, whether they stand in the line or not. So the first of all is held by
nobody, and no two can hold each other.

Three things end a place: a grant, or a write that asks for less; silence for two of its client's intervals; and that
the workload is gone. A count ends only a place that waits for a count: who waits for a dearer template is not served by
it. Who was first for ``turnSeconds`` goes to the end. Whoever was asked nothing keeps no place: only
answered writes come here.

Where gates share a ledger, each has the lines of all. A gate knows of its own clients how often they ask, so it judges
their silence alone. Times are on the clock that gates share, in milliseconds, so that all have the same order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from extauthz.core.ledger.accounts import Step
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.ledger.entry import Workloads
from extauthz.core.ledger.usage import Usage
from extauthz.core.model import Amounts, Place, WorkloadRef
from extauthz.core.quota.tree import QuotaNode, QuotaTree

MAX_IN_TREE: Final = 256
MAX_IN_CHILD: Final = 16
MAX_IN_ALL: Final = 1_024
"""A place takes some 300 bytes in the ledger object before it is compressed, of 512 KiB."""

LEAST_S, MOST_S, AT_FIRST_S = 2.0, 60.0, 30.0
"""How often a workload's client is taken to ask: at least, at most, and while it is not known. KPA asks every 2 s, an
HPA every 15 s."""

SILENT_S: Final = 600.0
"""Who asks another gate leaves here if that has not said for so long that it goes on asking."""

SAID_AGAIN_S: Final = 300.0
"""How old the time of its last ask may be in the ledger object, so that other gates do not take it for silent."""

Order: TypeAlias = tuple[int, int, bool, float, int, WorkloadRef]


@dataclass(slots=True, eq=False)
class Waiter:
    """A workload in a line."""

    ref: WorkloadRef
    place: Place
    """As it asked last. Its needs are of all quotas that have refused it since it stands here."""
    since_ms: int
    """When it asked first, or went to the end, on the shared clock."""
    asked_ms: int
    """When it asked last, as far as is known."""
    laps: int = 0
    """How often it went to the end."""
    is_here: bool = False
    """It asks this gate."""
    counted_ms: int = 0
    """The ask from which the next interval is counted."""
    interval_s: float = AT_FIRST_S
    first_ms: int | None = None
    """Since when it is the first of some quota; ``None``: it is not."""
    said_ms: int = 0
    """``asked_ms`` as other gates know it."""
    news: int = 0
    """How often something changed that other gates should know."""
    told: int = 0
    """How many of those they do know."""

    def asks(self, place: Place, now_ms: int) -> None:
        """It was refused once more."""
        gap_s = (now_ms - self.counted_ms) / 1000
        if not self.is_here or gap_s >= LEAST_S:  # what comes sooner is the same ask, by another way
            if self.is_here:
                self.interval_s = min(gap_s, MOST_S)
            self.counted_ms = now_ms
        self.is_here, self.asked_ms = True, now_ms
        place = place._replace(needs={**self.place.needs, **place.needs})
        if place != self.place:
            self.place, self.news = place, self.news + 1

    def is_silent(self, now_ms: int) -> bool:
        """It has not asked for two of its intervals. How often it asks is known of what asks this gate."""
        return (now_ms - self.asked_ms) / 1000 > (2 * self.interval_s if self.is_here else SILENT_S)

    def to_the_end(self, now_ms: int) -> None:
        """Its turn has passed."""
        self.laps, self.since_ms, self.first_ms = self.laps + 1, now_ms, None
        self.news += 1


@dataclass(slots=True, eq=False)
class Line:
    """The line of one tree."""

    root: QuotaNode
    nodes: Mapping[str, QuotaNode]
    """Quotas of the tree by name."""
    waiters: dict[WorkloadRef, Waiter] = field(default_factory=dict)
    most: dict[tuple[str, str], int] | None = None
    """(quota, key) to the most that somebody needs of it; ``None``: work it out anew. So is the next one."""
    numbers: dict[str, int] = field(default_factory=dict)
    """How many wait for a quota."""
    order: list[tuple[Order, Waiter]] | None = None
    """All, the first one first; ``None``: work it out anew."""

    def changed(self) -> None:
        """Somebody came, went, or needs something else."""
        self.most = self.order = None

    def highest(self, quota: str, key: str) -> int:
        """The most that somebody needs."""
        return (self.most if self.most is not None else self._added_up()).get((quota, key), 0)

    def number(self, quota: str) -> int:
        """How many wait for a quota; for the root: in the whole tree."""
        if self.most is None:
            self._added_up()
        return len(self.waiters) if quota == self.root.quota.name else self.numbers.get(quota, 0)

    def _added_up(self) -> dict[tuple[str, str], int]:
        self.most, self.numbers = {}, {}
        for one in self.waiters.values():
            for name, needs in one.place.needs.items():
                self.numbers[name] = self.numbers.get(name, 0) + 1
                for each, need in needs.items():
                    self.most[name, each] = max(need, self.most.get((name, each), 0))
        return self.most


class Seen(NamedTuple):
    """Somebody in a line, as it is shown."""

    ref: WorkloadRef
    place: int
    """The first has 1."""
    waits_s: float
    replicas: int
    """Asked for."""
    needs: Mapping[str, Amounts]
    again_s: float
    """How often it asks."""


class Lines:
    """The lines of all trees.

    Args:
        clock: a time of this gate, in seconds, on the clock that gates share, in milliseconds.
    """

    def __init__(self, workloads: Workloads, usage: Usage) -> None:
        self._workloads = workloads
        self._usage = usage
        self.clock: Callable[[float], int] = lambda now_s: int(now_s * 1000)
        self.lines: dict[str, Line] = {}
        """By the name of the root."""
        self.has_news = False
        """Whether other gates do not know something yet."""
        self._said: Mapping[str, str] = {}
        """The places as all gates know them, as text."""
        self._sent: frozenset[str] = frozenset()
        """Those that this gate has written last."""
        self._left: set[str] = set()
        """Those that have ended here, of which other gates do not know."""

    def under(self, tree: QuotaTree) -> None:
        """Take another quota tree. Who stands in line stays there, where there still is one."""
        if not (tree.has_turns or self.lines):
            return  # nearly always
        before, self.lines = self.lines, {}
        for root in tree.nodes if tree.has_turns else ():
            if root.turn_s is not None:
                old = before.get(root.quota.name)
                nodes = {node.quota.name: node for node in tree.below(root)}
                self.lines[root.quota.name] = Line(root, nodes, old.waiters if old is not None else {})
        self._learn(key for key in self._said if key.partition("/")[0] not in before)
        self._left = self._left if self.lines else set()
        self._look_for_news()

    # Who comes first.

    def _order(self, line: Line, place: Place, laps: int, since_ms: int, ref: WorkloadRef) -> Order:
        return laps, place.rank, not place.at_zero, self._share(line, place), since_ms, ref

    def _share(self, line: Line, place: Place) -> float:
        """The largest share of anything that it needs, of the children that it counts in, over their weights."""
        keys = {key for amounts in place.needs.values() for key in amounts}
        found = 0.0
        for name in place.children:
            child = line.nodes.get(name, line.root)
            for key in keys:
                node = child if key in child.hard else line.root
                hard = node.hard.get(key)
                if hard is not None:
                    charged = self._usage.accounts.charged(node, key)
                    found = max(found, charged / hard / child.quota.weight if hard else inf)
        return found

    def _ordered(self, line: Line) -> list[tuple[Order, Waiter]]:
        turned = self._usage.accounts.turned
        if line.order is None or line.root in turned:
            turned.discard(line.root)
            by = ((self._order(line, one.place, one.laps, one.since_ms, one.ref), one) for one in line.waiters.values())
            line.order = sorted(by, key=itemgetter(0))
        return line.order

    def tight(self, step: Step) -> list[tuple[QuotaNode, str, int]]:
        """What a step leaves of quotas and keys, where that is less than somebody needs."""
        lines = self.lines
        return [
            (node, key, left)
            for node, key, left in self._usage.accounts.room_left(step)
            if node.root in lines and left < lines[node.root].highest(node.quota.name, key)
        ]

    def holding(
        self, tight: Iterable[tuple[QuotaNode, str, int]], place: Place, ref: WorkloadRef, now_s: float
    ) -> list[QuotaNode]:
        """The quotas of a tree of which less is left than the first needs, if that comes before who asks.

        Args:
            tight: where less is left than somebody needs.
            place: where who asks would stand in that tree.
        """
        line, found = self.lines[place.tree], dict[QuotaNode, None]()
        for node, key, left in tight:
            if node.root == place.tree:
                first = next(self._before(line, node.quota.name, place, ref, now_s), None)
                if first is not None and left < first.place.needs[node.quota.name].get(key, 0):
                    found[node] = None
        return list(found)

    def _before(self, line: Line, quota: str, place: Place, ref: WorkloadRef, now_s: float) -> Iterator[Waiter]:
        """Those that wait for a quota before somebody who asks."""
        own = self._own(line, place, ref, now_s)
        for order, one in self._ordered(line):
            if order >= own:
                return
            if one.ref != ref and quota in one.place.needs:
                yield one

    def _own(self, line: Line, place: Place, ref: WorkloadRef, now_s: float) -> Order:
        """The order of somebody who asks, as it would be in the line."""
        there = line.waiters.get(ref)
        laps, since_ms = (there.laps, there.since_ms) if there is not None else (_laps(line), self.clock(now_s))
        return self._order(line, place, laps, since_ms, ref)

    def before(self, quota: QuotaNode, place: Place, ref: WorkloadRef, now_s: float) -> int:
        """How many wait for a quota before somebody who asks."""
        return sum(1 for _ in self._before(self.lines[place.tree], quota.quota.name, place, ref, now_s))

    def again_s(self, tree: str, ref: WorkloadRef) -> float:
        """After how many seconds somebody asks again."""
        there = self.lines[tree].waiters.get(ref)
        return there.interval_s if there is not None else AT_FIRST_S

    # What becomes of a place.

    def stand(self, ref: WorkloadRef, place: Place, now_s: float) -> None:
        """A write was refused: its workload stands in line, and asks again."""
        line, now_ms = self.lines.get(place.tree), self.clock(now_s)
        if line is None:
            return  # the quotas were changed meanwhile
        there = line.waiters.get(ref)
        if there is None:
            if self._is_full(line, place):
                return
            there = Waiter(ref, place._replace(needs={}), now_ms, now_ms, _laps(line), said_ms=now_ms, news=1)
            line.waiters[ref] = there
            self._left.discard(_key(place.tree, ref))
        news = there.news
        there.asks(place, now_ms)
        if there.news != news:
            line.changed()
            self.has_news = True

    def _is_full(self, line: Line, place: Place) -> bool:
        if len(line.waiters) >= MAX_IN_TREE or sum(len(one.waiters) for one in self.lines.values()) >= MAX_IN_ALL:
            return True
        in_child = [sum(name in one.place.children for one in line.waiters.values()) for name in place.children]
        return max(in_child, default=0) >= MAX_IN_CHILD

    def leave(self, ref: WorkloadRef, *, by_count: bool = False) -> None:
        """It was granted what it asked for, or wants no more. ``by_count``: a count alone says so, and no object."""
        for tree, line in self.lines.items():
            there = line.waiters.get(ref)
            if there is None or (by_count and not there.place.of_count):
                continue
            del line.waiters[ref]
            key = _key(tree, ref)
            if key in self._said or key in self._sent:
                self._left.add(key)
                self.has_news = True
            line.changed()

    def granted(self, ref: WorkloadRef, replicas: int, *, by_count: bool = True) -> None:
        """Another gate has granted a count, alone or with an object."""
        if any((one := line.waiters.get(ref)) and replicas >= one.place.replicas for line in self.lines.values()):
            self.leave(ref, by_count=by_count)

    def tick(self, now_s: float) -> None:
        """Let time pass: who is gone or silent leaves, and who was first for too long goes to the end."""
        now_ms = self.clock(now_s)
        for line in self.lines.values():
            if line.waiters:
                self._tick(line, now_ms)

    def _tick(self, line: Line, now_ms: int) -> None:
        for one in [one for one in line.waiters.values() if self._has_left(one, now_ms)]:
            self.leave(one.ref)
        first = {id(one) for one in self._firsts(line)}
        for one in list(line.waiters.values()):
            if one.is_here and now_ms - one.said_ms >= SAID_AGAIN_S * 1000 and one.asked_ms > one.said_ms:
                one.said_ms, one.news, self.has_news = one.asked_ms, one.news + 1, True
            if id(one) not in first:
                one.first_ms = None
                continue
            one.first_ms = one.first_ms if one.first_ms is not None else now_ms
            assert line.root.turn_s is not None
            if now_ms - one.first_ms > line.root.turn_s * 1000:
                one.to_the_end(now_ms)
                line.changed()
                self.has_news = True

    def _has_left(self, one: Waiter, now_ms: int) -> bool:
        """It is gone, or silent."""
        entry = self._workloads.get(one.ref)
        return one.is_silent(now_ms) or entry is None or entry.observed is None

    def _firsts(self, line: Line) -> Iterable[Waiter]:
        """Those for which some quota keeps what they need."""
        found: dict[str, Waiter] = {}
        for _, one in self._ordered(line):
            for quota in one.place.needs:
                found.setdefault(quota, one)
        return found.values()

    # What is shown.

    def number(self, node: QuotaNode) -> int:
        """How many wait for a quota; for a root: in its whole tree."""
        line = self.lines.get(node.root)
        return line.number(node.quota.name) if line is not None else 0

    def waiting(self, quota: str, now_s: float) -> list[Seen]:
        """Who waits for room in a quota; for a root: in its whole tree. The first one first."""
        line = next((line for line in self.lines.values() if quota in line.nodes), None)
        if line is None:
            return []
        now_ms, found = self.clock(now_s), list[Seen]()
        for _, one in self._ordered(line):
            if quota in one.place.needs or quota == line.root.quota.name:
                waits_s = max(now_ms - one.since_ms, 0) / 1000
                place = one.place
                found.append(Seen(one.ref, len(found) + 1, waits_s, place.replicas, place.needs, one.interval_s))
        return found

    # What other gates are told.

    def texts(self) -> dict[str, str]:
        """Each place as text, by tree and workload. Other gates know it once ``taken``."""
        return {_key(tree, ref): _text(one) for tree, line in self.lines.items() for ref, one in line.waiters.items()}

    def sent(self) -> Mapping[str, int]:
        """What ``texts`` says now: given back to ``taken`` once it is written."""
        news = {_key(tree, ref): one.news for tree, line in self.lines.items() for ref, one in line.waiters.items()}
        self._sent = frozenset(news)
        return news

    def taken(self, texts: Mapping[str, str], now_s: float, sent: Mapping[str, int] | None = None) -> None:
        """Take the places as they are for all gates. What is new here stays, until it was written. So does what still
        asks this gate: another one may only not have heard of it for a while.

        Args:
            sent: what this gate had said when it wrote them; ``None``: another gate has written them.

        Raises:
            ValueError: they are not as gates write them.
        """
        changed = [key for key, text in texts.items() if self._said.get(key) != text]
        for key in changed:
            _parsed(key, texts[key])  # all or nothing
        self._said, now_ms = texts, self.clock(now_s)
        self._left &= texts.keys()
        for tree, line in self.lines.items():
            for ref, one in list(line.waiters.items()):
                key = _key(tree, ref)
                if sent is not None and key in sent:
                    one.told = sent[key]
                if key in texts or one.news > one.told:
                    continue
                if one.is_here and not one.is_silent(now_ms):
                    one.news += 1
                else:
                    del line.waiters[ref]  # another gate has ended its place
                    line.changed()
        self._learn(changed if sent is None else ())
        self._look_for_news()

    def _look_for_news(self) -> None:
        places = (one for line in self.lines.values() for one in line.waiters.values())
        self.has_news = bool(self._left) or any(one.news > one.told for one in places)

    def _learn(self, keys: Iterable[str]) -> None:
        for key in keys:
            tree, told = _parsed(key, self._said[key])
            if tree in self.lines and key not in self._left:
                _learn(self.lines[tree], told)
                self.lines[tree].changed()

    def untold(self) -> None:
        """Other gates know of none: the object is a new one, or a gate wrote it that knows no lines."""
        self._said = {}
        for line in self.lines.values():
            for one in line.waiters.values():
                one.news, self.has_news = one.told + 1, True


def _laps(line: Line) -> int:
    """Of those who come now: they do not pass who went to the end before."""
    return max((one.laps for one in line.waiters.values()), default=0)


def _learn(line: Line, told: Waiter) -> None:
    """What other gates know of a place. Of one that has news here only what both may say of it."""
    one = line.waiters.get(told.ref)
    if one is None:
        line.waiters[told.ref] = told
        return
    one.asked_ms, one.said_ms = max(one.asked_ms, told.asked_ms), max(one.said_ms, told.asked_ms)
    if told.laps > one.laps:
        one.laps, one.since_ms, one.first_ms = told.laps, told.since_ms, None
    elif told.laps == one.laps:
        one.since_ms = min(one.since_ms, told.since_ms) if one.news > one.told else told.since_ms
    if one.news <= one.told:
        one.place = told.place


def _key(tree: str, ref: WorkloadRef) -> str:
    return "/".join((tree, ref.group, ref.resource, ref.namespace, ref.name))


def _text(one: Waiter) -> str:
    _, children, needs, at_zero, replicas, rank, of_count = one.place
    asked = children, at_zero, replicas, needs, one.since_ms, one.asked_ms, one.laps, round(one.interval_s), rank
    fields = [*asked, *([] if of_count else [False])]
    return json.dumps(fields, separators=(",", ":"))


def _parsed(key: str, text: str) -> tuple[str, Waiter]:
    """The tree and the place of a text. Raises ValueError."""
    try:
        tree, group, resource, namespace, name = key.split("/")
        children, at_zero, replicas, needs, since_ms, asked_ms, laps, interval_s, rank, *more = json.loads(text)
        amounts = {str(quota): {str(k): int(v) for k, v in each.items()} for quota, each in needs.items()}
        of_count = not more or bool(more[0])
        place = Place(tree, tuple(map(str, children)), amounts, bool(at_zero), int(replicas), int(rank), of_count)
        ref, times = WorkloadRef(group, resource, namespace, name), (int(since_ms), int(asked_ms), int(laps))
        one = Waiter(ref, place, *times, interval_s=float(interval_s), said_ms=int(asked_ms))
    except (TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"a place in line is not as gates write it: {error!r}") from error
    return tree, one


def child_names(nodes: Nodes, tree: str) -> tuple[str, ...]:
    """The quotas right below a root that are among these; the root if there is none."""
    below = tuple(node.quota.name for node in nodes if node.parent is not None and node.parent.quota.name == tree)
    return below or (tree,)
