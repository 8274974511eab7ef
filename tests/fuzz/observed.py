"""What a cluster shows, drawn and mutated: objects of every kind that is watched, on the wiring of ``serve`` behind its
connection. Whatever an object holds, the gate lives, other quotas are decided, and an object that cannot be read is
named."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final, NamedTuple, cast

from extauthz.core.kinds import BY_KEY
from extauthz.core.model import Kind
from extauthz.core.objects.custom import TEMPLATE
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster import object_readers
from extauthz.inputs.cluster.event_handlers import InvalidObjects, Notes
from extauthz.inputs.cluster.live import PHASES, Listed
from extauthz.inputs.cluster.scaled import ScaledObjects
from extauthz.inputs.kube.connection import Connection
from extauthz.inputs.kube.lists import loads
from extauthz.inputs.kube.reflector import Reflector
from extauthz.inputs.kube.resource import DEFINITIONS, Resource, ScaledKind, scaled
from extauthz.serve.service.assembly import Assembly, Surroundings
from extauthz.serve.service.counting import SLICE
from extauthz.serve.service.inputs import Into
from extauthz.serve.service.live import LiveStateInput, Watchdog
from extauthz.serve.service.settings import Settings
from extauthz.tell.observe.episodes import Episodes
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Metrics
from extauthz.testing import Asker, quota, scale, workload

Tree = Any

EACH_WORLD: Final = 1_000
"""Objects that one gate is shown, of a few names each, so that they meet."""

DIGITS: Final = "@digits@"
"""Stands for an integer of 5,000 digits, which Python does not print."""

_TEXTS = ("", "0", "-1", "1.5", "1e3", "1Ki", "9e9999999999", "1" * 5_000, f"{'1' * 5_000}%", "-5%", "\u0663%", "0x10")
_ODD_TEXTS = ("a=b,c", "=", "\0", "\ud800", "/", "a/b", "é" * 300, "True", "All", "null", "25%", "x" * 1_000, "1_0")
_NUMBERS = (0, 1, -1, 3, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63), 0.5, 3.0, -1e300, 1e308, DIGITS)
_TREES: tuple[Tree, ...] = (None, True, False, [], {}, [None], [[]], {"": ""}, {"a": {}}, [{}], [1, "a"], {"a": [1]})


class World:
    """One gate, wired as ``serve`` wires it, from where its connection hands on what was received."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.told: set[str] = set()
        self._versions = count(10)
        around = Surroundings(_Heard(self.told), Metrics(None), lambda: 0.0, lambda: f"q{next(self._versions)}")
        self.assembly = Assembly(Settings(quotas="kubernetes", state="kubernetes"), around)
        gate = self.gate = self.assembly.gate
        quotas = [_quota("acme", "1000"), _quota("other", "3")]
        gate.load_quotas(QuotaTree.build(quotas), 0.0)
        watchdog = Watchdog(around.log, 60.0)
        connection = cast("Connection", None)
        state = LiveStateInput(
            connection,
            Into(gate, around.log, around.metrics, lambda: 0.0, Episodes()),
            watchdog,
            templates={},
            tells_owners=False,
        )
        cluster = state._cluster
        kind = ScaledKind(CUSTOM, ("spec", "replicas"), ("status", "selector"), (("v1", ("spec", "replicas")),))
        gate.observe_kind(CUSTOM.group, CUSTOM.kind, CUSTOM.plural, object_readers.shapes(kind, TEMPLATE))
        cluster.feeds[CUSTOM.group, CUSTOM.plural] = ScaledObjects(
            kind, TEMPLATE, gate, cluster._invalid, cluster._prices
        )
        invalid = InvalidObjects(lambda _, name, error: self.told.add(f"{name} {error}"))
        definitions = Notes(DEFINITIONS, lambda tree: (scaled(tree),), lambda place, kinds: None, invalid)
        self._reflectors: dict[Resource, Reflector[Any]] = {}
        for resource in [*(one for phase in PHASES for one in phase), CUSTOM]:
            self._reflectors[resource] = cluster._reflector(resource, cluster._listed(resource))
        self._reflectors[DEFINITIONS] = cluster._reflector(DEFINITIONS, Listed(definitions))
        for namespace, workspace in (("team-a", "acme"), ("team-b", "acme"), ("apart", "other")):
            gate.observe_namespace(namespace, {"workspace": workspace})
        gate.state_synced(True)
        self._asker = Asker(gate)

    def show(self) -> Tree:
        """One object more, mutated, as an event or, seldom, as all of a list. What is counted anew goes on."""
        self.gate.ledger.usage.count(SLICE)
        resource = self.draw.choice(tuple(self._reflectors))
        tree = self._drawn(resource)
        for _ in range(self.draw.choice((0, 1, 1, 1, 2, 5))):
            mutate(self.draw, tree)
        if self.draw.random() < 0.02:
            reflector = self._reflectors[resource]
            listed = [reflector._convert(_sent(resource, "ADDED", tree)["object"]) for _ in range(2)]
            asyncio.run(cast("Any", reflector._handler).replaced(listed, str(next(self._versions))))
        else:
            self._tell(resource, self.draw.choice(("ADDED", "MODIFIED", "MODIFIED", "DELETED")), tree)
        if self.draw.random() < 0.05:
            self._asker(scale(self.draw.choice(NAMES), self.draw.randrange(9)))
        return tree

    def check(self) -> None:
        """Others are decided, by their own quota, and what is kept is what a count gives."""
        while self.gate.ledger.usage.count(SLICE):
            pass
        steady = workload("steady", 1, namespace="apart", version=str(next(self._versions)))
        self._tell(_resource(("apps", "deployments")), "ADDED", steady)
        allowed = self._asker(scale("steady", 2, namespace="apart"), charge=False)
        assert allowed.verdict == "allow", allowed
        denied = self._asker(scale("steady", 4, namespace="apart"), charge=False)
        assert denied.reason == "exceeded-quota", denied
        drift = self.gate.ledger.drift()
        assert not drift, drift

    def _tell(self, resource: Resource, event: str, tree: Tree) -> None:
        sent = _sent(resource, event, tree)
        self._reflectors[resource]._hand_on(sent["type"], sent["object"])

    def _drawn(self, resource: Resource) -> Tree:
        name = self.draw.choice(NAMES)
        tree = MADE.get(resource.plural, _plain)(self.draw, name)
        tree["apiVersion"], tree["kind"] = resource.api_version, resource.kind
        metadata = tree.setdefault("metadata", {})
        metadata |= {"name": name, "uid": f"u-{name}", "resourceVersion": str(next(self._versions)), "generation": 2}
        if resource.namespaced:
            metadata["namespace"] = self.draw.choice(("team-a", "team-b"))
        if self.draw.random() < 0.5:
            owner = self.draw.choice(OWNERS)
            metadata["ownerReferences"] = [{**owner, "name": self.draw.choice(NAMES), "controller": True}]
            metadata["ownerReferences"][0]["uid"] = f"u-{metadata['ownerReferences'][0]['name']}"
        return tree


