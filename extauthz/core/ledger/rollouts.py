"""Templates that were left, and may still run.

A template that is left still runs until its controller has replaced it. So ``n'`` pods of ``t'`` that take the place of
some of ``t`` may come to ``n'·max(t, t')``, key by key (ledger.md#rollouts). Which pods those are is known by the
objects of the family, once watches have shown what the controller has made of the new spec. Until then the template
that was left is remembered here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from extauthz.core.kinds import BY_KEY, DEPLOYMENTS, PODS, PRICED_EACH, REPLICA_SETS, RESIZES, REVISIONS, STATEFUL_SETS
from extauthz.core.ledger.entry import LeftTemplates, PendingWrite, is_newer
from extauthz.core.model import Kind, Observed, Template, WorkloadRef

_SHOWN_BY: Final[dict[Kind, tuple[Kind, ...]]] = {
    DEPLOYMENTS: (REPLICA_SETS, PODS),
    STATEFUL_SETS: (REVISIONS, PODS),
}
"""Kind to those whose watches show what its controller has made. Of every other kind those are the pods."""


_MAKE_NO_PODS: Final = PRICED_EACH | {REVISIONS, RESIZES}
"""Kinds of which one that is changed has left no pods behind."""


@dataclass(slots=True)
class _Left:
    template: Template
    acted_on: str = ""
    """The version of the workload in which its controller says that it has acted on what came after; empty: not yet."""


class Rollouts:
    """Templates that were left, by workload, until watches have shown what runs."""

    def __init__(self) -> None:
        self._left: dict[WorkloadRef, list[_Left]] = {}
        self._reached: dict[Kind, str] = {}
        """The version up to which the watch of a kind has shown everything."""

    def observed(
        self,
        ref: WorkloadRef,
        before: Observed | None,
        after: Observed | None,
        most: int,
        between: Iterable[PendingWrite] = (),
    ) -> LeftTemplates:
        """Take a step of a workload, of which there were ``most`` pods. A built-in kind without a status tells nothing
        of rollouts: it is read from a file.

        Args:
            between: what may have been stored in between, and was not shown.

        Returns:
            What it has left and may still run.
        """
        if ref[:2] in _MAKE_NO_PODS:
            return ()
        if before is None or after is None or before.uid != after.uid:
            self._left.pop(ref, None)
            return ()  # another object: nothing makes pods of what the one before it said
        is_custom = ref[:2] not in BY_KEY
        if before.resource_version == after.resource_version and is_custom:
            return self._of(ref)  # nobody wrote it: its pods price it anew
        had = [(most, before.template), *((one.replicas, each) for one in between for each in one.templates)]
        for count, template in had if is_custom or after.acted_on is not None else ():
            makes = count or ref[:2] == STATEFUL_SETS  # that makes some of what it has left even where there were none
            if makes and template not in (None, after.template):
                assert template is not None
                self._left.setdefault(ref, []).append(_Left(template))
        for one in self._left.get(ref, ()):
            if not one.acted_on and (after.acted_on or (is_custom and after.acted_on is None)):
                one.acted_on = after.resource_version  # a custom resource need not say what it has acted on
        return self._of(ref)  # what came before may run as long as it is not shown what does

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
        return bool(one.acted_on) and all(
            self._has_reached(kind, one.acted_on) for kind in _SHOWN_BY.get(ref[:2], (PODS,))
        )

    def _has_reached(self, kind: Kind, version: str) -> bool:
        reached = self._reached.get(kind, "")
        return reached == version or is_newer(reached, version)

    def _of(self, ref: WorkloadRef) -> LeftTemplates:
        return tuple(one.template for one in self._left.get(ref, ()))
