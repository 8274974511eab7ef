"""Small worlds with pods in which every order of events is tried, and not one that is drawn.

An event is: a gate answers a write; an allowed write is stored; controllers go on; watches show a gate what there is;
a list is read, or its answer comes. Each that may be next is tried in a process of its own, so nothing is put back. A
state that was reached before is not tried again. Two states are the same if what the API server has, what is on its way
and what each gate knows are the same, but for times and names. Of versions only the order counts.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import mmap
import os
import re
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import orjson

from extauthz.core.model import Request, Tree, Verdict
from extauthz.serve.ledger_store.payload import decode
from tests.worlds import wire
from tests.worlds.connection import Stream
from tests.worlds.judge import Key, Promise
from tests.worlds.loop import seeded
from tests.worlds.member import Member
from tests.worlds.objects import MERGE_PATCH, REPLICA_SET, Kind
from tests.worlds.pods import objects
from tests.worlds.pods.controllers import Controllers
from tests.worlds.pods.judge import Amounts
from tests.worlds.pods.objects import DEPLOYMENT, POD, REVISION, STATEFUL_SET, kind_of
from tests.worlds.pods.plan import Plan
from tests.worlds.pods.world import Change, World, furnish, miscounts, review
from tests.worlds.restarts import LEDGERS
from tests.worlds.server import Event
from tests.worlds.wire import Question

SETTLES_S = 0.06
"""So long after each event nothing is on its way any more that does not wait to be chosen."""

READY_S = 5.0
RELIST_S = 4.0

PODS_OF = {DEPLOYMENT: (DEPLOYMENT, REPLICA_SET, POD), STATEFUL_SET: (STATEFUL_SET, REVISION, POD)}


class Written(NamedTuple):
    """A write that somebody sends."""

    workload: str
    replicas: int
    cpu: str = ""
    """Empty: a count alone, which Envoy asks about too."""
    gate: int = 0

    @property
    def key(self) -> Key:
        """Of what is written."""
        space, name = self.workload.split("/")
        return space, name


class Space(NamedTuple):
    """What is to be tried in every order."""

    workloads: tuple[tuple[str, str], ...]
    """``namespace/app-word-number``, and how many CPUs its template asks for. Each has one pod at the start."""
    cpus: int
    """The limit."""
    writes: tuple[Written, ...]
    gates: int = 1
    apart: bool = True
    """Each kind of object is shown to a gate for itself; else all that there is at once."""
    hasty: bool = False
    """Controllers act at once: what they do is no event of its own."""
    late: Kind | None = None
    """Of this kind one list is read at any time, and answered at any later time, while its watch is broken."""


class Tried(NamedTuple):
    """What was tried."""

    orders: int
    """How many orders of events there are. All were taken, up to a state from which the rest was taken before."""
    states: int
    broken: str
    """The first order that breaks a rule, event by event; empty: none does."""


@dataclass
class _Write:
    of: Written
    stages: list[str] = field(default_factory=list)
    """Who is still to take it: ``envoy``, ``webhook``, ``store``."""
    before: Tree = None
    after: Tree = None
    """What the webhook was asked about."""


class _Chosen(Controllers):
    """Controllers go on when they are told to, one after the other as they were told of changes. Kubelets run a pod at
    once."""

    chosen = hasty = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.next: dict[tuple[Kind, Key], None] = {}

    def _later(self, kind: Kind, key: Key) -> None:
        if not self.chosen:
            super()._later(kind, key)
        elif self.hasty or kind in (POD, REVISION):
            self._loop.call_soon(self._go_on, kind, key)
        else:
            self.next[kind, key] = None

    def _put(self, kind: Kind, tree: Tree) -> None:
        """Of the status of a ReplicaSet nothing tells anybody anything, but how many pods run."""
        metadata = tree["metadata"]
        held = self._server.objects(kind.collection)[metadata["namespace"], metadata["name"]]
        status = {**held["status"], "readyReplicas": tree["status"].get("readyReplicas")}
        if not (self.chosen and kind is REPLICA_SET and {**tree, "status": status} == held):
            super()._put(kind, tree)

    def go_on(self) -> None:
        """Until one of them has written something."""
        version = self._server.version
        while self.next and self._server.version == version:
            at = next(iter(self.next))
            del self.next[at]
            self._go_on(*at)


class _World(World):
    makes = _Chosen
    controllers: _Chosen

    def __init__(self, space: Space) -> None:
        workloads = tuple((place, cpu, True) for place, cpu in space.workloads)
        hard = Amounts(1000 * space.cpus, 1000)
        ledger = "memory" if space.gates == 1 else "kubernetes"
        super().__init__(Plan(0, space.gates, ledger, workloads, hard, (), frozenset()))
        self.space = space
        self.controllers.hasty = space.hasty
        self.writes = [_Write(one, ["envoy", "webhook", "store"][bool(one.cpu) :]) for one in space.writes]
        self.list_is: str = "to be read" if space.late is not None else ""

    # What may happen next.

    def choices(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Each event that may come now: what it is called, and what does it."""
        for number, one in enumerate(self.writes):
            if one.stages:
                yield f"{one.stages[0]} takes write {number}", partial(self._take, one)
        if self.controllers.next:
            yield "a controller goes on", self.controllers.go_on
        for number, link in enumerate(self.links):
            assert link.kept is not None
            waits = {stream.collection for stream, _ in link.kept}
            for some in self._shown_together():
                if waits & {*some}:
                    what = f"gate {number} is shown {' '.join(one.rpartition('/')[2] for one in some)}"
                    yield what, partial(link.hand_on, some)
        if self.list_is == "to be read":
            yield "a list is read", self._read_list
        elif self.list_is == "read":
            yield "the list is answered", self._answer_list

    def _shown_together(self) -> list[tuple[str, ...]]:
        kinds = {kind.collection: None for place, _ in self.space.workloads for kind in PODS_OF[_kind(place)]}
        return [(one,) for one in kinds] if self.space.apart else [(*kinds, LEDGERS)]

    async def _take(self, one: _Write) -> None:
        stage, kind, key = one.stages.pop(0), _kind(one.of.workload), one.of.key
        member = self.members[one.of.gate]
        assert member is not None
        if stage == "envoy":
            body = orjson.dumps({"spec": {"replicas": one.of.replicas}})
            path = f"{kind.path(*key)}/scale"
            raw, uid = wire.check(Request("PATCH", path, {"content-type": MERGE_PATCH}, body)), ""
        elif stage == "webhook":
            one.before = self.server.objects(kind.collection)[key]
            one.after = _change(one.of)(one.before)
            uid = f"review-{next(self._uids)}"
            raw = review(kind, key, one.before, one.after, "" if one.of.cpu else "scale", uid)
        elif self.server.objects(kind.collection)[key] is one.before:
            self._store(kind, key, one.before, one.after)
            return
        else:
            return  # a conflict: nobody tries again
        answer = (await member.begin(member.answer(Question(raw, Promise(key, None, None), 0, False, uid))))[0]
        self.tell(f"{member.name}: {stage}, {key[1]}: {answer.verdict} ({answer.reason})")
        if answer.verdict is not Verdict.ALLOW:
            one.stages.clear()

    async def _read_list(self) -> None:
        """The watch breaks, and its version is not known any more. The list is read then."""
        assert self.space.late is not None
        self.list_is = "read"
        link = self.links[0]
        link.late = asyncio.Event()
        self.server.compact()
        link.drop(self.space.late.collection)
        await asyncio.sleep(RELIST_S)

    async def _answer_list(self) -> None:
        self.list_is = "answered"
        late = self.links[0].late
        assert late is not None
        late.set()
        await asyncio.sleep(0.1)

    # What it has come to.

    def state(self) -> bytes:
        """What two worlds that are the same have in common."""
        there = [self.server.objects(kind.collection) for kinds in PODS_OF.values() for kind in kinds]
        parts = (
            sorted(repr(one) for some in there for one in some.items()),
            sorted(map(repr, self.controllers.next)),
            [(one.stages, one.before) for one in self.writes],
            self.list_is,
            [sorted(_on_its_way(*one) for one in link.kept or ()) for link in self.links],
            [list(_known(member)) for member in self.members if member is not None],
            [_of_ledger(tree) for tree in self.server.objects(LEDGERS).values()],
        )
        return hashlib.sha256(_without_names(repr(parts)).encode()).digest()[:8]

    async def ended(self) -> None:
        """All has happened: with a bookmark of each watch, each gate counts what there is."""
        for link in self.links:
            link.hand_on({stream.collection for stream in link.streams})
        await asyncio.sleep(SETTLES_S)
        found = [what for one in self.members if one is not None for what in miscounts(self, one)]
        if found:
            self.broken("at rest it counts what there is", "; ".join(found))


