"""Whatever the order in which a cluster is seen, the ledger counts what a sum over its objects comes to.

The sum is written down here once more, over plain records, and shares no code with the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st

from extauthz.core.model import Observed, OwnerRef, Verdict, WorkloadRef
from extauthz.core.objects import fields, workloads
from extauthz.core.objects.fields import MAX_REPLICAS
from extauthz.testing import Asker, gate, pod, quota, scale

NANO = 10**9
KINDS = {
    "Deployment": ("apps", "deployments"),
    "ReplicaSet": ("apps", "replicasets"),
    "StatefulSet": ("apps", "statefulsets"),
    "ControllerRevision": ("apps", "controllerrevisions"),
    "Pod": ("", "pods"),
    "PersistentVolumeClaim": ("", "persistentvolumeclaims"),
    "Job": ("batch", "jobs"),
}
GROUPS = {"Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "Job": "batch"}


@dataclass(frozen=True)
class Thing:
    """One object; ``size`` is the CPU of a pod, or the bytes of a claim."""

    kind: str
    name: str
    uid: str
    replicas: int = 1
    size: int = 1
    app: str = ""
    owner: tuple[str, str, str] | None = None
    """Kind, name, UID."""
    storage: int = 0
    start: int = 0
    index: int | None = None

    def ref(self) -> WorkloadRef:
        return WorkloadRef(*KINDS[self.kind], "team-a", self.name)

    def observed(self, version: int) -> Observed:
        labels = {"app": self.app} | ({"apps.kubernetes.io/pod-index": str(self.index)} if self.index else {})
        return Observed(
            replicas=MAX_REPLICAS if self.kind == "ControllerRevision" else self.replicas,
            template=self.template(),
            labels=fields.labels_text(labels),
            uid=self.uid,
            resource_version=str(version),
            owner=OwnerRef(GROUPS[self.owner[0]], *self.owner) if self.owner else None,
            selector=f"app={self.app}" if self.kind in GROUPS else None,
        )

    def template(self):
        if self.kind == "PersistentVolumeClaim":
            return workloads.claim_template({"spec": claim_spec(self.size)})
        if self.kind == "Pod":
            volume = {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(self.storage)}}}
            spec = pod({"cpu": str(self.size)})["spec"] | ({"volumes": [volume]} if self.storage else {})
            return workloads.pod_template(spec)
        spec: dict = {"template": pod({"cpu": str(self.size)})}
        if self.storage:
            spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim_spec(self.storage)}]
        more = {"Deployment": {"maxSurge": 0}, "StatefulSet": {"ordinals": {"start": self.start}}}
        return workloads.intern(workloads.prune(spec) | more.get(self.kind, {}))


def claim_spec(size: int) -> dict:
    return {"resources": {"requests": {"storage": str(size)}}}


def total(things: list[Thing]) -> tuple[int, int]:
    """CPUs and bytes of storage in use."""
    cpu = 0
    for thing in things:
        if thing.kind == "Pod" and cover(thing, things) is None:
            cpu += thing.size
        elif thing.kind in GROUPS and cover(thing, things) is None:
            cpu += of_head(thing, things)
    return cpu, storage(things)


def cover(thing: Thing, things: list[Thing]) -> Thing | None:
    makers = {"ReplicaSet": ["Deployment"], "Pod": ["ReplicaSet", "StatefulSet", "Job"]}.get(thing.kind, [])
    for one in things:
        if thing.owner == (one.kind, one.name, one.uid) and one.kind in makers and one.app == thing.app:
            return one
    return None


def of_head(head: Thing, things: list[Thing]) -> int:
    mine = [one for one in things if cover(one, things) is head]
    revisions = [one for one in mine if one.kind == "ReplicaSet"]
    old = [one for one in things if one.kind == "ControllerRevision" and one.owner == (head.kind, head.name, head.uid)]
    dearest = [head.size, *(one.size for one in revisions if one.replicas), *(one.size for one in old)]
    own = head.replicas * max(dearest)
    within = sum(one.replicas * one.size + dearer(pods_of([one], things), one.size, one.replicas) for one in revisions)
    pods = pods_of([head, *revisions], things)
    if head.kind in ("Deployment", "StatefulSet"):  # its pods are within its count, whichever they are
        asked = max(own + dearer(pods, max(dearest), head.replicas), within)
        return max(asked + outside(head, things) * max(pods, default=0), sum(pods))
    return max(own + dearer(pods, max(dearest), len(pods)), sum(pods))


def pods_of(owners: list[Thing], things: list[Thing]) -> list[int]:
    """What the pods cost that they cover."""
    return [one.size for one in things if one.kind == "Pod" and cover(one, things) in owners]


def dearer(pods: list[int], size: int, count: int) -> int:
    """What so many of these pods cost beyond a template: those that cost most."""
    return sum(sorted((max(one - size, 0) for one in pods), reverse=True)[:count])


def outside(head: Thing, things: list[Thing]) -> int:
    """Pods of a StatefulSet that are none of its range: it makes its own beside them. Those that it will let go of,
    by their labels, are among them."""
    mine = [one for one in things if one.kind == "Pod" and one.owner == (head.kind, head.name, head.uid)]
    names = {f"{head.name}-{ordinal}" for ordinal in range(head.start, head.start + head.replicas)}
    return sum(one.name not in names for one in mine) if head.kind == "StatefulSet" else 0


def outside_with_volumes(things: list[Thing]) -> bool:
    """Such a pod may be one of its StatefulSet's count, and beside it: its volumes count twice meanwhile."""
    for head in (one for one in things if one.kind == "StatefulSet"):
        mine = [one for one in things if cover(one, things) is head]
        if any(one.storage for one in mine) and outside(head, things):
            return True
    return False


