"""The controllers of a cluster: each takes one step at a time, in its own time, and sees what is stored.

Sources: ``pkg/controller/{deployment,replicaset,statefulset,job,resourceclaim,garbagecollector}`` of Kubernetes.
Simplified: a pod that is deleted is gone at once, unless it is of a Job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from random import Random

from extauthz.core.model import Tree
from tests.worlds.judge import Key
from tests.worlds.loop import VirtualLoop
from tests.worlds.objects import REPLICA_SET, Kind, reference
from tests.worlds.pods import objects, rollouts
from tests.worlds.pods.objects import (
    CLAIM,
    CLAIM_TEMPLATE,
    CREW,
    DEPLOYMENT,
    JOB,
    LEADER,
    LIMIT_RANGE,
    POD,
    REVISION,
    RUNTIME_CLASS,
    RUNTIME_CLASSES,
    STATEFUL_SET,
    TEAM,
    VOLUME_CLAIM,
    cpu_of,
    is_active,
    names_class,
    names_own,
    owner_uid,
    pods_of,
)
from tests.worlds.server import ApiServer

SLOWEST_S = 0.6
"""How long a controller may wait before its next step."""

GRACES_S = (2.0, 60.0)
"""How long a pod of a Job may go on running after it was deleted."""

_MAKERS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, CREW, TEAM, JOB, POD)
_MADE = (REPLICA_SET, REVISION, POD, CLAIM, VOLUME_CLAIM)
_WAITED_FOR = {CLAIM_TEMPLATE.collection: POD, RUNTIME_CLASSES.collection: REPLICA_SET}
"""Who looks again at all of its own once such an object has come."""
_LOOKED_AT = (*_MAKERS, REVISION, CLAIM, CLAIM_TEMPLATE, VOLUME_CLAIM)


class Controllers:
    """Called with every stored change."""

    def __init__(self, loop: VirtualLoop, server: ApiServer, random: Random) -> None:
        self._loop = loop
        self._server = server
        self._random = random
        self._numbers = count(1)
        self._waiting: set[tuple[str, Key]] = set()
        self.graces_s = GRACES_S
        self._ending: set[Key] = set()
        """Pods of Jobs that were deleted, and still run."""
        self.unseen: dict[Key, str] = {}
        """Crews to what the template of their operator asks for."""
        self.sides: set[str] = set()
        """Workloads whose pods get a sidecar from somebody."""
        self.ask: Callable[[Tree], None] | None = None
        """Sends a pod that an operator makes, where the gates are asked about pods."""
        self.asking: set[Key] = set()
        """Such pods, on their way."""
        self.stuck: set[str] = set()
        """Pods that ask for as much CPU do not come to run."""
        server.wrote.append(self._wrote)

    @property
    def busy(self) -> bool:
        """Whether some controller has not looked at the last change yet, or a pod is about to go."""
        return bool(self._waiting or self._ending)

    def _wrote(self, collection: str, key: Key, before: Tree, after: Tree) -> None:
        tree = after or before
        if after is not None and collection in _WAITED_FOR:
            waits = _WAITED_FOR[collection]
            for one in self._server.objects(waits.collection):
                self._later(waits, one)
        kind = next((one for one in _LOOKED_AT if one.collection == collection), None)
        if kind is None:
            return
        self._later(kind, key)
        for owner in tree["metadata"].get("ownerReferences", ()):
            maker = next((one for one in _MAKERS if one.kind == owner["kind"]), None)
            if maker is not None:
                self._later(maker, (key[0], owner["name"]))
        if kind is REPLICA_SET and owner_uid(tree) is None:  # somebody may adopt it
            self._later(DEPLOYMENT, (key[0], tree["metadata"]["labels"]["app"]))
        if after is None:
            for made, own in self._made_by(before["metadata"]["uid"]):
                self._later(made, own)

    def _made_by(self, uid: str) -> list[tuple[Kind, Key]]:
        return [
            (kind, key)
            for kind in _MADE
            for key, tree in self._server.objects(kind.collection).items()
            if owner_uid(tree) == uid
        ]

    def look(self, kind: Kind, key: Key) -> None:
        """Something beside the object has changed."""
        self._later(kind, key)

    def unstick(self) -> None:
        """From now on all pods come to run."""
        self.stuck.clear()
        for key in self._server.objects(POD.collection):
            self._later(POD, key)

    def _later(self, kind: Kind, key: Key) -> None:
        at = kind.plural, key
        if at not in self._waiting:
            self._waiting.add(at)
            wait_s = self._random.choice((0.0, 0.05, SLOWEST_S)) * self._random.random()
            self._loop.call_later(wait_s, self._go_on, kind, key)

    def _go_on(self, kind: Kind, key: Key) -> None:
        self._waiting.discard((kind.plural, key))
        tree = self._server.objects(kind.collection).get(key)
        if tree is None:
            return
        if kind in _MADE and self._is_left(tree):
            self._delete(kind, key)
        elif kind in _STEPS:
            _STEPS[kind](self, key, tree)

    def _is_left(self, tree: Tree) -> bool:
        """Whether the garbage collector takes it: its owner has gone. Of strange kinds none goes."""
        uid = owner_uid(tree)
        if uid is None or tree["metadata"]["ownerReferences"][0]["kind"] not in _MAKER_NAMES:
            return False
        return not any(
            one["metadata"]["uid"] == uid for kind in _MAKERS for one in self._server.objects(kind.collection).values()
        )

    # What they write.

    def _owned(self, kind: Kind, owner: Tree) -> list[Tree]:
        uid = owner["metadata"]["uid"]
        return [one for one in self._server.objects(kind.collection).values() if owner_uid(one) == uid]

    def _create(self, kind: Kind, tree: Tree) -> None:
        metadata = tree["metadata"]
        if (metadata["namespace"], metadata["name"]) not in self._server.objects(kind.collection):
            self._server.request("POST", kind.path(metadata["namespace"]), {}, tree)

    def _put(self, kind: Kind, tree: Tree) -> None:
        metadata = tree["metadata"]
        self._server.request("PUT", kind.path(metadata["namespace"], metadata["name"]), {}, tree)

    def _delete(self, kind: Kind, key: Key) -> None:
        if kind is POD and objects.is_of_a_job(self._server.objects(POD.collection)[key]):
            self.end(key)
        else:
            self._server.request("DELETE", kind.path(*key), {}, None)

    def end(self, key: Key) -> None:
        """A pod of a Job is deleted. It goes when its grace period is over."""
        if key not in self._ending:
            self._ending.add(key)
            self._put(POD, objects.ending(self._server.objects(POD.collection)[key]))
            self._loop.call_later(self._random.choice(self.graces_s) * self._random.random(), self._gone, key)

    def _gone(self, key: Key) -> None:
        self._ending.discard(key)
        self._server.request("DELETE", POD.path(*key), {}, None)

    def _make_pod(self, owner: Tree, cpu: str, name: str = "", revision: str = "", index: str = "") -> None:
        if names_class(owner) and ("", RUNTIME_CLASS) not in self._server.objects(RUNTIME_CLASSES.collection):
            return  # the API server takes no pod of a class that is not there (``admission/runtimeclass``)
        space = owner["metadata"]["namespace"]
        if cpu == "0" and (space, objects.DEFAULTS) in self._server.objects(LIMIT_RANGE.collection):
            cpu = objects.DEFAULT_CPU  # ``admission/limitranger``
        name = name or f"{owner['metadata']['name']}-{next(self._numbers)}"
        side = owner["metadata"]["labels"]["app"] in self.sides
        self._create(POD, objects.pod(owner, name, cpu, side=side, revision=revision, index=index))

    # The kubelet.

    def _pod(self, key: Key, tree: Tree) -> None:
        """It comes to run, and with what it asks for. It has its claim of devices while it may run."""
        if tree["spec"].get("volumes"):
            self._create(VOLUME_CLAIM, objects.volume_claim(tree))
        claims = self._owned(CLAIM, tree)
        if not is_active(tree):
            for one in claims:
                self._delete(CLAIM, _key(one))
            return
        template = self._server.objects(CLAIM_TEMPLATE.collection).get((key[0], objects.OWN))
        if names_own(tree) and not claims and template is not None:
            self._create(CLAIM, objects.claim(tree, template, next(self._numbers)))
        if objects.asks(tree) not in self.stuck:
            self._put(POD, objects.running(tree))

    # Jobs.

    def _job(self, key: Key, tree: Tree) -> None:
        """``syncJob``: it makes pods one by one, and says afterwards how many have ended. That it ends it says before
        it deletes what runs, and that it has ended after that. By ``podReplacementPolicy: Failed`` it makes none in
        the place of one that still ends."""
        if "managedBy" in tree["spec"]:
            return  # somebody else runs it, in another cluster
        owned = self._owned(POD, tree)
        active = [one for one in owned if is_active(one) and not objects.is_ending(one)]
        still = [one for one in owned if objects.is_ending(one)]
        waited_for = still if tree["spec"].get("podReplacementPolicy") == "Failed" else []
        now = objects.with_status(tree, active=len(active), **objects.ended(tree, owned))
        ends = _how_it_ends(now, sum(map(objects.has_failed, owned)))
        if ends and not tree["status"].get("conditions"):
            self._put(JOB, objects.with_status(now, conditions=_true(ends)))
            return
        wanted, beyond = pods_of(now), [one for one in active if objects.is_beyond(tree, one)]
        if beyond or len(active) > wanted:
            self._delete(POD, _key(self._random.choice(beyond or active)))
        elif len(active) + len(waited_for) < wanted:
            self._make_pod(tree, cpu_of(tree), index=_next_index(now, [*active, *waited_for]))
        else:
            has_ended = {"conditions": _true(ends, _ENDS[ends])} if ends and not active and not still else {}
            self._put(JOB, objects.with_status(now, **has_ended))

    # Deployments.

    def _deployment(self, key: Key, tree: Tree) -> None:
        for one in self._server.objects(REPLICA_SET.collection).values():
            metadata = one["metadata"]
            if metadata["namespace"] == key[0] and metadata["labels"]["app"] == key[1] and owner_uid(one) is None:
                self._put(REPLICA_SET, {**one, "metadata": {**metadata, "ownerReferences": [reference(tree)]}})
                return
        sets = self._owned(REPLICA_SET, tree)
        step = rollouts.step(tree, sets)
        if step.new is not None:
            self._create(REPLICA_SET, rollouts.marked(objects.replica_set(tree, step.new), tree))
        for one, replicas in step.scaled:
            self._put(REPLICA_SET, rollouts.marked(objects.with_spec(one, replicas=replicas), tree))
        if step.new is None and not step.scaled:
            updated = sum(rollouts.count(one) for one in sets if cpu_of(one) == cpu_of(tree))
            counts = {"replicas": sum(map(rollouts.count, sets)), "updatedReplicas": updated}
            seen = {"observedGeneration": tree["metadata"]["generation"]}
            self._put(DEPLOYMENT, objects.with_status(tree, **seen, **counts))

    # ReplicaSets and what an operator does: pods one by one.

    def _replica_set(self, key: Key, tree: Tree) -> None:
        self._one_by_one(tree, cpu_of(tree), REPLICA_SET)

    def _crew(self, key: Key, tree: Tree) -> None:
        cpu = self.unseen.setdefault(key, "1")
        if not tree["status"].get("selector"):
            self._put(CREW, objects.with_status(tree, selector=f"app={key[1]}", replicas=0))
            return
        old = [one for one in self._owned(POD, tree) if is_active(one) and objects.asks(one) != cpu]
        if old:
            self._delete(POD, _key(old[0]))
        else:
            self._one_by_one(tree, cpu, CREW)

    def _team(self, key: Key, tree: Tree) -> None:
        each = (("lead", LEADER), ("work", cpu_of(tree)))
        wanted = {f"{key[1]}-{role}-{at}": cpu for at in range(tree["spec"]["replicas"]) for role, cpu in each}
        there = {one["metadata"]["name"]: one for one in self._owned(POD, tree)}
        gone = sorted(name for name, one in there.items() if name not in wanted or not is_active(one))
        missing = sorted(wanted.keys() - there.keys())
        if gone:
            self._delete(POD, (key[0], self._random.choice(gone)))
        elif missing and self.ask is None:
            name = self._random.choice(missing)
            self._make_pod(tree, wanted[name], name)
        elif missing and self.ask is not None:
            for name in missing:
                if (key[0], name) not in self.asking:
                    self.ask(objects.pod(tree, name, wanted[name], side=False))
        else:
            self._put(TEAM, objects.with_status(tree, replicas=tree["spec"]["replicas"]))

    def _one_by_one(self, tree: Tree, cpu: str, kind: Kind) -> None:
        pods = [one for one in self._owned(POD, tree) if is_active(one)]
        if len(pods) < tree["spec"]["replicas"]:
            self._make_pod(tree, cpu)
        elif len(pods) > tree["spec"]["replicas"]:
            self._delete(POD, _key(self._random.choice(pods)))
        else:
            ready = sum(1 for one in pods if _runs(one))
            seen = {"observedGeneration": tree["metadata"].get("generation", 1)}
            self._put(kind, objects.with_status(tree, **seen, replicas=len(pods), readyReplicas=ready))

    # StatefulSets.

    def _stateful_set(self, key: Key, tree: Tree) -> None:
        update = objects.revision(tree)
        name, there = update["metadata"]["name"], self._server.objects(REVISION.collection)
        if (key[0], name) not in there:
            self._create(REVISION, update)
            self._later(STATEFUL_SET, key)
            return
        status = {"observedGeneration": tree["metadata"]["generation"], "updateRevision": name}
        current = tree["status"].get("currentRevision", name)
        if (key[0], current) not in there:
            current = name  # it went with the StatefulSet before this one (``getStatefulSetRevisions``)
        pods = {_ordinal(one): one for one in self._owned(POD, tree) if is_active(one)}
        done = all(_revision(one) == name and _runs(one) for one in pods.values())
        if done and pods.keys() == {*objects.ordinals(tree)} and not objects.is_by_hand(tree):
            current = name  # (``completeRollingUpdate``)
        now = objects.with_status(tree, **status, currentRevision=current, replicas=len(pods))
        self._put(STATEFUL_SET, now)
        self._ordinals(key, now, pods)

    def _ordinals(self, key: Key, tree: Tree, pods: Mapping[int, Tree]) -> None:
        """Create what is missing, delete what is too much, then replace what is old, the highest first."""
        parallel, wanted = tree["spec"].get("podManagementPolicy") == "Parallel", objects.ordinals(tree)
        current, update = tree["status"]["currentRevision"], tree["status"]["updateRevision"]
        partition = tree["spec"].get("updateStrategy", {}).get("rollingUpdate", {}).get("partition", 0) + wanted.start
        failed = {_ordinal(one): one for one in self._owned(POD, tree) if not is_active(one)}
        for ordinal in wanted:
            if ordinal in failed:
                self._delete(POD, _key(failed[ordinal]))
                return
            if ordinal not in pods:
                revision = current if ordinal < partition else update
                self._make_pod(tree, self._cpu_of(key[0], revision), f"{key[1]}-{ordinal}", revision)
                if not parallel:
                    return
            elif not parallel and not _runs(pods[ordinal]):
                return
        if pods.keys() >= {*wanted}:
            condemned = {at: one for at, one in pods.items() if at not in wanted}
            if condemned:
                self._condemned(condemned, parallel=parallel)
            elif not objects.is_by_hand(tree):
                self._replaced(pods, partition, update)

    def _condemned(self, pods: Mapping[int, Tree], *, parallel: bool) -> None:
        """What is too much goes before anything old is replaced, the highest first. In order, one that does not run
        waits for all below it (``processCondemned`` in stateful_set_control.go)."""
        highest = max(pods)
        below = [one for at, one in pods.items() if at != highest]
        if parallel or _runs(pods[highest]) or all(map(_runs, below)):
            self._delete(POD, _key(pods[highest]))

    def _replaced(self, pods: Mapping[int, Tree], partition: int, update: str) -> None:
        for ordinal in sorted(pods, reverse=True):
            if ordinal >= partition and _revision(pods[ordinal]) != update:
                self._delete(POD, _key(pods[ordinal]))
                return
            if ordinal >= partition and not _runs(pods[ordinal]):
                return

    def _cpu_of(self, namespace: str, revision: str) -> str:
        found = self._server.objects(REVISION.collection)[namespace, revision]
        cpu: str = found["data"]["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        return cpu


_STEPS: Mapping[Kind, Callable[[Controllers, Key, Tree], None]] = {
    POD: Controllers._pod,
    DEPLOYMENT: Controllers._deployment,
    REPLICA_SET: Controllers._replica_set,
    CREW: Controllers._crew,
    TEAM: Controllers._team,
    JOB: Controllers._job,
    STATEFUL_SET: Controllers._stateful_set,
}


_MAKER_NAMES = frozenset(kind.kind for kind in _MAKERS)


_ENDS = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


def _true(*types: str) -> list[Tree]:
    return [{"type": one, "status": "True"} for one in types]


def _how_it_ends(job: Tree, failed: int) -> str:
    """The condition of a Job that is about to end; empty: it goes on."""
    spec, status = job["spec"], job["status"]
    most = 0 if "podFailurePolicy" in spec else spec.get("backoffLimit", failed)
    if failed > most:
        return "FailureTarget"
    enough = spec.get("successPolicy", {"rules": [{}]})["rules"][0].get("succeededCount", spec.get("completions", 1))
    if status["succeeded"] >= enough and ("completions" in spec or not status["active"]):
        return "SuccessCriteriaMet"
    lost = status.get("failedIndexes") and not pods_of(job) and not status["active"]
    return "FailureTarget" if lost and not spec.get("suspend") and spec["parallelism"] else ""


def _next_index(job: Tree, active: Iterable[Tree]) -> str:
    """Of the next pod of an Indexed Job."""
    if job["spec"].get("completionMode") != "Indexed":
        return ""
    indexes = range(job["spec"]["completions"])
    taken = objects.indexes_done(job["status"], len(indexes)) | {*map(objects.index_of, active)}
    return str(min({*indexes} - taken))


def _revision(pod: Tree) -> str:
    return str(pod["metadata"]["labels"].get("controller-revision-hash", ""))


def _runs(pod: Tree) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _ordinal(pod: Tree) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _key(tree: Tree) -> Key:
    return tree["metadata"]["namespace"], tree["metadata"]["name"]
