"""An administrator's way to a real API server in a line: objects in and out as JSON trees."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any

import httpx

Tree = Any

MERGE = "application/merge-patch+json"
"""Bounds every wait. Generous: a busy machine is no failure."""


class RefusedError(Exception):
    """The server answered with something else than 2xx. ``status`` is its ``metav1.Status``."""

    def __init__(self, code: int, status: Tree) -> None:
        super().__init__(f"{code}: {status.get('message', status) if isinstance(status, dict) else status}")
        self.code, self.status = code, status


class Api:
    """Requests to one server. With a token as its bearer, else with the client certificate that *tls* holds."""

    def __init__(self, server: str, tls: ssl.SSLContext, token: str | None = None) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=server, verify=tls, headers=headers, timeout=70.0)

    def close(self) -> None:
        self._client.close()

    def call(self, method: str, path: str, tree: Tree = None, content_type: str = "application/json") -> Tree:
        """One request. Bytes are sent as they are.

        Raises:
            RefusedError: an answer that is not 2xx.
        """
        headers = {"content-type": content_type} if tree is not None and content_type else {}
        content = tree if tree is None or isinstance(tree, bytes) else json.dumps(tree)
        answer = self._client.request(method, path, content=content, headers=headers)
        try:
            said = answer.json()
        except ValueError:
            said = answer.text
        if not answer.is_success:
            raise RefusedError(answer.status_code, said)
        return said

    def watch(self, path: str, version: str, seconds: int) -> Iterator[Tree]:
        """What happens to a collection after a version, for so many seconds; ``type`` and ``object`` each."""
        query = f"{path}?watch=1&resourceVersion={version}&timeoutSeconds={seconds}"
        with self._client.stream("GET", query) as stream:
            for line in stream.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise RefusedError(event["object"]["code"], event["object"])
                yield event

    def create(self, tree: Tree) -> Tree:
        """POST it where its kind belongs."""
        metadata = tree["metadata"]
        return self.call("POST", path_of(tree["kind"], metadata.get("namespace"), group=tree["apiVersion"]), tree)

    def get(self, kind: str, name: str, namespace: str | None = None, *, sub: str = "") -> Tree:
        return self.call("GET", path_of(kind, namespace, name, sub))

    def list(self, kind: str, namespace: str | None = None, query: str = "") -> list[Tree]:
        items: list[Tree] = self.call("GET", path_of(kind, namespace) + query)["items"]
        return items

    def patch(self, kind: str, name: str, namespace: str | None, tree: Tree, *, sub: str = "") -> Tree:
        """A merge patch."""
        return self.call("PATCH", path_of(kind, namespace, name, sub), tree, MERGE)

    def serves(self, kind: str) -> bool:
        """Its objects can be listed: of a new definition not at once."""
        try:
            self.call("GET", path_of(kind) + "?limit=1")
        except RefusedError:
            return False
        return True

    def delete(self, kind: str, name: str, namespace: str | None = None, policy: str = "Background") -> Tree:
        """*policy*: what becomes of what it owns, as ``propagationPolicy`` has it."""
        return self.call(
            "DELETE", path_of(kind, namespace, name), {"kind": "DeleteOptions", "propagationPolicy": policy}
        )


GROUPS = {
    "apps/v1": ("Deployment", "StatefulSet", "ReplicaSet", "ControllerRevision", "DaemonSet"),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "batch/v1": ("Job",),
    "coordination.k8s.io/v1": ("Lease",),
    "events.k8s.io/v1": ("Event",),
    "extauthz.dev/v1alpha1": ("WorkspaceQuota",),
    "apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    "rbac.authorization.k8s.io/v1": ("ClusterRoleBinding", "ClusterRole", "RoleBinding", "Role"),
}
_GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}


def path_of(kind: str, namespace: str | None = None, name: str = "", sub: str = "", *, group: str = "") -> str:
    """The path of a collection, an object or a subresource. ``Kind.group/version`` names kinds not in ``GROUPS``."""
    kind, _, given = kind.partition(".")
    version = group or given or _GROUP_OF.get(kind, "v1")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{namespace}" if namespace else ""
    return root + place + f"/{kind.lower()}s" + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")
