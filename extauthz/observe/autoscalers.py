"""Finds the autoscalers' objects that name a workload: one bounded list of each kind in its namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cachetools import TTLCache

from extauthz.core.model import Tree
from extauthz.kube.connection import ApiError
from extauthz.kube.resource import Calls, Resource

KINDS: tuple[Resource, ...] = (
    Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    Resource("autoscaling.internal.knative.dev", "v1alpha1", "podautoscalers", "PodAutoscaler"),
    Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject"),
)
"""All name their workload in ``spec.scaleTargetRef``."""

MOST_LISTED = 250
"""Autoscalers of a kind in a namespace. One beyond that gets no events; its workload does."""

MOST_FOUND = 4
"""KEDA makes an HPA of its own for each ScaledObject; more than that on one workload fight each other."""

KEPT_S = 30.0
"""How long a namespace's autoscalers are remembered. In a full quota many workloads are refused at once."""

ABSENT_S = 600.0
"""How long a kind is not asked for again, if it is not installed or we may not list it."""


class Subject(NamedTuple):
    """An object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def reference(self) -> Tree:
        """An ObjectReference. ``kubectl describe`` finds events by the UID in it."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }


class _Autoscaler(NamedTuple):
    subject: Subject
    target: tuple[str, str, str]
    """Group, kind and name, ``""`` for what it leaves out."""


class Autoscalers:
    """Finds them by the workload that they scale.

    Args:
        clock: any clock in seconds.
    """

    def __init__(self, connection: Calls, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._kept: TTLCache[str, Sequence[_Autoscaler]] = TTLCache(256, KEPT_S, clock)
        self._absent: TTLCache[Resource, bool] = TTLCache(len(KINDS), ABSENT_S, clock)

    async def of(self, workload: Subject) -> list[Subject]:
        """Those that name ``workload``.

        Raises:
            ApiError, Unreachable: the API server does not answer now.
        """
        namespace = workload.namespace
        known = self._kept.get(namespace)
        if known is None:
            known = self._kept[namespace] = [one for kind in KINDS for one in await self._listed(kind, namespace)]
        return [one.subject for one in known if _names(one.target, workload)][:MOST_FOUND]

    async def _listed(self, kind: Resource, namespace: str) -> list[_Autoscaler]:
        if kind in self._absent:
            return []
        try:
            tree = await self._connection.call("GET", kind.collection(namespace), query=[("limit", str(MOST_LISTED))])
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            self._absent[kind] = True
            return []
        return list(_read(kind, tree))


def _read(kind: Resource, tree: Tree) -> Iterator[_Autoscaler]:
    for item in tree["items"] or ():  # Go writes an empty list as null where nobody took care
        metadata, target = item["metadata"], (item.get("spec") or {}).get("scaleTargetRef") or {}
        subject = Subject(kind.api_version, kind.kind, metadata["namespace"], metadata["name"], metadata["uid"])
        group = str(target.get("apiVersion", "")).rpartition("/")[0]
        yield _Autoscaler(subject, (group, str(target.get("kind", "")), str(target.get("name", ""))))


def _names(target: tuple[str, str, str], workload: Subject) -> bool:
    """KEDA has defaults: a Deployment of ``apps``."""
    group, kind, name = target
    theirs = (group or "apps", kind or "Deployment", name)
    return theirs == (workload.api_version.rpartition("/")[0] or "apps", workload.kind, workload.name)
