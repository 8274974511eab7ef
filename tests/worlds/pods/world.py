"""One world with pods: gates, an API server with its controllers, and people who write. ``run`` lives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random
from typing import Any, NamedTuple

import orjson

from extauthz.core.model import Request, Tree, Verdict
from extauthz.inputs.kube.connection import ApiError
from extauthz.inputs.settlement.answers import Fate
from extauthz.serve.ledger_store.payload import Payload, decode, encode
from extauthz.serve.service.deciding import INTERNAL_ERROR
from tests.worlds import reviews, wire
from tests.worlds.checks import FAILURE, Violation
from tests.worlds.clients import NO_FLAGS, W_S
from tests.worlds.connection import Link
from tests.worlds.ground import READY_WITHIN_S, Ground
from tests.worlds.judge import Key, Promise
from tests.worlds.loop import seeded
from tests.worlds.member import Member, Wiring, settings
from tests.worlds.objects import (
    MERGE_PATCH,
    REPLICA_SET,
    Kind,
    container,
    definition,
    milli,
    namespace,
    quota,
    reference,
)
from tests.worlds.plan import Step
from tests.worlds.pods import objects
from tests.worlds.pods.controllers import Controllers
from tests.worlds.pods.judge import Amounts, Judge
from tests.worlds.pods.objects import (
    CLAIM,
    CLAIM_TEMPLATE,
    CREW,
    DEPLOYMENT,
    JOB,
    LIMIT_RANGE,
    POD,
    REVISION,
    STATEFUL_SET,
    TEAM,
    cpu_of,
    kind_of,
)
from tests.worlds.pods.plan import CPUS, Plan
from tests.worlds.reference import DEFINITIONS, NAMESPACES, QUOTAS
from tests.worlds.restarts import LEDGER, LEDGERS
from tests.worlds.server import Prepared
from tests.worlds.wire import Answer, Question

ANSWERS_WITHIN_S = 2.0
"""How long Envoy and the API server wait for an answer."""

STORED_WITHIN_S = 5.0
"""How long after that a write may be stored."""

TRIES = 3

QUIET_S = 0.2
"""For so long nothing has changed: watches that do not lag have shown it all."""

RESTS_WITHIN_S = 3 * W_S + 90.0

ASKS_AGAIN_S = 0.5
"""After this an operator asks again for a pod that it did not get."""

STORAGE = "requests.storage"
"""Of a Job more is counted at rest than there is: each of its pods may still come, and leaves its claim."""

DEVICES = f"{objects.DEVICE_CLASS}.deviceclass.resource.k8s.io/devices"

Change = Callable[[Tree], Tree | None]
"""What somebody makes of an object (``None``: there is none); ``None``: nothing."""


class Result(NamedTuple):
    """The result of a world."""

    plan: Plan
    violation: Violation | None
    trace: tuple[str, ...]
    answers: int
    grants: int
    virtual_s: float


class World(Ground):
    """Everything there is, for one run."""

    makes: type[Controllers] = Controllers

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.plan = plan
        self.found: Violation | None = None
        limits = {"": plan.hard, **plan.tiers}
        broken = lambda what: self.broken("never over", what)  # noqa: E731
        self.judge = Judge(self.server, self.loop.time, limits, broken, charges_surge=plan.charges_surge)
        self.controllers = self.makes(self.loop, self.server, self.random("controllers"))
        self.controllers.stuck = self._stuck()
        if "pod" in plan.words:
            self.controllers.ask = self._ask_for_pod
        self._shown = {kind.collection for kind in plan.watched}
        self.server.wrote.append(self._wrote)
        self.changed_s = 0.0
        self.answers = self.grants = 0
        self.peace = False
        self._uids = count(1)
        self.wiring = Wiring(
            self.loop,
            self.server,
            replace(
                settings(W_S, plan.ledger, "webhook"), pod_groups=objects.POD_GROUPS, charge_surge=plan.charges_surge
            ),
            None,
            self.next_id,
            self.tell,
        )

    def _stuck(self) -> set[str]:
        """In a third of the worlds with faults, pods that ask for one amount of CPU do not come to run till the end."""
        random = self.random("stuck")
        return {random.choice(CPUS)} if self.plan.faults and random.random() < 1 / 3 else set()

    def broken(self, rule: str, what: str) -> None:
        """Keep the first."""
        if self.found is None:
            self.found = Violation(rule, what)
            self.tell(f"broken: {rule}: {what}")

    def _wrote(self, collection: str, key: Key, before: Tree, after: Tree) -> None:
        self.changed_s = self.loop.time()
        if collection in self._shown and (before is None or after is None or before.get("spec") != after.get("spec")):
            what = "gone" if after is None else _shown(after)
            self.tell(f"api: {collection.rpartition('/')[2]} {key[1]}: {what}")

    def over(self) -> bool:
        """A rule is broken: what comes after that says nothing new."""
        for member in self.members:
            if member is not None and member.log.failures:
                self.broken(FAILURE, f"{member.name}: {member.log.failures[0]}")
        if self.loop.errors:
            self.broken("simulation", self.loop.errors[0])
        return self.found is not None

    # Writing.

    async def ask(self, raw: bytes, key: Key, random: Random, review: str = "") -> Answer | None:
        """The answer of any gate; ``None``: none came in time, which is a refusal."""
        await asyncio.sleep(random.uniform(0.0005, 0.005))
        member = random.choice(self.members)
        if member is None or not member.serves:
            return None
        task = member.begin(member.answer(Question(raw, Promise(key, None, None), 0, False, review)))
        done, _ = await asyncio.wait((task,), timeout=ANSWERS_WITHIN_S)
        if not done or task.cancelled():
            if not review:
                task.cancel()
            return None
        if (error := task.exception()) is not None:
            self.broken(FAILURE, f"{member.name} failed: {error!r}")
            return None
        answer: Answer = task.result()[0]
        if answer.reason == INTERNAL_ERROR:
            self.broken(FAILURE, f"{member.name} failed on {answer.id}")
        self.answers += 1
        self.grants += answer.verdict is Verdict.ALLOW and answer.reason == "fits"
        self.tell(f"{member.name}: {'webhook' if review else 'envoy'}, {key[1]}: {answer.verdict} ({answer.reason})")
        return answer

    async def scale(self, key: Key, to: int, how: Mapping[str, Any], random: Random) -> None:
        """A count, by Envoy and then by the webhook; in half of the worlds there is no Envoy."""
        kind = kind_of(key[1])
        answer = None
        if self.plan.seed % 2:
            body = orjson.dumps({"spec": {"replicas": to}})
            request = Request("PATCH", f"{kind.path(*key)}/scale", {"content-type": MERGE_PATCH}, body)
            answer = await self.ask(wire.check(request), key, random)
            if answer is None or answer.verdict is not Verdict.ALLOW:
                return
        stored = await self.write(
            kind, key, lambda held: held and objects.with_spec(held, replicas=to), how, random, "scale"
        )
        member = random.choice(self.members)
        if answer is not None and member is not None and member.serves:
            fate = Fate(200 if stored else 409, "via_upstream", NO_FLAGS, 1, True)
            member.hear(wire.log_entry(answer, fate))

    async def write(
        self, kind: Kind, key: Key, change: Change, how: Mapping[str, Any], random: Random, sub: str = ""
    ) -> bool:
        """A write as the API server takes it: worked out, admitted, stored on what it was worked out on, or tried
        again. Whether it was stored."""
        until_s = self.loop.time() + ANSWERS_WITHIN_S + STORED_WITHIN_S
        for _ in range(TRIES):
            before = self.server.objects(kind.collection).get(key)
            after = change(before)
            if after is None or (after == before):
                return False
            uid = ""
            if sub == "resize" or _may_grow(before, after, sub):
                uid = f"review-{next(self._uids)}"
                answer = await self.ask(review(kind, key, before, after, sub, uid), key, random, uid)
                if answer is None or answer.verdict is not Verdict.ALLOW:
                    return False
            late = "late" in self.plan.faults
            if late and how.get("end") == "refused":
                return False
            left_s = until_s - self.loop.time()
            await asyncio.sleep(
                left_s * random.random() if late and how.get("end") == "late" else 0.05 * random.random()
            )
            if self.loop.time() > until_s:
                return False
            if self.server.objects(kind.collection).get(key) is before:
                self._store(kind, key, before, after, uid)
                return True
        return False

    def _store(self, kind: Kind, key: Key, before: Tree, after: Tree, uid: str = "") -> None:
        """Store what was reviewed as ``uid``: a new object is the very one that the webhook was shown."""
        if before is None:
            self.server.store(Prepared(kind.collection, key, "", None, _named(after, uid)))
        else:
            self.server.request("PUT", kind.path(*key), {}, after)

    def _ask_for_pod(self, tree: Tree) -> None:
        """An operator makes a pod, and asks again until it has it, or wants it no more."""
        key = tree["metadata"]["namespace"], tree["metadata"]["name"]
        owner = key[0], tree["metadata"]["ownerReferences"][0]["name"]
        self.controllers.asking.add(key)

        async def ask() -> None:
            made = await self.write(
                POD, key, lambda held: tree if held is None else None, {}, self.random(f"pod {next(self._uids)}")
            )
            if not made:
                await asyncio.sleep(ASKS_AGAIN_S)
            self.controllers.asking.discard(key)
            self.controllers.look(TEAM, owner)

        self.spawn(ask())

    @property
    def has_class(self) -> bool:
        """Whether the RuntimeClass is there."""
        return ("", objects.RUNTIME_CLASS) in self.server.objects(objects.RUNTIME_CLASSES.collection)

    def make_class(self) -> None:
        """Where something names it, and it is not there."""
        if "kata" in self.plan.words and not self.has_class:
            self.server.request("POST", objects.RUNTIME_CLASSES.collection, {}, objects.runtime_class())

    def make_limits(self, *spaces: str) -> None:
        """The LimitRange comes where a workload asks for nothing, in these namespaces or in all."""
        for space in sorted({name.split("/")[0] for name, _, _ in self.plan.workloads if "-bare-" in name}):
            is_there = (space, objects.DEFAULTS) in self.server.objects(LIMIT_RANGE.collection)
            if not is_there and (not spaces or space in spaces):
                self.judge.made_dearer(space, "bare", Amounts(milli(objects.DEFAULT_CPU), 0))
                self.server.request("POST", LIMIT_RANGE.path(space), {}, objects.limit_range(space))

    @property
    def is_quiet(self) -> bool:
        """Everything has been done, and watches that do not lag have shown it."""
        return not self.controllers.busy and self.loop.time() - self.changed_s > QUIET_S


def _shown(tree: Tree) -> str:
    """What counts of an object, for the trace."""
    spec = tree.get("spec", {})
    pod = spec.get("template", tree).get("spec", {})
    counts = [f"{key}={spec[key]}" for key in ("parallelism", "completions", "suspend") if key in spec]
    if "devices" in spec.get("spec", spec):
        counts = [f"devices={objects.devices_of(tree)}"]
    cpus = [one["resources"]["requests"].get("cpu", "0") for one in pod.get("containers", ())]
    return " ".join([str(spec.get("replicas", "")), *counts, *cpus])


def _may_grow(before: Tree, after: Tree, sub: str) -> bool:
    """What the ``matchConditions`` of the webhook's configuration ask about."""
    if before is None:
        return True
    was, now = before["spec"], after["spec"]
    if after["kind"] == JOB.kind:
        more = any(now.get(key, 0) > was.get(key, 0) for key in ("parallelism", "completions"))
        moves = before["metadata"]["labels"] != after["metadata"]["labels"]
        return more or moves or bool(was.get("suspend") and not now.get("suspend"))
    if now["replicas"] > was["replicas"]:
        return True
    return not sub and reviews.changed(before, after)


