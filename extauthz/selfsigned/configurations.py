"""The webhook configurations of ours: under which names API servers call, and whom they trust."""

from __future__ import annotations

import base64
from typing import NamedTuple
from urllib.parse import urlsplit

from extauthz.core.model import Tree
from extauthz.kube.connection import ApiError
from extauthz.kube.resource import Calls, Resource

GROUP = "admissionregistration.k8s.io"

KINDS = tuple(
    Resource(GROUP, "v1", f"{kind.lower()}s", kind, namespaced=False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
)

STRATEGIC = "application/strategic-merge-patch+json"
"""It merges webhooks by their names (``k8s.io/api/admissionregistration/v1``)."""


class Hook(NamedTuple):
    """One webhook of a configuration."""

    name: str
    called: str
    """The DNS name or address that the certificate must have; empty if it names none."""
    bundle: bytes


class Configuration(NamedTuple):
    """One configuration, as it was read."""

    path: str
    version: str
    hooks: tuple[Hook, ...]


async def read(api: Calls, name: str) -> list[Configuration]:
    """Those of this name that are there. Raises ApiError and Unreachable."""
    found = []
    for kind in KINDS:
        path = kind.object(None, name)
        try:
            tree = await api.call("GET", path)
        except ApiError as error:
            if error.status == 404:
                continue
            raise
        hooks = tuple(_hook(one) for one in tree.get("webhooks") or ())
        found.append(Configuration(path, tree["metadata"]["resourceVersion"], hooks))
    return found


async def trust(api: Calls, configuration: Configuration, bundle: bytes) -> bool:
    """Have API servers trust this bundle. False if somebody else has changed the configuration since it was read.

    Raises: ApiError and Unreachable.
    """
    text = base64.b64encode(bundle).decode()
    hooks = [{"name": one.name, "clientConfig": {"caBundle": text}} for one in configuration.hooks]
    body = {"metadata": {"resourceVersion": configuration.version}, "webhooks": hooks}
    try:
        await api.call("PATCH", configuration.path, body=body, content_type=STRATEGIC)
    except ApiError as error:
        if error.status in (404, 409):
            return False
        raise
    return True


def _hook(tree: Tree) -> Hook:
    client = tree.get("clientConfig") or {}
    service = client.get("service")
    called = f"{service['name']}.{service['namespace']}.svc" if service else urlsplit(client.get("url") or "").hostname
    try:
        bundle = base64.b64decode(client.get("caBundle") or "")
    except ValueError:
        bundle = b""
    return Hook(tree["name"], called or "", bundle)
