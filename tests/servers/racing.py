"""Several gates in one process on one ledger store, each behind its own ext_authz server, and clients that race.

The parts are those that ``extauthz serve`` uses: ``Checks``, ``Deciding``, ``Gate`` and ``Committer``. Only
the cluster is missing: nothing is written to it, so a grant stays live until a client says that its write was refused.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.entry import Event
from extauthz.core.model import WorkloadRef
from extauthz.serve.ledger_store.committing import Committer
from extauthz.serve.ledger_store.payload import decode
from extauthz.serve.servers.ext_authz import SERVICE, Checks
from extauthz.serve.service.deciding import Deciding
from extauthz.tell.observe.observers import Observers
from extauthz.testing import gate as make_gate
from extauthz.testing import put_scale, quota, scale, workload
from tests.servers.listening import listening
from tests.servers.slow_store import Store
from tests.support.memory_store import MemoryStore

WINDOW_S = 90.0
SETTLED_WITHIN_S = 2.0
ASK_WITHIN_S = 60.0
Check = Callable[..., grpc.aio.UnaryUnaryCall]


@dataclass(frozen=True)
class Habits:
    """What clients and stores do, as probabilities and seconds."""

    leaves: float = 0.05
    """A client cancels its call before the answer."""
    leaves_within_s: float = 0.01
    refused: float = 0.0
    """An allowed write is refused by the API server, and any one of the gates learns of it."""
    workloads: int = 48
    most: int = 12
    """Replicas that a client asks for at most."""
    delays_s: Sequence[float] = (0.0,)
    """How long calls of the store take at most, for each gate in turn."""
    faults: float = 0.0
    """A call of the store conflicts, or its answer is lost."""
    waves: int = 6
    """How often all clients begin at once. Before each all that was granted is refused, so that all room is free."""


@dataclass
class Result:
    """What became of a race."""

    seed: int
    hard: int
    highest: int = 0
    """The most that live grants have ever come to."""
    answers: Counter[str] = field(default_factory=Counter)
    left: int = 0
    """Calls that their clients gave up."""
    astray: list[str] = field(default_factory=list)
    """How memory and the stored object differ in the end."""
    failures: list[str] = field(default_factory=list)
    """Errors that gates have logged."""

    @property
    def broken(self) -> list[str]:
        over = [f"{self.highest} replicas allowed of {self.hard}"] if self.highest > self.hard else []
        return over + self.astray + self.failures

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.highest} of {self.hard}, {dict(self.answers)}, {self.left} left {self.broken}"


class _Sight:
    """There is no cluster, so that every gate has seen all of it."""

    def seen(self) -> Mapping[str, int]:
        return {}

    def has_reached(self, kind: str, version: int) -> bool:
        return True


class _Log:
    """Keeps errors."""

    def __init__(self, failures: list[str]) -> None:
        self._failures = failures

    def event(self, level: str, event: str, **fields: Any) -> None:
        if level == "error":
            self._failures.append(f"{event} {fields}")


@dataclass
class Member:
    """One running gate and how to ask it."""

    gate: Gate
    store: Store
    check: Check

    def settle(self, decision_id: str) -> None:
        self.gate.ledger.pending.settle(decision_id, Event.REFUSED, time.monotonic())

    def live(self) -> set[str]:
        return {pending_write.id for _, pending_write in self.gate.ledger.pending}


@asynccontextmanager
async def _member(objects: Sequence[Any], hard: int, store: Store, failures: list[str]) -> AsyncIterator[Member]:
    gate = make_gate([quota("acme", {"requests.cpu": str(hard)})], *objects)

    async def look(_: WorkloadRef) -> bool:
        return True

    async def list_anew() -> None:
        """There is nothing to list."""

    log: Any = _Log(failures)
    committer = Committer(
        gate, store, _Sight(), WINDOW_S, time.monotonic, look=look, list_anew=list_anew, holds_new=False, tell=log.event
    )
    checks = Checks(Deciding(gate, Observers((), log.event), log.event, commit=committer.commit))
    following = asyncio.create_task(committer.run())
    try:
        await committer.known.wait()
        alone = (("grpc.use_local_subchannel_pool", 1),)
        async with (
            listening(checks.methods()) as (_, address),
            grpc.aio.insecure_channel(address, options=alone) as channel,
        ):
            yield Member(gate, store, _check(channel))
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


def _check(channel: grpc.aio.Channel) -> Check:
    return channel.unary_unary(
        f"/{SERVICE}/Check",
        request_serializer=CheckRequest.SerializeToString,
        response_deserializer=CheckResponse.FromString,
    )


class Race:
    """The clients of one race, and what they were allowed."""

    def __init__(self, result: Result, habits: Habits, members: Sequence[Member]) -> None:
        self._result, self._habits, self._members = result, habits, members
        self._live: dict[str, dict[str, int]] = {}
        """Workload to its live grants and their counts."""

    async def client(self, name: str, asks: int) -> None:
        """One that asks again once it has its answer."""
        choose = random.Random(f"{self._result.seed}-{name}")
        for _ in range(asks):
            member = choose.choice(self._members)
            name, replicas = f"w{choose.randrange(self._habits.workloads)}", choose.randint(1, self._habits.most)
            call = member.check(_request(choose, name, replicas), timeout=ASK_WITHIN_S)
            if choose.random() < self._habits.leaves:
                await asyncio.sleep(choose.uniform(0, self._habits.leaves_within_s))
                call.cancel()
            answer = await self._answer(call)
            if answer is not None:
                self._take(answer, name, replicas, choose)

    async def clear(self) -> list[str]:
        """Let the API server refuse all that was allowed, wait until every gate knows it, and tell which do not."""
        self._live.clear()
        for decision_id in self._members[0].live():
            self._members[0].settle(decision_id)
        await _until(lambda: not any(member.live() for member in self._members))
        left = [len(member.live()) for member in self._members]
        return [f"refused grants are still live, by gate: {left}"] if any(left) else []

    async def _answer(self, call: Awaitable[CheckResponse]) -> CheckResponse | None:
        try:
            return await call
        except asyncio.CancelledError:
            self._result.left += 1
            return None

    def _take(self, answer: CheckResponse, name: str, replicas: int, choose: random.Random) -> None:
        told = answer.dynamic_metadata
        self._result.answers[told["reason"]] += 1
        if not answer.HasField("ok_response"):
            return
        grants = self._live.setdefault(name, {})
        grants[told["decision_id"]] = replicas
        live = sum(max(counts.values(), default=0) for counts in self._live.values())
        self._result.highest = max(self._result.highest, live)
        if choose.random() < self._habits.refused:
            del grants[told["decision_id"]]
            choose.choice(self._members).settle(told["decision_id"])


def _request(choose: random.Random, name: str, replicas: int) -> CheckRequest:
    """As Knative's autoscaler or as the HPA sends it."""
    request = choose.choice((scale, put_scale))(name, replicas)
    check = CheckRequest()
    http = check.attributes.request.http
    http.method, http.path, http.raw_body = request.method, request.target, request.body
    http.headers.update(request.headers)
    return check


