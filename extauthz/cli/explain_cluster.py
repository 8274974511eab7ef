"""The objects of an explanation, read from a cluster: an autoscaler, what it scales, pods, what metrics servers say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from extauthz.cli.explain_finding import HPA, KPA, RESOURCES, SCALED_OBJECT, scales
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at
from extauthz.core.quota.selector_text import labelled, spelled
from extauthz.explain import keda, specs, target
from extauthz.explain.knative import rules
from extauthz.explain.knative import scene as knative
from extauthz.explain.objects import POD_METRICS, ExplainError, Objects
from extauthz.inputs.kube.connection import ApiError, Unreachable, connect
from extauthz.inputs.kube.resource import Calls, Resource
from extauthz.inputs.kube.session import NoClusterError
from extauthz.serve.servers.api.rights import Problem

WITHIN_S: Final = 15.0
NOT_FOUND: Final = 404
FORBIDDEN: Final = (401, 403)
"""We may not read it. That does not mean that the controller may not."""
UNSEEN: Final = (NOT_FOUND, *FORBIDDEN)

PODS: Final = Resource("", "v1", "pods", "Pod")
METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", POD_METRICS)
EVENTS: Final = Resource("", "v1", "events", knative.EVENT)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
OF_KNATIVE: Final = (
    Resource(RESOURCES[KPA].group, "v1alpha1", "metrics", "Metric"),
    Resource("networking.internal.knative.dev", "v1alpha1", "serverlessservices", "ServerlessService"),
)
"""What belongs to a PodAutoscaler, by its name."""


def kubeconfig(given: Path | None) -> Path | None:
    """As kubectl finds it; ``None``: a pod's own account."""
    if given is not None:
        return given
    if os.environ.get("KUBECONFIG"):
        return Path(os.environ["KUBECONFIG"].split(os.pathsep)[0])
    usual = Path("~/.kube/config").expanduser()
    return usual if usual.is_file() else None


async def read(given: Path | None, namespace: str, kind: str, name: str) -> Objects:
    """All that an explanation needs.

    Raises:
        Problem: the cluster cannot be read.
        ExplainError: there is no such HPA.
    """
    try:
        async with connect(kubeconfig(given)) as connection:
            return await Reading(connection, namespace).objects(kind, name)
    except (NoClusterError, ApiError, Unreachable) as error:
        raise Problem(503, str(error)) from error


