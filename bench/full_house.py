"""One full house, shared by autoscalers that ask at their own pace and for sizes of their own: with turns, and without.

It drives the product's own gate (``core.decision.Gate``) on a virtual clock. Workspaces are the children of one root,
and in each is one workload. What it wants changes, and together they want more than there is. An HPA asks every 15 s,
Knative's autoscaler every 2 s; a pod takes one GPU, or eight. What is granted lands at once.

What is measured shares nothing with the gate's own line. Somebody's *turn* comes when it is the first of all who were
refused (none before some; smaller shares first; then who asked first; at the end who was first for too long) and as
much has become free since then as it wants. If it is not granted then, somebody else has it: that is its wait beyond
its turn.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from statistics import median
from typing import Final, NamedTuple

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Observed, Operation, Verdict, WorkloadRef, Write
from extauthz.core.objects.workloads import intern
from extauthz.core.quota.spec import TURN_S, parse
from extauthz.core.quota.tree import QuotaTree
from tests.support.objects import quota

from .figures import Figure, Goal

GPU: Final = "requests.nvidia.com/gpu"
HOUSE: Final = 64
"""GPUs."""

HOUR_S: Final = 3600.0
HPA_S, KPA_S = 15.0, 2.0
SIZES: Final = (8, 1)
"""GPUs of a pod."""

AT_FIRST_S: Final = 30.0
"""For what interval a client is taken that has asked only once: nobody knows it yet."""

CHANGES_S: Final = 120.0
"""The mean time after which a workload wants another count."""

MOST: Final = 24
"""GPUs that one may want; eight of them want one and a half times the house on average."""


@dataclass(slots=True)
class Client:
    """A workload and its autoscaler."""

    kind: str
    """``HPA`` or ``KPA``."""
    size: int
    interval_s: float
    ref: WorkloadRef
    has: int = 0
    wants: int = 0
    since_s: float | None = None
    """Since when it wants more than it has; ``None``: it does not."""
    asked_s: float | None = None
    """When that was refused first, or when its turn had passed; ``None``: it was not."""
    last_s: float = 0.0
    """When it asked last."""
    asked: int = 0
    """The count that was refused last."""
    asks: int = 0
    """How often it was refused since then."""
    laps: int = 0
    """How often its turn had passed."""
    waits: list[float] = field(default_factory=list)
    beyond: list[float] = field(default_factory=list)
    """Of each wait the part after its turn had come."""
    turn_s: float | None = None
    """When its turn came."""
    first_s: float | None = None
    """When it became the first; ``None``: it is not."""
    freed_before: int | None = None
    """How much had become free until then, or until it asked for more; ``None``: it is not the first."""
    served: float = 0.0
    """GPU seconds that it had and wanted."""
    fair: float = 0.0
    """GPU seconds of its fair share."""

    def is_silent(self, now_s: float) -> bool:
        """It has not asked for two of its intervals."""
        return now_s - self.last_s > 2 * (self.interval_s if self.asks > 1 else AT_FIRST_S)

    @property
    def name(self) -> str:
        """As a row of the table."""
        return f"{self.kind} of {self.size} GPU{'s' if self.size > 1 else ''}"


class Row(NamedTuple):
    """One sort of client."""

    name: str
    interval_s: float
    p50_s: float
    """Median of its waits."""
    max_s: float
    beyond_s: float
    """The longest wait beyond its turn."""


class Outcome(NamedTuple):
    """What came of some worlds under one rule."""

    turns: bool
    rows: tuple[Row, ...]
    jain: float
    """Jain's index of what each got of its fair share, the mean of all worlds: 1 is even."""
    used: float
    """The part of the house that was in use."""