def assert_counted(found: tuple[int, int], things: list[Thing]) -> None:
    (cpu, stored), (cpus, claimed) = found, total(things)
    assert cpu == cpus
    assert stored == claimed or (stored > claimed and outside_with_volumes(things))


def storage(things: list[Thing]) -> int:
    """Every claim there is, and every claim that a StatefulSet or a pod asks for, by name; of both the larger."""
    claims = {one.name: one.size for one in things if one.kind == "PersistentVolumeClaim"}
    for one in things:
        if one.kind == "StatefulSet" and one.storage:
            for ordinal in range(one.start, one.start + one.replicas):
                name = f"data-{one.name}-{ordinal}"
                claims[name] = max(claims.get(name, 0), one.storage)
        if one.kind == "Pod" and one.storage:
            claims[f"{one.name}-tmp"] = max(claims.get(f"{one.name}-tmp", 0), one.storage)
    return sum(claims.values())


counts, sizes = st.integers(0, 4), st.integers(1, 3)
uids = st.sampled_from(["u0", "u1"])
apps = st.sampled_from(["x", "x", "y"])


def named(kind: str, names: list[str], **fields: st.SearchStrategy) -> st.SearchStrategy[Thing]:
    return st.builds(Thing, kind=st.just(kind), name=st.sampled_from(names), uid=uids, **fields)


def owners(*kinds: tuple[str, str]) -> st.SearchStrategy:
    return st.none() | st.tuples(st.sampled_from(kinds), uids).map(lambda pair: (*pair[0], pair[1]))


PODS = ["p0", "s0-0", "s0-1", "s0-2", "s0-5"]
CLAIMS = [
    "p0-tmp",
    "s0-1-tmp",
    *(f"data-s0-{n}" for n in (0, 1, 2, 5)),
    "data-s1-0",
    "data-s0-00",
    "data-s0",
    "other-s0-1",
]
things = st.one_of(
    named("Deployment", ["d0"], replicas=counts, size=sizes, app=apps),
    named("ReplicaSet", ["r0", "r1"], replicas=counts, size=sizes, app=apps, owner=owners(("Deployment", "d0"))),
    named("StatefulSet", ["s0"], replicas=counts, size=sizes, app=apps, storage=counts, start=st.integers(0, 2)),
    named("ControllerRevision", ["v0"], size=sizes, owner=owners(("StatefulSet", "s0"))),
    named("Job", ["j0"], replicas=counts, size=sizes, app=apps),
    named("PersistentVolumeClaim", CLAIMS, size=sizes),
    named(
        "Pod",
        PODS,
        size=sizes,
        app=apps,
        owner=owners(("ReplicaSet", "r0"), ("ReplicaSet", "r1"), ("StatefulSet", "s0"), ("Job", "j0")),
        index=st.none() | st.integers(1, 3),
        storage=st.sampled_from([0, 0, 2]),
    ),
)
History: TypeAlias = list[tuple[Thing, bool]]

histories = st.lists(st.tuples(things, st.booleans()), max_size=14)
"""Objects as they are written, or deleted, one after the other."""


def asker() -> Asker:
    return Asker(gate([quota("acme", {"requests.cpu": "500", "requests.storage": "500", "count/pods": "500"})]))


def used(ask: Asker) -> tuple[int, int]:
    assert ask.gate.ledger.drift() == {}
    rows = {row.resource: row for row in ask.gate.usage()}
    assert not any(row.reserved for row in rows.values())
    return rows["requests.cpu"].used // NANO, rows["requests.storage"].used // NANO


REVISED = [
    (Thing("StatefulSet", "s0", "u1", app="x", storage=1), True),
    (Thing("PersistentVolumeClaim", "data-s0-0", "u0"), True),
    (Thing("ControllerRevision", "v0", "u0", owner=("StatefulSet", "s0", "u1")), True),
]
"""A claim that is there, and a revision, which holds no claim templates."""


