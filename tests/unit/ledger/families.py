"""A family of workloads in a small cluster, and random writes of it. The family may be within that of a Rollout, which
is a custom resource."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from extauthz import testing as builders
from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.intake import admission
from extauthz.core.intake.counts import read
from extauthz.core.model import NotACount, Observed, Reading, Request, WorkloadRef
from extauthz.core.objects import fields
from extauthz.core.objects.workloads import claim_template, observe
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.demo import patches
from extauthz.inputs.kube.connection import ApiError
from extauthz.testing import Snapshot, create, owned_by, patch, path, pod, quota, workload

Tree = Any
At = tuple[str, str]
"""Kind and name."""

NAMESPACE = "team-a"
TEAMS = ("a", "b", "c")
WORKSPACES = ("acme", "zoo", "none")
KEYS = ("requests.cpu", "requests.storage", "pods", "count/replicasets.apps", "count/deployments.apps")
MUCH = "1000000"
ROLLOUT, DEPLOYMENT, CLAIMED = ("Rollout", "x"), ("Deployment", "web"), ("StatefulSet", "db")
SETS = (("ReplicaSet", "old"), ("ReplicaSet", "old2"))
RESOURCES = {kind: f"{kind.lower()}s" for kind in ("Rollout", "Deployment", "ReplicaSet", "StatefulSet")}
WEIGHTS = {DEPLOYMENT: 5, SETS[0]: 5, SETS[1]: 3, CLAIMED: 2, ROLLOUT: 1}
COUNTS, CPUS, SIZES = (0, 1, 3, 5), ("1", "2", "5"), ((), (("data", 1),), (("data", 2), ("log", 3)), (("log", 2),))
BY_ROLLOUT = [{**owned_by("x", kind="Rollout")[0], "apiVersion": "example.com/v1"}]
OWNERS: dict[str, list[Tree]] = {
    "Deployment": [[], BY_ROLLOUT],
    "ReplicaSet": [[], owned_by("web"), owned_by("web"), BY_ROLLOUT],
    "StatefulSet": [[], [], BY_ROLLOUT],
}


class Admitted(NamedTuple):
    """An object that an API server is about to store."""

    at: At
    tree: Tree
    on: str | None
    """The version that it replaces; ``None``: there was none."""


class Cluster:
    """What an API server holds of it."""

    def __init__(self, objects: list[Tree], claims: list[tuple[str, int, str]]) -> None:
        self.objects: dict[At, Tree] = {(tree["kind"], tree["metadata"]["name"]): tree for tree in objects}
        self.claims = claims
        """Name, GiB and team of each volume claim."""
        self.version = 100
        self.workspace = WORKSPACES[0]
        """Label of the namespace."""
        self.quotas = [
            quota(team, dict.fromkeys(KEYS, MUCH), namespaces={"workspace": self.workspace}, workloads={"team": team})
            for team in TEAMS
        ]
        """There is room for everything: what is charged is the question."""

    def copy(self) -> Cluster:
        """Objects are never changed in place."""
        made = copy.copy(self)
        made.objects = dict(self.objects)
        return made

    def shown(self, request: Request) -> tuple[Reading, Admitted | None] | None:
        """What a gate gets to read of a write: a count, or the object that it makes; ``None``: it makes none."""
        found = read(request)
        if not isinstance(found, NotACount):
            return found, None
        at, _ = place(request)
        made, old = self.copy(), self.objects.get(at)
        if not made.lands(request):
            return None
        self.version = made.version  # no other create has its UID
        new, ref = made.objects[at], found.ref._replace(name=at[1])
        asked = (
            {**new, "metadata": {**new["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}}
            if old
            else new
        )
        review = admission.read(json.dumps(builders.review(ref, asked, old, request.target)).encode())
        return review.question.reading, Admitted(
            at, new, old["metadata"]["resourceVersion"] if old is not None else None
        )

    def stores(self, admitted: Admitted) -> bool:
        """Whether an object that was admitted is stored: on the very version that it was shown with."""
        old = self.objects.get(admitted.at)
        self.version += 1
        found = old["metadata"]["resourceVersion"] if old is not None else None
        if found == admitted.on:
            self._store(admitted.at, admitted.tree, admitted.tree["metadata"]["uid"])
        return found == admitted.on

    def lands(self, request: Request) -> bool:
        """Whether a write is stored."""
        at, sub = place(request)
        body, old = json.loads(request.body), self.objects.get(at)
        self.version += 1
        if request.method == "POST":
            if old is None:
                self._store(at, body, f"uid-{at[1]}-{self.version}")
            return old is None
        if old is None:
            return False
        if request.method == "PUT":
            new = self._put(old, body, sub)
        else:
            new = self._patched(old, request.headers["content-type"], body)
        if new is not None:
            self._store(at, new, old["metadata"]["uid"])
        return new is not None

    def _put(self, old: Tree, body: Tree, sub: str) -> Tree | None:
        wanted = body["metadata"].get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            return None
        if sub:
            return {**old, "spec": {**old["spec"], "replicas": body["spec"]["replicas"]}}
        fixed = [tree["spec"].get("volumeClaimTemplates") for tree in (old, body)]
        return {**body, "spec": {**body["spec"], "selector": old["spec"]["selector"]}} if fixed[0] == fixed[1] else None

    def _patched(self, old: Tree, content_type: str, body: Tree) -> Tree | None:
        try:
            return patches.apply(old, content_type, body)
        except ApiError:
            return None

    def _store(self, at: At, tree: Tree, uid: str) -> None:
        own = {**tree["metadata"], "uid": uid, "resourceVersion": str(self.version)}
        self.objects[at] = {**tree, "metadata": own}

    def observed(self) -> Iterator[tuple[WorkloadRef, Observed]]:
        """As watches bring it."""
        for (kind, name), tree in self.objects.items():
            if kind == "Rollout":
                yield (
                    WorkloadRef("example.com", "rollouts", NAMESPACE, name),
                    observe({**tree, "kind": "Deployment"})[1],
                )
            else:
                yield observe(tree)
        for name, size, team in self.claims:
            own = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": "1"}
            tree = {"metadata": {**own, "labels": {"team": team}}, "spec": _of_size(size)}
            yield fields.observed("", "persistentvolumeclaims", tree, 1, claim_template(tree))

    def gate(self) -> Gate:
        """One that starts on what is there."""
        gate = Gate(Policy(window_s=90.0))
        gate.load_quotas(QuotaTree.build(self.quotas), 0.0)
        gate.load_state(Snapshot({NAMESPACE: {"workspace": self.workspace}}, []), 0.0)
        gate.observe_kind("example.com", "Rollout", "rollouts")
        self.show(gate)
        return gate

    def show(self, gate: Gate) -> None:
        """The gate's watches have caught up."""
        there = dict(self.observed())
        for entry in list(gate.ledger.workloads):
            if entry.observed is not None and entry.ref not in there:
                gate.observe(entry.ref, None, version=str(self.version))
        for ref, observed in there.items():
            gate.observe(ref, observed)


