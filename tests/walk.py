"""``make walk``: how far one reads to follow a request through the gate.

A *stay* is a row of calls in one file: each begins with a change of file. A walk counts the stays, the files, and the
returns: stays in a file that was left before. So stays are files and returns together. Only functions of ``extauthz/``
count, without the demo, and only calls of Python functions.

The gate is the assembly that ``serve`` runs, with its real log, metrics and servers. The API server and its watches are
simulated, on a virtual clock. Each request is sent several times, and the shortest walk counts: by then all caches are
warm, and no timer ran meanwhile.
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple

import orjson

import extauthz
from extauthz.core.model import Tree, Verdict, WorkloadRef
from extauthz.inputs.settlement.answers import Fate
from extauthz.serve.servers.ext_authz import Checks
from extauthz.serve.servers.webhook import Webhook
from extauthz.serve.service.aside import AsideProcess
from extauthz.serve.service.assembly import Assembly, Decide, Surroundings
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Levels, Metrics
from extauthz.testing import put_scale
from tests.worlds import objects, reviews, wire
from tests.worlds.connection import Link, SimulatedConnection
from tests.worlds.loop import VirtualLoop
from tests.worlds.member import settings
from tests.worlds.objects import kind_of
from tests.worlds.reference import NAMESPACES, QUOTAS
from tests.worlds.server import ApiServer

PRODUCT = str(Path(extauthz.__file__).parent)
OUTSIDE = tuple(f"{PRODUCT}/{room}/" for room in ("demo",))

TIMES = 5
"""How often each request is sent."""

SEEN_S = 0.03
"""How soon the gate has seen what is stored."""

SETTLED_S = 30.0
"""How soon nothing is left to be done about it."""

COUNTED, REVIEWED, APPLIED, SEEN = (("shop", f"web-deploy-{number}") for number in range(4))
"""Deployments: one that is scaled by way of Envoy, and so on."""


class Walk(NamedTuple):
    """How far one reads."""

    stays: int
    files: int
    returns: int
    path: tuple[str, ...] = ()
    """Where each stay begins: file and function."""

    def __str__(self) -> str:
        return f"{self.stays}/{self.files}/{self.returns}"


CEILINGS: Mapping[str, Walk] = {
    "check of a growing scale": Walk(39, 16, 23),
    "observers of that check": Walk(19, 6, 13),
    "AdmissionReview of a scale": Walk(47, 18, 29),
    "AdmissionReview of a Deployment": Walk(172, 22, 150),
    "watch event of a Deployment": Walk(71, 18, 53),
    "entry of Envoy's access log": Walk(7, 7, 0),
}
"""No walk may be longer (``tests/simulate/test_walk.py``). Lower them as walks become shorter."""


class Steps:
    """Takes the file of each call that control goes into."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self._path: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        file = frame.f_code.co_filename
        if not file.startswith(PRODUCT) or file.startswith(OUTSIDE):
            return
        if not self._files or self._files[-1] != file:
            self._files.append(file)
            self._path.append(f"{file.removeprefix(PRODUCT)[1:]} {frame.f_code.co_qualname}")

    @property
    def walk(self) -> Walk:
        files = len(set(self._files))
        return Walk(len(self._files), files, len(self._files) - files, tuple(self._path))


@contextmanager
def followed() -> Iterator[Steps]:
    """Follow what this thread does. Another profiler, such as one that measures coverage, goes on afterwards."""
    steps, before = Steps(), sys.getprofile()
    sys.setprofile(steps)
    try:
        yield steps
    finally:
        sys.setprofile(before)


