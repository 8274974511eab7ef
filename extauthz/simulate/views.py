"""What gates may believe about who counts where, while their watches may not have shown them a change yet.

A quota that moves, and labels that change, are in force at a gate once its watch has shown it. Each kind has a watch of
its own, and of a Deployment a read may tell more than its watch: so any quotas go with any labels, each as they were at
some time since then. Whom a quota covers is the same in all views unless that has changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import product
from typing import Generic, TypeVar

from .server import Key
from .truth import DEPLOYMENTS, NAMESPACES, QUOTAS, Labels, Quota, Truth, View

UNSEEN_S = 14.0
"""How long a gate may take to see what no gate has granted: the time after which it takes a watch for stalled, and a
little. Within it a cut, a move, or growth at another door, may not bear on grants yet."""

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
        while len(self._was) > 1 and self._was[1][0] < at_s:
            self._was.popleft()
        return [what for _, what in reversed(self._was)]


class Views:
    """Told of all that is stored."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._quotas: Past[dict[str, Quota]] = Past()
        self._namespaces: Past[dict[str, Labels]] = Past()
        self._tiers: dict[Key, Past[str]] = {}

    def wrote(self, now_s: float, collection: str, key: Key) -> None:
        """The API server has stored something."""
        if collection == QUOTAS:
            self._quotas.is_now(now_s, dict(self._truth.quotas()))
        elif collection == NAMESPACES:
            self._namespaces.is_now(now_s, dict(self._truth.view().namespaces))
        elif collection == DEPLOYMENTS and (one := self._truth.workloads().get(key)) is not None:
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

    def limits(self, now_s: float, quota: str, resource: str) -> list[int | None]:
        """All that a limit has been of late; ``None``: there was none."""
        return [
            quotas[quota].hard.get(resource) if quota in quotas else None
            for quotas in self._quotas.since(now_s - UNSEEN_S)
        ]

    def changed(self, now_s: float) -> set[str]:
        """Quotas of which not all views say that they cover the same."""
        covers: dict[str, set[frozenset[Key]]] = {}
        for view in self.believable(now_s):
            here = {key: view.covering(key[0], view.tiers.get(key, past.now)) for key, past in self._tiers.items()}
            for quota in view.quotas:
                covers.setdefault(quota, set()).add(frozenset(key for key, some in here.items() if quota in some))
        return {quota for quota, some in covers.items() if len(some) > 1}

    def believable(self, now_s: float) -> Iterator[View]:
        """What a gate may go by, beginning with what is so."""
        since_s = now_s - UNSEEN_S
        tiers = {key: past.since(since_s) for key, past in self._tiers.items()}
        changed = [key for key, some in tiers.items() if len(some) > 1]
        for labels in product(*(dict.fromkeys(tiers[key]) for key in changed)):
            for namespaces in self._namespaces.since(since_s):
                for quotas in self._quotas.since(since_s):
                    yield View(quotas, namespaces, dict(zip(changed, labels, strict=True)))