def place(request: Request) -> tuple[At, str]:
    """Which object a request is about, and its subresource."""
    plural, *rest = request.target.split("/")[6:]
    kind = next(kind for kind, resource in RESOURCES.items() if resource == plural)
    name, sub = (*rest, "", "")[:2]
    return (kind, name or json.loads(request.body)["metadata"]["name"]), sub


def drawn_cluster(random: Random) -> Cluster:
    """A Rollout, a Deployment, two ReplicaSets and a StatefulSet with claims, or some of them."""
    trees = [_drawn(random, at) for at, often in ((ROLLOUT, 0.6), (DEPLOYMENT, 0.85)) if random.random() < often]
    trees += [_drawn(random, at) for at in SETS if random.random() < 0.7]
    claims: list[tuple[str, int, str]] = []
    if random.random() < 0.5:
        names = [f"{one}-db-{number}" for one in ("data", "log") for number in range(4)]
        kept = random.sample(names, random.randint(0, 4))
        claims = [(name, random.choice((1, 2, 5)), random.choice(TEAMS)) for name in kept]
        trees += [_drawn(random, CLAIMED)] if random.random() < 0.7 else []
    return Cluster(trees, claims)


def drawn_quotas(random: Random) -> list[WorkspaceQuota]:
    """A root that covers nothing by itself, and quotas for some of the teams or for all workloads, under it or not."""
    quotas = [quota("corp", dict.fromkeys(KEYS, MUCH), namespaces={"workspace": "nobody"})]
    for team in TEAMS:
        if random.random() < 0.8:
            limited = [key for key in KEYS if random.random() < 0.8] or ["pods"]
            workloads = random.choice(({"team": team}, {"team": team}, {"app": "web"}, None))
            selected = {"workspace": random.choice(("acme", "acme", "zoo"))}
            under = {"parent": "corp"} if random.random() < 0.5 else {}
            hard = dict.fromkeys(limited, MUCH)
            quotas.append(quota(team, hard, namespaces=selected, workloads=workloads, **under))
    return quotas


