"""What tests of mode Clamp ask for, and where they look."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.controlplane.api import Api, path_of
from tests.controlplane.plane import Plane
from tests.controlplane.workspace import Workspace, workload


def asked(acme: Workspace, event: str) -> list[dict[str, Any]]:
    """Lines of the gate's log about the workspace: ``clamp`` or ``decision``."""
    return [one for one in acme.world.gate.events(event) if f"/{acme.namespace}/" in one.get("workload", "")]


def clamps(acme: Workspace) -> float:
    """How many were counted."""
    return acme.world.gate.metric(f'extauthz_clamps_total{{quota="{acme.name}",resource="requests.cpu"}}')


def forms(acme: Workspace, api: Api) -> dict[str, Callable[[], Any]]:
    """Every way to ask for nine replicas of ``web``, with and without a precondition."""
    at = acme.namespace
    path = f"/apis/apps/v1/namespaces/{at}/deployments/web"
    json_patch = [{"op": "add", "path": "/spec/replicas", "value": 9}]
    nine = {"spec": {"replicas": 9}}

    def whole(sub: str, *, is_bound: bool = True) -> Any:
        tree = api.get("Deployment", "web", at, sub=sub)
        if not is_bound:
            del tree["metadata"]["resourceVersion"]
        return api.call("PUT", f"{path}/{sub}".rstrip("/"), tree | {"spec": tree["spec"] | {"replicas": 9}}, "")

    def applied() -> Any:
        tree = workload("web", 9, {"cpu": "1"})
        return api.call("PATCH", f"{path}?fieldManager=x&force=true", tree, "application/apply-patch+yaml")

    return {
        "put": lambda: whole(""),
        "put of the scale": lambda: whole("scale"),
        "put of the scale, unbound": lambda: whole("scale", is_bound=False),
        "merge": lambda: api.patch("Deployment", "web", at, nine),
        "merge of the scale": lambda: api.patch("Deployment", "web", at, nine, sub="scale"),
        "strategic": lambda: api.call("PATCH", path, nine, "application/strategic-merge-patch+json"),
        "json": lambda: api.call("PATCH", path, json_patch, "application/json-patch+json"),
        "json of the scale": lambda: api.call("PATCH", f"{path}/scale", json_patch, "application/json-patch+json"),
        "apply": applied,
    }


Tree = Any


class Watched(threading.Thread):
    """From now on, in one namespace."""

    def __init__(self, plane: Plane, kind: str, namespace: str) -> None:
        super().__init__(daemon=True)
        self._versions: list[tuple[float, Tree]] = []
        self._api, self._kind = plane.api, kind.partition(".")[0]
        self._path = path_of(kind, namespace)
        self._version = plane.api.call("GET", self._path)["metadata"]["resourceVersion"]
        self.start()

    def run(self) -> None:
        with suppress(Exception):  # the server ends with the test
            for event in self._api.watch(self._path, self._version, 1800):
                self._versions.append((time.time(), event["object"] | {"kind": self._kind}))

    def is_quiet(self, seconds: float) -> bool:
        """Nothing has changed for so long."""
        return not self._versions or time.time() - self._versions[-1][0] > seconds

    def at(self, name: str, moment: float) -> Tree | None:
        """The version of an object that was there at that time."""
        found = [tree for tree in self.until(moment) if tree["metadata"]["name"] == name]
        return found[-1] if found else None

    def until(self, moment: float) -> list[Tree]:
        """All versions up to that time."""
        return [tree for at, tree in tuple(self._versions) if at <= moment]
