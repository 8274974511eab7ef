"""Pods of other templates beside those that a workload is to have: what a rollout costs (ledger.md#rollouts).

A template that is left still runs until its controller has replaced it. So ``n'`` pods of ``t'`` that take the place of
some of ``t`` may come to ``n'·max(t, t')``, key by key.

Which pods those are is known by the objects of the family, once watches have shown what the controller has made of the
new spec. Until then the template that was left is remembered here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from extauthz.core.kinds import DEPLOYMENTS, PODS, REPLICA_SETS, REVISIONS, STATEFUL_SETS
from extauthz.core.ledger.pending_write import is_newer
from extauthz.core.model import Amounts, Kind, Observed, Template, WorkloadRef

UNBOUNDED: Final = 2**31
"""More than any workload has pods."""


class Others(NamedTuple):
    """Pods of one cost that a workload may have in place of its own."""

    cost: Amounts
    """Of each, nano-units by quota key."""
    most: int
    """How many at the most."""


def beyond(count: int, each: Amounts, others: Iterable[Others]) -> dict[str, int]:
    """What ``count`` pods may cost beyond ``count`` of ``each``, as some of them are ``others``. Nano-units by key.

    >>> beyond(5, {"requests.cpu": 2}, [Others({"requests.cpu": 4}, 2), Others({"requests.cpu": 1}, 9)])
    {'requests.cpu': 4}
    """
    dearer = [one for one in others if one.cost is not each]
    extra: dict[str, int] = {}
    for key in {key for one in dearer for key in one.cost}:
        own, left = each.get(key, 0), count
        for more, most in sorted(((one.cost.get(key, 0) - own, one.most) for one in dearer), reverse=True):
            if more <= 0 or not left:
                break
            taken = min(most, left)
            left -= taken
            extra[key] = extra.get(key, 0) + more * taken
    return extra


_SHOWN_BY: Final[dict[Kind, tuple[Kind, ...]]] = {
    DEPLOYMENTS: (REPLICA_SETS, PODS),
    STATEFUL_SETS: (REVISIONS, PODS),
}
"""Kind to those whose watches show what its controller has made."""


@dataclass(slots=True)
class _Left:
    template: Template
    acted_on: str = ""
    """The version of the workload in which its controller says that it has acted on what came after; empty: not yet."""


LeftTemplates: TypeAlias = tuple[Template, ...]
"""Templates that were left, and may still run."""


class Rollouts:
    """Templates that were left, by workload, until watches have shown what runs."""

    def __init__(self) -> None:
        self._left: dict[WorkloadRef, list[_Left]] = {}
        self._reached: dict[Kind, str] = {}
        """The version up to which the watch of a kind has shown everything."""

    def observed(self, ref: WorkloadRef, before: Observed | None, after: Observed | None, most: int) -> LeftTemplates:
        """Take a step of a workload, of which there were ``most`` pods. What has no status tells nothing of rollouts.

        Returns:
            What it has left and may still run.
        """
        if ref[:2] not in _SHOWN_BY:
            return ()
        if before is None or after is None or before.uid != after.uid:
            self._left.pop(ref, None)
            return ()
        makes = most or ref[:2] == STATEFUL_SETS  # that makes some of what it has left even where there were none
        if makes and after.acted_on is not None and before.template not in (None, after.template):
            assert before.template is not None
            self._left.setdefault(ref, []).append(_Left(before.template))
        for one in self._left.get(ref, ()):
            if after.acted_on and not one.acted_on:
                one.acted_on = after.resource_version
        return self._of(ref)

    def reached(self, kind: Kind, version: str) -> list[tuple[WorkloadRef, LeftTemplates]]:
        """The watch of ``kind`` has shown all up to ``version``. Which workloads have less left now, and what."""
        self._reached[kind] = version
        changed = []
        for ref, left in list(self._left.items()) if self._left else ():
            stay = [one for one in left if not self._is_shown(ref, one)]
            if len(stay) < len(left):
                self._left[ref] = stay
                if not stay:
                    del self._left[ref]
                changed.append((ref, self._of(ref)))
        return changed

    def forget(self) -> list[WorkloadRef]:
        """All is known anew: nothing is left. Which workloads had something."""
        known = list(self._left)
        self._left.clear()
        return known

    def _is_shown(self, ref: WorkloadRef, one: _Left) -> bool:
        return bool(one.acted_on) and all(self._has_reached(kind, one.acted_on) for kind in _SHOWN_BY[ref[:2]])

    def _has_reached(self, kind: Kind, version: str) -> bool:
        reached = self._reached.get(kind, "")
        return reached == version or is_newer(reached, version)

    def _of(self, ref: WorkloadRef) -> LeftTemplates:
        return tuple(one.template for one in self._left.get(ref, ()))
