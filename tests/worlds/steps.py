"""What each step of a plan does to the world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

from extauthz.core.model import Tree
from extauthz.inputs.kube.connection import ApiError
from tests.worlds import drawing, objects, restarts
from tests.worlds.judge import Key
from tests.worlds.objects import KINDS, Sent, kind_of
from tests.worlds.plan import Step
from tests.worlds.reference import CLAIMS, NAMESPACES, QUOTAS
from tests.worlds.restarts import LEDGERS
from tests.worlds.world import World

COLLECTIONS = {
    **{kind.plural: kind.collection for kind in KINDS.values()},
    "persistentvolumeclaims": CLAIMS,
    "workspacequotas": QUOTAS,
    "workspaceledgers": LEDGERS,
    "namespaces": NAMESPACES,
    "": "",
}

AGAIN_S = 0.25
"""How soon an autoscaler tries again after a refusal, or without an answer."""


def key_of(workload: str) -> Key:
    """The parts of ``namespace/name``."""
    namespace, name = workload.split("/")
    return namespace, name


def _scale(world: World, step: Step, random: Random) -> None:
    _autoscale(world, step.how, random)


def _flood(world: World, step: Step, random: Random) -> None:
    """Many writes of one tenant in a short time, each with its own end."""
    for after_s, how in step.how["writes"]:
        world.loop.call_later(after_s, _autoscale, world, how, Random(random.random()))


def _autoscale(world: World, how: Mapping[str, Any], random: Random) -> None:
    key = key_of(how["workload"])

    async def autoscaler() -> None:
        world.client.under_way += 1  # between two tries too
        for _ in range(how["tries"]):
            held = world.server.objects(kind_of(key).collection).get(key)
            version = held["metadata"]["resourceVersion"] if held is not None else "1"
            sent = objects.scale(key, how["to"], how["as"], version)
            await world.client.send(sent, how, random)
            await asyncio.sleep(AGAIN_S * random.random())
        world.client.under_way -= 1

    world.spawn(autoscaler())


SENT: Mapping[str, Callable[[Key, Mapping[str, Any]], Sent]] = {
    "rollout": lambda key, how: objects.replace(key, how["to"], how["cpu"]),
    "patch": lambda key, how: objects.patch(key, how["cpu"], how["as"]),
    "copy": lambda key, how: drawing.copying(key, how["as"], how["to"], how["cpu"]),
    "directive": lambda key, how: drawing.directing(key, how["as"], how["to"], how["cpu"]),
    "apply": drawing.applying,
}
"""Steps that are a write of one workload, once."""


def _send(world: World, step: Step, random: Random) -> None:
    sent = SENT[step.what](key_of(step.how["workload"]), step.how)
    world.spawn(world.client.send(sent, step.how, random))


def _adopt(world: World, step: Step, random: Random) -> None:
    key, by = key_of(step.how["workload"]), key_of(step.how["owner"])
    owner = world.server.objects(kind_of(by).collection).get(by)
    if step.how["leaves"]:
        sent = drawing.leaving(key, by, step.how["as"])
    elif owner is not None:
        sent = drawing.adopting(key, owner, step.how["as"])
    else:
        return
    world.spawn(world.client.send(sent, step.how, random))


def _remake(world: World, step: Step, random: Random) -> None:
    """It is deleted past the gates, and made again. The claims of a StatefulSet stay: the next one of its name finds
    them, under whichever labels."""
    key, how = key_of(step.how["workload"]), step.how

    async def remake() -> None:
        _ungated(world, "DELETE", kind_of(key).path(*key), None)
        await asyncio.sleep(how["for_s"] if "for_s" in how else random.random() * 0.1)
        await world.client.send(objects.create(key, how["to"], "1", how.get("tier", "")), how, random)

    world.spawn(remake())


def _past(world: World, step: Step, random: Random) -> None:
    key = key_of(step.how["workload"])
    _ungated(world, "PATCH", kind_of(key).path(*key) + "/scale", {"spec": {"replicas": step.how["to"]}})


def _sidecar(world: World, step: Step, random: Random) -> None:
    key = key_of(step.how["workload"])
    _ungated(world, "PATCH", kind_of(key).path(*key), objects.sidecar(step.how["cpu"]), objects.STRATEGIC_PATCH)


def _tidy(world: World, step: Step, random: Random) -> None:
    """Somebody deletes the claims that a StatefulSet has left behind, the last one first."""
    namespace, name = key = key_of(step.how["workload"])
    state = world.reference.workload(key) or world.reference.left(key)
    for ordinal in range(state.replicas, state.members.claims)[::-1] if state is not None else ():
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data-{name}-{ordinal}"
        _ungated(world, "DELETE", path, None)


def _quota_goes(world: World, step: Step, random: Random) -> None:
    """A quota is deleted, and made again after a while."""
    held = sorted(world.server.objects(QUOTAS).items())
    if not held:
        return
    (_, name), tree = held[step.how["quota"] % len(held)]
    world.server.request("DELETE", f"{QUOTAS}/{name}", {}, None)
    world.tell(f"{name} is gone")

    def comes() -> None:
        spec = dict(tree["spec"])
        there = {one: other for (_, one), other in world.server.objects(QUOTAS).items()}
        if name in _lineage(spec.get("parent", ""), there):
            del spec["parent"]  # that has come to be below it meanwhile
        made = {**tree, "metadata": {"name": name, "generation": 1}, "spec": spec}
        world.server.request("POST", QUOTAS, {}, made)
        world.tell(f"{name} is there again")

    world.loop.call_later(step.how["for_s"], comes)


def _quota_of(world: World, step: Step) -> Tree:
    """The one that a step is about; ``None``: there is none."""
    held = sorted(world.server.objects(QUOTAS).values(), key=lambda one: str(one["metadata"]["name"]))
    return held[step.how["quota"] % len(held)] if held else None


def _cut(world: World, step: Step, random: Random) -> None:
    if (tree := _quota_of(world, step)) is None:
        return
    hard = {key: _changed(amount, step.how["by"]) for key, amount in tree["spec"]["hard"].items()}
    guaranteed = {
        key: min(amount, hard[key], key=_number) for key, amount in tree["spec"].get("guaranteed", {}).items()
    }
    put_spec(world, tree, hard=hard, guaranteed=guaranteed, overrides=[])


def put_spec(world: World, tree: Tree, **fields: Tree) -> None:
    """Write other fields into a quota's spec."""
    metadata = {**tree["metadata"], "generation": tree["metadata"]["generation"] + 1}
    changed = {**tree, "metadata": metadata, "spec": {**tree["spec"], **fields}}
    world.server.request("PUT", f"{QUOTAS}/{tree['metadata']['name']}", {}, changed)