class _Heard(Log):
    """Takes the log at once: only which objects are named."""

    def __init__(self, told: set[str]) -> None:  # no stream, so nothing of Log's own is made
        self._told = told

    def event(self, level: str, event: str, **fields: object) -> None:
        """One line."""
        if event == "unreadable-object":
            self._told.add(f"{fields['resource']} {fields['name']}")


def _quota(name: str, pods: str) -> Any:
    return quota(name, {"pods": pods, "requests.cpu": "1000"}, namespaces={"workspace": name})


def _resource(kind: Kind) -> Resource:
    return Resource(kind[0], BY_KEY[kind].version, kind[1], BY_KEY[kind].name)


def _sent(resource: Resource, event: str, tree: Tree) -> Tree:
    """The event as a watch brings it."""
    text = json.dumps({"type": event, "object": tree}).replace(f'"{DIGITS}"', "1" * 5_000)
    return loads(text.encode())


CUSTOM: Final = Resource("example.org", "v1", "crews", "Crew")
NAMES: Final = ("web", "web-0", "api", "data-web-0", "odd")
OWNERS: Final = (
    {"apiVersion": "apps/v1", "kind": "Deployment"},
    {"apiVersion": "apps/v1", "kind": "ReplicaSet"},
    {"apiVersion": "apps/v1", "kind": "StatefulSet"},
    {"apiVersion": "batch/v1", "kind": "Job"},
    {"apiVersion": "example.org/v1", "kind": "Crew"},
    {"apiVersion": "v1", "kind": "Pod"},
)


# Objects before they are mutated: each has the fields that the gate looks at.


def _pod(draw: random.Random) -> Tree:
    resources = {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}, "limits": {"cpu": "2"}}
    container = {"name": "main", "resources": resources}
    return {
        "containers": [container],
        "initContainers": [container | {"restartPolicy": "Always"}],
        "overhead": {"cpu": "250m"},
        "resources": draw.choice(({}, resources)),
        "runtimeClassName": draw.choice(NAMES),
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": draw.choice(NAMES)}],
        "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": resources}}}}],
    }


def _workload(draw: random.Random, name: str) -> Tree:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "replicas": draw.randrange(5),
            "parallelism": 2,
            "completions": draw.choice((None, 3)),
            "suspend": False,
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": draw.choice((1, "25%"))}},
            "updateStrategy": {"type": "RollingUpdate"},
            "ordinals": {"start": 1},
            "template": {"metadata": {"labels": {"app": name}}, "spec": _pod(draw)},
            "volumeClaimTemplates": [claim],
        },
        "status": {
            "observedGeneration": 1,
            "currentRevision": draw.choice(NAMES),
            "updateRevision": draw.choice(NAMES),
            "currentReplicas": 1,
            "succeeded": 1,
            "active": 1,
            "selector": f"app={name}",
            "conditions": [{"type": "Complete", "status": "False"}],
        },
    }


