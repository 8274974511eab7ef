"""A template that a write leaves still runs until its controller has replaced it.

A Deployment's controller brings the ReplicaSet that it has to the new count first, and a StatefulSet's makes new pods
below a partition from the old revision. So ``n'`` pods of ``t'`` in the place of some of ``t`` may come to
``n'·max(t, t')`` CPUs. That much is charged until what runs is seen.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from extauthz import testing as builders
from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.intake import admission
from extauthz.core.model import Decision, Verdict
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster.event_handlers import READ, InvalidObjects
from extauthz.inputs.cluster.live import feeds
from extauthz.inputs.cluster.scaled import PodPrices
from extauthz.testing import owned_by, quota, workload

Tree = Any
CPU = 10**9


class World:
    """A gate behind a webhook, and the feeds of its watches: each shows what a test says that it has shown."""

    def __init__(self, hard: int, *, replicas: int, cpu: str, kind: str = "Deployment") -> None:
        self.gate = Gate(Policy(window_s=90.0))
        self.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": str(hard)})]), 0.0)
        self.gate.state_synced(True)
        self.feeds = feeds(self.gate, InvalidObjects(print), PodPrices(self.gate, print))
        self._version = 100
        self._asked = 0
        self.show("namespaces", {"metadata": {"name": "team-a", "labels": {"workspace": "acme"}}})
        self.kind = kind
        self.web = self.of_web(replicas, cpu, generation=1, seen=1)
        self.show(f"{kind.lower()}s", self.web)
        self.show("deployments", workload("other", 0, {"cpu": "1"}))

    def show(self, plural: str, tree: Tree, event: str = "MODIFIED") -> Tree:
        """A watch shows an object."""
        self._version += 1
        tree["metadata"]["resourceVersion"] = str(self._version)
        (feed,) = (one for (_, resource), one in self.feeds.items() if resource == plural)
        feed.changed(event, feed.convert(json.loads(json.dumps(tree))))
        return tree

    async def list(self, plural: str, *trees: Tree) -> None:
        """Its watch broke, and all is listed anew."""
        self._version += 1
        (feed,) = (one for (_, resource), one in self.feeds.items() if resource == plural)
        await feed.replaced([feed.convert(json.loads(json.dumps(tree))) for tree in trees], str(self._version))

    def has_gone(self, plural: str, name: str) -> None:
        self._version += 1
        (feed,) = (one for (_, resource), one in self.feeds.items() if resource == plural)
        feed.gone(("team-a", name), str(self._version))

    def all_watches_are_there(self, but: str = "") -> None:
        """Each has brought a bookmark, ``but`` one."""
        for (_, resource), feed in self.feeds.items():
            if resource != but:
                feed.reached(str(self._version))

    def of_web(self, replicas: int, cpu: str, *, generation: int, seen: int, **status: Tree) -> Tree:
        tree = workload("web", replicas, {"cpu": cpu}, kind=self.kind, generation=generation)
        tree["spec"]["template"]["metadata"]["labels"] = {"app": "web"}
        tree["status"] = {"observedGeneration": seen, "replicas": replicas, "updatedReplicas": replicas, **status}
        return tree

    def replica_set(self, name: str, replicas: int, cpu: str) -> Tree:
        made = workload(name, replicas, {"cpu": cpu}, kind="ReplicaSet", ownerReferences=owned_by("web"))
        made["metadata"]["labels"] = made["spec"]["selector"]["matchLabels"] = {"app": "web"}
        return made

    def has_pods(self, number: int, cpu: str, *, of: str) -> Tree:
        """The watches show pods, and whose they are: that object asks for pods of ``of`` CPUs."""
        maker, owner, kind = self.web, "web", self.kind
        if kind == "Deployment":
            owner, kind = "web-old", "ReplicaSet"
            maker = self.show("replicasets", self.replica_set(owner, number, of))
        for each in range(number):
            metadata = {"name": f"{owner}-{each}", "namespace": "team-a", "uid": f"{owner}-{each}"}
            metadata |= {"labels": {"app": "web"}, "ownerReferences": owned_by(owner, kind=kind)}
            self.show("pods", {"metadata": metadata, "spec": builders.pod({"cpu": cpu})["spec"], "status": {}})
        return maker

    def ask(self, new: Tree, old: Tree, **request: Tree) -> Decision:
        """What the API server asks before it stores ``new`` in the place of ``old``."""
        self._asked += 1
        resource = {"group": "apps", "version": "v1", "resource": f"{old['kind'].lower()}s"}
        review = admission.read(json.dumps(builders.admission(new, old, resource=resource, **request)).encode())
        return self.gate.decide(review.question.reading, f"d{self._asked}", 0.0)

    def write(self, replicas: int, cpu: str, *, generation: int = 2) -> Decision:
        new = self.of_web(replicas, cpu, generation=generation, seen=generation - 1)
        new["metadata"]["resourceVersion"] = self.web["metadata"]["resourceVersion"]
        return self.ask(new, self.web)

    def lands(self, replicas: int, cpu: str, *, generation: int = 2, **status: Tree) -> None:
        """The write is stored, and the watch of its own kind shows it."""
        seen = status.pop("seen", generation - 1)
        tree = self.of_web(replicas, cpu, generation=generation, seen=seen, **status)
        self.web = self.show(f"{self.kind.lower()}s", tree)

    def others_may_have(self, cpus: int) -> bool:
        """Whether another workload of the quota may grow to that many pods of one CPU."""
        old = workload("other", 0, {"cpu": "1"}, version="102")
        return self.ask(workload("other", cpus, {"cpu": "1"}, version="102"), old, dryRun=True).verdict is Verdict.ALLOW

    @property
    def charged(self) -> int:
        row = next(row for row in self.gate.usage() if row.resource == "requests.cpu")
        return (row.used + row.reserved) // CPU


KINDS = ["Deployment", "StatefulSet"]


@pytest.mark.parametrize("kind", KINDS)
def test_smaller_and_more_may_all_have_what_is_left(kind):
    """5 of 2 CPUs in place of 2 of 4."""
    assert World(19, replicas=2, cpu="4", kind=kind).write(5, "2").verdict is Verdict.DENY
    enough = World(20, replicas=2, cpu="4", kind=kind)
    assert enough.write(5, "2").verdict is Verdict.ALLOW
    assert enough.charged == 20


@pytest.mark.parametrize(("kind", "most"), [("Deployment", 10), ("StatefulSet", 20)])
def test_from_none_a_count_needs_room_for_the_template_before_and_after(kind, most):
    """The plain bound, until it has landed. Below a partition a StatefulSet's pods are of the old revision."""
    assert World(19, replicas=0, cpu="4", kind=kind).write(5, "2").verdict is Verdict.DENY
    world = World(20, replicas=0, cpu="4", kind=kind)
    assert world.write(5, "2").verdict is Verdict.ALLOW
    assert world.charged == 20
    world.lands(5, "2")
    assert world.charged == most