async def race(seed: int, gates: int, clients: int, asks: int, hard: int, habits: Habits | None = None) -> Result:
    """Let so many clients ask so many gates for replicas of one CPU under a limit of ``hard``.

    Args:
        asks: of each client, in each wave.
    """
    habits = habits if habits is not None else Habits()
    result = Result(seed, hard)
    common, choose = MemoryStore(), random.Random(seed)
    objects = [workload(f"w{number}", 0) for number in range(habits.workloads)]
    async with AsyncExitStack() as stack:
        members = []
        for number in range(gates):
            delay_s = habits.delays_s[number % len(habits.delays_s)]
            store = Store(common, random.Random(choose.random()), delay_s, habits.faults)
            members.append(await stack.enter_async_context(_member(objects, hard, store, result.failures)))
        runners = Race(result, habits, members)
        for wave in range(habits.waves):
            await asyncio.gather(*(runners.client(f"{wave}-{number}", asks) for number in range(clients)))
            result.astray += await _at_rest(members)
            result.astray += await runners.clear()
            if result.broken:
                break
    return result


async def _at_rest(members: Sequence[Member]) -> list[str]:
    """How memory and object still differ after some housekeeping."""
    await _until(lambda: not _astray(members))
    return _astray(members)


async def _until(holds: Callable[[], bool]) -> None:
    """Wait for it as long as housekeeping may take."""
    until_s = time.monotonic() + SETTLED_WITHIN_S
    while not holds() and time.monotonic() < until_s:  # noqa: ASYNC110 (no event tells)
        await asyncio.sleep(0.02)


def _astray(members: Sequence[Member]) -> list[str]:
    stored = _stored(members)
    found = []
    for number, member in enumerate(members):
        live = member.live()
        if live != stored:
            found.append(
                f"gate {number}: {len(live - stored)} grants are in no object, {len(stored - live)} not in memory"
            )
        if drift := member.gate.ledger.drift():
            found.append(f"gate {number}: drift {drift}")
    return found


def _stored(members: Sequence[Member]) -> set[str]:
    """Every grant in the newest state of each object."""
    newest: dict[str, Any] = {}
    for member in members:
        for name, one in member.store.stored.items():
            if name not in newest or int(one.version) > int(newest[name].version):
                newest[name] = one
    return {pending_id for one in newest.values() for pending_id in decode(one.payload).pending_writes}
