"""What gates may believe about who counts where, while their watches may not have shown them a change yet.

A quota that moves, and labels that change, are in force at a gate once its watch has shown it. Each kind has a watch of
its own, and of a Deployment a read may tell more than its watch: so any quotas go with any labels, each as they were at
some time since then. Whom a quota covers is the same in all views unless that has changed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from itertools import product
from typing import Generic, TypeVar

from .judge import Labels, Quota, View
from .reference import DEPLOYMENTS, NAMESPACES, QUOTAS, ReferenceModel
from .server import Key

UNSEEN_S = 14.0
"""How long a gate may take to see what no gate has granted: the time after which it takes a watch for stalled, and a
little. Within it a cut, a move, or growth at another way, may not bear on grants yet."""

KEPT_S = 30.0
"""How long before that it is remembered: a write may have been decided so long ago that lands now."""

T = TypeVar("T")


class Past(Generic[T]):
    """A thing that changes, and what it was."""

    def __init__(self) -> None:
        self._was: deque[tuple[float, T]] = deque()

    def is_now(self, now_s: float, what: T) -> None:
        """It is ``what`` from now on."""
        if not self._was or self._was[-1][1] != what:
            self._was.append((now_s, what))

    @property
    def now(self) -> T:
        """What it is."""
        return self._was[-1][1]

    def forget(self) -> None:
        """Everybody knows what it is now."""
        while len(self._was) > 1:
            self._was.popleft()

    def since(self, at_s: float) -> list[T]:
        """What it has been since then, the newest first."""
        while len(self._was) > 1 and self._was[1][0] < at_s - KEPT_S:
            self._was.popleft()
        ended = [at for at, _ in self._was][1:]
        found = [what for (_, what), end_s in zip(self._was, [*ended, math.inf], strict=True) if end_s >= at_s]
        return found[::-1]


class Views:
    """Told of all that is stored."""

    def __init__(self, reference: ReferenceModel) -> None:
        self._reference = reference
        self._quotas: Past[dict[str, Quota]] = Past()
        self._namespaces: Past[dict[str, Labels]] = Past()
        self._tiers: dict[Key, Past[str]] = {}

    def wrote(self, now_s: float, collection: str, key: Key) -> None:
        """The API server has stored something."""
        if collection == QUOTAS:
            self._quotas.is_now(now_s, dict(self._reference.quotas()))
        elif collection == NAMESPACES:
            self._namespaces.is_now(now_s, dict(self._reference.view().namespaces))
        elif collection == DEPLOYMENTS and (one := self._reference.workloads().get(key)) is not None:
            self._tiers.setdefault(key, Past()).is_now(now_s, one.tier)

    def all_known(self) -> None:
        """Nobody goes by anything but what is so."""
        self._quotas.forget()
        self._namespaces.forget()
        for key in self._tiers:
            self.granted(key)

    def granted(self, key: Key) -> None:
        """The labels of a Deployment are what a gate has allowed: no gate has to see that to count it."""
        if key in self._tiers:
            self._tiers[key].forget()

    def limits(self, at_s: float, quota: str, resource: str) -> list[int | None]:
        """All that a limit may have been to a gate since ``at_s``; ``None``: there was none."""
        return [
            quotas[quota].hard.get(resource) if quota in quotas else None
            for quotas in self._quotas.since(at_s - UNSEEN_S)
        ]

    def believable(self, at_s: float) -> Iterator[View]:
        """What a gate may have gone by since ``at_s``, or goes by now, beginning with what is so."""
        since_s = at_s - UNSEEN_S
        tiers = {key: past.since(since_s) for key, past in self._tiers.items()}
        changed = [key for key, some in tiers.items() if len(some) > 1]
        for labels in product(*(dict.fromkeys(tiers[key]) for key in changed)):
            for namespaces in self._namespaces.since(since_s):
                for quotas in self._quotas.since(since_s):
                    yield View(quotas, namespaces, dict(zip(changed, labels, strict=True)))