@pytest.mark.parametrize("kind", KINDS)
def test_the_template_first_and_the_count_afterwards_needs_no_more_than_both_have(kind):
    """What counting.md says to do where a count and a template together find no room."""
    world = World(10, replicas=0, cpu="4", kind=kind)
    world.all_watches_are_there()
    assert world.write(0, "2").verdict is Verdict.ALLOW
    world.lands(0, "2", seen=2)
    world.all_watches_are_there()
    assert world.write(5, "2", generation=3).verdict is Verdict.ALLOW


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_and_larger_pods_are_no_growth(kind):
    world = World(8, replicas=4, cpu="2", kind=kind)
    assert world.write(2, "4").verdict is Verdict.ALLOW
    assert world.charged == 8


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_costs_until_the_rollout_is_seen_finished(kind):
    world = World(20, replicas=2, cpu="4", kind=kind)
    world.write(5, "2")
    world.lands(5, "2")
    assert world.gate.ledger.pending_writes == 0
    assert (world.charged, world.others_may_have(1)) == (20, False)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_costs_nothing_once_the_rollout_is_seen_finished(kind):
    world = World(20, replicas=2, cpu="4", kind=kind)
    world.has_pods(2, "4", of="4")
    world.write(5, "2")
    world.lands(5, "2")
    world.has_gone("pods", "web-old-0" if kind == "Deployment" else "web-0")
    world.has_gone("pods", "web-old-1" if kind == "Deployment" else "web-1")
    if kind == "Deployment":
        world.show("replicasets", world.replica_set("web-old", 0, "4"))
        world.show("replicasets", world.replica_set("web-new", 5, "2"))
    world.lands(5, "2", seen=2, currentRevision="web-2", updateRevision="web-2")
    world.all_watches_are_there()
    assert (world.charged, world.others_may_have(10)) == (10, True)


