"""One simulated world: its clock, API server, gates and clients. ``run`` makes things happen in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from extauthz.core.model import Tree
from tests.support.memory_store import MemoryStore
from tests.worlds import objects
from tests.worlds.admission import Admission, Around
from tests.worlds.asking import Asking
from tests.worlds.checks import FAILURE, Checks
from tests.worlds.clients import W_S, Client
from tests.worlds.ground import Ground
from tests.worlds.judge import Key
from tests.worlds.loop import VirtualLoop
from tests.worlds.member import WRITES_AT_MOST, Member, Wiring, settings
from tests.worlds.objects import CPUS, KINDS, REPLICA_SET, word_of, workload_of
from tests.worlds.plan import Plan
from tests.worlds.policies import Odd, most
from tests.worlds.reference import CLAIMS, NAMESPACES, QUOTAS, ReferenceModel, owner
from tests.worlds.server import ApiServer

FORGETS_S = 4 * W_S + 60.0
"""How long a pending write may live at most. Its landing window may begin again with each gate that sees it first. Then
a read ends it, which may have to be tried again."""

HEARD_S = 1.0
"""How long other gates may not know of a write that no quota covers: a quarter of a second, what the ledger's write
takes, and the delay of a watch."""

UNSETTLING = frozenset({"again", "crash", "pause", "partition", "lost", "deleted", "edited", "lag"})
"""Faults after which a refused write may stay in a ledger object for longer than the next write of it, and after which
the ledger may be written late."""


CALM = frozenset(
    {
        "adopted",
        "late",
        "unheard",
        "leaves",
        "cut",
        "ungated",
        "refused-later",
        "webhook-lost",
        "applied",
        "remade",
        "spelled",
    }
)
"""Faults beside which gates see what is stored, and agree, soon."""

SEEN_S = 3.0
"""How soon. A write of a ledger may have to wait for others."""


class World(Ground):
    """Everything there is, for one run.

    Args:
        plan: what happens.
        record: folder that its gates record to; ``None``: nothing is recorded.
    """

    def __init__(self, plan: Plan, record: Path | None = None) -> None:
        super().__init__(plan, streams_lists=plan.seed % 7 != 0)
        self.plan = plan
        self.reference = ReferenceModel(self.server, self.loop.time)
        refused_s = FORGETS_S if plan.faults & UNSETTLING else 2.0
        heard_s = W_S if plan.faults & UNSETTLING else HEARD_S
        told = "not-a-count" if plan.entrances == "envoy" else "left-to-webhook"
        self.checks = Checks(self.reference, FORGETS_S, refused_s, heard_s, told, alone=plan.gates == 1)
        self.server.wrote.append(self._wrote)
        self.controllers = Controllers(self.loop, self.server, self.random("controllers"))
        self.peace = asyncio.Event()
        """Set once no faults happen any more."""
        self.checks.most = self._most
        asking = Asking(self.loop, self.reference, self.checks, self, self.tell)
        self._turning = asking.turning
        around = Around(self.loop, self.server, self.reference, self.checks, asking, self.tell, self._passed)
        admission = Admission(around, plan.faults, asks=plan.entrances != "envoy", clamps=plan.clamps)
        self.client = Client(self.loop, self.reference, self, asking, admission, plan.entrances)
        self.dice = self.random("rest")
        self.store = MemoryStore() if plan.ledger == "store" else None
        """The store of the shared ledger, if it is no object of the API server."""
        self.wiring = Wiring(
            self.loop,
            self.server,
            settings(W_S, plan.ledger, "refuse" if plan.entrances == "envoy" else "webhook"),
            self.store,
            self.next_id,
            self.tell,
            self._odd,
            self._ahead_s,
            record,
        )

    def _odd(self, name: str) -> Odd | None:
        return Odd(self.random(f"policy {name}"), self.peace) if "policies" in self.plan.faults else None

    def _most(self, name: str) -> int | None:
        return None if self.peace.is_set() or "policies" not in self.plan.faults else most(name)

    def _ahead_s(self, name: str) -> float:
        """Clocks are up to 5 s apart."""
        return self.random(f"clock {name[:5]}").uniform(-2.5, 2.5) if "overrides" in self.plan.faults else 0.0

    def turned(self, quota: str) -> None:
        """Another amount holds from now on, and nobody has written anything."""
        self.server.pass_version()
        self.checks.wrote(self.loop.time(), self.server.version, QUOTAS, ("", quota))

    def _wrote(self, collection: str, key: Key, before: Tree, after: Tree) -> None:
        self.checks.wrote(self.loop.time(), self.server.version, collection, key)
        if after is None or collection in (QUOTAS, NAMESPACES):
            self._turning.changed()
        if collection == REPLICA_SET.collection:
            owners = {owner(one) for one in (before, after) if one is not None} - {None, workload_of(key)[1]}
            for name in owners:
                self.checks.wrote(self.loop.time(), self.server.version, collection, (key[0], str(name)))

    def _passed(self, decision: str) -> None:
        """A write that the webhook has admitted has landed, or can land no more: a newer version shows it."""
        if self.plan.faults <= CALM:
            self.loop.call_later(SEEN_S, self._must_have_ended, decision)

    def _must_have_ended(self, decision: str) -> None:
        for member in self.serving():
            if member.gate.ledger.pending.follows(decision):
                self.checks.broken("ended when seen", f"{member.name} still follows {decision}")

    # Gates.

    def serving(self) -> list[Member]:
        """Gates that serve."""
        return [one for one in self.members if one is not None and one.serves and not one.process.stopped]

    def failed(self) -> str | None:
        """What failed inside a gate."""
        for member in self.members:
            if member is not None and member.metrics.writes > WRITES_AT_MOST:
                return f"{member.name} has written ledgers {member.metrics.writes} times"
            if member is None or member.process.ended:
                continue
            if member.odd is not None and member.odd.wrong:
                return f"{member.name}: a policy: {member.odd.wrong}"
            if member.log.failures:
                return f"{member.name}: {member.log.failures[0]}"
            if member.running.done() and not (member.stop.is_set() and member.running.exception() is None):
                return f"{member.name} has ended by itself: {member.running.exception()!r}"
        return next((one for one in self.loop.errors if "never retrieved" in one), None)

    # What goes on.

    def broken(self, rule: str, what: str) -> None:
        self.checks.broken(rule, what)

    def over(self) -> bool:
        failure = self.failed()
        if failure is not None:
            self.checks.broken(FAILURE, failure)
        return self.checks.found is not None


# The cluster's own controllers: they make ReplicaSets and volume claims, past the gates and in their own time.

SLOWEST_S = 0.6
"""How long a controller may wait before its next write."""


class Controllers:
    """Called with every stored change."""

    def __init__(self, loop: VirtualLoop, server: ApiServer, random: Random) -> None:
        self._loop = loop
        self._server = server
        self._random = random
        self._waiting: set[Key] = set()
        server.wrote.append(self._wrote)

    @property
    def busy(self) -> bool:
        """Whether something must still be created or deleted."""
        return bool(self._waiting)

    def _wrote(self, collection: str, key: Key, before: Tree, after: Tree) -> None:
        if after is None or collection not in (KINDS["roll"].collection, KINDS["sts"].collection):
            return
        if word_of(key[1]) == "roll":
            self._begin_rollout(key, after)
        if word_of(key[1]) in ("roll", "sts"):
            self._later(key)

    def _later(self, key: Key) -> None:
        if key not in self._waiting:
            self._waiting.add(key)
            wait_s = self._random.choice((0.0, 0.05, SLOWEST_S)) * self._random.random()
            self._loop.call_later(wait_s, self._go_on, key)

    def _go_on(self, key: Key) -> None:
        self._waiting.discard(key)
        tree = self._server.objects(KINDS[word_of(key[1])].collection).get(key)
        if tree is None:
            return
        if word_of(key[1]) == "sts":
            self._make_claims(key, tree["spec"]["replicas"])
        elif self._roll(key, tree):
            self._later(key)

    def _make_claims(self, key: Key, replicas: int) -> None:
        """The claims stay when the StatefulSet shrinks."""
        held = self._server.objects(CLAIMS)
        for ordinal in range(replicas):
            made = objects.claim(key, ordinal)
            if (key[0], made["metadata"]["name"]) not in held:
                self._server.request("POST", f"/api/v1/namespaces/{key[0]}/persistentvolumeclaims", {}, made)

    # Rollouts: never more pods than the Deployment asks for, or than there were.

    def _begin_rollout(self, key: Key, tree: Tree) -> None:
        """The ReplicaSet of another template is there at once, with one pod in the place of an old one."""
        wanted, cpu, sets = self._asked(key, tree)
        if sets.get(cpu) or (cpu in sets and not wanted):
            return
        if sum(sets.values()) >= wanted:
            self._shrink(key, sets, cpu, 1)
        if cpu in sets:
            self._resize(key, cpu, 1)
        else:
            made = objects.replica_set(tree, min(wanted, 1), cpu)
            self._server.request("POST", REPLICA_SET.path(key[0]), {}, made)

    def _roll(self, key: Key, tree: Tree) -> bool:
        """Take one step. True: there is another one to take."""
        wanted, cpu, sets = self._asked(key, tree)
        total, new = sum(sets.values()), sets[cpu]
        if total > wanted:
            self._shrink(key, sets, cpu, total - wanted)
        elif total > new:
            self._shrink(key, sets, cpu, 1)
            self._resize(key, cpu, new + 1)
        elif new < wanted:
            self._resize(key, cpu, wanted)
        return (total, new) != (wanted, wanted)

    def _asked(self, key: Key, tree: Tree) -> tuple[int, str, dict[str, int]]:
        """The count, the template, and the ReplicaSets that there are: template to count."""
        held = self._server.objects(REPLICA_SET.collection)
        found = {cpu: held.get((key[0], f"{key[1]}-{cpu}")) for cpu in CPUS}
        sets = {cpu: one["spec"]["replicas"] for cpu, one in found.items() if one is not None}
        cpu = tree["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        return tree["spec"]["replicas"], cpu, sets

    def _shrink(self, key: Key, sets: dict[str, int], new: str, by: int) -> None:
        """Old ones first."""
        for cpu in sorted(sets, key=lambda one: one == new):
            less = min(by, sets[cpu])
            by -= less
            if less:
                self._resize(key, cpu, sets[cpu] - less)

    def _resize(self, key: Key, cpu: str, replicas: int) -> None:
        path = REPLICA_SET.path(key[0], f"{key[1]}-{cpu}")
        self._server.request("PATCH", f"{path}/scale", {}, {"spec": {"replicas": replicas}})
