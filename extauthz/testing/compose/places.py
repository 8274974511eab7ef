"""Names and ports of ``docker-compose.yml``'s services, as they and their certificates need them."""

from __future__ import annotations

APISERVER = ("kube-apiserver", 6443)
ENVOY = ("envoy", 6443)
GATE = ("gate", 9191)
GATE_HTTP = ("gate", 9192)
METRICS = ("metrics", 8080)

PUBLISHED = "https://127.0.0.1:16443"
"""The API server, on the machine where ``docker compose`` runs."""


def url(place: tuple[str, int], scheme: str = "https") -> str:
    """``https://kube-apiserver:6443``."""
    host, port = place
    return f"{scheme}://{host}:{port}"