@pytest.mark.parametrize(
    ("kind", "behind"),
    [
        ("Deployment", "replicasets"),
        ("Deployment", "pods"),
        ("StatefulSet", "controllerrevisions"),
        ("StatefulSet", "pods"),
    ],
)
def test_what_is_left_costs_while_a_watch_of_what_it_made_is_behind(kind, behind):
    world = World(20, replicas=2, cpu="4", kind=kind)
    world.write(5, "2")
    world.lands(5, "2")
    world.lands(5, "2", seen=2, currentRevision="web-2", updateRevision="web-2")
    world.all_watches_are_there(but=behind)
    assert (world.charged, world.others_may_have(1)) == (20, False)
    world.all_watches_are_there()
    assert (world.charged, world.others_may_have(10)) == (10, True)


@pytest.mark.parametrize("kind", KINDS)
def test_pods_that_are_dearer_than_their_template_are_weighed_against_the_new_one(kind):
    """2 pods were resized to 7 CPUs. They may stay for a while, beside 2 that have the old template: 2·7 + 2·4."""

    def resized(hard: int) -> World:
        world = World(hard, replicas=2, cpu="4", kind=kind)
        world.has_pods(2, "7", of="4")
        assert world.charged == 14
        return world

    assert resized(21).write(4, "2").verdict is Verdict.DENY
    assert resized(22).write(4, "2").verdict is Verdict.ALLOW


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_that_came_and_went_costs_while_its_pods_may_run(kind):
    """The second write takes the first one back. The watches of ReplicaSets and of pods have shown nothing of either,
    and its revisions say that nothing but the old template runs."""
    world = World(16, replicas=4, cpu="1", kind=kind)
    world.has_pods(4, "1", of="1")
    assert world.write(4, "4").verdict is Verdict.ALLOW
    world.lands(4, "4", seen=2, currentRevision="web-1", updateRevision="web-2")
    assert world.write(4, "1", generation=3).verdict is Verdict.ALLOW
    world.lands(4, "1", generation=3, seen=3, currentRevision="web-1", updateRevision="web-1")
    assert (world.charged, world.others_may_have(1)) == (16, False)


def test_a_template_of_a_replica_set_that_is_edited_by_itself_is_no_way_past_a_limit():
    """Its 2 pods have 3 CPUs each, by its own template and its Deployment's they have 2."""
    world = World(6, replicas=2, cpu="2")
    its = world.has_pods(2, "3", of="2")
    assert world.charged == 6
    edited = world.replica_set("web-old", 2, "1")
    edited["metadata"]["resourceVersion"] = its["metadata"]["resourceVersion"]
    if world.ask(edited, its).verdict is Verdict.ALLOW:
        world.show("replicasets", edited)
    assert world.charged <= 6


def test_a_count_from_none_pays_for_the_dearest_replica_set_that_has_pods():
    world = World(100, replicas=0, cpu="2")
    world.show("replicasets", world.replica_set("web-old", 1, "5"))
    ledger = world.gate.ledger
    decision = world.gate.decide(builders.read(builders.scale("web", 3)), "d1", 1.0)
    assert (decision.verdict, ledger.drift()) == (Verdict.ALLOW, {})
    assert next(row.used + row.reserved for row in ledger.usage.rows()) == 15 * CPU


def test_a_whole_new_state_has_left_nothing():
    world = World(20, replicas=2, cpu="4")
    world.write(5, "2")
    world.lands(5, "2")
    observations = world.gate.ledger.observations
    known = [(one.ref, one.observed) for one in world.gate.ledger.workloads if one.observed is not None]
    observations.replace(known)
    assert (world.charged, world.gate.ledger.drift()) == (10, {})


def test_a_count_that_lands_unseen_before_a_template_leaves_pods_of_the_one_before():
    world = World(100, replicas=0, cpu="4")
    assert world.gate.decide(builders.shown(world.gate, builders.scale("web", 5)), "d", 0.0).pending_write
    world.lands(5, "1", generation=3, seen=1)
    assert world.charged == 5 * 4


def test_of_two_templates_that_were_left_the_one_that_is_replaced_goes_first():
    world = World(100, replicas=2, cpu="4")
    world.lands(2, "2", generation=2, seen=2)
    world.lands(2, "1", generation=3, seen=2)
    assert world.charged == 2 * 4
    world.all_watches_are_there()
    assert world.charged == 2 * 2, "its controller has not acted on the last one yet"


# Which objects may come before which.


