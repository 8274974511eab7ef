"""How pods reach the API server: what the API server's own admission gives them, and what to give them in its place."""

from __future__ import annotations

from typing import Any as Tree

API_ACCESS = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where client-go looks for token and authority (``rest.InClusterConfig``)."""

TOKEN_LIFE_S = 3607
"""What the API server's own admission asks for (``WarnOnlyBoundTokenExpirationSeconds`` in
``k8s.io/kubernetes/pkg/serviceaccount/claims.go``); the kubelet renews it in time."""


def api_access(config_map: str) -> dict[str, Tree]:
    """The volume that admission adds (``TokenVolumeSource`` there), with the authority in a ConfigMap's ``ca.crt``."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_LIFE_S}},
        {"configMap": {"name": config_map, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": "extauthz-api-access", "projected": {"defaultMode": 0o644, "sources": sources}}
