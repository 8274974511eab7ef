"""The kinds of workload in simulated worlds. Each workload's name says of which it is: ``web-sts-2``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from .judge import Key


class Kind(NamedTuple):
    """A kind of workload, as the API server knows it."""

    api: str
    kind: str
    plural: str
    gated_whole: bool = True
    """Gates weigh a write of the whole object too, not only one of its scale."""

    @property
    def collection(self) -> str:
        """The path of all of them."""
        return f"/apis/{self.api}/{self.plural}"

    def path(self, namespace: str, name: str = "") -> str:
        """Of one object; without a name, of where it is made."""
        return f"/apis/{self.api}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


_DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
REPLICA_SET = Kind("apps/v1", "ReplicaSet", "replicasets")

KINDS: Mapping[str, Kind] = {
    "deploy": _DEPLOYMENT,
    "roll": _DEPLOYMENT,
    "rs": REPLICA_SET,
    "sts": Kind("apps/v1", "StatefulSet", "statefulsets"),
    "tin": Kind("ops.example.com/v1", "Tin", "tins", gated_whole=False),
}
"""By the word in a name. A ``roll`` is a Deployment whose controller is at work: it has ReplicaSets."""

COLLECTIONS = tuple(dict.fromkeys(kind.collection for kind in KINDS.values()))

CPUS = ("250m", "500m", "1", "2")
"""What a container may request."""

CLAIM_GI = 2
"""What the claim of each replica of a StatefulSet asks for."""


def word_of(name: str) -> str:
    """The word of ``KINDS`` in a workload's name."""
    return name.split("-")[1]


def kind_of(key: Key) -> Kind:
    """Of a workload."""
    return KINDS[word_of(key[1])]


def tier(name: str) -> str:
    """The label that workloads are made with, by their names."""
    return name.split("-", 1)[0]


def milli(cpu: str) -> int:
    """Thousandths of a CPU."""
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000


def workload_of(key: Key) -> Key:
    """Whose an object is, by its name: a ReplicaSet's or a claim's owner, or the workload itself."""
    found = _NAME.search(key[1])
    return (key[0], found[0]) if found is not None else key


def left_by(key: Key) -> Key:
    """What stands for the claims that a StatefulSet has left behind when it was deleted."""
    return key[0], f"{key[1]}{_LEFT}"


def is_left(key: Key) -> bool:
    """Whether it stands for such claims."""
    return key[1].endswith(_LEFT)


_LEFT = "-left"
_NAME = re.compile(rf"[a-z]+-({'|'.join(KINDS)})-[0-9]+")
