"""Whatever order news comes in, a gate ends with the same usage as one that starts afterwards: all kinds of objects, in
trees of quotas that select by labels.

Each watch shows its own kind in order; which watch comes first is drawn. ``EXTAUTHZ_SEED`` gives the histories of
another day.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.kinds import BY_KEY, BY_NAME
from extauthz.core.model import Observed, WorkloadRef
from extauthz.core.objects import devices
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster import object_readers
from extauthz.testing import Snapshot, quota

Tree = Any
SEED = int(os.environ.get("EXTAUTHZ_SEED") or random.SystemRandom().randrange(1 << 32))
HISTORIES = 300
TEAM = "team-a"
GPU = "gpu.deviceclass.resource.k8s.io/devices"
KEYS = ("requests.cpu", "pods", "requests.storage", "persistentvolumeclaims", "count/replicasets.apps", GPU)
ROLLOUT, ROLLOUTS = ("example.com", "Rollout"), ("example.com", "rollouts")
MANY = 10**6
LAST = str(10**8)


class News(NamedTuple):
    """What a watch shows."""

    watch: object
    what: Any
    version: str = ""


def owner(api: str, kind: str, name: str, uid: str = "") -> list[Tree]:
    return [{"apiVersion": api, "kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}]


NOBODY: list[Tree] = []
BY_ROLLOUT = owner("example.com/v1", "Rollout", "ro")
OWNERS = {
    "Deployment": [NOBODY, NOBODY, BY_ROLLOUT],
    "ReplicaSet": [
        NOBODY,
        owner("apps/v1", "Deployment", "web"),
        owner("apps/v1", "Deployment", "web", "uid-web-2"),
        BY_ROLLOUT,
    ],
    "StatefulSet": [NOBODY, NOBODY, BY_ROLLOUT],
    "Job": [NOBODY, BY_ROLLOUT],
    "Pod": [
        NOBODY,
        owner("apps/v1", "ReplicaSet", "rs1"),
        owner("apps/v1", "ReplicaSet", "rs1", "uid-rs1-2"),
        owner("apps/v1", "ReplicaSet", "rs2"),
        owner("apps/v1", "StatefulSet", "db"),
        owner("batch/v1", "Job", "job"),
        BY_ROLLOUT,
    ],
    "ResourceClaim": [NOBODY, owner("v1", "Pod", "p1"), owner("v1", "Pod", "p1", "uid-p1-2")],
    "ControllerRevision": [NOBODY, owner("apps/v1", "StatefulSet", "db")],
}
"""Who may have made what."""

WEB = (
    ("apps/v1", "Deployment", "web"),
    ("apps/v1", "ReplicaSet", "rs1"),
    ("apps/v1", "ReplicaSet", "rs2"),
    ("v1", "Pod", "p2"),
)
DB = (
    ("apps/v1", "StatefulSet", "db"),
    ("apps/v1", "StatefulSet", "x-db"),
    ("v1", "PersistentVolumeClaim", "data-db-0"),
    ("v1", "PersistentVolumeClaim", "data-x-db-0"),
)
POD = (
    ("v1", "Pod", "p1"),
    ("resource.k8s.io/v1", "ResourceClaim", "p1-gpus"),
    ("resource.k8s.io/v1", "ResourceClaim", "p1-gpus-2"),
)
OTHERS = (
    ("apps/v1", "ControllerRevision", "db-1"),
    ("batch/v1", "Job", "job"),
    ("v1", "Pod", "db-0"),
    ("v1", "PersistentVolumeClaim", "p1-scratch"),
    ("resource.k8s.io/v1", "ResourceClaim", "shared"),
    ("example.com/v1", "Rollout", "ro"),
)
APPS = {"Deployment": "web", "ReplicaSet": "web", "StatefulSet": "db", "Job": "job", "Rollout": "web"}


class Histories:
    """Draws what happens."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def quotas(self) -> QuotaTree:
        chance = self._chance
        much = dict.fromkeys(KEYS, str(MANY))
        made = [quota("corp", much, namespaces={"workspace": "corp"})]
        made.append(quota("acme", much, parent="corp", namespaces={"workspace": chance.choice(["acme", "none"])}))
        for tier in ("gold", "silver", "all"):
            if chance.random() < 0.85:
                keys = [key for key in KEYS if chance.random() < 0.8] or ["pods"]
                more: dict[str, Any] = {"workloads": {"tier": tier}} if tier != "all" else {}
                if chance.random() < 0.5:
                    more["guaranteed"] = {key: chance.choice("25") for key in keys}
                parent = chance.choice(["corp", "acme", None])
                hard = dict.fromkeys(keys, str(MANY))
                made.append(quota(tier, hard, parent=parent, namespaces={"workspace": "acme"}, **more))
        return QuotaTree.build(made)

    def news(self) -> list[News]:
        chance = self._chance
        told = [News("namespaces", {"workspace": "acme"}), News("claim templates", {"t": self._claim(3)})]
        there = [*chance.choice([WEB, DB, POD, (*WEB, *DB, *POD)])]
        there += chance.sample(OTHERS, chance.choice([0, 0, 2, len(OTHERS)]))
        for number in range(chance.randint(3, 40)):
            what = chance.random()
            if what < 0.06:
                told.append(News("namespaces", {"workspace": chance.choice(["acme", "acme", "other"])}))
            elif what < 0.1:
                told.append(News("quotas", self.quotas()))
            elif what < 0.13:
                told.append(News("claim templates", chance.choice([{}, {"t": self._claim(chance.randint(1, 3))}])))
            else:
                told.append(self._object(*chance.choice(there), str(10 + number)))
        return told

    def _claim(self, count: int) -> Any:
        return devices.claim_template({"spec": {"spec": self._devices(count)}})

    def _devices(self, count: int) -> Tree:
        return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}]}}

    def _object(self, api: str, kind: str, name: str, version: str) -> News:
        chance = self._chance
        ref = WorkloadRef(*(ROLLOUTS if kind == "Rollout" else BY_NAME[api.rpartition("/")[0], kind].key), TEAM, name)
        if kind == "ControllerRevision":
            version = ""
        if chance.random() < 0.2:
            return News(ref, None, version)
        app = APPS.get(kind) or chance.choice(["web", "db", "job", "none"])
        labels = {"app": app, "tier": chance.choice(["gold", "silver", "none"])}
        if chance.random() < 0.7:
            labels["pod-template-hash"] = name
        metadata = {"name": name, "namespace": TEAM, "labels": labels, "resourceVersion": version, "generation": 1}
        uid = chance.choice([f"uid-{name}", f"uid-{name}", f"uid-{name}-2"])
        owners = chance.choice(OWNERS.get(kind, [NOBODY]))
        metadata |= {"uid": uid, "ownerReferences": owners}
        if kind == "ResourceClaim" and owners:
            metadata["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpus"}
        if kind == "Pod" and chance.random() < 0.15:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        tree = {"apiVersion": api, "kind": kind, "metadata": metadata, **self._body(kind, app)}
        return News(ref, _read(tree), version)

    def _body(self, kind: str, app: str) -> Tree:
        chance = self._chance
        storage = {"resources": {"requests": {"storage": chance.choice("125")}}}
        if kind == "Pod":
            return {"spec": self._pod(), "status": {"phase": chance.choice(["Running"] * 6 + ["Succeeded"])}}
        if kind == "PersistentVolumeClaim":
            return {"spec": storage}
        if kind == "ResourceClaim":
            return {"spec": self._devices(chance.choice([1, 2]))}
        if kind == "ControllerRevision":
            return {"data": {"spec": {"template": {"spec": self._pod()}}}}
        spec = {"selector": {"matchLabels": {"app": app}}, "template": {"spec": self._pod()}}
        spec["parallelism" if kind == "Job" else "replicas"] = chance.choice([0, 1, 3])
        if kind == "Deployment":
            spec["strategy"] = chance.choice([{"type": "Recreate"}, {}])
        if kind == "StatefulSet":
            names = chance.choice([[], ["data"], ["data-x"], ["data", "log"]])
            spec["volumeClaimTemplates"] = [{"metadata": {"name": name}, "spec": storage} for name in names]
        return {"spec": spec, "status": {"observedGeneration": 1}}

    def _pod(self) -> Tree:
        chance = self._chance
        pod: Tree = {"containers": [{"name": "c", "resources": {"requests": {"cpu": chance.choice("12")}}}]}
        if chance.random() < 0.3:
            claim = {"spec": {"resources": {"requests": {"storage": chance.choice("13")}}}}
            pod["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}]
        if chance.random() < 0.5:
            pod["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "t"}]
        return pod


def _read(tree: Tree) -> Observed | None:
    if tree["kind"] == "Rollout":  # a custom resource whose template is where a Deployment has it
        _, seen = object_readers.COUNTED["apps", "Deployment"](tree | {"apiVersion": "apps/v1", "kind": "Deployment"})
        seen.acted_on = None
        return seen
    api, kind = tree["apiVersion"].rpartition("/")[0], tree["kind"]
    read = object_readers.revision if kind == "ControllerRevision" else object_readers.COUNTED[api, kind]
    found = read(tree)
    return found[1] if found is not None else None


def shuffled(told: Sequence[News], chance: Random) -> Iterator[News]:
    """Each watch in order, and any of them first."""
    watches: dict[object, list[News]] = {}
    for one in told:
        watches.setdefault(one.watch[:2] if isinstance(one.watch, WorkloadRef) else one.watch, []).append(one)
    while watches:
        name = chance.choice(list(watches))
        yield watches[name].pop(0)
        if not watches[name]:
            del watches[name]


def gate(quotas: QuotaTree, state: Snapshot) -> Gate:
    made = Gate(Policy(window_s=90.0))
    made.load_quotas(quotas, 0.0)
    made.observe_kind(*ROLLOUT, ROLLOUTS[1])
    made.load_state(state, 0.0)
    return made


def take(asked: Gate, one: News) -> None:
    if isinstance(one.watch, WorkloadRef):
        asked.observe(one.watch, replace(one.what) if one.what is not None else None, version=one.version)
    elif one.watch == "namespaces":
        asked.observe_namespace(TEAM, one.what)
    elif one.watch == "quotas":
        asked.load_quotas(one.what, 0.0)
    else:
        asked.observe_claim_templates(TEAM, one.what)
    assert asked.ledger.drift() == {}


def last(told: Sequence[News], quotas: QuotaTree) -> tuple[QuotaTree, Snapshot]:
    """What there is in the end."""
    at = {one.watch: one.what for one in told}
    there = [(ref, replace(seen)) for ref, seen in at.items() if isinstance(ref, WorkloadRef) and seen is not None]
    state = Snapshot({TEAM: at["namespaces"]}, there, claim_templates={TEAM: at.get("claim templates", {})})
    return at.get("quotas", quotas), state


def counted(asked: Gate) -> dict[tuple[str, str], tuple[int, int]]:
    return {(row.quota, row.resource): (row.used, row.kept) for row in asked.usage()}


@pytest.mark.parametrize("part", range(3))
def test_in_whatever_order_news_comes_what_there_is_counts_the_same(part: int):
    kept = [*BY_KEY, ROLLOUTS]
    for number in range(part * HISTORIES // 3, (part + 1) * HISTORIES // 3):
        chance = Random(f"{SEED} {number}")
        histories = Histories(chance)
        quotas, told = histories.quotas(), histories.news()
        wanted = counted(gate(*last(told, quotas)))
        for news in (told, list(shuffled(told, chance))):
            asked = gate(quotas, Snapshot({}, []))
            for one in news:
                take(asked, one)
            for kind in kept:
                asked.reached(kind, LAST)
            assert asked.ledger.drift() == {}
            assert counted(asked) == wanted, f"EXTAUTHZ_SEED={SEED}, history {number}"


def test_what_comes_while_all_is_loaded_counts_the_same_in_the_end():
    for number in range(HISTORIES):
        chance = Random(f"{SEED} loaded {number}")
        histories = Histories(chance)
        quotas, told = histories.quotas(), histories.news()
        asked = gate(quotas, Snapshot({}, []))
        asked.load()
        for one in shuffled(told, chance):
            take(asked, one)
        for kind in [*BY_KEY, ROLLOUTS]:
            asked.reached(kind, LAST)
        asked.state_synced(True)
        assert asked.ledger.drift() == {}
        wanted = counted(gate(*last(told, quotas)))
        assert counted(asked) == wanted, f"EXTAUTHZ_SEED={SEED}, history {number}"
