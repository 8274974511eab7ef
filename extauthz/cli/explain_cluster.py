"""The objects of an explanation, read from a cluster: an autoscaler, what it scales, pods, what metrics servers say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from extauthz.cli.explain_finding import API, HPA, KPA, KSVC, OBJECT_KINDS, RESOURCES, SCALED_OBJECT, scales
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at
from extauthz.core.quota.selector_text import labelled, spelled
from extauthz.explain import keda, specs
from extauthz.explain.knative import rules
from extauthz.explain.knative import scene as knative
from extauthz.explain.objects import POD_METRICS, ExplainError, Objects
from extauthz.inputs.kube.connection import ApiError, Unreachable, connect
from extauthz.inputs.kube.resource import Calls
from extauthz.inputs.kube.session import NoClusterError
from extauthz.serve.servers.api.rights import Problem

WITHIN_S: Final = 15.0
NOT_FOUND: Final = 404
FORBIDDEN: Final = (401, 403)
"""We may not read it. That does not mean that the controller may not."""


def kubeconfig(given: Path | None) -> Path | None:
    """As kubectl finds it; ``None``: a pod's own account."""
    if given is not None:
        return given
    if os.environ.get("KUBECONFIG"):
        return Path(os.environ["KUBECONFIG"].split(os.pathsep)[0])
    usual = Path("~/.kube/config").expanduser()
    return usual if usual.is_file() else None


def objects(given: Path | None, namespace: str, kind: str, name: str) -> Objects:
    """All that an explanation needs.

    Raises:
        Problem: the cluster cannot be read.
        ExplainError: there is no such HPA.
    """
    try:
        return asyncio.run(read(given, namespace, kind, name))
    except (NoClusterError, ApiError, Unreachable) as error:
        raise Problem(503, str(error)) from error


async def read(given: Path | None, namespace: str, kind: str, name: str) -> Objects:
    """All that an explanation needs.

    Raises:
        NoClusterError, ApiError, Unreachable: the cluster cannot be read.
        ExplainError: there is no such HPA.
    """
    async with connect(kubeconfig(given)) as connection:
        return await Reading(connection, namespace).objects(kind, name)