class House:
    """One world.

    Args:
        turns: the root has ``sharing: {turns: Share}``.
    """

    def __init__(self, seed: int, *, turns: bool) -> None:
        self._random = Random(f"sharing {seed}")
        self.clients = [
            Client(kind, size, interval_s, WorkloadRef("apps", "deployments", f"team-{number}", "model"))
            for number, (kind, size, interval_s) in enumerate(
                (kind, size, interval_s) for kind, interval_s in (("HPA", HPA_S), ("KPA", KPA_S)) for size in SIZES * 2
            )
        ]
        self.now_s = 0.0
        self.freed = 0
        self._numbers = count(1)
        self._used = 0.0
        self.gate = Gate()
        self.gate.load_quotas(QuotaTree.build(map(parse, _quotas(self.clients, turns=turns))), 0.0)
        for client in self.clients:
            self.gate.observe_namespace(client.ref.namespace, {"team": client.ref.namespace})
            self._show(client)
        self.gate.state_synced(True)

    @property
    def free(self) -> int:
        """GPUs that nobody has."""
        return HOUSE - sum(client.has * client.size for client in self.clients)

    def run(self, until_s: float = HOUR_S) -> None:
        """Let everything happen."""
        order = count()
        events: list[tuple[float, int, str, Client | None]] = [(1.0, next(order), "tick", None)]
        for client in self.clients:
            heapq.heappush(events, (self._random.uniform(0, client.interval_s), next(order), "ask", client))
            heapq.heappush(events, (self._random.uniform(0, 30), next(order), "change", client))
        while events[0][0] <= until_s:
            at_s, _, what, asked = heapq.heappop(events)
            self._pass(at_s)
            if asked is None:
                self.gate.ledger.turns.tick(at_s)
                again_s = 1.0
            elif what == "ask":
                self._ask(asked)
                again_s = asked.interval_s
            else:
                self._change(asked)
                again_s = self._random.expovariate(1 / CHANGES_S)
            self._look()
            heapq.heappush(events, (at_s + again_s, next(order), what, asked))
        self._pass(until_s)
        for client in self.clients:
            self._waited(client)

    def _pass(self, at_s: float) -> None:
        """Time goes by: count who had what it wanted, and what its fair share was."""
        for client, share in zip(self.clients, fair(self.clients), strict=True):
            client.served += (at_s - self.now_s) * min(client.has, client.wants) * client.size
            client.fair += (at_s - self.now_s) * share
        self._used += (at_s - self.now_s) * (HOUSE - self.free)
        self.now_s = at_s

    def _change(self, client: Client) -> None:
        client.wants = self._random.randint(0, MOST // client.size)
        if client.wants > client.has:
            client.since_s = self.now_s if client.since_s is None else client.since_s
        elif client.since_s is not None:
            self._waited(client)

    def _ask(self, client: Client) -> None:
        if client.wants == client.has:
            return
        write = Write(client.ref, Operation.PATCH, True, False, client.wants)
        decision = self.gate.decide(write, f"d{next(self._numbers)}", self.now_s)
        self.gate.answered(decision, self.now_s)
        if decision.verdict is not Verdict.ALLOW:
            if client.asked_s is None or client.is_silent(self.now_s):
                client.asked_s, client.turn_s, client.first_s, client.freed_before = self.now_s, None, None, None
                others = (one for one in self.clients if one is not client and one.asked_s is not None)
                client.asks, client.laps = 0, max((one.laps for one in others), default=0)
            elif client.wants > client.asked:  # it needs more than had become free for it
                client.turn_s = client.freed_before = None
            client.asked, client.asks, client.last_s = client.wants, client.asks + 1, self.now_s
            return
        self._rightly_passed(client)
        self.freed += max(client.has - client.wants, 0) * client.size
        client.has = client.wants
        self._show(client)
        if decision.pending_write is not None:
            self.gate.ledger.pending.forget(decision.pending_write)
        self._waited(client)
        client.asked_s, client.laps = None, 0

    def _show(self, client: Client) -> None:
        pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": client.size}}}]}}
        seen = Observed(client.has, intern({"template": pod}), resource_version=str(next(self._numbers)))
        self.gate.observe(client.ref, seen)

    # What is measured.

    def _look(self) -> None:
        """Note whose turn it is."""
        for client in self.clients:
            if client.since_s is None and client.is_silent(self.now_s):
                client.asked_s = None  # it wants no more, and says nothing: so much is seen by now
        first = min((client for client in self.clients if client.asked_s is not None), key=_place, default=None)
        for client in self.clients:
            if client is not first:
                client.first_s = client.turn_s = client.freed_before = None
        if first is None:
            return
        if first.first_s is None:
            first.first_s = self.now_s
        if first.freed_before is None:
            first.freed_before = self.freed - self.free
        if first.turn_s is None and self.freed - first.freed_before >= (first.asked - first.has) * first.size:
            first.turn_s = self.now_s
        if self.now_s - first.first_s > TURN_S:
            first.laps, first.asked_s = first.laps + 1, self.now_s
            first.first_s = first.turn_s = first.freed_before = None

    def _rightly_passed(self, client: Client) -> None:
        """It is granted at once, and would come first in any line: that room was nobody else's."""
        first = next((one for one in self.clients if one.first_s is not None), None)
        more = (client.wants - client.has) * client.size
        if first is None or first.freed_before is None or client.asked_s is not None or more <= 0:
            return
        if (client.has > 0, client.has * client.size) < (first.has > 0, first.has * first.size):
            first.freed_before, first.turn_s = first.freed_before + more, None

    def _waited(self, client: Client) -> None:
        """A wait has ended, in whatever way."""
        if client.since_s is not None:
            client.waits.append(self.now_s - client.since_s)
            client.beyond.append(self.now_s - client.turn_s if client.turn_s is not None else 0.0)
        client.since_s = client.turn_s = client.first_s = client.freed_before = None

    @property
    def jain(self) -> float:
        """Of what each got of its fair share."""
        got = [client.served / client.fair for client in self.clients if client.fair]
        return sum(got) ** 2 / (len(got) * sum(one * one for one in got))

    @property
    def used(self) -> float:
        """The part of the house that was in use."""
        return self._used / (HOUSE * self.now_s)


def _place(client: Client) -> tuple[int, bool, int, float]:
    assert client.asked_s is not None, "it waits"
    return client.laps, client.has > 0, client.has * client.size, client.asked_s


def _quotas(clients: Iterable[Client], *, turns: bool) -> Iterable[Mapping[str, object]]:
    hard = {GPU: str(HOUSE)}
    yield quota("house", hard, sharing={"turns": "Share" if turns else "FirstCome"})
    for client in clients:
        yield quota(client.ref.namespace, hard, {"team": client.ref.namespace}, parent="house")


def fair(clients: Sequence[Client]) -> list[float]:
    """The max-min fair share of each, in GPUs: nobody gets more than it wants, and what is left goes to the others."""
    wants = [client.wants * client.size for client in clients]
    shares, left = [0.0] * len(wants), float(HOUSE)
    for number, at in enumerate(sorted(range(len(wants)), key=wants.__getitem__)):
        shares[at] = min(wants[at], left / (len(wants) - number))
        left -= shares[at]
    return shares


def outcome(seeds: Iterable[int], *, turns: bool, until_s: float = HOUR_S) -> Outcome:
    """What comes of these worlds."""
    houses = [House(seed, turns=turns) for seed in seeds]
    for house in houses:
        house.run(until_s)
    clients = [client for house in houses for client in house.clients]
    rows = []
    for name in dict.fromkeys(client.name for client in clients):
        some = [client for client in clients if client.name == name]
        waits = [wait for client in some for wait in client.waits]
        beyond = [wait for client in some for wait in client.beyond]
        rows.append(Row(name, some[0].interval_s, median(waits), max(waits), max(beyond)))
    jain = sum(house.jain for house in houses) / len(houses)
    return Outcome(turns, tuple(rows), jain, sum(house.used for house in houses) / len(houses))


FULL, QUICK = range(30), range(1)
"""Seeds of worlds of an hour."""

BEYOND, EVEN = Goal(2.0), Goal(0.95, at_least=True)


def measure(seeds: Sequence[int], say: Callable[[str], None]) -> list[Figure]:
    """Whether nobody waits long beyond its turn, and all get their share; and what that costs others."""
    first_come, share = (outcome(seeds, turns=turns) for turns in (False, True))
    say(f"full house: {len(seeds)} worlds with turns, and without")
    rows = [Figure("full house with turns: Jain's index", f"{share.jain:.3f}", "1", share.jain, EVEN)]
    for plain, row in zip(first_come.rows, share.rows, strict=True):
        name, waits = f"full house with turns, {row.name}", (f"{row.p50_s:.0f} s", f"{plain.p50_s:.0f} s")
        told = f"{row.beyond_s:.0f} s (without {plain.beyond_s:.0f} s)"
        beyond = row.beyond_s / row.interval_s
        rows.append(Figure(f"{name}: longest wait beyond its turn", told, f"{row.interval_s:.0f} s", beyond, BEYOND))
        rows.append(Figure(f"{name}: median wait, over one without", *waits, row.p50_s / max(plain.p50_s, 1.0)))
    used = (f"{one.used:.0%}" for one in (share, first_come))
    return [*rows, Figure("full house with turns: GPUs in use, over one without", *used, share.used / first_come.used)]