def _drawn(random: Random, at: At) -> Tree:
    """An object, as its kind may be."""
    kind, name = at
    app = "db" if at == CLAIMED else random.choice(("web", "web", "no"))
    labels = {"app": "web" if kind == "Rollout" else app, "team": random.choice(TEAMS)}
    requests = {"cpu": random.choice(CPUS)}
    owner = [] if kind == "Rollout" else random.choice(OWNERS[kind])
    tree = workload(name, random.choice(COUNTS), requests, kind=kind, labels=labels, ownerReferences=owner)
    tree["spec"]["selector"] = {"matchLabels": {"app": "db" if at == CLAIMED else "web"}}
    if kind == "Deployment":
        tree["spec"]["strategy"] = {"type": "Recreate"}
    if at == CLAIMED:
        named = [{"metadata": {"name": one}, "spec": _of_size(size)} for one, size in random.choice(SIZES)]
        tree["spec"]["volumeClaimTemplates"] = named
    return tree


def _of_size(size: int) -> Tree:
    return {"resources": {"requests": {"storage": str(size)}}}


def drawn_write(random: Random, cluster: Cluster) -> Request:
    """A scale, a patch in one of two forms, a PUT or a POST."""
    at = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    what = random.random()
    if at == ROLLOUT or what < 0.2:
        operations = [{"op": "add", "path": "/spec/replicas", "value": random.choice(COUNTS)}]
        return patch(_target(at, "scale"), operations, "json")
    if what < 0.75:
        body = _drawn_patch(random, at)
        return patch(_target(at), *((body, "merge") if random.random() < 0.7 else (_operations(random, body), "json")))
    tree = cluster.objects.get(at)
    if tree is None or what > 0.9:
        made = _drawn(random, at)
        del made["metadata"]["uid"], made["metadata"]["resourceVersion"]
        return create(made)
    return _drawn_put(random, at, tree)


def _drawn_patch(random: Random, at: At) -> Tree:
    """A merge patch of labels, owner, template or count."""
    labels = {"labels": {"team": random.choice((*TEAMS, None))}}
    if at != CLAIMED and random.random() < 0.4:
        labels["labels"]["app"] = random.choice(("web", "no"))
    owner = {"ownerReferences": random.choice(OWNERS[at[0]]) or None}
    template = {"template": pod({"cpu": random.choice(CPUS)})}
    count = {"replicas": random.choice(COUNTS)}
    return random.choice(
        (
            {"metadata": labels},
            {"metadata": owner},
            {"spec": template},
            {"spec": {**template, **count}},
            {"metadata": owner, "spec": count},
        )
    )


def _operations(random: Random, body: Tree) -> list[Tree]:
    """The same as a JSON Patch, in any order, sometimes with a label that it copies."""
    meta = body.get("metadata", {})
    changes = {f"/metadata/labels/{key}": value for key, value in meta.get("labels", {}).items()}
    if "ownerReferences" in meta:
        changes["/metadata/ownerReferences"] = meta["ownerReferences"] or []
    changes |= {f"/spec/{key}": value for key, value in body.get("spec", {}).items()}
    found: list[Tree] = [
        {"op": "remove", "path": at} if value is None else {"op": "add", "path": at, "value": value}
        for at, value in changes.items()
    ]
    if random.random() < 0.2:
        found.append({"op": "copy", "from": "/metadata/labels/app", "path": "/metadata/labels/team"})
    random.shuffle(found)
    return found


def _drawn_put(random: Random, at: At, tree: Tree) -> Request:
    """The object as it is but for one thing, or another one; on this version, or on any."""
    new, other = copy.deepcopy(tree), _drawn(random, at)
    change = random.choice(("replicas", "template", "labels", "ownerReferences", "all"))
    if change in ("replicas", "template"):
        new["spec"][change] = other["spec"][change]
    elif change == "all":
        new = other
    else:
        new["metadata"][change] = other["metadata"][change]
    del new["metadata"]["uid"], new["metadata"]["resourceVersion"]
    if random.random() < 0.4:
        new["metadata"]["resourceVersion"] = tree["metadata"]["resourceVersion"]
    return Request("PUT", _target(at), {"content-type": "application/json"}, json.dumps(new).encode())


def _target(at: At, sub: str = "") -> str:
    kind, name = at
    target = path(name, resource=RESOURCES[kind], sub=sub)
    return target.replace("/apps/", "/example.com/") if kind == "Rollout" else target
