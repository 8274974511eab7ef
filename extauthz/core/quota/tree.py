"""The tree of quotas: which quota is above which, and which quotas cover a workload."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from math import inf
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from extauthz.core.model import Amounts, OnUnknown, Requester, Unknown
from extauthz.core.quota.overrides import MARGIN_S, Override, edges
from extauthz.core.quota.problems import Path, Problem
from extauthz.core.quota.selectors import Anchor, LabelSelector
from extauthz.core.quota.spec import Mode, WorkspaceQuota
from extauthz.core.resources import is_device

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Work in steps, between which others may have their turn, and its result."""


def finished(steps: Steps[T]) -> T:
    """The result of work in steps, done at once."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


# Finds the few quotas whose selectors may match some labels, without trying them all.

Item = TypeVar("Item")
Place: TypeAlias = tuple[int, Anchor]
"""Which set of labels (by position), and the label that must be in it."""


AT_ONCE: Final = 64
"""Quotas that are worked on in one step: less than half a millisecond."""


class SelectorIndex(Generic[Item]):
    """Files each item under one label that its selectors ask for: the label that the fewest other items ask for.

    An item has one selector for each set of labels (a quota: the namespace's and the workload's). Looking up
    costs in proportion to the labels given and to what is filed under them, not to the number of items; only
    items whose selectors ask for no label at all (``{}``, ``NotIn``, ``DoesNotExist``) come up every time.
    """

    __slots__ = ("_anywhere", "_filed")

    def __init__(self) -> None:
        self._filed: dict[Place, list[Item]] = {}
        self._anywhere: list[Item] = []

    def filing(self, items: Iterable[tuple[Item, Sequence[LabelSelector | None]]]) -> Iterator[None]:
        """File all items, in steps."""
        entries = []
        for item, selectors in items:
            entries.append((item, _choices(selectors)))
            if not len(entries) % AT_ONCE:
                yield
        asked = Counter(place for _, choices in entries for choice in choices for place in choice)
        for number, (item, choices) in enumerate(entries):
            if not number % AT_ONCE:
                yield
            if not choices:
                self._anywhere.append(item)
                continue
            for place in min(choices, key=lambda choice: sum(asked[place] for place in choice)):
                self._filed.setdefault(place, []).append(item)

    def lookup(self, *label_sets: Mapping[str, str]) -> Iterator[Item]:
        """Yield every item whose selectors may match, each once; the caller tries the selectors."""
        yield from self._anywhere
        filed = self._filed
        for at, labels in enumerate(label_sets):
            for key, value in labels.items():
                yield from filed.get((at, (key, value)), ())
                yield from filed.get((at, (key, None)), ())


def _choices(selectors: Sequence[LabelSelector | None]) -> list[tuple[Place, ...]]:
    return [
        tuple((at, anchor) for anchor in alternatives)
        for at, selector in enumerate(selectors)
        if selector is not None
        for alternatives in selector.anchors()
    ]


_NOTHING: Final[Amounts] = MappingProxyType({})


class QuotaNode:
    """One quota at its place in the tree. It is equal only to itself, so it can be a key of the ledger's accounts."""

    __slots__ = (
        "_lineage", "audits", "bounds", "guaranteed", "hard", "holds", "illegible", "index", "limits_devices",
        "next_override", "override", "parent", "promised", "quota", "root", "timed", "turn_s",
    )  # fmt: skip

    def __init__(
        self, quota: WorkspaceQuota, parent: QuotaNode | None, index: int, hard: Amounts, guaranteed: Amounts
    ) -> None:
        self.quota = quota
        # What each decision asks for, of quotas that nobody may have asked about for long.
        self.hard = hard
        """The limits in force. Equal ones are one object: workspaces are many, and their plans are few."""
        self.audits = quota.mode is Mode.AUDIT
        self.limits_devices = any(map(is_device, hard))
        self.guaranteed: Amounts = _NOTHING if self.audits else guaranteed
        """What is kept for it of every quota above."""
        self.promised: Amounts = _NOTHING
        """What is kept of it for its children while they use nothing."""
        self.holds: Amounts = _NOTHING
        """What is kept for it and those below it, while they use nothing."""
        self.timed = bool(quota.overrides)
        """What may be granted here depends on the time of day: for its overrides, or for guarantees in those below."""
        self.override: Override | None = None
        """One that is in force."""
        self.next_override: Override | None = None
        """The one that begins next."""
        self.turn_s = quota.turn_s if parent is None else None
        """For how long it is one's turn in its tree; ``None``: it has no turns, or is no root."""
        self.illegible = quota.illegible
        self.parent = parent
        self.bounds = (
            parent is not None
            and not (self.audits or self.illegible or quota.requesters)
            and parent.hard.keys() <= hard.keys()
        )
        """What it covers takes no more of any key of its parent than its own limit."""
        self.index = index
        """Position in ``QuotaTree.nodes``; a parent's is lower than its children's."""
        self.root: str = parent.root if parent is not None else quota.name
        """Name of the quota at the top, which is the name of the tree."""
        self._lineage: tuple[QuotaNode, ...] | None = None

    @property
    def lineage(self) -> tuple[QuotaNode, ...]:
        """Nodes from the root of its tree down to it. One tuple, shared by all workloads it covers."""
        if self._lineage is None:
            self._lineage = _with_ancestors([self])
        return self._lineage

    @property
    def path(self) -> tuple[str, ...]:
        """Names from the root of its tree down to it."""
        return tuple(node.quota.name for node in self.lineage)

    def binds(self, requester: Requester | None) -> bool:
        """Whether it may refuse a write of theirs for its own limits. Whoever is not known is bound."""
        requesters = self.quota.requesters
        return not self.audits and (requesters is None or requester is None or requesters.bind(requester))

    def on_unknown(self, unknown: Unknown) -> OnUnknown | None:
        """What its quota says about an unknown, or the nearest ancestor that says something; ``None``: none does."""
        return next((said for node in reversed(self.lineage) if (said := node.quota.on_unknown.get(unknown))), None)

    def __repr__(self) -> str:
        return f"QuotaNode({'/'.join(self.path)})"