def _kind(workload: str) -> Kind:
    return kind_of(workload.split("/")[1])


def _change(write: Written) -> Change:
    def change(held: Tree) -> Tree:
        template = {"template": objects.template(write.key[1], write.cpu)} if write.cpu else {}
        return objects.with_spec(held, replicas=write.replicas, **template)

    return change


def _on_its_way(stream: Stream, event: Event) -> str:
    tree = _of_ledger(event.object) if stream.collection == LEDGERS else event.object
    return repr((stream.collection, str(event.version), event.type, tree))


def _of_ledger(tree: Tree) -> Tree:
    """Without its clock."""
    payload = decode(tree["spec"]["payload"])
    return tree["metadata"]["resourceVersion"], sorted(payload.pending_writes), payload.watermark, payload.holds


def _known(member: Member) -> Iterator[str]:
    """What a gate knows, each part for itself."""
    ledger = member.gate.ledger
    for entry in ledger.workloads:
        pending = [replace(one, id="", expires_s=0.0, answered_s=None) for one in entry.live_pending_writes()]
        yield repr((entry.ref, entry.observed, entry.shown, entry.left, sorted(map(repr, pending))))
    rollouts = ledger.observations._rollouts
    yield repr((rollouts._left, rollouts._reached, list(ledger.usage.rows())))


