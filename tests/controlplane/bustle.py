"""What goes on on a platform within an hour, by a seed and as fast as it can: half of it through the gate."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.controlplane.api import Api, RefusedError

Tree = Any

KINDS = ("Deployment", "Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "Pod")
GROWING = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
VERSIONS = {"ReplicationController": "v1", "Pod": "v1", "PersistentVolumeClaim": "v1", "Job": "batch/v1"}
CPU = ("50m", "100m", "0.25", "1", "1500m")
MEMORY = ("64Mi", "100M", "1Gi", "3000k")
TO_BE_EXPECTED = (404, 409, 503)
"""What an author meets who is not alone: the object went, its name is still taken by one that is going, or the gate
gave no answer in time on a busy machine."""


class Bustle:
    """Writes to some namespaces, each through a client drawn from ``clients``."""

    def __init__(self, seed: int, namespaces: Sequence[str], clients: Sequence[Api]) -> None:
        self._chance = random.Random(seed)
        self._namespaces, self._clients = namespaces, clients
        self._there: list[tuple[str, str, str]] = []
        self._number = 0

    def go(self, writes: int) -> None:
        """So many writes, whatever comes of them."""
        acts = (self._make, self._make, self._scale, self._scale, self._retemplate, self._relabel, self._remove)
        rare = (self._make_claim, self._touch_job, self._move_namespace, self._kill_pod)
        for _ in range(writes):
            try:
                self._chance.choice(acts if self._chance.random() < 0.8 else rare)()
            except RefusedError as error:
                if error.code not in TO_BE_EXPECTED:
                    raise

    @property
    def _api(self) -> Api:
        return self._chance.choice(self._clients)

    def _pick(self, *kinds: str) -> tuple[str, str, str]:
        """Kind, name and namespace of one that is there; made now if there is none."""
        found = [one for one in self._there if one[0] in kinds]
        return self._chance.choice(found) if found else self._make(kinds[0])

    def _make(self, kind: str = "") -> tuple[str, str, str]:
        kind = kind or self._chance.choice(KINDS)
        self._number += 1
        name, namespace = f"{kind.lower()}-{self._number}", self._chance.choice(self._namespaces)
        labels = {"app": name} | self._chance.choice(({}, {"tier": "paid"}))
        tree: Tree = {"apiVersion": VERSIONS.get(kind, "apps/v1"), "kind": kind}
        tree["metadata"] = {"name": name, "namespace": namespace, "labels": labels}
        tree["spec"] = self._spec(kind, name)
        self._api.create(tree)
        self._there.append((kind, name, namespace))
        return self._there[-1]

    def _spec(self, kind: str, name: str) -> Tree:
        template = {"metadata": {"labels": {"app": name}}, "spec": self._pod()}
        if kind == "Pod":
            return template["spec"]
        if kind == "Job":
            template["spec"]["restartPolicy"] = "Never"
            return {"parallelism": self._chance.randint(0, 3), "completions": 3, "template": template}
        selector = {"app": name}
        spec: Tree = {"replicas": self._chance.randint(0, 4), "template": template}
        spec["selector"] = selector if kind == "ReplicationController" else {"matchLabels": selector}
        if kind == "StatefulSet":
            spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
            if self._chance.random() < 0.5:
                spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": self._claim()}]
        return spec

    def _pod(self) -> Tree:
        pod: Tree = {"containers": [self._container(f"c{number}") for number in range(self._chance.randint(1, 2))]}
        if self._chance.random() < 0.3:
            pod["initContainers"] = [self._container("first"), self._container("beside") | {"restartPolicy": "Always"}]
        return pod

    def _container(self, name: str) -> Tree:
        resources: Tree = {"requests": {"cpu": self._chance.choice(CPU)}}
        if self._chance.random() < 0.5:
            resources["requests"]["memory"] = self._chance.choice(MEMORY)
        if self._chance.random() < 0.3:
            resources = {"limits": {"cpu": self._chance.choice(CPU), "memory": self._chance.choice(MEMORY)}}
        return {
            "name": name,
            "image": "registry.test/app:1",
            "resources": self._chance.choice((resources, resources, {})),
        }

    def _claim(self) -> Tree:
        storage = self._chance.choice(("1Gi", "500M", "2Gi"))
        return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}

    def _make_claim(self) -> None:
        self._number += 1
        metadata = {"name": f"claim-{self._number}", "namespace": self._chance.choice(self._namespaces)}
        kind = "PersistentVolumeClaim"
        self._api.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": self._claim()})
        self._there.append((kind, metadata["name"], metadata["namespace"]))

    def _scale(self) -> None:
        replicas = {"spec": {"replicas": self._chance.randint(0, 6)}}
        self._api.patch(*self._pick(*GROWING), replicas, sub=self._chance.choice(("", "scale")))

    def _retemplate(self) -> None:
        """A rollout, most of them dearer or cheaper."""
        template = {"spec": {"containers": [self._container("c0")]}}
        self._api.patch(*self._pick("Deployment", "StatefulSet"), {"spec": {"template": template}})

    def _relabel(self) -> None:
        tier = self._chance.choice(("paid", None))
        self._api.patch(*self._pick(*GROWING, "Pod", "Job"), {"metadata": {"labels": {"tier": tier}}})

    def _remove(self) -> None:
        """Some leave orphans behind."""
        one = self._pick(*GROWING, "Job", "Pod", "PersistentVolumeClaim")
        if one in self._there:
            self._there.remove(one)
        policy = self._chance.choice(("Background", "Background", "Foreground", "Orphan"))
        self._api.delete(*one, policy)

    def _touch_job(self) -> None:
        changes = ({"suspend": True}, {"suspend": False}, {"parallelism": self._chance.randint(0, 3)})
        change = self._chance.choice(changes)
        self._api.patch(*self._pick("Job"), {"spec": change})

    def _move_namespace(self) -> None:
        workspace = self._chance.choice(self._namespaces)
        metadata = {"labels": {"workspace": self._namespaces[0] if self._chance.random() < 0.7 else workspace}}
        self._api.patch("Namespace", self._namespaces[-1], None, {"metadata": metadata})

    def _kill_pod(self) -> None:
        """Its controller makes another; one that ran to its end makes room."""
        namespace = self._chance.choice(self._namespaces)
        pods = [one for one in self._api.list("Pod", namespace) if "deletionTimestamp" not in one["metadata"]]
        if not pods:
            return
        pod = self._chance.choice(sorted(pods, key=lambda one: one["metadata"]["name"]))
        name, owners = pod["metadata"]["name"], pod["metadata"].get("ownerReferences", [])
        if owners and owners[0]["kind"] == "Job":
            self._api.patch("Pod", name, namespace, {"status": {"phase": "Succeeded"}}, sub="status")
        else:
            self._api.delete("Pod", name, namespace)