class Reading:
    """One look at one namespace."""

    def __init__(self, connection: Calls, namespace: str) -> None:
        self._connection, self._namespace = connection, namespace
        self._found: list[Tree] = []
        self._asked: set[str] = set()
        self._hpas_found: list[Tree] | None = None
        self._scaled_found: set[str] = set()
        self._missing: list[str] = []
        """Rights."""

    async def objects(self, kind: str, name: str) -> Objects:
        if kind == HPA:
            await self._hpa(name)
        elif kind in RESOURCES:
            await self._one(kind, name)
        else:
            await self._of_workload(kind, name)
        # The pod of kube-controller-manager has its flags; where there is none to see, its defaults stand.
        await self._pods("kube-system", "component=kube-controller-manager")
        return Objects(self._found, self._asked, self._missing)

    async def _of_workload(self, kind: str, name: str) -> None:
        """All that scales a workload. A cluster without Knative or KEDA knows no such kinds."""
        for each in (KPA, SCALED_OBJECT):
            for tree in (await self._optional(RESOURCES[each].collection(self._namespace)) or {}).get("items", []):
                if scales(tree, kind, name):
                    await self._one(each, tree["metadata"]["name"])
        for hpa in await self._hpas():
            if scales(hpa, kind, name):
                await self._scaled(hpa)

    async def _one(self, kind: str, name: str) -> None:
        """A PodAutoscaler, a ScaledObject or a Knative Service; where there is none, the answer says so."""
        of = RESOURCES[kind]
        tree = await self._add(of.object(self._namespace, name), of.kind, unless=(NOT_FOUND,))
        if tree is None:
            return
        if kind == KPA:
            await self._podautoscaler(tree)
        elif kind == SCALED_OBJECT:
            await self._scaled_object(tree)
        else:
            for revision in knative.revisions(tree):
                await self._one(KPA, revision.name)

    async def _podautoscaler(self, tree: Tree) -> None:
        """What the autoscaler looks at, what it says, and what was refused to it."""
        ref, name = tree["spec"]["scaleTargetRef"], tree["metadata"]["name"]
        if knative.autoscaler_class(tree).startswith("hpa."):
            await self._hpa(name)
            return
        await self._add(await self._path(ref.get("apiVersion", "apps/v1"), ref["kind"], ref["name"]), ref["kind"])
        revision = at(tree, "metadata", "labels", knative.REVISION)
        if revision and await self._pods(self._namespace, f"{knative.REVISION}={revision}"):
            self._asked.add("Pod")
        for one in OF_KNATIVE:
            await self._add(one.object(self._namespace, name), one.kind)
        for config in (rules.CONFIG, rules.DEPLOYMENTS):
            await self._add(CONFIG_MAPS.object(rules.NAMESPACE, config), CONFIG_MAPS.kind)
        await self._events(KPA, name)

    async def _scaled_object(self, tree: Tree) -> None:
        """Its HPA if there is one, else what it scales; and its events, in which KEDA says what it was refused."""
        await self._events(SCALED_OBJECT, tree["metadata"]["name"])
        if await self._hpa(keda.hpa_name(tree)):
            return
        scaled = target.named(tree)
        version = tree["spec"]["scaleTargetRef"].get("apiVersion") or "apps/v1"
        path = await self._path(version, scaled.kind, scaled.name)
        await self._add(f"{path}/scale", "Scale")

    async def _hpa(self, name: str) -> bool:
        """False: no object has this name."""
        try:
            await self._hpas()
        except ApiError as error:
            if error.status not in FORBIDDEN:
                raise
            of = RESOURCES[HPA]
            self._missing.append(right(of.collection(self._namespace)))
            own = await self._add(of.object(self._namespace, name), of.kind, (NOT_FOUND,))
            self._hpas_found = [own] if own is not None else []
        found = [one for one in self._hpas_found or [] if one["metadata"]["name"] == name]
        for hpa in found:
            await self._scaled(hpa)
        return bool(found)

    async def _hpas(self) -> list[Tree]:
        """All of the namespace: two that have the same pods do nothing."""
        if self._hpas_found is None:
            of = RESOURCES[HPA]
            self._hpas_found = await self._list(of.collection(self._namespace), of.kind, ())
        return self._hpas_found or []

    async def _events(self, kind: str, name: str) -> None:
        about = f"involvedObject.kind={RESOURCES[kind].kind},involvedObject.name={name}"
        path = f"{EVENTS.collection(self._namespace)}?fieldSelector={quote(about, safe='')}"
        if await self._list(path, EVENTS.kind) is not None:
            self._asked.add(EVENTS.kind)

    async def _add(self, path: str, kind: str, unless: Sequence[int] = UNSEEN) -> Tree | None:
        """One object; ``None``: it is not there, or not ours to read."""
        tree = await self._optional(path, unless)
        if tree is None:
            return None
        self._found.append(tree | {"kind": kind})
        return self._found[-1]

    async def _list(self, path: str, kind: str, unless: Sequence[int] = UNSEEN) -> list[Tree] | None:
        """All objects of a list, which say no kind; ``None``: it is not there, or not ours to read."""
        listed = await self._optional(path, unless)
        if listed is None:
            return None
        found = [one | {"kind": kind} for one in listed["items"]]
        self._found += found
        return found

    async def _optional(self, path: str, unless: Sequence[int] = UNSEEN) -> Tree | None:
        """What may not be there, or not be ours to read: without it an answer is likely only, or there is none."""
        try:
            return await self._get(path)
        except ApiError as error:
            if error.status not in unless:
                raise
            if error.status in FORBIDDEN:
                self._missing.append(right(path))
            return None

    async def _scaled(self, hpa: Tree) -> None:
        if hpa["metadata"]["name"] in self._scaled_found:
            return
        self._scaled_found.add(hpa["metadata"]["name"])
        ref = hpa["spec"]["scaleTargetRef"]
        path = await self._path(ref.get("apiVersion", "v1"), ref["kind"], ref["name"])
        await self._events(HPA, hpa["metadata"]["name"])
        scale = await self._optional(f"{path}/scale")
        if scale is not None:
            self._found.append(scale | {"kind": "Scale"})
            text = at(scale, "status", "selector") or ""
        else:  # an owner may have the right to read the object, and not its scale
            whole = await self._add(path, ref["kind"])
            text = spelled(labelled(at(whole, "spec", "selector"))) if whole is not None else ""
        if not text:
            return
        await self._pods(self._namespace, text)
        selector, measured = quote(text, safe=""), specs.of_hpa(hpa)
        if any(one.resource for one in measured):
            path = f"{METRICS.collection(self._namespace)}?labelSelector={selector}"
            await self._metrics(POD_METRICS, [path])
        for one in measured:
            if not one.resource:
                await self._metrics(one.name, await self._metric_paths(one, selector))

    async def _metric_paths(self, one: specs.Metric, selector: str) -> list[str]:
        """Where a metrics server may serve it, the newest version first."""
        labels = spelled(labelled(at(one.spec, "metric", "selector")))
        name = quote(one.name, safe="")
        namespace = quote(self._namespace, safe="")
        if one.type == "External":
            path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{name}"
            return [f"{path}?labelSelector={quote(labels, safe='')}"]
        place = f"pods/*/{name}?labelSelector={selector}&metricLabelSelector={quote(labels, safe='')}"
        if one.type == "Object":
            ref = one.spec["describedObject"]
            plural = await self._plural(ref.get("apiVersion", "v1"), ref["kind"])
            group = ref.get("apiVersion", "v1").rpartition("/")[0]
            dotted = f"{plural}.{group}" if group else plural
            place = f"{dotted}/{quote(ref['name'], safe='')}/{name}?metricLabelSelector={quote(labels, safe='')}"
        root = "/apis/custom.metrics.k8s.io"
        return [f"{root}/{version}/namespaces/{namespace}/{place}" for version in ("v1beta2", "v1beta1")]

    async def _metrics(self, name: str, paths: Iterable[str]) -> None:
        """What a metrics server answers. That it has nothing is an answer too: the controller gets it as well. Any
        other error may be over when the controller asks, so the HPA's status stands in."""
        for path in paths:
            try:
                self._found += (await self._get(path))["items"]
                break
            except ApiError as error:
                if error.status in FORBIDDEN:
                    self._missing.append(right(path))
                if error.status != NOT_FOUND:
                    return
        self._asked.add(name)

    async def _pods(self, namespace: str, selector: str) -> bool:
        """Where we may not read them, the answer is only likely. False: we may not."""
        path = f"{PODS.collection(namespace)}?labelSelector={quote(selector, safe='')}"
        return await self._list(path, PODS.kind, FORBIDDEN) is not None

    async def _path(self, version: str, kind: str, name: str) -> str:
        group, _, number = version.rpartition("/")
        return Resource(group, number, await self._plural(version, kind), kind).object(self._namespace, name)

    async def _plural(self, version: str, kind: str) -> str:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for one in (await self._get(root))["resources"]:
            if one["kind"] == kind and "/" not in one["name"]:
                return str(one["name"])
        raise ExplainError(f"the cluster does not know the kind {kind} of {version}")

    async def _get(self, path: str) -> Tree:
        return await self._connection.call("GET", path, timeout_s=WITHIN_S)


def right(path: str) -> str:
    """What a read of a path needs, as a rule of RBAC has it.

    >>> right("/apis/apps/v1/namespaces/shop/deployments/web/scale")
    'get deployments.apps/scale in shop'
    >>> right("/api/v1/namespaces/shop/pods?labelSelector=app%3Dweb")
    'list pods in shop'
    """
    before, _, after = path.partition("?")[0].partition("/namespaces/")
    group = before.split("/")[2] if before.startswith("/apis/") else ""
    namespace, plural, *named = after.split("/")
    resource = plural + (f".{group}" if group else "") + (f"/{named[1]}" if len(named) > 1 else "")
    return f"{'get' if named else 'list'} {resource} in {namespace}"