_VERSION = re.compile(r"'(\d{3,})'")
_NAMELESS = re.compile(r"\bd\d{15}\b|\breview-\d+\b|\d+\.\d+")


def _without_names(text: str) -> str:
    """Without times and ids; of each version its place in the order of all."""
    text = _NAMELESS.sub("", text)
    places = {one: at for at, one in enumerate(sorted({*_VERSION.findall(text)}, key=int))}
    return _VERSION.sub(lambda found: f"v{places[found[1]]}", text)


# The search.


class _Seen:
    """States that were reached, and the orders from each to an end. All processes of a search see the same."""

    SLOTS = 1 << 18

    def __init__(self) -> None:
        self._table = mmap.mmap(-1, 16 * (self.SLOTS + 1))

    def _at(self, slot: int) -> tuple[bytes, int]:
        return struct.unpack_from("8sQ", self._table, 16 * slot)

    def _slot(self, state: bytes) -> int:
        slot = int.from_bytes(state, "big") % self.SLOTS
        while self._at(slot)[0] not in (state, bytes(8)):
            slot = (slot + 1) % self.SLOTS
        return slot

    def orders(self, state: bytes) -> int:
        """How many there are from a state; 0: it was not reached yet."""
        return self._at(self._slot(state))[1]

    def keep(self, state: bytes, orders: int) -> None:
        """Keep how many there are, and tell it to the process that waits."""
        assert self.states < self.SLOTS // 2, "too many states: make the table larger"
        struct.pack_into("8sQ", self._table, 16 * self._slot(state), state, orders)
        struct.pack_into("QQ", self._table, 16 * self.SLOTS, self.states + 1, orders)

    @property
    def states(self) -> int:
        """How many were kept."""
        return int.from_bytes(self._table[-16:-8], sys.byteorder)

    @property
    def told(self) -> int:
        """The orders from the state that came last."""
        return int.from_bytes(self._table[-8:], sys.byteorder)

    def tell(self, orders: int) -> None:
        """Tell them to the process that waits."""
        struct.pack_into("Q", self._table, 16 * self.SLOTS + 8, orders)


class _BrokenError(Exception):
    """A rule is broken in this order of events."""


def tried(space: Space) -> Tried:
    """Try all orders, or as far as the first that breaks a rule. In a process in which a seed always means the same."""
    seen = _Seen()
    reader, writer = os.pipe()
    if not os.fork():
        try:
            with seeded(0):
                world = _World(space)
                world.loop.run(_live(world, seen, writer))
        except BaseException:  # noqa: BLE001 (told below, if it is not told yet)
            os.write(writer, b"" if sys.exc_info()[0] is _BrokenError else traceback.format_exc().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        broken = pipe.read()
    os.wait()
    return Tried(seen.told, seen.states, broken)


async def _live(world: _World, seen: _Seen, writer: int) -> None:
    furnish(world)
    await world.until(lambda: world.is_quiet, READY_S)
    await world.start_all()
    await asyncio.sleep(READY_S)
    world.controllers.chosen = True
    for link in world.links:
        link.kept, link.streams_lists = [], False
    gc.collect()
    gc.freeze()  # or each process copies all that it only counts
    gc.disable()
    seen.tell(await _explore(world, seen, writer))


async def _explore(world: _World, seen: _Seen, writer: int) -> int:
    """Try all that may come from here on. Returns the number of orders."""
    await asyncio.sleep(SETTLES_S)
    state = world.state()
    if orders := seen.orders(state):
        return orders
    choices = list(world.choices())
    if not choices:
        await world.ended()
    if world.over():
        os.write(writer, "\n".join([*world.trace, ""]).encode()[:60_000])
        raise _BrokenError
    for one in choices[:-1]:
        orders += await _branch(world, seen, writer, *one)
    orders += await _happens(world, seen, writer, *choices[-1]) if choices else 1
    seen.keep(state, orders)
    return orders


async def _happens(world: _World, seen: _Seen, writer: int, what: str, does: Callable[[], Any]) -> int:
    world.tell(what)
    if asyncio.iscoroutine(done := does()):
        await done
    return await _explore(world, seen, writer)


async def _branch(world: _World, seen: _Seen, writer: int, what: str, does: Callable[[], Any]) -> int:
    """Try all that may come after one event, in a process of its own. Returns the number of orders."""
    if pid := os.fork():
        if os.waitpid(pid, 0)[1]:  # noqa: ASYNC222 (it is to wait: time stands still here)
            raise _BrokenError
        return seen.told
    status = 1
    try:
        asyncio._set_running_loop(world.loop)
        seen.tell(await _happens(world, seen, writer, what, does))
        status = 0
    except BaseException:  # noqa: BLE001 (told below, if it is not told yet)
        os.write(writer, b"" if sys.exc_info()[0] is _BrokenError else traceback.format_exc().encode())
    finally:
        os._exit(status)
