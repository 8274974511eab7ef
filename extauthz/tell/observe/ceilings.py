"""Tells, before anything is refused, of autoscalers whose maximum can never fit.

What an autoscaler may ask for is read from time to time, and held against the limits more often: both change seldom,
and nothing waits for it. Wired by ``service``: ``run()`` is one more task of a gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from extauthz.core.decision.gate import Gate
from extauthz.core.kinds import BY_NAME
from extauthz.core.model import WorkloadRef
from extauthz.core.queries import Queries
from extauthz.core.texts import Tell
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.tell.observe.autoscalers import Autoscaler, Autoscalers, NeverFit, NeverFits
from extauthz.tell.observe.quota_facts import in_slices

LIST_S: Final = 300.0
"""How often the autoscalers, and the most that each may ask for, are listed anew."""

LOOK_S: Final = 30.0
"""How often limits and costs of pods are compared with what was listed."""

FIRST_S: Final = 1.0
"""Until the next try, before the first look."""


Found: TypeAlias = Callable[[NeverFits], None]
"""Told of each once, and again once the numbers are others."""


class Ceilings:
    """Looks for them.

    Args:
        clock: seconds, monotonic.
        tell: told ``never-fits`` of each, and ``autoscalers-not-listed`` once when the API server does not answer.
        found: told too.
    """

    def __init__(
        self, autoscalers: Autoscalers, gate: Gate, *, clock: Callable[[], float], tell: Tell, found: Found
    ) -> None:
        self._autoscalers = autoscalers
        self._gate = gate
        self._queries = Queries(gate.ledger)
        self._clock = clock
        self._tell = tell
        self._found = found
        self._listed_s: float | None = None
        self._failing = False
        self._of: dict[WorkloadRef, Autoscaler] = {}
        """Workload to the autoscaler that may ask for most."""
        self._told: dict[WorkloadRef, NeverFits] = {}
        self._by_quota: NeverFit | None = None

    def by_quota(self) -> NeverFit | None:
        """Those that were found at the last look; ``None``: there was none yet."""
        return self._by_quota

    def most(self, ref: WorkloadRef) -> int | None:
        """Replicas that an autoscaler may ask for; ``None``: none is known."""
        found = self._of.get(ref)
        return found.most if found is not None else None

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(FIRST_S if self._by_quota is None else LOOK_S)

    async def look(self) -> None:
        """Look once, at what was listed last. While what is known may be out of date, all stays as it is."""
        if self._listed_s is None or self._clock() - self._listed_s >= LIST_S:
            await self._list()
        if self._listed_s is None or not self._gate.synced or self._gate.is_stale:
            return
        seen = await in_slices(self._never(ref, one) for ref, one in list(self._of.items()))
        never = {one.ref: one for one in seen if one is not None}
        for ref, one in never.items():
            if self._told.get(ref) != one:
                self._tell("warning", "never-fits", why=f"{one.name}: {one.sentence}")
                self._found(one)
        self._told = never
        by_quota: dict[str, list[NeverFits]] = {}
        for one in sorted(never.values(), key=lambda one: one.name):
            by_quota.setdefault(one.ceiling.quota, []).append(one)
        self._by_quota = {name: tuple(each) for name, each in by_quota.items()}

    async def _list(self) -> None:
        """What was listed before holds where the API server does not answer."""
        listed: dict[WorkloadRef, Autoscaler] = {}
        try:
            async for page in self._autoscalers.all():
                for one in page:
                    ref = self._ref(one)
                    if one.most is not None and ref is not None and _outdoes(one, listed.get(ref)):
                        listed[ref] = one
        except (ApiError, Unreachable) as error:
            if not self._failing:
                self._tell("warning", "autoscalers-not-listed", why=str(error))
            self._failing = True
            return
        self._failing = False
        self._of, self._listed_s = listed, self._clock()

    def _ref(self, autoscaler: Autoscaler) -> WorkloadRef | None:
        """Its workload; ``None``: of a kind that is not known."""
        group, kind, name = autoscaler.scales
        known = BY_NAME.get((group, kind))
        plural = self._gate.customs.resources.get((group, kind))
        key = known.key if known is not None else (group, plural) if plural is not None else None
        return WorkloadRef(*key, autoscaler.subject.namespace, name) if key is not None else None

    def _never(self, ref: WorkloadRef, autoscaler: Autoscaler) -> NeverFits | None:
        assert autoscaler.most is not None, "no others are kept"
        ceiling = self._queries.ceiling(ref, autoscaler.most)
        return NeverFits(autoscaler.subject, ref, autoscaler.most, ceiling) if ceiling is not None else None


def _outdoes(one: Autoscaler, other: Autoscaler | None) -> bool:
    """Whether its owner is the one to tell: of one that another has made, the owner of the other is."""
    if other is None or other.most is None or one.most is None:
        return True
    return (not one.is_made, one.most) > (not other.is_made, other.most)
