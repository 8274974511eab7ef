"""Puts WorkspaceQuotas together, each of which has another author. A bad one affects no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from extauthz.core.model import Tree
from extauthz.core.quota import spec
from extauthz.core.quota.problems import Fault, Problem, Standing, standing
from extauthz.core.quota.spec import QuotaSpecError, WorkspaceQuota
from extauthz.core.quota.tree import AT_ONCE, QuotaTree, Steps, TreeProblem, finished


class Quotas(NamedTuple):
    """All quotas, and the state of each."""

    tree: QuotaTree
    """The same object as before where no spec has changed."""
    standings: tuple[Standing, ...]
    """By name."""
    warnings: tuple[TreeProblem, ...]
    """What is allowed and probably a mistake (``QuotaTree.warnings``)."""

    @property
    def faults(self) -> Iterator[Standing]:
        """Those whose limits are not in force as they are written."""
        return (one for one in self.standings if one.fault is not None)


class Read(NamedTuple):
    standing: Standing
    quota: WorkspaceQuota
    """If its spec is invalid: what ``spec.salvage`` makes of it."""


def read(tree: Tree) -> Read:
    """Read one object that has a name. Of a bad one, read whom it covers, as far as it says so."""
    try:
        quota = spec.parse(tree)
    except QuotaSpecError as error:
        return Read(standing(tree, None, Fault.INVALID, error.problems), spec.salvage(tree))
    return Read(standing(tree, quota.generation), quota)


class Gathered:
    """All objects of a source.

    An object whose spec cannot be read keeps its last good one in force; if it never had one, what it covers cannot
    grow. One whose parent is missing, or that is its own ancestor, is enforced by itself.
    """

    def __init__(self) -> None:
        self._reads: dict[str, Read] = {}
        self._in_force: dict[str, WorkspaceQuota] = {}
        """The last good spec of each object that is there, or what could be read of one that never had any."""
        self._planted: tuple[tuple[WorkspaceQuota, ...], QuotaTree, tuple[TreeProblem, ...]] | None = None

    def replace(self, objects: Iterable[Read]) -> bool:
        """Take the whole list. Returns whether a quota has gone."""
        listed = {one.standing.name: one for one in objects}
        gone = self._reads.keys() - listed.keys()
        for name in gone:
            self.drop(name)
        for one in listed.values():
            self.take(one)
        return bool(gone)

    def take(self, one: Read) -> None:
        name = one.standing.name
        before = self._reads.get(name)
        if before is not None and before.standing.uid != one.standing.uid:
            self.drop(name)  # another object of that name: what the old one said last is not its last good spec
        self._reads[name] = one
        last = self._in_force.get(name)
        if last is None or last.illegible or not one.quota.illegible:
            self._in_force[name] = one.quota

    def drop(self, name: str) -> None:
        self._reads.pop(name, None)
        self._in_force.pop(name, None)

    def quotas(self) -> Quotas:
        return finished(self.gathering())

    def gathering(self) -> Steps[Quotas]:
        """The same in steps. What comes between two of them is not among it."""
        in_force, reads = dict(self._in_force), dict(self._reads)
        quotas = tuple(in_force[name] for name in sorted(in_force))
        yield
        if self._planted is None or self._planted[0] != quotas:
            self._planted = (quotas, *(yield from QuotaTree.salvaging(quotas)))
        _, tree, problems = self._planted
        misplaced: dict[str, list[Problem]] = {}
        for problem in problems:
            misplaced.setdefault(problem.quota, []).append(problem.problem)
        standings: list[Standing] = []
        for number, name in enumerate(sorted(reads)):
            if not number % AT_ONCE:
                yield
            parent_is_there = in_force[name].parent in in_force
            standings.append(_standing(reads[name].standing, in_force[name], misplaced.get(name), parent_is_there))
        return Quotas(tree, tuple(standings), tree.warnings)


def _standing(
    said: Standing, quota: WorkspaceQuota, misplaced: list[Problem] | None, parent_is_there: bool
) -> Standing:
    held = said._replace(in_force=None if quota.illegible else quota.generation)
    if held.fault is Fault.INVALID or misplaced is None:
        return held
    fault = Fault.PARENT_CYCLE if parent_is_there else Fault.PARENT_MISSING
    if misplaced[0].path != ("spec", "parent"):
        fault = Fault.NO_EFFECT
    return held._replace(fault=fault, why="; ".join(map(str, misplaced)))
