"""Finds autoscalers' objects: those that name a workload, by one bounded list of each kind in its namespace; or all,
page by page, with the most replicas that each may ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from cachetools import TTLCache

from extauthz.core import quantities
from extauthz.core.decision.sentences import subject
from extauthz.core.model import Tree, WorkloadRef
from extauthz.core.objects.fields import MAX_REPLICAS, at
from extauthz.core.queries import Ceiling
from extauthz.explain.keda import DEFAULT_MAX
from extauthz.explain.knative.rules import annotation, integer
from extauthz.inputs.kube.connection import ApiError
from extauthz.inputs.kube.resource import Calls, Resource

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

PAGE: Final = 250
"""Autoscalers in one page of all."""

MOST_OF_ALL: Final = 20_000
"""Autoscalers of a kind. What one beyond that may ask for is not known."""

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


class Autoscaler(NamedTuple):
    """One, of any kind."""

    subject: Subject
    scales: tuple[str, str, str]
    """Group, kind and name of its workload."""
    most: int | None = None
    """Replicas that it may ask for; ``None``: any number, as far as its object says, or it goes away."""
    is_made: bool = False
    """Another autoscaler has made it, and keeps it as it is."""


class NeverFits(NamedTuple):
    """An autoscaler may ask for more than a quota can ever give its workload."""

    autoscaler: Subject
    ref: WorkloadRef
    asked: int
    """The most replicas that it may ask for."""
    ceiling: Ceiling

    @property
    def name(self) -> str:
        """``HorizontalPodAutoscaler shop/web``."""
        return f"{self.autoscaler.kind} {self.autoscaler.namespace}/{self.autoscaler.name}"

    @property
    def share(self) -> str:
        """``12 of 24``."""
        return f"{self.ceiling.fits} of {self.asked}"

    @property
    def sentence(self) -> str:
        """For its owner, who knows which autoscaler it is."""
        needs, most = (quantities.format(one, self.ceiling.resource) for one in self.ceiling[3:])
        return (
            f"{self.ceiling.fits} of the {self.asked} replicas that it may ask for would fit: {self.asked} of "
            f"{subject(self.ref)} take {self.ceiling.resource}={needs}, and workspace quota {self.ceiling.quota} can "
            f"give them {most}; lower its maximum to {self.ceiling.fits}, or have the limit raised"
        )


NeverFit: TypeAlias = Mapping[str, tuple[NeverFits, ...]]
"""By the quota that never has so much."""


class Autoscalers:
    """Finds them by the workload that they scale.

    Args:
        clock: any clock in seconds.
    """

    def __init__(self, connection: Calls, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._kept: TTLCache[str, Sequence[Autoscaler]] = TTLCache(256, KEPT_S, clock)
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
        theirs = (workload.api_version.rpartition("/")[0] or "apps", workload.kind, workload.name)
        return [one.subject for one in known if one.scales == theirs][:MOST_FOUND]

    async def all(self) -> AsyncIterator[list[Autoscaler]]:
        """All of the cluster, in pages. Of a kind that changes meanwhile some may be missed until the next time.

        Raises:
            ApiError, Unreachable: the API server does not answer now.
        """
        for kind in KINDS:
            more, found = "", 0
            while found < MOST_OF_ALL:
                page, more = await self._page(kind, None, PAGE, more)
                found += len(page)
                yield page
                if not more:
                    break

    async def _listed(self, kind: Resource, namespace: str) -> list[Autoscaler]:
        return (await self._page(kind, namespace, MOST_LISTED))[0]

    async def _page(
        self, kind: Resource, namespace: str | None, limit: int, more: str = ""
    ) -> tuple[list[Autoscaler], str]:
        """Those of a page, and what to ask for the next one by; empty: it is the last."""
        if kind in self._absent:
            return [], ""
        query = [("limit", str(limit)), *([("continue", more)] if more else [])]
        try:
            tree = await self._connection.call("GET", kind.collection(namespace), query=query)
        except ApiError as error:
            if error.status == 410 and more:
                return [], ""
            if error.status not in (403, 404):
                raise
            self._absent[kind] = True
            return [], ""
        return list(_readable(kind, tree)), str(at(tree, "metadata", "continue") or "")


def _readable(kind: Resource, tree: Tree) -> Iterator[Autoscaler]:
    """Those of a list. Of one that cannot be read, nobody knows what it scales, so it is left out."""
    for item in tree["items"] or ():  # Go writes an empty list as null where nobody took care
        with suppress(Exception):
            yield _read(kind, item)


def _read(kind: Resource, item: Tree) -> Autoscaler:
    metadata, target = item["metadata"], (item.get("spec") or {}).get("scaleTargetRef") or {}
    subject = Subject(kind.api_version, kind.kind, metadata["namespace"], metadata["name"], metadata["uid"])
    group = str(target.get("apiVersion", "")).rpartition("/")[0]
    owners = {str(one.get("kind")) for one in metadata.get("ownerReferences") or () if one.get("controller")}
    is_made = not owners.isdisjoint(one.kind for one in KINDS)
    # KEDA has defaults: a Deployment of apps.
    scales = (group or "apps", str(target.get("kind") or "Deployment"), str(target.get("name", "")))
    return Autoscaler(subject, scales, _most(kind.kind, item), is_made)


def _most(kind: str, item: Tree) -> int | None:
    """Replicas that it may ask for. A revision of Knative that nothing leads to only shrinks."""
    spec = item.get("spec") or {}
    if kind == "ScaledObject":
        return _count(spec.get("maxReplicaCount", DEFAULT_MAX))
    if kind == "HorizontalPodAutoscaler":
        return _count(spec.get("maxReplicas"))
    said = annotation(item["metadata"].get("annotations") or {}, "max-scale", "maxScale")
    return _count(integer(said)) or None if spec.get("reachability") != "Unreachable" else None


def _count(value: Tree) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_REPLICAS else None
