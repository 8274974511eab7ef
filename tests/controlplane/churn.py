"""Random writes to a real API server, by a seed, of everything that bears on a count."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from extauthz.testing import pod
from tests.controlplane.api import path_of
from tests.controlplane.plane import Plane
from tests.support import objects

Tree = Any


class Churn:
    """Random writes to the namespaces of one workspace."""

    def __init__(self, plane: Plane, workspace: str, seed: int) -> None:
        self._api = plane.api
        self._chance = random.Random(seed)
        self._workspace = workspace
        self._made: dict[tuple[str, str, str], None] = {}
        self._count = 0
        self.namespaces = [f"{workspace}-{number}" for number in range(3)]
        for number, name in enumerate(self.namespaces):
            self._api.create(objects.namespace(name, **{"workspace": workspace} if number else {}))

    def step(self) -> None:
        """One write."""
        acts = [self._create] * 3 + ([self._scale, self._retemplate, self._relabel, self._delete] if self._made else [])
        self._chance.choice([*acts, self._relabel_namespace, self._limit])()

    def rolled_out(self) -> None:
        """As no controller runs: each says that it has acted on the spec, and watches of what it makes show more."""
        self._count += 1
        for kind, namespace, name in self._made:
            if kind in ("Deployment", "StatefulSet"):
                generation = self._api.get(kind, name, namespace)["metadata"]["generation"]
                said = {"status": {"observedGeneration": generation}}
                self._api.patch(kind, name, namespace, said, sub="status")
        last = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {}}
        for tree in (
            MAKERS["ReplicaSet"]("last", 0, self._template("last")),
            _pod("", 1, self._template("last")),
            last,
        ):
            tree["metadata"] = {"name": f"last-{self._count}", "namespace": "default"}
            self._api.create(tree)

    def _create(self) -> None:
        self._count += 1
        kind = self._chance.choice(list(MAKERS))
        namespace = self._chance.choice(self.namespaces)
        name = f"o{self._count}"
        tree = MAKERS[kind](name, self._chance.randint(0, 5), self._template(name))
        owner = self._owner_of(kind, namespace)
        if owner is not None:
            tree["metadata"] |= {"ownerReferences": [owner], "labels": {"app": owner["name"]}}
            _set_app(tree, owner["name"])
        tree["metadata"] |= {"name": name, "namespace": namespace}
        tree["metadata"].setdefault("labels", {"app": name})
        self._api.create(tree)
        self._made[kind, namespace, name] = None

    def _owner_of(self, kind: str, namespace: str) -> Tree | None:
        """Some are made as their controllers make them."""
        owner_kind = {"ReplicaSet": "Deployment", "Pod": self._chance.choice(["ReplicaSet", "Job", "StatefulSet"])}.get(
            kind
        )
        owners = [name for made, where, name in self._made if (made, where) == (owner_kind, namespace)]
        if not owners or self._chance.random() < 0.3:
            return None
        owner = self._api.get(owner_kind, self._chance.choice(owners), namespace)
        version = "batch/v1" if owner_kind == "Job" else "apps/v1"
        metadata = owner["metadata"]
        return {
            "apiVersion": version,
            "kind": owner_kind,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }

    def _template(self, name: str) -> Tree:
        requests = {"cpu": f"{self._chance.randint(1, 9)}00m", "memory": f"{self._chance.randint(1, 9)}0Mi"}
        template = pod(requests if self._chance.random() < 0.8 else {})
        template["metadata"] = {"labels": {"app": name}}
        return template

    def _pick(self, *kinds: str) -> tuple[str, str, str] | None:
        found = [one for one in self._made if not kinds or one[0] in kinds]
        return self._chance.choice(found) if found else None

    def _scale(self) -> None:
        if one := self._pick("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"):
            kind, namespace, name = one
            self._api.patch(kind, name, namespace, {"spec": {"replicas": self._chance.randint(0, 9)}}, sub="scale")

    def _retemplate(self) -> None:
        if one := self._pick("Deployment", "StatefulSet"):
            kind, namespace, name = one
            self._api.patch(kind, name, namespace, {"spec": {"template": self._template(name)}})

    def _relabel(self) -> None:
        if one := self._pick():
            kind, namespace, name = one
            tier = self._chance.choice(["gold", None])
            self._api.patch(kind, name, namespace, {"metadata": {"labels": {"tier": tier}}})

    def _delete(self) -> None:
        if one := self._pick():
            kind, namespace, name = one
            path_query = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
            self._api.call(
                "DELETE", path_of(kind, namespace, name), {"kind": "DeleteOptions", "apiVersion": "v1", **path_query}
            )
            del self._made[one]

    def _relabel_namespace(self) -> None:
        labels = {"workspace": self._chance.choice([self._workspace, None])}
        self._api.patch("Namespace", self._chance.choice(self.namespaces), None, {"metadata": {"labels": labels}})

    def _limit(self) -> None:
        namespace = self._chance.choice(self.namespaces)
        name = f"limits-{self._chance.randint(1, 2)}"
        spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": f"{self._chance.randint(1, 9)}"}}]}
        existing = {one["metadata"]["name"] for one in self._api.list("LimitRange", namespace)}
        if name in existing:
            self._api.delete("LimitRange", name, namespace)
        else:
            metadata = {"name": name, "namespace": namespace}
            self._api.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec})


def _set_app(tree: Tree, app: str) -> None:
    if tree["kind"] != "Pod":
        tree["spec"]["selector"] = {"matchLabels": {"app": app}}
        tree["spec"]["template"]["metadata"]["labels"] = {"app": app}


def _controlled(api_version: str, kind: str) -> Callable[[str, int, Tree], Tree]:
    def make(name: str, replicas: int, template: Tree) -> Tree:
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        if kind == "StatefulSet":
            spec["serviceName"] = name
        if kind == "ReplicationController":
            spec["selector"] = {"app": name}
        return {"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": spec}

    return make


def _job(name: str, replicas: int, template: Tree) -> Tree:
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": replicas, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": spec}


def _pod(name: str, replicas: int, template: Tree) -> Tree:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": template["spec"]}


MAKERS: dict[str, Callable[[str, int, Tree], Tree]] = {
    "Deployment": _controlled("apps/v1", "Deployment"),
    "StatefulSet": _controlled("apps/v1", "StatefulSet"),
    "ReplicaSet": _controlled("apps/v1", "ReplicaSet"),
    "ReplicationController": _controlled("v1", "ReplicationController"),
    "Job": _job,
    "Pod": _pod,
}
