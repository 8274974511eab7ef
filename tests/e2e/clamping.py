"""What tests of mode Clamp ask for, and where they look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.controlplane.api import Api
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
