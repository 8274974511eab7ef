"""What a gate need not have counted when it allowed a write: the cuts of docs/guarantee.md, and nothing else."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .judge import Key, Promise, State, States
from .objects import is_left, kind_of
from .reference import ReferenceModel
from .views import KEPT_S, UNSEEN_S, Horizon, known_of


class Ungated(NamedTuple):
    """Growth that gates only observe."""

    at_s: float
    version: int
    key: Key
    by: str
    """The gate that allowed it where no quota was; empty: none."""
    more: Mapping[str, int]
    """By how much."""
    per_pod_m: int
    """By how much CPU each of its pods, in thousandths. A gate that has not seen it may allow more pods afterwards."""


class Grant(NamedTuple):
    """The state when a gate allowed a write."""

    at_s: float
    """When it was asked."""
    by: str
    """The gate, by its name in that life."""
    uncovered: bool
    """No quota could cover it, so the gate told the other ones afterwards."""
    known: int
    """The version of the workload that it knew at least."""
    was: frozenset[State]
    """What the workload was to it: one of these."""


class Excuses:
    """Keeps growth past the gates, and what gates have allowed.

    Args:
        heard_s: after what time a gate must have heard of a write that another one allowed where no quota was.
    """

    def __init__(self, reference: ReferenceModel, heard_s: float) -> None:
        self.grants: dict[str, Grant] = {}
        """By decision."""
        self._reference = reference
        self._heard_s = heard_s
        self._ungated: deque[Ungated] = deque()

    def grew(self, now_s: float, version: int, before: States, after: States, by: str) -> None:
        """Something has grown past the gates, or ``by`` one of them, which knew of no quota for it."""
        for key, some in after.items():
            was, now = _top(before.get(key, ())), _top(some)
            more = {one: amount - was.get(one, 0) for one, amount in now.items() if amount > was.get(one, 0)}
            per_pod_m = max(_per_pod_m(some) - _per_pod_m(before.get(key, ())), 0) if key in before else 0
            if more or per_pod_m:
                self._ungated.append(Ungated(now_s, version, key, by, more, per_pod_m))
        while self._ungated and self._ungated[0].at_s < now_s - UNSEEN_S - KEPT_S:
            self._ungated.popleft()

    def grown(self, horizon: Horizon, by: str, covered: States, resource: str) -> int:
        """What has grown unseen of these workloads: of each at most what it costs.

        ``by``: the gate, which has seen all that it allowed itself; empty: any.
        """
        past: Counter[Key] = Counter()
        for one in self._ungated:
            if one.key not in covered or (by and one.by == by):
                continue
            if one.version > _seen_up_to(horizon, one.key, covered[one.key]):
                per_pod = one.per_pod_m if resource == "requests.cpu" else 0
                pods = max((state.replicas for state in covered[one.key]), default=0)
                past[one.key] += max(one.more.get(resource, 0), per_pod * pods)
        return sum(min(amount, _top(covered[key]).get(resource, 0)) for key, amount in past.items())

    def charged_by(self, by: str, at_s: float) -> list[Promise]:
        """What may still land, as far as a gate must charge it.

        It may not have heard yet what another gate has allowed where no quota was.
        """
        charged = []
        for id_, one in self._reference.promises.items():
            grant = self.grants[id_]
            if grant.by == by or not grant.uncovered or at_s >= grant.at_s + self._heard_s:
                charged.append(one)
        return charged


def _seen_up_to(horizon: Horizon, key: Key, states: Iterable[State]) -> int:
    """Of claims that were left behind a gate has to see that their owner is gone, and themselves; of an owner also the
    ReplicaSets that were given to it."""
    in_parts = is_left(key) or any(one.members.given for one in states)
    return known_of(key, horizon) if in_parts else horizon(kind_of(key).collection)


def _per_pod_m(states: Iterable[State]) -> int:
    return max((one.cpu_m + one.side_m for one in states), default=0)


def _top(states: Iterable[State]) -> dict[str, int]:
    top: dict[str, int] = {}
    for one in states:
        for name, amount in one.amounts().items():
            top[name] = max(amount, top.get(name, 0))
    return top
