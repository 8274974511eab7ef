"""Service accounts of a real API server and their bearer tokens."""

from __future__ import annotations

from tests.controlplane.api import RefusedError, Tree, path_of
from tests.controlplane.plane import Plane

RBAC = "rbac.authorization.k8s.io"
A_DAY_S = 86400


def service_account(
    plane: Plane, namespace: str, name: str, cluster_role: str | None = None, audience: str | None = None
) -> str:
    """A bearer token of a service account: made if it is not there, bound to a ClusterRole if one is named. For the API
    server, or for an audience."""
    _ensure(plane, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
    if cluster_role is not None:
        binding = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{namespace}-{name}"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": cluster_role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        _ensure(plane, binding)
    spec: Tree = {"expirationSeconds": A_DAY_S} | ({"audiences": [audience]} if audience else {})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token = plane.api.call("POST", path_of("ServiceAccount", namespace, name, "token"), request)
    return str(token["status"]["token"])


def _ensure(plane: Plane, tree: Tree) -> None:
    try:
        plane.api.create(tree)
    except RefusedError as error:
        if error.code != 409:
            raise