class TreeProblem(NamedTuple):
    """A quota with a wrong place in the tree."""

    position: int
    """Position of the quota in the argument of ``QuotaTree.build``. A source finds file and line by it."""
    quota: str
    problem: Problem

    def __str__(self) -> str:
        return f'WorkspaceQuota "{self.quota}": {self.problem}'


class QuotaTreeError(ValueError):
    """The quotas are no tree. Their author must fix them; trying again does not help. ``problems`` lists all."""

    code = "bad-quota-tree"

    def __init__(self, problems: tuple[TreeProblem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class QuotaTree:
    """All quotas in force. Immutable: a change of quotas is another tree."""

    nodes: tuple[QuotaNode, ...]
    """Every node, each parent before its children, children by name."""
    warnings: tuple[TreeProblem, ...]
    """What is allowed and probably a mistake: a child's limit above its parent's."""

    limited: frozenset[str]
    """Every key that some quota limits."""

    audits: bool
    """There are quotas, and all have mode Audit: nothing is refused."""

    clamps: bool
    """Some quota has mode Clamp."""

    has_audits: bool
    """Some quota has mode Audit."""

    has_turns: bool
    """Some quota has turns."""

    keeps: bool
    """Some quota has a guarantee."""

    lasts: tuple[float, float] | None
    """From when to when its amounts hold, in seconds since 1970; ``None``: always, as no quota has overrides."""

    def __init__(self, nodes: tuple[QuotaNode, ...], warnings: tuple[TreeProblem, ...]) -> None:
        finished(self._grow(nodes, warnings))

    def _grow(self, nodes: tuple[QuotaNode, ...], warnings: tuple[TreeProblem, ...]) -> Steps[None]:
        self.nodes = nodes
        self.warnings = warnings
        plans = {id(node.hard): node.hard for node in nodes}
        self.limited = frozenset(key for hard in plans.values() for key in hard)
        self.has_audits = any(node.audits for node in nodes)
        self.audits = self.has_audits and all(node.audits for node in nodes)
        self.clamps = any(node.quota.mode is Mode.CLAMP for node in nodes)
        self.has_turns = any(node.turn_s is not None for node in nodes)
        self.keeps = any(node.guaranteed for node in nodes)
        self.lasts = (inf, inf) if any(node.quota.overrides for node in nodes) else None
        selecting = [node for node in nodes if node.quota.namespace_selector is not None]
        self._by_namespace = SelectorIndex[QuotaNode]()
        yield from self._by_namespace.filing((node, (node.quota.namespace_selector,)) for node in selecting)
        self._by_labels = SelectorIndex[QuotaNode]()
        yield from self._by_labels.filing(
            (node, (node.quota.namespace_selector, node.quota.workload_selector)) for node in selecting
        )

    @classmethod
    def build(cls, quotas: Iterable[WorkspaceQuota]) -> QuotaTree:
        """Make the tree.

        Raises:
            QuotaTreeError: with every duplicate name, missing parent, cycle and weight without effect.
        """
        given = list(quotas)
        if duplicates := [*_duplicates(given)]:
            raise QuotaTreeError((*duplicates, *_orphans(given)))
        tree, problems = cls.salvage(given)
        if problems:
            raise QuotaTreeError(problems)
        return tree

    @classmethod
    def salvage(cls, quotas: Iterable[WorkspaceQuota]) -> tuple[QuotaTree, tuple[TreeProblem, ...]]:
        """Make a tree of quotas that nobody checked as a whole, and list what is wrong with them.

        For a source where each quota is somebody else's object (the Kubernetes API): one whose parent is missing, and
        every one of a ring of parents, stands as a root and is enforced by itself, with all that hangs on it. Names
        must be unique, as those of API objects are. A weight without effect is listed, and takes nothing out of force.
        """
        return finished(cls.salvaging(quotas))

    @classmethod
    def salvaging(cls, quotas: Iterable[WorkspaceQuota]) -> Steps[tuple[QuotaTree, tuple[TreeProblem, ...]]]:
        """The same in steps of less than a millisecond, for ten thousand quotas a little more."""
        given = list(quotas)
        assert not any(_duplicates(given)), "the names of a source's objects are unique"
        yield
        problems = [*_orphans(given)]
        yield
        problems += _ring_members(given)
        yield
        uprooted = {problem.position for problem in problems}
        standing = [replace(quota, parent=None) if at in uprooted else quota for at, quota in enumerate(given)]
        warnings = tuple(_hardly_meant(standing))
        yield
        nodes = yield from _planting(standing)
        tree = cls.__new__(cls)
        yield from tree._grow(nodes, warnings)
        return tree, (*problems, *_weightless(standing))

    def at(self, wall_s: float) -> QuotaTree:
        """The same quotas, with the amounts that hold at a time. It costs their number, if one has overrides."""
        if self.lasts is None:
            return self
        times = sorted({edge + off for node in self.nodes for edge in edges(node.quota.overrides) for off in _TURNS_S})
        made = QuotaTree(finished(_planting([node.quota for node in self.nodes], wall_s)), self.warnings)
        now = bisect_right(times, wall_s)
        made.lasts = (times[now - 1] if now else -inf, times[now] if now < len(times) else inf)
        return made

    def below(self, top: QuotaNode, after: QuotaNode | None = None) -> Iterator[QuotaNode]:
        """``top`` and every quota below it, each after its parent: they stand side by side in ``nodes``.

        ``after``: only those that follow it.
        """
        first = max(top.index, after.index + 1) if after is not None else top.index
        return takewhile(
            lambda node: node is top or (node.parent is not None and node.parent.index >= top.index), self.since(first)
        )

    def since(self, index: int) -> Iterator[QuotaNode]:
        """Those from this place on. Those before cost nothing."""
        return (self.nodes[place] for place in range(index, len(self.nodes)))

    def matching(
        self, namespace_labels: Mapping[str, str], workload_labels: Mapping[str, str]
    ) -> tuple[QuotaNode, ...]:
        """Return every quota that covers a workload, and every ancestor of one, once each, parents first.

        An ancestor counts whatever its own selectors say: what a child is charged, all above it are charged.
        """
        found = [
            node
            for node in self._by_labels.lookup(namespace_labels, workload_labels)
            if node.quota.matches(namespace_labels, workload_labels)
        ]
        return found[0].lineage if len(found) == 1 else _with_ancestors(found)

    def namespace_candidates(self, namespace_labels: Mapping[str, str]) -> tuple[QuotaNode, ...]:
        """Return every quota that selects such a namespace, ancestors not included.

        Where none of them has a ``workload_selector``, ``matching`` says the same for all workloads there.
        """
        return tuple(sorted(self._candidates(namespace_labels), key=_by_index))

    def may_cover(self, namespace_labels: Mapping[str, str]) -> tuple[QuotaNode, ...]:
        """Return every quota that may cover some workload in such a namespace, and every ancestor of one."""
        return _with_ancestors(self._candidates(namespace_labels))

    def _candidates(self, namespace_labels: Mapping[str, str]) -> Iterator[QuotaNode]:
        for node in self._by_namespace.lookup(namespace_labels):
            selector = node.quota.namespace_selector
            if selector is not None and selector.matches(namespace_labels):
                yield node


def _with_ancestors(found: Iterable[QuotaNode]) -> tuple[QuotaNode, ...]:
    nodes: set[QuotaNode] = set()
    for leaf in found:
        node: QuotaNode | None = leaf
        while node is not None and node not in nodes:
            nodes.add(node)
            node = node.parent
    return tuple(sorted(nodes, key=_by_index))


def _by_index(node: QuotaNode) -> int:
    return node.index


def _problem(position: int, quota: WorkspaceQuota, path: Path, detail: str, cure: str) -> TreeProblem:
    return TreeProblem(position, quota.name, Problem(path, detail, cure))


def _duplicates(quotas: Sequence[WorkspaceQuota]) -> Iterator[TreeProblem]:
    seen: set[str] = set()
    for position, quota in enumerate(quotas):
        if quota.name in seen:
            detail = f'there is another WorkspaceQuota "{quota.name}"'
            yield _problem(position, quota, ("metadata", "name"), detail, "rename or remove one of them")
        seen.add(quota.name)


def _orphans(quotas: Sequence[WorkspaceQuota]) -> Iterator[TreeProblem]:
    names = {quota.name for quota in quotas}
    for position, quota in enumerate(quotas):
        if quota.parent is not None and quota.parent not in names:
            detail = f'there is no WorkspaceQuota "{quota.parent}"'
            yield _problem(position, quota, ("spec", "parent"), detail, "name one that exists, or remove parent")


def _ring_members(quotas: Sequence[WorkspaceQuota]) -> Iterator[TreeProblem]:
    """One problem for each quota in a ring of parents."""
    for ring in _rings(quotas):
        for turn, at in enumerate(ring):
            names = [quotas[position].name for position in (*ring[turn:], *ring[:turn], at)]
            detail = f"parents run in a circle: {' → '.join(names)}"
            yield _problem(at, quotas[at], ("spec", "parent"), detail, "remove parent from one of them")


def _rings(quotas: Sequence[WorkspaceQuota]) -> Iterator[list[int]]:
    """Find each ring of parents once, by walking up from every quota that was not walked over before. Positions."""
    position = {quota.name: at for at, quota in enumerate(quotas)}
    parents = {at: position.get(quota.parent or "") for at, quota in enumerate(quotas)}
    done: set[int] = set()
    for start in range(len(quotas)):
        walk: dict[int, None] = {}
        at: int | None = start
        while at is not None and at not in done and at not in walk:
            walk[at] = None
            at = parents[at]
        if at is not None and at in walk:
            yield list(walk)[list(walk).index(at) :]
        done.update(walk)


_TURNS_S: Final = (-MARGIN_S, 0.0, MARGIN_S)
"""When something changes at an edge."""


def _planting(quotas: Sequence[WorkspaceQuota], wall_s: float | None = None) -> Steps[tuple[QuotaNode, ...]]:
    """Make the nodes, roots first, without recursion: a tree may be deeper than Python's stack.

    ``wall_s``: when their amounts hold; ``None``: those of the spec.
    """
    children: dict[str | None, list[WorkspaceQuota]] = {}
    for quota in sorted(quotas, key=lambda quota: quota.name, reverse=True):
        children.setdefault(quota.parent, []).append(quota)
    plans: dict[tuple[tuple[str, int], ...], Amounts] = {}
    nodes: list[QuotaNode] = []
    waiting: list[tuple[WorkspaceQuota, QuotaNode | None]] = [(quota, None) for quota in children.get(None, ())]
    while waiting:
        quota, parent = waiting.pop()
        hard, guaranteed = quota.hard, quota.guaranteed
        if quota.overrides and wall_s is not None:
            hard, guaranteed = quota.hard_at(wall_s), quota.guaranteed_at(wall_s)
        hard = plans.setdefault(tuple(hard.items()), hard)
        node = QuotaNode(quota, parent, len(nodes), hard, guaranteed)
        if wall_s is not None:
            node.override = next((one for one in quota.overrides if one.holds(wall_s)), None)
            later = [one for one in quota.overrides if one.from_s > wall_s]
            node.next_override = min(later, key=lambda one: one.from_s, default=None)
        nodes.append(node)
        if not len(nodes) % AT_ONCE:
            yield
        waiting.extend((child, node) for child in children.get(quota.name, ()))
    yield
    _promise(nodes)
    return tuple(nodes)


def _promise(nodes: Sequence[QuotaNode]) -> None:
    """Work out what guarantees keep while nothing is used. Of each node it is the sum of what its children hold."""
    changing: set[QuotaNode] = set()
    """Those of which what is kept for them above changes with the time."""
    for node in reversed(nodes):
        if node.parent is not None and (node in changing or any(one.guaranteed for one in node.quota.overrides)):
            node.parent.timed = True
            changing.add(node.parent)
        if not (node.guaranteed or node.promised):
            continue
        keys = {**node.guaranteed, **node.promised}
        node.holds = {key: max(node.guaranteed.get(key, 0), node.promised.get(key, 0)) for key in keys}
        if node.parent is not None:
            above = node.parent.promised
            node.parent.promised = {**above, **{key: above.get(key, 0) + held for key, held in node.holds.items()}}


def _weightless(quotas: Sequence[WorkspaceQuota]) -> Iterator[TreeProblem]:
    """Those whose weight has no effect: only children of a root that has turns share by weight."""
    shared = {quota.name for quota in quotas if quota.parent is None and quota.turn_s is not None}
    for position, quota in enumerate(quotas):
        if quota.weight != 1 and quota.parent is not None and quota.parent not in shared:
            detail = f'its parent "{quota.parent}" is no root with turns: Share, so a weight has no effect'
            yield _problem(position, quota, ("spec", "sharing", "weight"), detail, "remove it")


def _hardly_meant(quotas: Sequence[WorkspaceQuota]) -> Iterator[TreeProblem]:
    """What is allowed and has no effect."""
    by_name = {quota.name: quota for quota in quotas}
    yield from _overtopping(quotas, by_name)
    yield from _kept_by_nobody(quotas, by_name)


def _kept_by_nobody(quotas: Sequence[WorkspaceQuota], by_name: Mapping[str, WorkspaceQuota]) -> Iterator[TreeProblem]:
    """Guarantees of what no quota above limits."""
    for position, quota in enumerate(quotas):
        limited, above = set[str](), quota.parent
        while quota.guaranteed and above is not None:
            limited |= by_name[above].hard.keys()
            above = by_name[above].parent
        for key in sorted(quota.guaranteed.keys() - limited):
            detail = "no quota above limits it, so nothing is kept for it"
            cure = "limit it in the parent, or remove it here"
            yield _problem(position, quota, ("spec", "guaranteed", key), detail, cure)


def _overtopping(quotas: Sequence[WorkspaceQuota], by_name: Mapping[str, WorkspaceQuota]) -> Iterator[TreeProblem]:
    """Compare each limit with the parent's. The parent's limit is compared with the grandparent's, and so on."""
    for position, quota in enumerate(quotas):
        if quota.parent is None:
            continue
        limits = by_name[quota.parent].hard
        for key in sorted(quota.hard.keys() & limits.keys()):
            if quota.hard[key] > limits[key]:
                detail = f'it is above that of the parent "{quota.parent}", which is reached first'
                yield _problem(position, quota, ("spec", "hard", key), detail, "lower it, or raise the parent's")
