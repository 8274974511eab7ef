"""How each kind of step is drawn: what happens, to which workload, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

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
    reference,
    sending,
    word_of,
    workload,
)

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
    metadata, references = owner["metadata"], [reference(owner)]
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


class Draw(NamedTuple):
    """What a step is drawn from."""

    random: Random
    faults: frozenset[str]
    workloads: Sequence[str]
    gates: int


How: TypeAlias = dict[str, Any]


def _scale(draw: Draw) -> How:
    random = draw.random
    return {
        "workload": random.choice(draw.workloads),
        "to": random.choice((0, 1, 1, 2, 3, 4, 5, 6, 8)),
        "as": random.choice(SPELLINGS),
        "tries": random.choice((1, 1, 1, 2, 3)),
        **_fate(draw),
    }


def _flood(draw: Draw) -> How:
    random = draw.random
    tenant = random.choice(draw.workloads).split("/")[0]
    own = draw._replace(workloads=[one for one in draw.workloads if one.startswith(f"{tenant}/")])
    within_s = random.choice((0.05, 0.5, 3.0))
    number = random.randint(8, 40)
    few = {"to": random.choice((0, 1, 1, 2)), "tries": 1}
    writes = [(random.random() * within_s, _scale(own)) for _ in range(number)]
    return {"writes": [(at_s, {**how, **few} if random.random() < 0.7 else how) for at_s, how in writes]}


def _rollout(draw: Draw) -> How:
    to = draw.random.choice((1, 2, 3, 5))
    return {**_of_a_kind(draw, WHOLE), "to": to, "cpu": draw.random.choice(CPUS), **_fate(draw)}


def _adopt(draw: Draw) -> How:
    of = {word: [one for one in draw.workloads if word_of(one) == word] for word in ("rs", "roll")}
    pairs = [(one, other) for one in of["rs"] for other in of["roll"] if one.split("/")[0] == other.split("/")[0]]
    workload, owner = draw.random.choice(pairs) if pairs else (None, None)
    how = {"as": draw.random.choice(PATCHES), "leaves": draw.random.random() < 0.3}
    return {"workload": workload, "owner": owner, **how, **_fate(draw)}


def _apply(draw: Draw) -> How:
    random = draw.random
    how = {
        "to": random.choice((0, 0, 1, 2, 3, 5)),
        "cpu": random.choice(CPUS),
        "tier": random.choice(("web", "job")),
        "side": random.choice(("", "", "500m", "2")),
        "without": tuple(one for one in ("count", "tier") if random.random() < 0.5),
    }
    return _written(draw, ("deploy", "rs", "sts"), how)


def _written(draw: Draw, words: Sequence[str], how: How) -> How:
    return {**_of_a_kind(draw, words), **how, **_fate(draw)}


def _of_a_kind(draw: Draw, words: Sequence[str]) -> How:
    """A workload of one of some kinds; ``None``: there is none, and nothing happens."""
    able = [one for one in draw.workloads if word_of(one) in words]
    return {"workload": draw.random.choice(able) if able else None}


def _fate(draw: Draw) -> How:
    random = draw.random
    fate: How = {"end": "answered"}
    if "late" in draw.faults and random.random() < 0.5:
        fate["end"] = random.choice(ENDS)
    if "unheard" in draw.faults and random.random() < 0.4:
        fate["log"] = random.choice(("lost", "late"))
    if "leaves" in draw.faults and random.random() < 0.1:
        fate["leaves_s"] = round(random.choice((0.002, 0.02, 0.2)) * random.random(), 4)
    return fate


def _gate(draw: Draw) -> How:
    return {"gate": draw.random.randrange(draw.gates), "for_s": round(draw.random.uniform(0.1, 4.0), 2)}


def _crash(draw: Draw) -> How:
    random = draw.random
    return {
        "gate": random.randrange(draw.gates),
        "after": random.randint(1, 120),
        "for_s": round(random.uniform(0.1, 3), 2),
    }


def _restart(draw: Draw) -> How:
    random = draw.random
    ends = [
        ("kill", 0.0),
        *((random.choice(("kill", "stop", "stop")), _soon_s(random)) for _ in range(random.randint(1, 3))),
    ]
    return {"gate": random.randrange(draw.gates), "ends": tuple(ends), "loses": random.random() < 0.3}


def _soon_s(random: Random) -> float:
    return round(random.choice((0.1, 1.0, 6.0)) * random.random(), 2)


def _watch(draw: Draw) -> How:
    random = draw.random
    own = KINDS[word_of(random.choice(draw.workloads))].plural
    kinds = (own, own, own, "workspacequotas", "workspaceledgers", "namespaces", "", *MADE)
    return {
        "gate": random.randrange(draw.gates),
        "kind": random.choice(kinds),
        "for_s": round(random.uniform(0.1, 5.0), 2),
    }


def _override(draw: Draw) -> How:
    random = draw.random
    how = {"by": random.choice((-2, -1, 2, 3)), "of_hard": random.choice((0.0, 0.5))}
    begin_s, for_s = random.choice((1.0, 6.0, 9.0)), random.choice((1.0, 8.0, 20.0))
    return {"quota": random.randrange(6), "in_s": round(begin_s + random.random(), 3), "for_s": for_s, **how}


def _relabel(draw: Draw) -> How:
    random = draw.random
    workload = random.choice(draw.workloads)
    if random.random() < 0.5:
        return {"workload": workload, "tier": random.choice(("web", "job"))}
    return {"workload": workload, "workspace": random.choice(("acme", "zoo", "none"))}


COUNTS = (0, 1, 2, 3, 5)

DRAWN: Final[Mapping[str, tuple[float, str, Callable[[Draw], How]]]] = {
    "scale": (12.0, "", _scale),
    "rollout": (2.0, "", _rollout),
    "patch": (
        2.0,
        "",
        lambda d: _written(d, WHOLE, {"cpu": d.random.choice(CPUS), "as": d.random.choice(PATCHES)}),
    ),
    "remake": (1.0, "", lambda d: {**_of_a_kind(d, ALONE), "to": d.random.choice((1, 2, 4)), **_fate(d)}),
    "adopt": (1.0, "adopted", _adopt),
    "apply": (1.0, "applied", _apply),
    "remake-claimed": (
        1.0,
        "remade",
        lambda d: _written(
            d,
            ("sts",),
            {
                "to": d.random.choice((0, 1, 1, 2, 4)),
                "tier": d.random.choice(("web", "job")),
                "for_s": _soon_s(d.random),
            },
        ),
    ),
    "copy": (
        1.0,
        "spelled",
        lambda d: _written(
            d,
            ("deploy", "rs", "sts"),
            {"as": d.random.choice(COPIES), "cpu": d.random.choice(CPUS), "to": d.random.choice(COUNTS)},
        ),
    ),
    "directive": (
        1.0,
        "spelled",
        lambda d: _written(
            d,
            WHOLE,
            {"as": d.random.choice(DIRECTIVES), "cpu": d.random.choice(CPUS), "to": d.random.choice(COUNTS)},
        ),
    ),
    "flood": (0.3, "flood", _flood),
    "tidy": (1.0, "ungated", lambda d: _of_a_kind(d, ("sts",))),
    "sidecar": (1.0, "ungated", lambda d: _of_a_kind(d, ("deploy", "rs", "sts")) | {"cpu": d.random.choice(CPUS)}),
    "hold-watch": (1.0, "lag", _watch),
    "drop-watch": (1.0, "drop", _watch),
    "relist": (0.7, "relist", _watch),
    "crash": (1.0, "crash", _crash),
    "pause": (1.0, "pause", _gate),
    "halt": (1.0, "halt", _gate),
    "restart": (1.0, "again", _restart),
    "partition": (0.7, "partition", _gate),
    "quota-goes": (
        0.7,
        "comes",
        lambda d: {
            "quota": d.random.randrange(4),
            "for_s": round(d.random.choice((0.1, 1.0, 4.0)) * d.random.random(), 2),
        },
    ),
    "cut": (1.0, "cut", lambda d: {"quota": d.random.randrange(4), "by": d.random.choice((-3, -2, -1, 1, 2))}),
    "move": (1.0, "move", lambda d: {"quota": d.random.randrange(4), "to": d.random.randrange(6)}),
    "relabel": (1.0, "relabel", _relabel),
    "past": (
        1.0,
        "ungated",
        lambda d: {"workload": d.random.choice(d.workloads), "to": d.random.choice((0, 1, 2, 3, 4, 6))},
    ),
    "delete-ledger": (0.4, "deleted", lambda d: {}),
    "edit-ledger": (0.4, "edited", lambda d: {}),
    "guarantee": (
        1.0,
        "guarantees",
        lambda d: {"quota": d.random.randrange(6), "of_hard": d.random.choice((0.0, 0.4, 0.7, 1.0))},
    ),
    "override": (1.0, "overrides", _override),
    "turns": (
        1.0,
        "turns",
        lambda d: {
            "quota": d.random.randrange(6),
            "for_s": d.random.choice((0, 0, 2, 10, 300)),
            "weight": d.random.choice((1, 5)),
        },
    ),
}
"""Every kind of step: how often, the fault without which it does not happen, and how it is drawn."""
