"""The objects of an explanation, read from a cluster: an HPA, what it scales, pods, and what metrics servers say."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from extauthz.core.model import Tree
from extauthz.explain import specs, target
from extauthz.explain.objects import POD_METRICS, ExplainError, Objects, at
from extauthz.kube.calls import Calls
from extauthz.kube.connection import ApiError, connect

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

    async def objects(self, kind: str, name: str) -> Objects:
        path = f"/apis/autoscaling/v2/namespaces/{self._namespace}/horizontalpodautoscalers"
        hpas = [one | {"kind": "HorizontalPodAutoscaler"} for one in (await self._get(path))["items"]]
        self._found += hpas
        for hpa in hpas:
            ref = hpa["spec"]["scaleTargetRef"]
            if name == (hpa["metadata"]["name"] if kind == "hpa" else ref["name"]) and kind in (
                "hpa",
                target.plural(ref["kind"]),
            ):
                await self._scaled(hpa)
        await self._controller()
        return Objects(self._found, self._asked)

    async def _scaled(self, hpa: Tree) -> None:
        ref = hpa["spec"]["scaleTargetRef"]
        path = await self._path(ref.get("apiVersion", "v1"), ref["kind"], ref["name"])
        try:
            scale = await self._get(f"{path}/scale")
        except ApiError as error:
            if error.status == NOT_FOUND:
                return
            raise
        self._found.append(scale | {"kind": "Scale"})
        selector = quote(at(scale, "status", "selector") or "", safe="")
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
        labels = target.text(target.labelled(at(one.spec, "metric", "selector")))
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
        """What a metrics server answers. An error is an answer too: the controller gets it as well."""
        for path in paths:
            try:
                self._found += (await self._get(path))["items"]
            except ApiError as error:
                if error.status in FORBIDDEN:
                    return
                continue
            break
        self._asked.add(name)

    async def _controller(self) -> None:
        """The pod of kube-controller-manager, for its flags; where there is none to see, its defaults stand."""
        await self._pods("kube-system", quote("component=kube-controller-manager", safe=""))

    async def _pods(self, namespace: str, selector: str) -> None:
        """Where we may not read them, the answer is only likely."""
        try:
            pods = await self._get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")
        except ApiError as error:
            if error.status in FORBIDDEN:
                return
            raise
        self._found += [one | {"kind": "Pod"} for one in pods["items"]]

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


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