@settings(max_examples=300, deadline=None)
@example(REVISED, Random(1))
@given(histories, st.randoms(use_true_random=False))
def test_any_order_of_what_was_seen_counts_the_same(history: History, order) -> None:
    """Events of different kinds come in any order, and old ones come twice; of one object each older one is ignored."""
    ask, now = asker(), {}
    events = []
    for version, (thing, is_there) in enumerate(history, start=1):
        now[thing.ref()] = thing if is_there else None
        events.append((thing.ref(), thing.observed(version) if is_there else None, str(version)))
    pods = [event for event in events if event[0].resource == "pods"]  # one watch brings them: in order, and once
    others = [event for event in events if event[0].resource != "pods"]
    for ref, observed, version in order.sample([*others, *others[::2]], len(others) + len(others[::2])):
        ask.gate.observe(ref, observed, version=version)
        if pods and order.random() < 0.5:
            ask.gate.observe(pods[0][0], pods[0][1], version=pods.pop(0)[2])
        assert ask.gate.ledger.drift() == {}
    for ref, observed, version in pods:
        ask.gate.observe(ref, observed, version=version)
    assert_counted(used(ask), [thing for thing in now.values() if thing is not None])


def test_a_pod_of_an_older_revision_has_the_claims_of_its_stateful_set_beside_its_own_volumes():
    ask, (claims, _, older) = asker(), (thing for thing, _ in REVISED)
    volume = {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(2)}}}
    spec = {"template": {"spec": pod({"cpu": "1"})["spec"] | {"volumes": [volume]}}}
    ask.gate.observe(claims.ref(), claims.observed(1), version="1")
    ask.gate.observe(
        older.ref(), replace(older.observed(1), template=workloads.intern(workloads.prune(spec))), version="1"
    )
    assert used(ask) == (1, 3)


ROLLOUT = [
    (Thing("Deployment", "d0", "u0", size=2, app="x"), True),
    (Thing("ReplicaSet", "r0", "u1", app="x", owner=("Deployment", "d0", "u0")), True),
    (Thing("Pod", "p4", "u1", size=2, app="x", owner=("ReplicaSet", "r0", "u1")), True),
]
"""A pod that was resized costs what the next template costs, which the count is multiplied by already."""


RESIZED = [
    (Thing("Deployment", "d0", "u0", replicas=0, size=2, app="x"), True),
    (Thing("ReplicaSet", "r0", "u1", replicas=2, app="x", owner=("Deployment", "d0", "u0")), True),
    (Thing("Pod", "p4", "u1", size=2, app="x", owner=("ReplicaSet", "r0", "u1")), True),
]
"""The ReplicaSet asks for one more pod beside that which was resized."""


@settings(max_examples=100, deadline=None)
@example([], ROLLOUT)
@example([], RESIZED)
@given(histories, histories)
def test_a_list_of_each_kind_leaves_what_it_says(before: History, after: History) -> None:
    ask = asker()
    for thing, _ in before:
        ask.gate.observe(thing.ref(), thing.observed(1), version="1")
    now = {thing.ref(): thing for thing, _ in after}
    for kind in KINDS.values():
        listed = [(ref, thing.observed(2)) for ref, thing in now.items() if ref[:2] == kind]
        ask.gate.observe_all(kind, listed, "2")
    assert_counted(used(ask), list(now.values()))


@settings(max_examples=100, deadline=None)
@given(histories, st.randoms(use_true_random=False))
def test_of_objects_that_have_all_gone_nothing_is_kept(history: History, order) -> None:
    """Names of objects are up to tenants: no table grows with those that were there once (design.md rule 14)."""
    ask = asker()
    for thing, _ in history:
        ask.gate.observe(thing.ref(), thing.observed(1))
    refs = list(dict.fromkeys(thing.ref() for thing, _ in history))
    for ref in order.sample(refs, len(refs)):
        ask.gate.observe(ref, None)
    ledger = ask.gate.ledger
    tables = [ledger.workloads._kinds]
    tables += [getattr(ledger.ownership, name) for name in ("_children", "_owners", "_stems", "_claimants", "_pods")]
    tables += [ledger.observations._ephemeral, ledger.observations._claiming]
    tables += [getattr(ledger.observations._pods, name) for name in ("_names", "_groups", "_changed")]
    assert tables == [{}] * len(tables)
    assert used(ask) == (0, 0)
    (node,) = ledger.coverage.tree.nodes
    assert ledger.usage.accounts.covered_by(node) == (0, 0)


@settings(max_examples=200, deadline=None)
@given(counts, st.integers(0, 6), st.integers(0, 2), sizes, st.dictionaries(st.integers(0, 9), sizes, max_size=5))
def test_a_stateful_set_that_grows_is_charged_the_claims_that_its_ordinals_lack(
    replicas: int, target: int, start: int, size: int, claims: dict[int, int]
) -> None:
    ask = asker()
    db = Thing("StatefulSet", "s0", "u0", replicas, 1, "x", storage=size, start=start)
    there = [Thing("PersistentVolumeClaim", f"data-s0-{at}", f"c{at}", 1, held) for at, held in claims.items()]
    for thing in (db, *there):
        ask.gate.observe(thing.ref(), thing.observed(1))
    assert ask(scale("s0", target, resource="statefulsets")).verdict is Verdict.ALLOW
    (row,) = [row for row in ask.gate.usage() if row.resource == "requests.storage"]
    assert row.used // NANO == storage([db, *there])
    grown = replace(db, replicas=max(replicas, target))
    assert (row.used + row.reserved) // NANO == storage([grown, *there])
    assert ask.gate.ledger.drift() == {}