def _guarantee(world: World, step: Step, random: Random) -> None:
    """An operator guarantees a quota a part of its limits."""
    if (tree := _quota_of(world, step)) is None:
        return
    given = {key: _part(amount, step.how["of_hard"]) for key, amount in tree["spec"]["hard"].items()}
    put_spec(world, tree, guaranteed=given, overrides=[])
    world.tell(f"{tree['metadata']['name']} is guaranteed {given}")


def _override(world: World, step: Step, random: Random) -> None:
    """An operator says that a quota will have other amounts for a while."""
    if (tree := _quota_of(world, step)) is None:
        return
    begin_s = world.loop.time() + step.how["in_s"]
    hard = {key: _changed(amount, step.how["by"]) for key, amount in tree["spec"]["hard"].items()}
    guaranteed = {key: _part(amount, step.how["of_hard"]) for key, amount in hard.items()}
    times = begin_s, begin_s + step.how["for_s"]
    begin, end = (datetime.fromtimestamp(at_s, UTC).isoformat() for at_s in times)
    one = {"name": "for-a-while", "from": begin, "until": end, "hard": hard, "guaranteed": guaranteed}
    put_spec(world, tree, overrides=[one])
    world.tell(f"{tree['metadata']['name']} has {hard} from {begin} until {end}, guaranteed {guaranteed}")
    for edge in (begin, end):  # the moment as it is written: microseconds are rounded
        world.loop.call_at(datetime.fromisoformat(edge).timestamp(), world.turned, tree["metadata"]["name"])


def _turns(world: World, step: Step, random: Random) -> None:
    """An operator gives a root turns, or takes them from it; a child gets a weight."""
    if (tree := _quota_of(world, step)) is None:
        return
    for_s = step.how["for_s"]
    if "parent" in tree["spec"]:
        put_spec(world, tree, sharing={"weight": step.how["weight"]})
    elif for_s:
        put_spec(world, tree, sharing={"turns": "Share", "turnSeconds": for_s})
    else:
        put_spec(world, tree, sharing={"turns": "FirstCome"})
    world.tell(f"{tree['metadata']['name']} has turns of {for_s} s, or a weight")


