"""How each kind of step is drawn: what happens, to which workload, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from extauthz.core.model import Tree
from tests.worlds.judge import Key, Promise
from tests.worlds.objects import (
    APPLY,
    CPUS,
    JSON_PATCH,
    KINDS,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Sent,
    container,
    kind_of,
    milli,
    sending,
    workload,
)
from tests.worlds.policies import WRITTEN

CONTAINERS = "/spec/template/spec/containers"


def copying(key: Key, spelling: str, replicas: int, cpu: str) -> Sent:
    """A JSON Patch that copies or moves a value: one of the ``drawing.COPIES``."""
    first_cpu = f"{CONTAINERS}/0/resources/requests/cpu"
    operations: list[Tree]
    if spelling == "container":
        promise = Promise(key, None, None)
        operations = [
            {"op": "copy", "from": f"{CONTAINERS}/0", "path": f"{CONTAINERS}/1"},
            {"op": "replace", "path": f"{CONTAINERS}/1/name", "value": "side"},
        ]
    elif spelling == "count":
        promise = Promise(key, None, None)
        operations = [{"op": "copy", "from": "/spec/replicas", "path": first_cpu}]
    elif spelling == "count-stays":
        promise = Promise(key, None, milli(cpu))
        operations = [
            {"op": "copy", "from": "/spec/replicas", "path": "/spec/was"},
            {"op": "replace", "path": first_cpu, "value": cpu},
            {"op": "move", "from": "/spec/was", "path": "/spec/replicas"},
        ]
    else:
        promise = Promise(key, replicas, None)
        operations = [
            {"op": "add", "path": "/spec/detour", "value": replicas},
            {"op": "move", "from": "/spec/detour", "path": "/spec/replicas"},
        ]
    return sending("PATCH", kind_of(key).path(*key), JSON_PATCH, operations, promise)


def adopting(key: Key, owner: Tree, spelling: str) -> Sent:
    """A ReplicaSet is given to an owner, whose selector it meets from now on; one of the ``drawing.PATCHES``."""
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    references = [reference | {"uid": metadata["uid"], "controller": True}]
    promise = Promise(key, None, None, joins=(metadata["namespace"], metadata["name"]))
    if spelling == "json":
        operations = [
            {"op": "add", "path": "/metadata/ownerReferences", "value": references},
            {"op": "replace", "path": "/metadata/labels/app", "value": metadata["name"]},
        ]
        return sending("PATCH", kind_of(key).path(*key), JSON_PATCH, operations, promise)
    content_type = MERGE_PATCH if spelling == "merge" else STRATEGIC_PATCH
    body = {"metadata": {"ownerReferences": references, "labels": {"app": metadata["name"]}}}
    return sending("PATCH", kind_of(key).path(*key), content_type, body, promise)


def leaving(key: Key, owner: Key, spelling: str) -> Sent:
    """It is taken from its owner."""
    promise = Promise(key, None, None, joins=owner)
    if spelling == "json":
        operations = [{"op": "remove", "path": "/metadata/ownerReferences"}]
        return sending("PATCH", kind_of(key).path(*key), JSON_PATCH, operations, promise)
    content_type = MERGE_PATCH if spelling == "merge" else STRATEGIC_PATCH
    return sending("PATCH", kind_of(key).path(*key), content_type, {"metadata": {"ownerReferences": None}}, promise)


def applying(key: Key, how: Mapping[str, Any]) -> Sent:
    """A server-side apply by force, of all but what it leaves out. It may have a sidecar."""
    tree = workload(key, how["to"], how["cpu"], how["tier"])
    if "count" in how["without"]:
        del tree["spec"]["replicas"]
    if "tier" in how["without"]:
        tree["metadata"]["labels"] = {"app": key[1]}
    if how["side"]:
        tree["spec"]["template"]["spec"]["containers"].append(container(how["side"], "side"))
    promise = Promise(key, tree["spec"].get("replicas"), milli(how["cpu"]))
    return sending("PATCH", f"{kind_of(key).path(*key)}?fieldManager=kubectl&force=true", APPLY, tree, promise)


def directing(key: Key, spelling: str, replicas: int, cpu: str) -> Sent:
    """A strategic merge patch with directives: one of the ``drawing.DIRECTIVES``."""
    whole = workload(key, replicas, cpu)["spec"]
    main = container(cpu)
    promise = Promise(key, None, milli(cpu))
    pod: dict[str, Tree] = {"containers": [main]}
    around: dict[str, Tree] = {}
    if spelling == "retain":
        around = {"$retainKeys": sorted(whole)}
    elif spelling == "retain-less":
        around = {"$retainKeys": sorted(whole.keys() - {"replicas"})}
        promise = promise._replace(replicas=1)  # the default
    elif spelling == "replace-spec":
        around = {"$patch": "replace"} | whole
        promise = promise._replace(replicas=replicas, side_m=0)
    elif spelling == "replace-list":
        pod = {"containers": [{"$patch": "replace"}, main]}
        promise = promise._replace(side_m=0)
    elif spelling == "replace-map":
        pod = {"containers": [main | {"resources": {"$patch": "replace"} | main["resources"]}]}
    elif spelling == "delete":
        pod = {"containers": [main, {"$patch": "delete", "name": "side"}]}
        promise = promise._replace(side_m=0)
    else:
        pod |= {"$setElementOrder/containers": [{"name": "main"}]}
    spec = around if "template" in around else around | {"template": {"spec": pod}}
    return sending("PATCH", kind_of(key).path(*key), STRATEGIC_PATCH, {"spec": spec}, promise)


WHOLE = ("deploy", "roll", "rs", "sts")
"""Kinds whose whole objects are gated too."""

ALONE = ("deploy", "rs")
"""Kinds that leave no objects behind when they are deleted."""

MADE = ("replicasets", "persistentvolumeclaims")
"""What controllers make."""

SPELLINGS = ("kpa", "kpa-1.21", "hpa", "hpa-blind", "kubectl")

PATCHES = ("strategic", "merge", "json")
"""How a template is patched."""

COPIES = ("container", "count", "count-stays", "detour")
"""JSON Patches that copy or move a value within the object."""

DIRECTIVES = ("retain", "retain-less", "replace-list", "replace-map", "replace-spec", "delete", "order")
"""Strategic merge patches that say how they are merged."""

ENDS = ("answered", "refused", "reply-lost", "never-arrives", "lands-late", "not-forwarded")
"""What may happen to an allowed write."""


def _scale(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {
        "workload": random.choice(workloads),
        "to": random.choice((0, 1, 1, 2, 3, 4, 5, 6, 8)),
        "as": random.choice(SPELLINGS),
        "tries": random.choice((1, 1, 1, 2, 3)),
        **_fate(random, faults),
    }


def _flood(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    tenant = random.choice(workloads).split("/")[0]
    own = [one for one in workloads if one.startswith(f"{tenant}/")]
    within_s = random.choice((0.05, 0.5, 3.0))
    number = random.randint(8, 40)
    few = {"to": random.choice((0, 1, 1, 2)), "tries": 1}
    writes = [(random.random() * within_s, _scale(random, faults, own, gates)) for _ in range(number)]
    return {"writes": [(at_s, {**how, **few} if random.random() < 0.7 else how) for at_s, how in writes]}


def _rollout(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    to = random.choice((1, 2, 3, 5))
    return {**_of_a_kind(random, workloads, WHOLE), "to": to, "cpu": random.choice(CPUS), **_fate(random, faults)}


def _patch(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    how = {"cpu": random.choice(CPUS), "as": random.choice(PATCHES)}
    return {**_of_a_kind(random, workloads, WHOLE), **how, **_fate(random, faults)}


def _copy(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    how = {"as": random.choice(COPIES), "cpu": random.choice(CPUS), "to": random.choice((0, 1, 2, 3, 5))}
    return {**_of_a_kind(random, workloads, ("deploy", "rs", "sts")), **how, **_fate(random, faults)}


def _directive(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    how = {"as": random.choice(DIRECTIVES), "cpu": random.choice(CPUS), "to": random.choice((0, 1, 2, 3, 5))}
    return {**_of_a_kind(random, workloads, WHOLE), **how, **_fate(random, faults)}


def _remake(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {**_of_a_kind(random, workloads, ALONE), "to": random.choice((1, 2, 4)), **_fate(random, faults)}


def _adopt(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    pairs = [(one, other) for one in _of(workloads, "rs") for other in _of(workloads, "roll") if _near(one, other)]
    workload, owner = random.choice(pairs) if pairs else (None, None)
    how = {"as": random.choice(PATCHES), "leaves": random.random() < 0.3}
    return {"workload": workload, "owner": owner, **how, **_fate(random, faults)}


def _of(workloads: Sequence[str], word: str) -> list[str]:
    return [one for one in workloads if one.split("-")[1] == word]


def _near(one: str, other: str) -> bool:
    return one.split("/")[0] == other.split("/")[0]


def _apply(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    how = {
        "to": random.choice((0, 0, 1, 2, 3, 5)),
        "cpu": random.choice(CPUS),
        "tier": random.choice(("web", "job")),
        "side": random.choice(("", "", "500m", "2")),
        "without": tuple(one for one in ("count", "tier") if random.random() < 0.5),
    }
    return {**_of_a_kind(random, workloads, ("deploy", "rs", "sts")), **how, **_fate(random, faults)}


def _remake_claimed(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    how = {"to": random.choice((0, 1, 1, 2, 4)), "tier": random.choice(("web", "job")), "for_s": _soon_s(random)}
    return {**_of_a_kind(random, workloads, ("sts",)), **how, **_fate(random, faults)}


def _tidy(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return _of_a_kind(random, workloads, ("sts",))


def _sidecar(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {**_of_a_kind(random, workloads, ("deploy", "rs", "sts")), "cpu": random.choice(CPUS)}


def _of_a_kind(random: Random, workloads: Sequence[str], words: Sequence[str]) -> dict[str, Any]:
    """A workload of one of some kinds; ``None``: there is none, and nothing happens."""
    able = [one for one in workloads if one.split("-")[1] in words]
    return {"workload": random.choice(able) if able else None}


def _fate(random: Random, faults: frozenset[str]) -> dict[str, Any]:
    fate: dict[str, Any] = {"end": "answered"}
    if "late" in faults and random.random() < 0.5:
        fate["end"] = random.choice(ENDS)
    if "unheard" in faults and random.random() < 0.4:
        fate["log"] = random.choice(("lost", "late"))
    if "leaves" in faults and random.random() < 0.1:
        fate["leaves_s"] = round(random.choice((0.002, 0.02, 0.2)) * random.random(), 4)
    return fate


def _gate(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {"gate": random.randrange(gates), "for_s": round(random.uniform(0.1, 4.0), 2)}


def _crash(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {"gate": random.randrange(gates), "after": random.randint(1, 120), "for_s": round(random.uniform(0.1, 3), 2)}


def _restart(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    ends = [
        ("kill", 0.0),
        *((random.choice(("kill", "stop", "stop")), _soon_s(random)) for _ in range(random.randint(1, 3))),
    ]
    return {"gate": random.randrange(gates), "ends": tuple(ends), "loses": random.random() < 0.3}


def _soon_s(random: Random) -> float:
    return round(random.choice((0.1, 1.0, 6.0)) * random.random(), 2)


def _watch(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    own = KINDS[random.choice(workloads).split("-")[1]].plural
    kinds = (own, own, own, "workspacequotas", "workspaceledgers", "namespaces", "", *MADE)
    return {"gate": random.randrange(gates), "kind": random.choice(kinds), "for_s": round(random.uniform(0.1, 5.0), 2)}


def _cut(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {"quota": random.randrange(4), "by": random.choice((-3, -2, -1, 1, 2))}


def _guarantee(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {"quota": random.randrange(6), "of_hard": random.choice((0.0, 0.4, 0.7, 1.0))}


def _override(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    how = {"by": random.choice((-2, -1, 2, 3)), "of_hard": random.choice((0.0, 0.5))}
    begin_s, for_s = random.choice((1.0, 6.0, 9.0)), random.choice((1.0, 8.0, 20.0))
    return {"quota": random.randrange(6), "in_s": round(begin_s + random.random(), 3), "for_s": for_s, **how}


def _turns(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {"quota": random.randrange(6), "for_s": random.choice((0, 0, 2, 10, 300)), "weight": random.choice((1, 5))}


def _quota_goes(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {"quota": random.randrange(4), "for_s": round(random.choice((0.1, 1.0, 4.0)) * random.random(), 2)}


def _move(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {"quota": random.randrange(4), "to": random.randrange(6)}


def _relabel(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    workload = random.choice(workloads)
    if random.random() < 0.5:
        return {"workload": workload, "tier": random.choice(("web", "job"))}
    return {"workload": workload, "workspace": random.choice(("acme", "zoo", "none"))}


def _past(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {"workload": random.choice(workloads), "to": random.choice((0, 1, 2, 3, 4, 6))}


def _policy(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    some = random.choice((1, 1, 2)) if random.random() < 0.7 else 0
    return {"quota": random.randrange(4), "names": tuple(random.sample(sorted(WRITTEN), some))}


def _nothing(random: Random, faults: frozenset[str], workloads: Sequence[str], gates: int) -> dict[str, Any]:
    return {}


DRAWN: Final = {
    "scale": _scale,
    "rollout": _rollout,
    "patch": _patch,
    "remake": _remake,
    "adopt": _adopt,
    "apply": _apply,
    "remake-claimed": _remake_claimed,
    "copy": _copy,
    "directive": _directive,
    "flood": _flood,
    "tidy": _tidy,
    "sidecar": _sidecar,
    "hold-watch": _watch,
    "drop-watch": _watch,
    "relist": _watch,
    "crash": _crash,
    "pause": _gate,
    "halt": _gate,
    "restart": _restart,
    "partition": _gate,
    "quota-goes": _quota_goes,
    "cut": _cut,
    "move": _move,
    "relabel": _relabel,
    "past": _past,
    "delete-ledger": _nothing,
    "edit-ledger": _nothing,
    "policy": _policy,
    "guarantee": _guarantee,
    "override": _override,
    "turns": _turns,
}
"""Every kind of step."""

HEALTHY: Final = frozenset({"scale", "rollout", "patch", "remake"})
"""Steps that happen without faults too."""

FAULT_OF: Final = {
    "flood": "flood",
    "adopt": "adopted",
    "apply": "applied",
    "remake-claimed": "remade",
    "copy": "spelled",
    "directive": "spelled",
    "tidy": "ungated",
    "quota-goes": "comes",
    "hold-watch": "lag",
    "drop-watch": "drop",
    "relist": "relist",
    "crash": "crash",
    "pause": "pause",
    "halt": "halt",
    "restart": "again",
    "partition": "partition",
    "cut": "cut",
    "move": "move",
    "relabel": "relabel",
    "past": "ungated",
    "sidecar": "ungated",
    "delete-ledger": "deleted",
    "edit-ledger": "edited",
    "policy": "policies",
    "guarantee": "guarantees",
    "override": "overrides",
    "turns": "turns",
}
"""The fault without which a kind does not happen."""

WEIGHTS: Final = {
    "scale": 12.0,
    "rollout": 2.0,
    "patch": 2.0,
    "remake": 1.0,
    "flood": 0.3,
    "quota-goes": 0.7,
    "delete-ledger": 0.4,
    "edit-ledger": 0.4,
    "relist": 0.7,
    "partition": 0.7,
}
"""How often a kind is drawn; 1 unless it is named."""