class Gate:
    """One gate, alone, before a simulated API server."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.server = ApiServer()
        self.log = Log(io.StringIO())
        self._aside = AsideProcess(self.log.event)  # it is never started: nothing here takes long
        ids, self._uids = count(), count()
        around = Surroundings(
            self.log,
            Metrics(_no_levels),
            loop.time,
            lambda: f"d{next(ids)}",
            wall=loop.time,
        )
        first = replace(settings(100.0, "memory", "webhook"), allow_unknown=("unclean-start",))
        self._assembly = Assembly(first, around)
        self._connection = SimulatedConnection(self.server, Link(Random(1)), loop)
        self.checks: Checks | None = None
        self.webhook: Webhook | None = None

    async def run(self, follow: Callable[[Gate], Awaitable[None]]) -> None:
        """Furnish the cluster, start, and ``follow``."""
        self._post(NAMESPACES, objects.namespace("shop"))
        self._post(QUOTAS, objects.quota("acme", {"requests.cpu": "900"}, {"namespaces": {"workspace": "acme"}}))
        hard = {"requests.cpu": "500", "pods": "500"}
        how = {"namespaces": {"workspace": "acme"}, "parent": "acme"}
        self._post(QUOTAS, objects.quota("team", hard, how))
        for key in (COUNTED, REVIEWED, APPLIED, SEEN):
            self._post(f"/apis/apps/v1/namespaces/{key[0]}/deployments", objects.workload(key, 1, "1"))
        stop = asyncio.Event()

        async def serve(decide: Decide) -> None:
            self.checks = Checks(decide)
            self.webhook = Webhook(decide, self._aside.review, self._assembly.clamping, self._assembly.gate.shapes)
            await asyncio.create_task(follow(self))  # or the assembly would go on each time that it does

        await self._assembly.run(self._connection, stop, serve)
        self.log.close()

    def _post(self, path: str, tree: Tree) -> None:
        self.server.request("POST", path, {}, tree)

    def tree(self, key: tuple[str, str]) -> Tree:
        """The object as the API server holds it."""
        return self.server.objects(kind_of(key).collection)[key]

    def store(self, key: tuple[str, str], **spec: Any) -> None:
        """Write it past the gate."""
        tree = self.tree(key)
        self.server.request("PUT", path_of(key), {}, {**tree, "spec": {**tree["spec"], **spec}})

    async def watched(self, key: tuple[str, str], replicas: int) -> Walk:
        """A watch event of what somebody else has written."""
        self.store(key, replicas=replicas)
        with followed() as steps:
            await asyncio.sleep(SEEN_S)
        entry = self._assembly.gate.ledger.get(WorkloadRef("apps", "deployments", *key))
        assert entry is not None
        assert entry.observed is not None
        assert entry.observed.resource_version == self.tree(key)["metadata"]["resourceVersion"]
        return steps.walk

    async def check(self, replicas: int) -> tuple[Walk, Walk, wire.Answer]:
        """A growing scale, as the HPA sends it; and who is told of it, once it is answered."""
        assert self.checks is not None
        version = self.tree(COUNTED)["metadata"]["resourceVersion"]
        raw = wire.check(put_scale(COUNTED[1], replicas, version, namespace=COUNTED[0]))
        with followed() as steps:
            answered = self.checks.answer(raw)
        with followed() as told:
            self._assembly.observers.drain()
        assert isinstance(answered, bytes), "nothing is fetched"
        answer = wire.answer(answered)
        assert answer.verdict is Verdict.ALLOW, answer
        return steps.walk, told.walk, answer

    async def review(self, key: tuple[str, str], sub: str, body: Tree) -> Walk:
        """What the API server asks before it stores ``body``; then it stores it."""
        assert self.webhook is not None
        prepared = self.server.prepare("PUT", path_of(key) + sub, body)
        raw = reviews.review(prepared, f"u{next(self._uids)}", dry=False)
        with followed() as steps:
            response = await self.webhook.validate(await self.webhook.read(raw))
        assert isinstance(response.body, bytes)
        assert orjson.loads(response.body)["response"]["allowed"], response.body
        self.server.store(prepared)
        return steps.walk

    def hear(self, raw: bytes) -> Walk:
        """A message of Envoy's access log."""
        with followed() as steps:
            self._assembly.access_logs.take(raw)
        return steps.walk


def path_of(key: tuple[str, str]) -> str:
    return f"/apis/apps/v1/namespaces/{key[0]}/deployments/{key[1]}"


def _no_levels() -> Levels:
    raise NotImplementedError("nobody scrapes it")


async def walked(gate: Gate, replicas: int) -> dict[str, Walk]:
    """One request of each kind, in the order in which they come on a cluster."""
    await asyncio.sleep(SETTLED_S)
    check, told, answer = await gate.check(replicas)
    log = gate.hear(wire.log_entry(answer, Fate(200, "via_upstream", frozenset(), 1, True)))
    gate.store(COUNTED, replicas=replicas)
    scale = {"metadata": {"name": REVIEWED[1], "namespace": REVIEWED[0]}, "spec": {"replicas": replicas}}
    review = await gate.review(REVIEWED, "/scale", scale)
    tree = gate.tree(APPLIED)
    template = objects.workload(APPLIED, 1, f"{1000 + replicas}m")["spec"]["template"]
    whole = {**tree, "spec": {**tree["spec"], "replicas": replicas, "template": template}}
    apply = await gate.review(APPLIED, "", whole)
    await asyncio.sleep(SETTLED_S)
    watch = await gate.watched(SEEN, replicas)
    return {
        "check of a growing scale": check,
        "observers of that check": told,
        "AdmissionReview of a scale": review,
        "AdmissionReview of a Deployment": apply,
        "watch event of a Deployment": watch,
        "entry of Envoy's access log": log,
    }


def walks() -> dict[str, Walk]:
    """The shortest of each kind."""
    found: list[dict[str, Walk]] = []

    async def follow(gate: Gate) -> None:
        for number in range(TIMES):
            found.append(await walked(gate, number + 2))  # noqa: PERF401 (each awaits the one before)

    loop = VirtualLoop(Random(1))
    loop.run(Gate(loop).run(follow))
    return {name: min(one[name] for one in found) for name in found[0]}


def main(words: Sequence[str]) -> int:
    """Print them; of those whose name has a word, where each stay begins."""
    print(f"{'':33}stays/files/returns")
    for name, walk in walks().items():
        print(f"{name:33}{walk!s:20}" + (f"at most {CEILINGS[name]}" if name in CEILINGS else ""))
        if any(word in name for word in words):
            print("\n".join(f"  {step}" for step in walk.path))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