def _pods(draw: random.Random, name: str) -> Tree:
    status = {"phase": draw.choice(("Running", "Pending", "Failed")), "resize": ""}
    status["containerStatuses"] = [{"name": "main", "allocatedResources": {"cpu": "1"}, "resources": {}}]
    return {"metadata": {"labels": {"app": name}, "generation": 1}, "spec": _pod(draw), "status": status}


def _claim(draw: random.Random, name: str) -> Tree:
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2, "allocationMode": ""}}]}
    spec = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast", "devices": devices}
    return {
        "metadata": {"annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}},
        "spec": draw.choice((spec, {"spec": spec})),
        "status": {"allocatedResources": {"storage": "2Gi"}},
    }


def _revision(draw: random.Random, name: str) -> Tree:
    return {"data": {"spec": {"template": {"spec": _pod(draw)}}}, "revision": 1}


def _definition(draw: random.Random, name: str) -> Tree:
    scaled = {"scale": {"specReplicasPath": ".spec.replicas", "labelSelectorPath": ".status.selector"}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": scaled}
    return {
        "spec": {"group": "example.org", "scope": "Namespaced", "names": {"plural": name, "kind": "Crew"}}
        | {"versions": [version]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }


def _plain(draw: random.Random, name: str) -> Tree:
    """Of the kinds that bear on others."""
    limit = {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"memory": "1Mi"}, "max": {}, "min": {}}
    return {
        "metadata": {
            "labels": {"workspace": draw.choice(("acme", "none"))},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"limits": [limit], "extendedResourceName": "nvidia.com/gpu"},
        "overhead": {"podFixed": {"cpu": "1"}},
    }


MADE: Final[dict[str, Callable[[random.Random, str], Tree]]] = {
    **dict.fromkeys(
        ("deployments", "statefulsets", "replicasets", "replicationcontrollers", "jobs", "crews"), _workload
    ),
    **dict.fromkeys(("persistentvolumeclaims", "resourceclaims", "resourceclaimtemplates"), _claim),
    "pods": _pods,
    "controllerrevisions": _revision,
    "customresourcedefinitions": _definition,
}

_KEPT: Final = frozenset({"apiVersion", "kind", "resourceVersion", "name", "namespace"})
"""Members of an object itself that the API server sets, or has checked. Those of its metadata are left, too."""


def mutate(draw: random.Random, tree: Tree) -> None:
    """Put something odd in a place of it, take the place away, double it, or put another part of it there."""
    parent, key = draw.choice(list(_places(tree)))
    kind = draw.random()
    if kind < 0.15:
        del parent[key]
    elif kind < 0.25:
        _, other = draw.choice(list(_parts(tree)))
        parent[key] = json.loads(json.dumps(other))
    elif kind < 0.3 and isinstance(parent, list):
        parent.extend([parent[key]] * draw.choice((1, 3, 200)))
    else:
        parent[key] = json.loads(json.dumps(odd(draw)))


def odd(draw: random.Random) -> Tree:
    """A value that hardly any author writes."""
    found = draw.choice(draw.choice((_TEXTS, _ODD_TEXTS, _NUMBERS, _TREES)))
    if draw.random() < 0.002:
        return "x" * 1_000_000
    if draw.random() < 0.01:
        for _ in range(draw.choice((10, 150))):
            found = draw.choice(([found], {"a": found}))
    return found


def _places(tree: Tree) -> Iterator[tuple[Any, Any]]:
    for _, value in _parts(tree):
        if isinstance(value, dict):
            is_fixed = value is tree or value is tree.get("metadata")
            yield from ((value, key) for key in value if not (is_fixed and key in {*_KEPT, "metadata"}))
        elif isinstance(value, list):
            yield from ((value, at) for at in range(len(value)))


def _parts(tree: Tree) -> Iterator[tuple[Any, Tree]]:
    waiting: list[tuple[Any, Tree]] = [(None, tree)]
    while waiting:
        parent, value = waiting.pop()
        yield parent, value
        below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        waiting += [(value, one) for one in below]


class Run(NamedTuple):
    """What came of some objects."""

    objects: int
    named: int
    """Objects that were named as unreadable."""


def run(seed: int, objects: int) -> Run:
    """Show so many objects. Raises whatever ends a task of the gate, with the seed of its world."""
    shown = named = 0
    while shown < objects:
        world = World(seed)
        try:
            for _ in range(min(EACH_WORLD, objects - shown)):
                world.show()
                shown += 1
            world.check()
        except Exception as error:
            raise AssertionError(f"observed.run({seed}, {EACH_WORLD})") from error
        named += len(world.told)
        seed += 1
    return Run(shown, named)