def _part(amount: str, of_it: float) -> str:
    number = _number(amount)
    return f"{int(number * of_it)}{amount.removeprefix(str(number))}"


def _number(amount: str) -> int:
    return int(amount.removesuffix("Gi"))


def _changed(amount: str, by: int) -> str:
    number = _number(amount)
    return f"{max(number + by, 0)}{amount.removeprefix(str(number))}"


def _move(world: World, step: Step, random: Random) -> None:
    """Move a quota under another one that is not below it, or to the top."""
    held = {name: tree for (_, name), tree in sorted(world.server.objects(QUOTAS).items())}
    if not held:
        return
    name = list(held)[step.how["quota"] % len(held)]
    above = [one for one in held if name not in _lineage(one, held)]
    parents = [one for one in ("", *above) if one != held[name]["spec"].get("parent", "")]
    if not parents:
        return
    spec = {key: value for key, value in held[name]["spec"].items() if key not in ("parent", "sharing")}
    if parent := parents[step.how["to"] % len(parents)]:
        spec |= {"parent": parent, "sharing": None}
    metadata = {**held[name]["metadata"], "generation": held[name]["metadata"]["generation"] + 1}
    world.server.request("PUT", f"{QUOTAS}/{name}", {}, {**held[name], "metadata": metadata, "spec": spec})
    world.tell(f"{name} is under {parent or 'no other quota'}")


def _lineage(name: str, held: Mapping[str, Tree]) -> Iterator[str]:
    while name:
        yield name
        name = held[name]["spec"].get("parent", "") if name in held else ""


def _relabel(world: World, step: Step, random: Random) -> None:
    """Past the gates; of a workload that is gone nothing."""
    key = key_of(step.how["workload"])
    collection = kind_of(key).collection
    path, label = kind_of(key).path(*key), "tier"
    if "workspace" in step.how:
        collection, key, label = NAMESPACES, ("", key[0]), "workspace"
        path = f"{NAMESPACES}/{key[1]}"
    held = world.server.objects(collection).get(key)
    if held is not None:
        labels = {**held["metadata"]["labels"], label: step.how[label]}
        world.server.request("PUT", path, {}, {**held, "metadata": {**held["metadata"], "labels": labels}})


def _ungated(world: World, method: str, path: str, body: Tree, content_type: str = "") -> None:
    """A write past the gates. If there is nothing to write, that is fine."""
    before = world.reference.reachable()
    try:
        world.server.request(method, path, {}, body, content_type)
    except ApiError as error:
        world.tell(f"api: {error}")
    world.checks.grew_ungated(world.loop.time(), world.server.version, before, world.reference.reachable())


def _hold_watch(world: World, step: Step, random: Random) -> None:
    held, until_s = world.links[step.how["gate"]].held_until_s, world.loop.time() + step.how["for_s"]
    collection = COLLECTIONS[step.how["kind"]]
    for one in [collection] if collection else filter(None, COLLECTIONS.values()):
        held[one] = until_s


def _drop_watch(world: World, step: Step, random: Random) -> None:
    world.links[step.how["gate"]].drop(COLLECTIONS[step.how["kind"]])


def _relist(world: World, step: Step, random: Random) -> None:
    world.server.compact()
    _drop_watch(world, step, random)


def _partition(world: World, step: Step, random: Random) -> None:
    world.links[step.how["gate"]].down_until_s = world.loop.time() + step.how["for_s"]


TAKEN: Mapping[str, Callable[[World, Step, Random], None]] = {
    "scale": _scale,
    "flood": _flood,
    **dict.fromkeys(SENT, _send),
    "remake": _remake,
    "remake-claimed": _remake,
    "adopt": _adopt,
    "past": _past,
    "tidy": _tidy,
    "sidecar": _sidecar,
    "quota-goes": _quota_goes,
    "cut": _cut,
    "move": _move,
    "relabel": _relabel,
    "hold-watch": _hold_watch,
    "drop-watch": _drop_watch,
    "relist": _relist,
    "partition": _partition,
    "crash": restarts.crash,
    "pause": restarts.pause,
    "halt": restarts.halt,
    "restart": restarts.restart,
    "delete-ledger": restarts.delete_ledger,
    "edit-ledger": restarts.edit_ledger,
    "guarantee": _guarantee,
    "override": _override,
    "turns": _turns,
}