def review(kind: Kind, key: Key, before: Tree, after: Tree, sub: str, uid: str) -> bytes:
    """The AdmissionReview of a write."""
    prepared = Prepared(kind.collection, key, sub, before, after if before is not None else _named(after, uid))
    return reviews.review(prepared, uid, dry=False, kind=kind, user="somebody")


def _named(tree: Tree, uid: str) -> Tree:
    """A new object, with the uid that the API server gives to it."""
    return {**tree, "metadata": {**tree["metadata"], "uid": f"new-{uid}"}}


# What each step does.


def _scaled(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    if kind_of(key[1]) is not JOB:
        world.spawn(world.scale(key, how["to"], how, random))
        return
    is_elastic = objects.word_of(key[1]) == "elastic"  # an Indexed Job may change both together, and no other one
    to = max(how["to"], 1) if is_elastic else how["to"]
    more = {"completions": to} if is_elastic else {}

    def change(held: Tree) -> Tree | None:
        return held and objects.with_spec(held, parallelism=to, **more)

    world.spawn(world.write(JOB, key, change, how, random))


def _applied(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    _roll(world, key, how["to"], how["cpu"], how, random)


def _roll(world: World, key: Key, to: int | None, cpu: str, how: Mapping[str, Any], random: Random) -> None:
    def change(held: Tree) -> Tree | None:
        if held is None:
            return None
        replicas = held["spec"]["replicas"] if to is None else to
        return objects.with_spec(held, replicas=replicas, template=objects.template(key[1], cpu))

    world.spawn(world.write(kind_of(key[1]), key, change, how, random))


def _undone(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    """An old ReplicaSet, or an old revision, is taken up again."""
    held = world.server.objects(kind_of(key[1]).collection).get(key)
    if held is None:
        return
    if kind_of(key[1]) is DEPLOYMENT:
        sets = world.server.objects(REPLICA_SET.collection).values()
        old = [cpu_of(one) for one in sets if objects.owner_uid(one) == held["metadata"]["uid"]]
    else:
        revisions = world.server.objects(REVISION.collection).values()
        old = [cpu_of(one["data"]) for one in revisions if objects.owner_uid(one) == held["metadata"]["uid"]]
    others = sorted({one for one in old if one != cpu_of(held)})
    if others:
        _roll(world, key, None, random.choice(others), how, random)


def _paused(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    """Or it goes on. Its template may change with that, and is rolled out only later."""

    def change(held: Tree) -> Tree | None:
        if held is None:
            return None
        more = {"template": objects.template(key[1], how["cpu"])} if how["cpu"] else {}
        return objects.with_spec(held, paused=not held["spec"].get("paused", False), **more)

    world.spawn(world.write(DEPLOYMENT, key, change, how, random))


def _partitioned(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    more: dict[str, Any] = {"updateStrategy": objects.partitioned(how["at"])}
    if how["cpu"]:  # a canary: pods below the partition stay, and come, as they were
        more["template"] = objects.template(key[1], how["cpu"])
    change: Change = lambda held: held and objects.with_spec(held, **more)  # noqa: E731
    world.spawn(world.write(STATEFUL_SET, key, change, how, random))


def _shifted(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    change: Change = lambda held: held and objects.with_spec(held, ordinals={"start": how["start"]})  # noqa: E731
    world.spawn(world.write(STATEFUL_SET, key, change, how, random))


def _pod_of(world: World, key: Key, number: int) -> Tree | None:
    pods = [
        one
        for (space, _), one in sorted(world.server.objects(POD.collection).items())
        if space == key[0] and one["metadata"]["labels"]["app"] == key[1]
        if one["status"]["phase"] == "Running" and not objects.is_ending(one)
    ]
    return pods[number % len(pods)] if pods else None


def _resized(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    pod = _pod_of(world, key, how["pod"])
    if pod is None:
        return
    at = key[0], pod["metadata"]["name"]

    def change(held: Tree) -> Tree | None:
        if held is None or held["metadata"]["uid"] != pod["metadata"]["uid"]:
            return None
        return objects.with_spec(held, containers=[container(how["cpu"]), *held["spec"]["containers"][1:]])

    world.spawn(world.write(POD, at, change, how, random, "resize"))


def _evicted(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    pod = _pod_of(world, key, how["pod"])
    if pod is not None:
        failed = objects.with_status(pod, phase="Failed")
        world.server.request("PUT", POD.path(key[0], pod["metadata"]["name"]), {}, failed)


def _deleted(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    """And made again after a while; a Crew without pods, as no gate is asked about the count of one that is made."""
    held = world.server.objects(kind_of(key[1]).collection).get(key)
    if held is None:
        return
    world.server.request("DELETE", kind_of(key[1]).path(*key), {}, None)
    own = () if objects.has_policy(key[1]) else ("podManagementPolicy", "completions")
    more = {name: held["spec"][name] for name in own if name in held["spec"]}
    if objects.word_of(key[1]) == "spill":
        more["completions"] = objects.COMPLETIONS
    is_crew = kind_of(key[1]) is CREW
    made = objects.workload(key, 0 if is_crew else how["to"], "" if is_crew else cpu_of(held), **more)
    made = objects.with_tier(made, objects.tier_of(held))

    async def again() -> None:
        await asyncio.sleep(how["for_s"])
        await world.write(kind_of(key[1]), key, lambda there: made if there is None else None, how, random)

    world.spawn(again())


def _orphaned(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    """Its ReplicaSets stay, and the next one of its name adopts them."""
    held = world.server.objects(DEPLOYMENT.collection).get(key)
    if held is None:
        return
    _deleted(world, key, how, random)
    for one in list(world.server.objects(REPLICA_SET.collection).values()):
        if objects.owner_uid(one) == held["metadata"]["uid"]:
            path = REPLICA_SET.path(key[0], one["metadata"]["name"])
            world.server.request("PUT", path, {}, objects.without_owner(one))


def _moved(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    """It belongs to another quota by its label. Its template stays, and so does what it has made."""
    change: Change = lambda held: held and objects.with_tier(held, how["tier"])  # noqa: E731
    world.spawn(world.write(kind_of(key[1]), key, change, how, random))


def _operated(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    before = world.controllers.unseen.get(key, "1")
    world.controllers.unseen[key] = how["cpu"]
    world.judge.grew(key, max(milli(how["cpu"]) - milli(before), 0))
    world.controllers.look(CREW, key)


def _suspended(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    """As Kueue does: it goes on later."""

    def change(held: Tree) -> Tree | None:
        return held and objects.with_spec(held, suspend=not held["spec"].get("suspend", False))

    world.spawn(world.write(JOB, key, change, how, random))


def _finished(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    pod = _pod_of(world, key, how["pod"])
    if pod is not None:
        ended = objects.with_status(pod, phase="Succeeded")
        world.server.request("PUT", POD.path(key[0], pod["metadata"]["name"]), {}, ended)


def _made_alone(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    """A pod that no workload is charged for."""
    tree = objects.pod_alone(key, f"{key[1]}-{next(world._uids)}", how["cpu"], how["owner"])
    at = key[0], tree["metadata"]["name"]
    world.spawn(world.write(POD, at, lambda held: tree if held is None else None, how, random))


def _deleted_alone(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    pod = _pod_of(world, key, how["pod"])
    if pod is None:
        return
    if objects.is_of_a_job(pod):
        world.judge.deleted(pod)
        world.controllers.end((key[0], pod["metadata"]["name"]))
    else:
        world.server.request("DELETE", POD.path(key[0], pod["metadata"]["name"]), {}, None)


def _reissued(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    """A template of claims cannot be changed: it is deleted, and made anew."""
    there = world.server.objects(CLAIM_TEMPLATE.collection).get((key[0], objects.OWN))
    if there is None:
        return
    world.server.request("DELETE", CLAIM_TEMPLATE.path(key[0], objects.OWN), {}, None)

    async def again() -> None:
        await asyncio.sleep(how["for_s"])
        more = max(how["devices"] - objects.devices_of(there), 0)
        world.judge.made_dearer(key[0], "dra", Amounts(0, 0, more))
        made = objects.claim_template(key[0], how["devices"])
        world.server.request("POST", CLAIM_TEMPLATE.path(key[0]), {}, made)

    world.spawn(again())


def _classed(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    """The RuntimeClass comes; or it goes, and comes again after a while."""
    held = world.has_class
    if held:
        world.server.request("DELETE", f"{objects.RUNTIME_CLASSES.collection}/{objects.RUNTIME_CLASS}", {}, None)

    async def comes() -> None:
        await asyncio.sleep(how["for_s"])
        world.make_class()

    world.spawn(comes())


def _limited(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    world.make_limits(key[0])


def _forged(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    """Somebody writes that a Team has made his Deployment, or no longer. Its operator makes none."""
    teams = [one for (space, _), one in world.server.objects(TEAM.collection).items() if space == key[0]]

    def change(held: Tree) -> Tree | None:
        if held is None or not teams or objects.owner_uid(held) is not None:
            return held and objects.without_owner(held)
        return {**held, "metadata": {**held["metadata"], "ownerReferences": [reference(random.choice(teams))]}}

    world.spawn(world.write(DEPLOYMENT, key, change, how, random))


def _with_sidecar(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    world.controllers.sides ^= {key[1]}


def _held(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    until_s = world.loop.time() + how["for_s"]
    collection = _watch_of(world, how["kind"])
    for one in [collection] if collection else [kind.collection for kind in world.plan.watched]:
        world.links[how["gate"]].held_until_s[one] = until_s


def _watch_of(world: World, number: int) -> str:
    """Of one kind; empty: all of them."""
    watched = ["", *(kind.collection for kind in world.plan.watched)]
    return watched[number % len(watched)]


def _dropped(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    world.links[how["gate"]].drop(_watch_of(world, how["kind"]))


def _relisted(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    world.server.compact()
    _dropped(world, key, how, random)


def _crashed(world: World, key: Key, how: Mapping[str, Any], random: Random) -> None:
    world.kill(how["gate"], world.members[how["gate"]], how["after"], how["for_s"])


TAKEN: Mapping[str, Callable[[World, Key, Mapping[str, Any], Random], None]] = {
    "scale": _scaled,
    "apply": _applied,
    "undo": _undone,
    "pause": _paused,
    "partition": _partitioned,
    "shift": _shifted,
    "resize": _resized,
    "delete": _deleted,
    "orphan": _orphaned,
    "operator": _operated,
    "move": _moved,
    "sidecar": _with_sidecar,
    "evict": _evicted,
    "suspend": _suspended,
    "finish": _finished,
    "pod": _made_alone,
    "unpod": _deleted_alone,
    "reissue": _reissued,
    "class": _classed,
    "limits": _limited,
    "forge": _forged,
    "hold-watch": _held,
    "drop-watch": _dropped,
    "relist": _relisted,
    "crash": _crashed,
}


# From its beginning to its end.


def run(plan: Plan) -> Result:
    """Run a plan to its end, or to the first rule that is broken."""
    with seeded(plan.seed):
        world = World(plan)
        world.loop.run(_live(world))
    return Result(plan, world.found, tuple(world.trace), world.answers, world.grants, world.loop.time())


async def _live(world: World) -> None:
    furnish(world)
    await world.until(lambda: world.is_quiet, READY_WITHIN_S)
    if not await world.live(partial(_take, world)):
        return
    await _rest(world)


def _take(world: World, step: Step) -> None:
    space, name = step.how["workload"].split("/")
    try:
        TAKEN[step.what](world, (space, name), step.how, world.random(f"step {step.number}"))
    except ApiError as error:
        world.tell(f"api: {error}")


def furnish(world: World) -> None:
    """Create the objects of the start. The ledger is old: under a new one nothing grows for a landing window."""
    custom = definition(CREW.api, CREW.plural, CREW.kind, labelSelectorPath=".status.selector")
    world.server.request("POST", DEFINITIONS, {}, custom)
    world.server.request("POST", DEFINITIONS, {}, definition(TEAM.api, TEAM.plural, TEAM.kind))
    for name in ("shop", "lab"):
        world.server.request("POST", NAMESPACES, {}, namespace(name))
    hard = _amounts(world.plan.hard)
    if world.plan.hard.devices:
        hard[DEVICES] = str(world.plan.hard.devices)
        world.server.request("POST", objects.DEVICE_CLASSES.collection, {}, objects.device_class())
        for name in ("shop", "lab"):
            world.server.request("POST", CLAIM_TEMPLATE.path(name), {}, objects.claim_template(name, 1))
            world.server.request("POST", CLAIM.path(name), {}, objects.shared_claim(name))
    acme: dict[str, Any] = {"namespaces": {"workspace": "acme"}}
    world.server.request("POST", QUOTAS, {}, quota("acme", hard, acme))
    for tier, limit in world.plan.tiers.items():
        how = {**acme, "workloads": {objects.TIER: tier}, "parent": "acme"}
        if tier in world.plan.guaranteed:
            how["guaranteed"] = _amounts(world.plan.guaranteed[tier])
        world.server.request("POST", QUOTAS, {}, quota(tier, _amounts(limit), how))
    for place, cpu, parallel in world.plan.workloads:
        space, name = place.split("/")
        kind = kind_of(name)
        if kind is POD:
            continue
        more = objects.variant(kind, parallel=parallel) if not objects.has_policy(name) else {}
        world.server.request("POST", kind.path(space), {}, objects.workload((space, name), 1, cpu, **more))
    if world.random("class").random() < 1 / 2:
        world.make_class()
        world.make_limits()
    if world.plan.ledger != "memory":
        spec = {"payload": encode(Payload(holds=False)), "intents": 0}
        world.server.request("POST", LEDGERS, {}, {"metadata": {"name": LEDGER}, "spec": spec})


def _amounts(amounts: Amounts) -> dict[str, str]:
    """Of ``spec.hard``."""
    storage = {STORAGE: str(amounts.storage)} if amounts.storage else {}
    return {"requests.cpu": f"{amounts.cpu_m}m", "pods": str(amounts.pods)} | storage


async def _rest(world: World) -> None:
    """Faults stop. Then each gate counts what there is, and so does one that starts now."""
    world.tell("faults stop")
    world.controllers.unstick()
    world.make_class()
    world.make_limits()
    world.heal()
    restless: list[str] = []

    def at_rest() -> bool:
        _resume(world)
        restless[:] = _restless(world)
        return not restless

    if not await world.until(at_rest, RESTS_WITHIN_S):
        world.broken("at rest it counts what there is", "; ".join(restless))
    if world.over():
        return
    another = world.start(len(world.members), Link(world.random("another")))
    await world.until(lambda: another.serves and another.gate.synced, READY_WITHIN_S)
    if not await world.until(lambda: not _wrong(world, another), RESTS_WITHIN_S):
        world.broken("who starts afterwards counts the same", "; ".join(_wrong(world, another)))


def _resume(world: World) -> None:
    """Rollouts go on, also those that a write under way has paused: in the middle of one several counts are right."""
    for key, held in list(world.server.objects(DEPLOYMENT.collection).items()):
        if held["spec"].get("paused"):
            world.server.request("PUT", DEPLOYMENT.path(*key), {}, objects.with_spec(held, paused=False))


def _restless(world: World) -> list[str]:
    if world.under_way or not world.is_quiet:
        return ["something is under way"]
    if any(one is None or not one.serves or one.assembly.holds for one in world.members):
        return ["gates are not there, or hold"]
    for tree in world.server.objects(LEDGERS).values():
        if decode(tree["spec"]["payload"]).pending_writes:
            return ["the ledger has pending writes"]
    return [f"{one.name} {what}" for one in world.members if one is not None for what in _wrong(world, one)]


def _wrong(world: World, member: Member) -> list[str]:
    found = miscounts(world, member)
    surges = _nano(world.judge.surges()) if world.plan.charges_surge else {}
    rows = [row for row in member.gate.usage() if row.reserved != surges.get(row.resource, 0)]
    found += [f"reserves {row.reserved} of {row.resource}, of {surges.get(row.resource, 0)}" for row in rows]
    if member.gate.ledger.pending_writes:
        found.append(f"follows {[one.id for _, one in member.gate.ledger.pending]}")
    return found


def miscounts(world: World, member: Member) -> list[str]:
    """Where a gate counts another amount than there is."""
    there = {"acme": _nano(world.judge.used())} | {tier: _nano(world.judge.used(tier)) for tier in world.plan.tiers}
    found = [
        f"counts {row.used} of {row.resource} in {row.quota}, and there is {there[row.quota][row.resource]}"
        for row in member.gate.usage()
        if row.used != there[row.quota][row.resource]
        and not (row.resource == STORAGE and "spill" in world.plan.words and row.used > there[row.quota][row.resource])
    ]
    if drift := member.gate.ledger.drift():
        found.append(f"has drifted by {drift}")
    return found


def _nano(used: Amounts) -> dict[str, int]:
    """As a gate counts, by the keys of ``spec.hard``."""
    return {
        "requests.cpu": used.cpu_m * 10**6,
        "pods": used.pods * 10**9,
        DEVICES: used.devices * 10**9,
        STORAGE: used.storage * 10**9,
    }
