"""A small stand-in for the API server: https, objects in memory, and the writes of autoscalers and people.

It takes any group, version and resource and the ``scale`` subresource, and refuses with ``metav1.Status``. Bodies that
are neither JSON nor YAML (leases in protobuf) are taken and given back as they are.
"""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias
from urllib.parse import parse_qs, unquote
from uuid import uuid4

import yaml
from aiohttp import web

from extauthz.demo.patches import PATCHES, apply
from extauthz.inputs.kube.connection import ApiError

Tree: TypeAlias = Any


class Pair(NamedTuple):
    """Files of one certificate and its key, PEM."""

    cert: Path
    key: Path


class Key(NamedTuple):
    """Names one object, whatever the API version."""

    group: str
    resource: str
    namespace: str
    name: str


PLURALS = {
    "Namespace": "namespaces",
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "ReplicaSet": "replicasets",
    "Lease": "leases",
    "Event": "events",
}


class Objects:
    """All objects, and who wants to hear of changes."""

    def __init__(self, items: Iterable[Tree] = ()) -> None:
        self.items: dict[Key, Tree] = {}
        self.listeners: set[Callable[[str, Key, Tree], None]] = set()
        self.version = 100
        """The latest resourceVersion."""
        for item in items:
            metadata = item["metadata"]
            group = item["apiVersion"].rpartition("/")[0]
            key = Key(group, PLURALS[item["kind"]], metadata.get("namespace", ""), metadata["name"])
            self.put(key, copy.deepcopy(item), "ADDED")

    def get(self, key: Key) -> Tree:
        """The object itself, not a copy.

        Raises:
            ApiError: 404.
        """
        if key not in self.items:
            plural = f"{key.resource}.{key.group}" if key.group else key.resource
            raise ApiError(404, "NotFound", f'{plural} "{key.name}" not found')
        return self.items[key]

    def put(self, key: Key, item: Tree, event: str) -> Tree:
        """Stores under a new resource version and tells the listeners."""
        self.version += 1
        metadata = item.setdefault("metadata", {})
        metadata["resourceVersion"] = str(self.version)
        metadata.setdefault("uid", str(uuid4()))
        self.items[key] = item
        for listener in tuple(self.listeners):
            listener(event, key, item)
        return item

    def remove(self, key: Key) -> Tree:
        """Raises: ApiError: 404."""
        before = self.get(key)
        self.version += 1
        item = before | {"metadata": before["metadata"] | {"resourceVersion": str(self.version)}}
        del self.items[key]
        for listener in tuple(self.listeners):
            listener("DELETED", key, item)
        return item


def scale_of(item: Tree) -> Tree:
    """The ``autoscaling/v1`` Scale of an object."""
    kept = ("name", "namespace", "uid", "resourceVersion")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: item["metadata"][name] for name in kept if name in item["metadata"]},
        "spec": {"replicas": item["spec"].get("replicas", 1)},
        "status": {"replicas": item.get("status", {}).get("replicas", 0)},
    }


def patched(item: Tree, content_type: str, body: bytes) -> Tree:
    """A patched copy.

    Raises:
        ApiError: 415 for a patch of unknown kind, 422 for one that does not fit, 400 for one that is no JSON.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in PATCHES:
        raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {kind}")
    try:
        patch = yaml.safe_load(body) if kind.endswith("+yaml") else json.loads(body)
    except (ValueError, yaml.YAMLError) as error:
        raise ApiError(400, "BadRequest", str(error)) from error
    return apply(item, kind, patch)


class Seen(NamedTuple):
    method: str
    target: str
    """As spelled on the wire, with its query."""
    headers: dict[str, str]
    """Lower-case names."""
    body: bytes


class Where(NamedTuple):
    key: Key
    subresource: str


class ApiServer:
    """Serves https on a free port of 127.0.0.1 from a thread of its own. A context manager."""

    def __init__(self, certificate: Pair, items: Iterable[Tree] = ()) -> None:
        self.objects = Objects(items)
        self.seen: list[Seen] = []
        """Every request, in order."""
        self.port = 0
        self._certificate = certificate
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="apiserver", daemon=True)
        self._runner: web.AppRunner | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def application(self) -> web.Application:
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{anything:.*}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        self.seen.append(Seen(request.method, request.raw_path, headers, body))
        try:
            return await self.answer(request, body)
        except ApiError as error:
            return as_json(error.status, _status(error))

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Raises ApiError."""
        path, _, query = request.raw_path.partition("?")
        content_type = request.headers.get("content-type", "") or "application/json"
        if not any(form in content_type for form in ("json", "yaml")):
            return web.Response(body=body, content_type=content_type.partition(";")[0])
        return self.write(request.method, where_of(path), content_type, body, dry="dryRun" in parse_qs(query))

    def write(self, method: str, where: Where, content_type: str, body: bytes, *, dry: bool) -> web.Response:
        """Raises ApiError."""
        if method not in ("PUT", "PATCH"):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        before = self.objects.get(where.key)
        view = scale_of(before) if where.subresource == "scale" else before
        after = parsed(body) if method == "PUT" else patched(view, content_type, body)
        _check_version(before, after)
        if where.subresource == "scale":
            replicas = _replicas(after)
            after = copy.deepcopy(before)
            after["spec"]["replicas"] = replicas
        stored = after if dry else self.objects.put(where.key, after, "MODIFIED")
        return as_json(200, scale_of(stored) if where.subresource == "scale" else stored)

    async def _start(self) -> None:
        self._runner = web.AppRunner(self.application(), shutdown_timeout=0.1)
        await self._runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*self._certificate)
        tls.set_alpn_protocols(["http/1.1"])
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        assert self._runner is not None
        assert self._runner.server is not None
        for open_connection in self._runner.server.connections:
            if open_connection.transport is not None:
                open_connection.transport.abort()  # else TLS waits for a goodbye, and this loop is closed before
        await self._runner.cleanup()
        open_streams = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_streams:
            task.cancel()
        await asyncio.gather(*open_streams, return_exceptions=True)


def where_of(path: str) -> Where:
    """Group, resource, namespace, name and subresource of a path, as RequestInfo has them."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] not in ("api", "apis") or len(parts) < 3:
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "", "")[:3]
    return Where(Key(group, resource, namespace, name), subresource)


def parsed(body: bytes) -> Tree:
    try:
        return json.loads(body)
    except ValueError as error:
        raise ApiError(400, "BadRequest", str(error)) from error


def _replicas(scale: Tree) -> int:
    replicas = scale.get("spec", {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        raise ApiError(422, "Invalid", f"Scale is invalid: spec.replicas: Invalid value: {replicas!r}")
    return replicas


def _check_version(before: Tree, after: Tree) -> None:
    wanted = after.get("metadata", {}).get("resourceVersion")
    if wanted not in (None, "", before["metadata"]["resourceVersion"]):
        name = before["metadata"]["name"]
        raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on "{name}": the object has been modified')


def _status(error: ApiError) -> Tree:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": error.status,
    }


def as_json(code: int, tree: Any) -> web.Response:  # noqa: ANN401 (any JSON)
    return web.Response(status=code, text=json.dumps(tree), content_type="application/json")