def admitted(world: World, replicas: int, cpu: str, *, on: int) -> None:
    """An object that the API server may store on that version, counted from the one that is seen."""
    version = str(int(world.web["metadata"]["resourceVersion"]) + on)
    new, old = (world.of_web(*what, generation=2, seen=1) for what in ((replicas, cpu), (1, "1")))
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"] = version
    assert world.ask(new, old).pending_write


@pytest.mark.parametrize(
    ("dearer_on", "more_on"), [(0, 1), (1, 0), (0, 0)], ids=["dearer first", "more first", "one of both"]
)
@pytest.mark.parametrize("is_dearer_asked_first", [True, False])
def test_objects_that_pend_are_weighed_as_the_highest_count_of_the_dearest(
    dearer_on: int, more_on: int, is_dearer_asked_first: bool
):
    """Whichever may be stored before the other: the plain bound."""
    world = World(100, replicas=1, cpu="1")
    both = [(1, "4", dearer_on), (10, "500m", more_on)]
    for replicas, cpu, on in both if is_dearer_asked_first else reversed(both):
        admitted(world, replicas, cpu, on=on)
    assert world.charged == 10 * 4


def test_two_creates_of_one_name_are_not_two_workloads():
    world = World(100, replicas=1, cpu="1")
    for number, (replicas, cpu) in enumerate([(1, "4"), (10, "500m")]):
        made = workload("new", replicas, {"cpu": cpu}, uid=f"uid-{number}")
        assert world.ask(made, made, operation="CREATE", oldObject=None).pending_write
    assert world.charged == 1 + 10 * 4


def test_a_template_that_its_replica_set_shows_first_meets_the_next_count_too():
    """The watch of Deployments is behind. The old count with the new template looks like more than the quota has."""
    world = World(8, replicas=4, cpu="500m")
    assert world.write(1, "3").verdict is Verdict.ALLOW
    world.show("replicasets", world.replica_set("web-3", 1, "3"))
    assert world.charged == 12
    landed, again, fewer = (
        world.of_web(replicas, cpu, generation=number, seen=number - 1)
        for number, (replicas, cpu) in enumerate([(1, "3"), (4, "500m"), (1, "500m")], start=2)
    )
    for tree in (landed, again, fewer):
        tree["metadata"]["resourceVersion"] = "900"
    assert world.ask(again, landed).verdict is Verdict.DENY, "4 may be of 3 CPUs each"
    assert world.ask(fewer, landed).verdict is Verdict.ALLOW


def of_dearer_and_back(kind: str, *, replicas: int = 2) -> tuple[World, Tree]:
    """A world in which pods of 4 CPUs were allowed, and stored, and pods of 1 CPU again, while its watch is broken; and
    what is there then."""
    world = World(10, replicas=replicas, cpu="1", kind=kind)
    world.all_watches_are_there()
    assert world.write(2, "4").verdict is Verdict.ALLOW
    world._version += 1
    world.web = world.of_web(2, "4", generation=2, seen=1)
    world.web["metadata"]["resourceVersion"] = str(world._version)
    assert world.write(2, "1", generation=3).verdict is Verdict.ALLOW
    world._version += 1
    web = world.of_web(2, "1", generation=3, seen=2)
    web["metadata"]["resourceVersion"] = str(world._version)
    return world, web


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", ["list", "read"])
async def test_what_was_allowed_and_never_shown_may_run_until_watches_have_shown_what_does(kind, by, replicas):
    """Its pods may be there, whose watch is late."""
    world, web = of_dearer_and_back(kind, replicas=replicas)
    if by == "list":
        await world.list(
            f"{kind.lower()}s", web, *([workload("other", 0, {"cpu": "1"})] if kind == "Deployment" else [])
        )
    else:
        world.show(f"{kind.lower()}s", web, event=READ)
    assert world.gate.ledger.pending_writes == 0
    assert world.charged == 8
    assert not world.others_may_have(3)
    world.show(f"{kind.lower()}s", world.of_web(2, "1", generation=3, seen=3))
    assert world.charged == 8
    world.all_watches_are_there()
    assert world.charged == 2
    assert world.others_may_have(8)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_watch_passes_over_was_never_stored(kind):
    """It shows each state. So something else has taken the version that the write wants."""
    world = World(10, replicas=2, cpu="1", kind=kind)
    assert world.write(2, "4").verdict is Verdict.ALLOW
    world.lands(2, "1", generation=1)
    assert world.charged == 2
