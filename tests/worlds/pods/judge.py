"""Counts what exists: pods by what they say, beside what specs ask for. It knows no rule of a gate.

What is above a limit must be a cut of docs/guarantee.md. Each excuse has the sentence of that page beside it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from extauthz.core.model import Tree
from tests.worlds.judge import Key
from tests.worlds.objects import REPLICA_SET, milli
from tests.worlds.pods import objects
from tests.worlds.pods.objects import (
    CLAIM,
    CLAIM_TEMPLATE,
    CREW,
    DEPLOYMENT,
    JOB,
    LIMIT_RANGE,
    POD,
    REVISION,
    SIDECAR,
    STATEFUL_SET,
    TEAM,
    VOLUME_CLAIM,
    cost_m,
    cpu_m,
    devices_of,
    each_m,
    is_active,
    owner_uid,
    pods_of,
    word_of,
)
from tests.worlds.pods.rollouts import max_surge, surge_of
from tests.worlds.server import ApiServer
from tests.worlds.views import UNSEEN_S

COUNTED = frozenset(
    kind.collection
    for kind in (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, CREW, TEAM, JOB, POD, CLAIM, CLAIM_TEMPLATE, VOLUME_CLAIM)
)


class Amounts(NamedTuple):
    """CPU in thousandths, pods, devices, and storage of claims."""

    cpu_m: int
    pods: int
    devices: int = 0
    storage: int = 0

    def plus(self, other: Amounts) -> Amounts:
        """Key by key."""
        return Amounts(*map(sum, zip(self, other, strict=True)))


NOTHING = Amounts(0, 0)


class _Course:
    """How a number went."""

    def __init__(self) -> None:
        self._values: deque[tuple[float, int]] = deque()

    def add(self, at_s: float, value: int) -> None:
        """From now on it is ``value``."""
        if not self._values or self._values[-1][1] != value:
            self._values.append((at_s, value))

    def between(self, since_s: float, until_s: float = float("inf")) -> int:
        """The highest from one time to another."""
        older = [value for at_s, value in self._values if at_s <= since_s]
        return max([*older[-1:], *(value for at_s, value in self._values if since_s < at_s <= until_s)], default=0)

    def rose(self, since_s: float, until_s: float) -> bool:
        """Whether it became higher between two times."""
        return any(since_s <= at_s <= until_s and now > before for (_, before), (at_s, now) in pairwise(self._values))

    def lowered_s(self) -> float:
        """When it last became lower; infinity: never."""
        times = [at_s for (_, before), (at_s, now) in pairwise(self._values) if now < before]
        return times[-1] if times else float("inf")


class Past:
    """What happened to a workload of late: when its count was what, and what others have made dearer."""

    def __init__(self) -> None:
        self.counts = _Course()
        self.asked = _Course()
        """Its count alone, without what ends."""
        self.by_operator: deque[tuple[float, int]] = deque()
        """When each pod has come to cost how much more, past the gates."""
        self.deployed: int | None = None
        """What its Deployment asks for, or has asked for last. ``None``: it has none."""
        self._replaced_m = 0
        self._still_m = 0
        """What pods still have of it, after the templates have become cheaper."""
        self._asked_m = 0
        self._held_m, self._sidecars_m = _Course(), _Course()

    @property
    def replaced_m(self) -> int:
        """What its templates ask for in the place of sidecars that its pods had, or its pods still have by these."""
        return max(self._replaced_m, self._still_m)

    def costs(self, at_s: float, asked_m: int, pods_m: int, held_m: int, sidecars_m: int) -> None:
        """Take what it costs now, in thousandths of a CPU.

        Args:
            asked_m: what its templates ask for.
            pods_m: what its pods have, without sidecars.
            held_m: what its pods count for, with sidecars.
            sidecars_m: what the sidecars have.
        """
        since_s = at_s - UNSEEN_S
        more_m, self._asked_m = asked_m - self._asked_m, asked_m
        if more_m < 0:
            self._still_m = self.replaced_m
            self._replaced_m = max(self._replaced_m + more_m, 0)
        elif asked_m <= self._held_m.between(since_s):
            self._replaced_m += min(more_m, self._sidecars_m.between(since_s))
        self._still_m = min(self._still_m, max(pods_m - asked_m, 0))
        self._held_m.add(at_s, held_m)
        self._sidecars_m.add(at_s, sidecars_m)


class Judge:
    """Called with every stored change.

    Args:
        limits: of all workloads, by no name, and of those of each tier.
        broken: told of what is above them.
        charges_surge: nothing is excused because it is a rollout's.
    """

    def __init__(
        self,
        server: ApiServer,
        clock: Callable[[], float],
        limits: Mapping[str, Amounts],
        broken: Callable[[str], None],
        *,
        charges_surge: bool = False,
    ) -> None:
        self._server = server
        self._clock = clock
        self._limits = limits
        self._broken = broken
        self._charges_surge = charges_surge
        self._pasts: dict[Key, Past] = defaultdict(Past)
        self._made_s: dict[str, float] = {}
        """Pods by UID to when they were made."""
        self._resized_s: dict[str, float] = {}
        """Pods by UID to when they last came to hold more."""
        self._ending_s: dict[str, float] = {}
        """Pods by UID that still run to when they were deleted, or before that what had made them."""
        self._deleted: set[str] = set()
        """Those of them that somebody has deleted, and not their controller."""
        self._deployed_s: dict[Key, tuple[float, float]] = {}
        """Deployments that were made again: when the one before went, and when this one was made."""
        self._went_s: dict[Key, float] = {}
        """When a Deployment or a Job went last."""
        self._dearer: list[tuple[float, str, str, Amounts]] = []
        """When pods of workloads of a word have come to cost how much more each, past the gates, and where."""
        self.highest = NOTHING
        server.wrote.append(self._wrote)

    def _wrote(self, collection: str, key: Key, before: Tree, after: Tree) -> None:
        if collection not in COUNTED:
            return
        if collection == POD.collection and before is None:
            self._made_s[after["metadata"]["uid"]] = self._clock()
        elif collection == POD.collection and after is not None and cpu_m(after) > cpu_m(before):
            self._resized_s[after["metadata"]["uid"]] = self._clock()
        app = key[0], (after or before)["metadata"]["labels"]["app"]
        if collection == POD.collection and after is not None and objects.is_ending(after):
            job = self._server.objects(JOB.collection).get(app)
            is_left = job is None or owner_uid(after) != job["metadata"]["uid"]
            self._ending_s.setdefault(after["metadata"]["uid"], self._went_s[app] if is_left else self._clock())
        if app[1] in (objects.OWN, objects.SHARED):
            self._look(self._pods())
            return
        past, count = self._pasts[app], self._count(app)
        if collection in (DEPLOYMENT.collection, JOB.collection) and after is None:
            self._went_s[app] = self._clock()
        elif collection == DEPLOYMENT.collection:
            past.deployed = after["spec"]["replicas"]
            if before is None and app in self._went_s:
                self._deployed_s[app] = self._went_s[app], self._clock()
        past.counts.add(self._clock(), count)
        past.asked.add(self._clock(), sum(map(pods_of, self._asking(app))))
        pods = self._pods()
        sidecars_m = sum(cpu_m(one, only=SIDECAR) for one in pods[app])
        pods_m = sum(map(cpu_m, pods[app])) - sidecars_m
        past.costs(self._clock(), self._asked(app).cpu_m, pods_m, sum(self._counted_m(app, pods[app])), sidecars_m)
        self._look(pods)

    def grew(self, key: Key, per_pod_m: int) -> None:
        """An operator makes pods that cost so much more, past the gates."""
        self._pasts[key].by_operator.append((self._clock(), per_pod_m))

    def deleted(self, pod: Tree) -> None:
        """Somebody deletes a pod, past the gates. Its controller makes another."""
        self._deleted.add(pod["metadata"]["uid"])

    def made_dearer(self, namespace: str, word: str, more: Amounts) -> None:
        """Each pod that comes costs so much more from now on, past the gates."""
        self._dearer.append((self._clock(), namespace, word, more))

    # What exists.

    def _pods(self) -> dict[Key, list[Tree]]:
        pods: dict[Key, list[Tree]] = defaultdict(list)
        for (namespace, _), tree in self._server.objects(POD.collection).items():
            if is_active(tree):
                pods[namespace, tree["metadata"]["labels"]["app"]].append(tree)
        return pods

    def _count(self, app: Key) -> int:
        """What a workload and ReplicaSets that it has left behind ask for, and its pods that still end."""
        alive = {tree["metadata"]["uid"] for tree in self._server.objects(DEPLOYMENT.collection).values()}
        left = [
            tree
            for (namespace, _), tree in self._server.objects(REPLICA_SET.collection).items()
            if (namespace, tree["metadata"]["labels"]["app"]) == app and owner_uid(tree) not in {None, *alive}
        ]
        pods = self._pods()[app]
        alone = len(pods) if word_of(app[1]) == "pod" else sum(map(objects.is_ending, pods))
        return alone + sum(pods_of(tree) for tree in (*self._asking(app), *left))

    def _asking(self, app: Key) -> Iterator[Tree]:
        for kind in (DEPLOYMENT, STATEFUL_SET, CREW, TEAM, JOB):
            if (tree := self._server.objects(kind.collection).get(app)) is not None:
                yield tree
        for (namespace, _), tree in self._server.objects(REPLICA_SET.collection).items():
            if (namespace, tree["metadata"]["labels"]["app"]) == app and owner_uid(tree) is None:
                yield tree

    def _look(self, pods: Mapping[Key, list[Tree]]) -> None:
        """All pods must fit, and all that specs ask for; likewise those of each tier."""
        for tier, hard in self._limits.items():
            own = self._of_tier(tier, pods) if tier else pods
            exist = _sum([Amounts(sum(cpu_m(one) for one in some), len(some)) for some in own.values()])
            asked = _sum([self._asked(app) for app in (own if tier else {*self._pasts, *pods})])
            if not tier:
                devices = sum(map(devices_of, self._server.objects(CLAIM.collection).values()))
                exist = exist._replace(devices=devices, storage=self._storage())
                asked = asked._replace(devices=asked.devices + self._shared())
                self.highest = Amounts(*map(max, self.highest, exist))
            for what, amounts in (("pods", exist), ("specs", asked)):
                for name, amount, limit in zip(Amounts._fields, amounts, hard, strict=True):
                    if amount <= limit:
                        continue
                    excused = self._excused(own).plus(self._taken_up(own) if tier else NOTHING)
                    if amount > limit + getattr(excused, name):
                        of = f"{limit}{f' in {tier}' if tier else ''}"
                        self._broken(f"{what} come to {amount} of {name}, of {of}: {self._told(own)}")

    def _of_tier(self, tier: str, pods: Mapping[Key, list[Tree]]) -> dict[Key, list[Tree]]:
        """Its workloads, and of their pods those that they own: what ends, and what a gone one has left, belongs to no
        tier."""
        found = {}
        for app in {*self._pasts, *pods}:
            workload = self._server.objects(objects.kind_of(app[1]).collection).get(app)
            if workload is not None and objects.tier_of(workload) == tier:
                own = {workload["metadata"]["uid"]}
                sets = self._server.objects(REPLICA_SET.collection).values()
                own |= {one["metadata"]["uid"] for one in sets if owner_uid(one) in own}
                found[app] = [one for one in pods.get(app, []) if owner_uid(one) in own and not objects.is_ending(one)]
        return found

    def _asked(self, app: Key) -> Amounts:
        """A Crew does not say what its pods cost."""
        trees = list(self._asking(app))
        if app in self._server.objects(DEPLOYMENT.collection):
            trees = trees[:1]  # before it makes a ReplicaSet it adopts those that are left
        count = sum(map(pods_of, trees))
        cpu_m = sum(map(cost_m, trees)) + count * self._default_m(app)
        return Amounts(cpu_m, count, count * self._own_devices(app))

    def used(self, tier: str = "") -> Amounts:
        """What is to be counted at rest: each pod, and at least what it may be made anew from."""
        total = NOTHING if tier else Amounts(0, 0, self._shared(), self._storage())
        pods: Mapping[Key, list[Tree]] = self._pods()
        for app, some in (self._of_tier(tier, pods) if tier else pods).items():
            devices = sum(max(self._own_devices(app), self._devices(one)) for one in some)
            total = total.plus(Amounts(sum(self._counted_m(app, some)), len(some), devices))
        return total

    def surges(self) -> Amounts:
        """What the next rollouts of all Deployments may add for a while."""
        held = self._server.objects(DEPLOYMENT.collection).values()
        added = [(surge_of(pods_of(one), max_surge(one)), each_m(one)) for one in held]
        return Amounts(sum(count * cost_m for count, cost_m in added), sum(count for count, _ in added))

    def _counted_m(self, app: Key, pods: list[Tree]) -> Iterator[int]:
        """What each pod counts for: what it says, or what it may be made anew from."""
        each = [(tree, self._each(app, tree, pods)) for tree in self._asking(app) if pods_of(tree)]
        for one in pods:
            default_m = self._default_m(app) if objects.is_silent(one) else 0  # as if it were made today
            yield max([cpu_m(one) + default_m, *(cost for tree, cost in each if _makes_anew(tree, one))])

    def _storage(self) -> int:
        """What is claimed for ephemeral volumes, by pods that run and by those that have finished."""
        return objects.SCRATCH_SIZE * len(self._server.objects(VOLUME_CLAIM.collection))

    def _default_m(self, app: Key) -> int:
        """What each pod of a workload that asks for nothing gets by a LimitRange."""
        is_there = (app[0], objects.DEFAULTS) in self._server.objects(LIMIT_RANGE.collection)
        return milli(objects.DEFAULT_CPU) if is_there and word_of(app[1]) == "bare" else 0

    # Devices.

    def _own_devices(self, app: Key) -> int:
        """What each pod of a workload gets, by the template of its claim."""
        template = self._server.objects(CLAIM_TEMPLATE.collection).get((app[0], objects.OWN))
        return devices_of(template) if template is not None and word_of(app[1]) == "dra" else 0

    def _devices(self, pod: Tree) -> int:
        """What a pod has by claims that were made for it."""
        uid = pod["metadata"]["uid"]
        claims = self._server.objects(CLAIM.collection).values()
        return sum(devices_of(one) for one in claims if owner_uid(one) == uid)

    def _shared(self) -> int:
        """What is claimed for no pod: once, however many name it."""
        claims = self._server.objects(CLAIM.collection).values()
        return sum(devices_of(one) for one in claims if owner_uid(one) is None)

    def _left_behind(self, pods: Mapping[Key, list[Tree]]) -> int:
        """What is claimed for pods that have ended, or have gone."""
        there = {one["metadata"]["uid"] for some in pods.values() for one in some}
        claims = self._server.objects(CLAIM.collection).values()
        return sum(devices_of(one) for one in claims if owner_uid(one) not in {None, *there})

    def _each(self, app: Key, tree: Tree, pods: list[Tree]) -> int:
        if tree["kind"] == CREW.kind:
            return objects.dearest_m(pods)
        if tree["kind"] == TEAM.kind:
            return 0  # each of its pods is as its template says, or dearer
        revisions = self._server.objects(REVISION.collection)
        found = [revisions.get((app[0], tree["status"].get(name))) for name in ("currentRevision", "updateRevision")]
        several = (tree, *(one["data"] for one in found if one is not None))
        return max(map(each_m, several)) + self._default_m(app)

    def _told(self, pods: Mapping[Key, list[Tree]]) -> str:
        told = []
        for (_, name), some in sorted(pods.items()):
            each = ", ".join(f"{one['metadata']['name']} {cpu_m(one)}" for one in some)
            told.append(f"{name} ({each})")
        return "; ".join(told)

    # What is excused.

    def _excused(self, pods: Mapping[Key, list[Tree]]) -> Amounts:
        """Pods that are excused, and their claims."""
        total = NOTHING
        for app, some in pods.items():
            each = _sum([*self._excuses(app, some), *self._in_place_of(app, some)])
            dearest = max([self._own_devices(app), *map(self._devices, some)])
            total = total.plus(each._replace(devices=each.pods * dearest))
        # "A pod ends, or goes, before its claims of devices are deleted: they count beside those of the pod that comes
        # in its place."
        devices = self._left_behind(pods)
        total = total.plus(Amounts(0, 0, devices))
        # "Growth past the gate counts as soon as it is observed. So do a LimitRange, [...] a ResourceClaimTemplate that
        # is made anew for more devices": each pod that comes takes more, of those too that were granted before.
        for at_s, namespace, word, more in self._dearer:
            count = sum(
                past.counts.between(at_s, at_s + 2 * UNSEEN_S)
                for (space, name), past in self._pasts.items()
                if space == namespace and word_of(name) == word
            )
            total = total.plus(Amounts(*(count * one for one in more)))
        return total

    def _taken_up(self, pods: Mapping[Key, list[Tree]]) -> Amounts:
        """What pods that a Deployment found hold beyond its template, in a quota in which they did not count before."""
        # "A Deployment [...] takes up dearer ones [...] that somebody changes meanwhile: pods beyond its own count and
        # template count once they are seen."
        more_m = 0
        for app, (went_s, made_s) in self._deployed_s.items():
            for one in pods.get(app, []):
                uid = one["metadata"]["uid"]
                if self._made_s[uid] < made_s and went_s <= self._resized_s.get(uid, -1.0) <= made_s + UNSEEN_S:
                    more_m += max(cpu_m(one) - each_m(next(self._asking(app))), 0)
        return Amounts(more_m, 0)

    def _excuses(self, app: Key, pods: list[Tree]) -> Iterator[Amounts]:
        now_s, past = self._clock(), self._pasts[app]
        dearest_m = objects.dearest_m(pods)
        count = self._count(app)
        extra = max(len(pods) - count, 0)
        # "Surge of rollouts, unless charge-surge is on: for a while the pods of maxSurge exist beside those that are
        # counted." "A Deployment leaves its ReplicaSets in a rollout [...] pods beyond its own count [...] count once".
        surge, beside = 0, extra
        if past.deployed is not None:
            beside = max(len(pods), count, past.deployed) - past.deployed
            surge = min(surge_of(past.counts.between(now_s - UNSEEN_S)), beside) if not self._charges_surge else 0
            specs_m = [each_m(tree) for tree in self._asking(app)]
            yield Amounts(surge * max([dearest_m, *specs_m]), surge)
        # "In a rollout, pods that an old ReplicaSet is to delete exist beside those that come in their place."
        sets = self._server.objects(REPLICA_SET.collection).values()
        stay = min(not_deleted(sets, pods), beside - surge)
        yield Amounts(stay * dearest_m, stay)
        # "A workload grows and then shrinks [...] before watches have shown its pods and claims".
        seen_s = past.counts.lowered_s() - UNSEEN_S
        new = [one for one in pods if self._made_s[one["metadata"]["uid"]] > seen_s]
        late = min(max(extra - surge - stay, 0), len(new))
        yield Amounts(late * dearest_m, late)
        # "Templates say what pods cost: nobody changes requests between the template and the pod [...] Pods are
        # observed, and dearer ones count, after the fact." "Until used and reserved are within the limit [...], no
        # write raises a workload above what is observed of it": a template may take the place of a sidecar.
        yield Amounts(sum(cpu_m(one, only=SIDECAR) for one in pods) + past.replaced_m, 0)
        # "Growth past the gate counts as soon as it is observed."
        for at_s, per_pod_m in past.by_operator:
            made_s = [
                self._made_s[one["metadata"]["uid"]] for one in pods if self._made_s[one["metadata"]["uid"]] >= at_s
            ]
            until_s = min(made_s, default=now_s) + UNSEEN_S
            most = past.counts.between(at_s, until_s)
            yield Amounts(per_pod_m * min(most, len(pods)), 0)

    def _in_place_of(self, app: Key, pods: list[Tree]) -> Iterator[Amounts]:
        """Pods that end, where others may have come in their place that no gate has granted room beside them."""
        past, job = self._pasts[app], self._server.objects(JOB.collection).get(app)
        for one in pods:
            began_s = self._ending_s.get(one["metadata"]["uid"])
            if began_s is None:
                continue
            # "Growth past the gate counts as soon as it is observed. So do [...] pods of an elastic Job's indexes
            # beyond `completions`", "and pods that come in the place of those that somebody deletes, while these end."
            is_past = one["metadata"]["uid"] in self._deleted or (job is not None and objects.is_beyond(job, one))
            # "A workload [...] shrinks or goes, and grows or is made anew, before they have shown that its pods end."
            if is_past or past.asked.rose(began_s, began_s + UNSEEN_S):
                yield Amounts(cpu_m(one), 1, 0, objects.SCRATCH_SIZE if one["spec"].get("volumes") else 0)


def not_deleted(sets: Iterable[Tree], pods: list[Tree]) -> int:
    """How many pods of one rollout their ReplicaSets do not ask for any more; no more of each than others have."""
    stay = 0
    for tree in sets:
        own = sum(owner_uid(one) == tree["metadata"]["uid"] for one in pods)
        stay += min(max(own - pods_of(tree), 0), len(pods) - own)
    return stay


def _sum(some: list[Amounts]) -> Amounts:
    total = NOTHING
    for one in some:
        total = total.plus(one)
    return total


def _makes_anew(tree: Tree, pod: Tree) -> bool:
    """Whether a pod that goes comes back as ``tree`` says. A ReplicaSet that stands alone makes its own ones."""
    is_own = tree["kind"] != REPLICA_SET.kind or owner_uid(pod) == tree["metadata"]["uid"]
    return bool(is_own and not objects.is_ending(pod))
