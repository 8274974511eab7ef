"""What gates may believe while their watches have not shown them a change yet.

Each kind has a watch of its own, and of a workload a read may tell more than its watch. So any quotas go with any
labels, each as they were at some version that the gate may not have got past. ``Horizon`` says which that is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Generic, TypeAlias, TypeVar

from tests.worlds.judge import Key, Labels, Members, Quota, State, View
from tests.worlds.objects import REPLICA_SET, kind_of, word_of
from tests.worlds.reference import CLAIMS, COUNTED, NAMESPACES, QUOTAS, ReferenceModel

UNSEEN_S = 12.0
"""How long a gate may take to see what no gate has granted: how late its last news may have come (5 s), the time after
which it takes a silent watch for stalled (6 s), and a little. Within it a cut, a move, or growth past the gates may not
bear on grants yet."""

KEPT_S = 30.0
"""How long before that it is remembered: a write may have been decided so long ago that lands now."""

Horizon: TypeAlias = Callable[[str], int]
"""Collection to the version up to which everything is known."""

T = TypeVar("T")


class Past(Generic[T]):
    """A thing that changes, and what it was."""

    def __init__(self) -> None:
        self._versions: deque[int] = deque()
        self._was: deque[T] = deque()

    def is_now(self, version: int, what: T) -> None:
        """It is ``what`` from that version on."""
        if not self._was or self._was[-1] != what:
            self._versions.append(version)
            self._was.append(what)

    def forget(self, version: int | None = None) -> None:
        """Everybody knows its value of ``version``, or the present one."""
        while len(self._was) > 1 and (version is None or self._versions[1] <= version):
            self._versions.popleft()
            self._was.popleft()

    def since(self, version: int) -> list[T]:
        """Its value then and all later ones, the newest first."""
        first = max(bisect_right(self._versions, version) - 1, 0)
        return [*self._was][first:][::-1]


class Views:
    """Called with every stored change."""

    def __init__(self, reference: ReferenceModel) -> None:
        self._reference = reference
        self._quotas: Past[dict[str, Quota]] = Past()
        self._namespaces: Past[dict[str, Labels]] = Past()
        self._tiers: dict[Key, Past[str]] = {}
        self._members: dict[Key, Past[Members]] = {}
        self._times: deque[float] = deque()
        self._versions: deque[int] = deque()

    def wrote(self, now_s: float, version: int, collection: str, key: Key) -> None:
        """The API server has stored something."""
        self._times.append(now_s)
        self._versions.append(version)
        if collection == QUOTAS:
            self._quotas.is_now(version, self._reference.quotas())
        elif collection == NAMESPACES:
            self._namespaces.is_now(version, dict(self._reference.view().namespaces))
        elif collection in COUNTED and (one := self._reference.workload(key)) is not None:
            self._tiers.setdefault(key, Past()).is_now(version, one.tier)
            self._members.setdefault(key, Past()).is_now(version, one.members)
        self._trim(now_s)

    def _trim(self, now_s: float) -> None:
        known = self.version_at(now_s - UNSEEN_S - KEPT_S)
        while len(self._versions) > 1 and self._versions[1] <= known:
            self._versions.popleft()
            self._times.popleft()
        for past in self._all():
            past.forget(known)

    def _all(self) -> Iterator[Past[Any]]:
        yield self._quotas
        yield self._namespaces
        yield from self._tiers.values()
        yield from self._members.values()

    @property
    def last(self) -> tuple[float, int]:
        """Time and version of the last change."""
        return self._times[-1], self._versions[-1]

    def version_at(self, at_s: float) -> int:
        """The version of the last change before a time."""
        number = bisect_right(self._times, at_s)
        return self._versions[number - 1] if number else 0

    def horizon(self, at_s: float) -> Horizon:
        """Of who knows all that was so long before ``at_s`` that nobody may not know it."""
        version = self.version_at(at_s - UNSEEN_S)
        return lambda collection: version

    def all_known(self) -> None:
        """Everybody decides by the present state."""
        for past in self._all():
            past.forget()

    def granted(self, key: Key) -> None:
        """A gate has allowed the labels of this workload. So no gate must see them before they count."""
        if key in self._tiers:
            self._tiers[key].forget()

    def limits(self, horizon: Horizon, quota: str, resource: str) -> list[int | None]:
        """All values that a gate may take for a limit; ``None``: there is none."""
        return [
            quotas[quota].hard.get(resource) if quota in quotas else None
            for quotas in self._quotas.since(horizon(QUOTAS))
        ]

    def unseen(self, horizon: Horizon, key: Key, states: Iterable[State]) -> Mapping[str, int]:
        """What a workload may cost more than a gate knows that has not seen all that controllers made for it."""
        past = self._members.get(key)
        seen = past.since(horizon(_MADE_IN.get(word_of(key[1]), ""))) if past is not None else []
        more: dict[str, int] = {}
        for members in seen[1:]:
            for one in states:
                less = one._replace(members=members._replace(given=one.members.given)).amounts()
                for resource, amount in one.amounts().items():
                    more[resource] = max(amount - less[resource], more.get(resource, 0))
        return more

    def believable(self, horizon: Horizon) -> Iterator[View]:
        """The states that a gate may decide by, beginning with the present one."""
        tiers = {key: past.since(horizon(kind_of(key).collection)) for key, past in self._tiers.items()}
        changed = [key for key, some in tiers.items() if len(some) > 1]
        for labels in product(*(dict.fromkeys(tiers[key]) for key in changed)):
            for namespaces in self._namespaces.since(horizon(NAMESPACES)):
                for quotas in self._quotas.since(horizon(QUOTAS)):
                    yield View(quotas, namespaces, dict(zip(changed, labels, strict=True)))


_MADE_IN = {"roll": REPLICA_SET.collection, "sts": CLAIMS}
"""The collections with the members of a workload."""


def known_of(key: Key, horizon: Horizon) -> int:
    """The version up to which everything of a workload is known: itself, and what controllers made for it."""
    made_in = _MADE_IN.get(word_of(key[1]))
    own = horizon(kind_of(key).collection)
    return own if made_in is None else min(own, horizon(made_in))