class Reading:
    """One look at one namespace."""

    def __init__(self, connection: Calls, namespace: str) -> None:
        self._connection, self._namespace = connection, quote(namespace, safe="")
        self._found: list[Tree] = []
        self._asked: set[str] = set()
        self._hpas_found: list[Tree] | None = None
        self._scaled_found: set[str] = set()
        self._missing: list[str] = []
        """Rights."""

    async def objects(self, kind: str, name: str) -> Objects:
        if kind == KSVC:
            await self._service(name)
        elif kind in (KPA, SCALED_OBJECT):
            await self._one(kind, name)
        elif kind == HPA:
            await self._hpa(name)
        else:
            await self._of_workload(kind, name)
        await self._controller()
        return Objects(self._found, self._asked, self._missing)

    async def _of_workload(self, kind: str, name: str) -> None:
        """All that scales a workload. A cluster without Knative or KEDA knows no such kinds."""
        for each in (KPA, SCALED_OBJECT):
            for tree in (await self._optional(self._place(each)) or {}).get("items", []):
                if scales(tree, kind, name):
                    await self._one(each, tree["metadata"]["name"])
        for hpa in await self._hpas():
            if scales(hpa, kind, name):
                await self._scaled(hpa)

    async def _one(self, kind: str, name: str) -> None:
        """A PodAutoscaler or a ScaledObject; where there is none, the answer says so."""
        path = f"{self._place(kind)}/{quote(name, safe='')}"
        tree = await self._add(path, OBJECT_KINDS[kind], unless=(NOT_FOUND,))
        if tree is not None:
            await (self._podautoscaler(tree) if kind == KPA else self._scaled_object(tree))

    async def _service(self, name: str) -> None:
        """A Knative Service, and the PodAutoscalers of its revisions."""
        tree = await self._add(f"{self._place(KSVC)}/{quote(name, safe='')}", OBJECT_KINDS[KSVC], unless=(NOT_FOUND,))
        for revision in knative.revisions(tree) if tree is not None else []:
            await self._one(KPA, revision.name)

    async def _podautoscaler(self, tree: Tree) -> None:
        """What the autoscaler looks at, what it says, and what was refused to it."""
        ref, name = tree["spec"]["scaleTargetRef"], tree["metadata"]["name"]
        if knative.autoscaler_class(tree).startswith("hpa."):
            await self._hpa(name)
            return
        await self._add(await self._path(ref.get("apiVersion", "apps/v1"), ref["kind"], ref["name"]), ref["kind"])
        revision = at(tree, "metadata", "labels", knative.REVISION)
        if revision and await self._pods(self._namespace, quote(f"{knative.REVISION}={revision}", safe="")):
            self._asked.add("Pod")
        for kind, group in (("Metric", API[KPA]), ("ServerlessService", "networking.internal.knative.dev/v1alpha1")):
            place = f"/apis/{group}/namespaces/{self._namespace}/{kind.lower()}s"
            await self._add(f"{place}/{quote(name, safe='')}", kind)
        for config in (rules.CONFIG, rules.DEPLOYMENTS):
            await self._add(f"/api/v1/namespaces/{rules.NAMESPACE}/configmaps/{config}", "ConfigMap")
        await self._events(f"involvedObject.kind={knative.KIND},involvedObject.name={name}")

    async def _scaled_object(self, tree: Tree) -> None:
        """Its HPA if there is one, else what it scales; and its events, in which KEDA says what it was refused."""
        await self._events(f"involvedObject.kind={keda.KIND},involvedObject.name={tree['metadata']['name']}")
        if await self._hpa(keda.hpa_name(tree)):
            return
        kind, name = keda.target(tree)
        path = await self._path(tree["spec"]["scaleTargetRef"].get("apiVersion") or "apps/v1", kind, name)
        await self._add(f"{path}/scale", "Scale")

    async def _hpa(self, name: str) -> bool:
        """False: there is none of this name."""
        try:
            await self._hpas()
        except ApiError as error:
            if error.status not in FORBIDDEN:
                raise
            self._lacks(self._place(HPA))
            own = await self._optional(f"{self._place(HPA)}/{quote(name, safe='')}", (NOT_FOUND,))
            self._take([own | {"kind": OBJECT_KINDS[HPA]}] if own is not None else [])
        found = [one for one in self._hpas_found or [] if one["metadata"]["name"] == name]
        for hpa in found:
            await self._scaled(hpa)
        return bool(found)

    async def _hpas(self) -> list[Tree]:
        """All of the namespace: two that have the same pods do nothing."""
        if self._hpas_found is None:
            listed = await self._get(self._place(HPA))
            self._take([one | {"kind": OBJECT_KINDS[HPA]} for one in listed["items"]])
        return self._hpas_found or []

    def _take(self, hpas: list[Tree]) -> None:
        self._hpas_found = hpas
        self._found += hpas

    async def _events(self, about: str) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/events?fieldSelector={quote(about, safe='')}"
        listed = await self._optional(path)
        if listed is not None:
            self._found += [one | {"kind": knative.EVENT} for one in listed["items"]]
            self._asked.add(knative.EVENT)

    async def _add(self, path: str, kind: str, unless: Sequence[int] = (NOT_FOUND, *FORBIDDEN)) -> Tree | None:
        tree = await self._optional(path, unless)
        if tree is None:
            return None
        self._found.append(tree | {"kind": kind})
        return self._found[-1]

    async def _optional(self, path: str, unless: Sequence[int] = (NOT_FOUND, *FORBIDDEN)) -> Tree | None:
        """What may not be there, or not be ours to read: without it an answer is likely only, or there is none."""
        try:
            return await self._get(path)
        except ApiError as error:
            if error.status not in unless:
                raise
            if error.status in FORBIDDEN:
                self._lacks(path)
            return None

    def _lacks(self, path: str) -> None:
        """Note the right that this read would have taken."""
        self._missing.append(right(path))

    def _place(self, kind: str) -> str:
        return f"/apis/{API[kind]}/namespaces/{self._namespace}/{RESOURCES[kind].partition('.')[0]}"

    async def _scaled(self, hpa: Tree) -> None:
        if hpa["metadata"]["name"] in self._scaled_found:
            return
        self._scaled_found.add(hpa["metadata"]["name"])
        ref = hpa["spec"]["scaleTargetRef"]
        path = await self._path(ref.get("apiVersion", "v1"), ref["kind"], ref["name"])
        await self._events(f"involvedObject.kind={OBJECT_KINDS[HPA]},involvedObject.name={hpa['metadata']['name']}")
        scale = await self._optional(f"{path}/scale")
        if scale is not None:
            self._found.append(scale | {"kind": "Scale"})
            text = at(scale, "status", "selector") or ""
        else:  # an owner may have the right to read the object, and not its scale
            whole = await self._add(path, ref["kind"])
            text = spelled(labelled(at(whole, "spec", "selector"))) if whole is not None else ""
        selector = quote(text, safe="")
        if not selector:
            return
        await self._pods(self._namespace, selector)
        measured = specs.of_hpa(hpa)
        if any(one.resource for one in measured):
            path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{self._namespace}/pods?labelSelector={selector}"
            await self._metrics(POD_METRICS, [path])
        for one in measured:
            if not one.resource:
                await self._metrics(one.name, await self._metric_paths(one, selector))

    async def _metric_paths(self, one: specs.Metric, selector: str) -> list[str]:
        """Where a metrics server may serve it, the newest version first."""
        labels = spelled(labelled(at(one.spec, "metric", "selector")))
        name = quote(one.name, safe="")
        if one.type == "External":
            path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{self._namespace}/{name}"
            return [f"{path}?labelSelector={quote(labels, safe='')}"]
        place = f"pods/*/{name}?labelSelector={selector}&metricLabelSelector={quote(labels, safe='')}"
        if one.type == "Object":
            ref = one.spec["describedObject"]
            plural = await self._plural(ref.get("apiVersion", "v1"), ref["kind"])
            group = ref.get("apiVersion", "v1").rpartition("/")[0]
            dotted = f"{plural}.{group}" if group else plural
            place = f"{dotted}/{quote(ref['name'], safe='')}/{name}?metricLabelSelector={quote(labels, safe='')}"
        root = "/apis/custom.metrics.k8s.io"
        return [f"{root}/{version}/namespaces/{self._namespace}/{place}" for version in ("v1beta2", "v1beta1")]

    async def _metrics(self, name: str, paths: Iterable[str]) -> None:
        """What a metrics server answers. That it has nothing is an answer too: the controller gets it as well. Any
        other error may be over when the controller asks, so the HPA's status stands in."""
        for path in paths:
            try:
                self._found += (await self._get(path))["items"]
                break
            except ApiError as error:
                if error.status in FORBIDDEN:
                    self._lacks(path)
                if error.status != NOT_FOUND:
                    return
        self._asked.add(name)

    async def _controller(self) -> None:
        """The pod of kube-controller-manager, for its flags; where there is none to see, its defaults stand."""
        await self._pods("kube-system", quote("component=kube-controller-manager", safe=""))

    async def _pods(self, namespace: str, selector: str) -> bool:
        """Where we may not read them, the answer is only likely. False: we may not."""
        pods = await self._optional(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}", FORBIDDEN)
        if pods is None:
            return False
        self._found += [one | {"kind": "Pod"} for one in pods["items"]]
        return True

    async def _path(self, version: str, kind: str, name: str) -> str:
        plural = await self._plural(version, kind)
        return f"{_root(version)}/namespaces/{self._namespace}/{plural}/{quote(name, safe='')}"

    async def _plural(self, version: str, kind: str) -> str:
        for one in (await self._get(_root(version)))["resources"]:
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


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
