"""A stand-in for all kubelets: makes pods of a real API server run and get ready, without nodes or containers; and
files as a kubelet keeps them for a pod, of a Secret or a ConfigMap, replaced all at once, and of annotations."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
import ssl
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.background import Background
from tests.support.certs import LOOPBACK_NAMES, Authority

Tree = Any

SINCE = timedelta(minutes=5)
"""Pods say that they have run for this long, so that no autoscaler takes them for warming up."""
PATCH = {"content-type": "application/merge-patch+json"}
PAUSE_S = 0.2


class Kubelet(Background):
    """Watches all pods. A context manager.

    Args:
        server: the API server's URL.
        tls: trusts it, and holds the client certificate of one who may write ``pods/status`` and delete pods.
    """

    def __init__(self, server: str, tls: ssl.SSLContext) -> None:
        super().__init__("kubelet")
        self.broken_images: set[str] = set()
        """Containers of these never start."""
        self._server, self._tls = server, tls

    async def main(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(self._server, connector=connector, timeout=timeout) as session:
            while True:
                try:
                    await self._follow(session)
                except (aiohttp.ClientError, TimeoutError):  # the server is away, or its watch has ended
                    await asyncio.sleep(PAUSE_S)

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        async with session.get("/api/v1/pods", raise_for_status=True) as answer:
            pods = await answer.json()
        self.started()
        for pod in pods["items"]:
            await self._care(session, pod)
        async for event in _events(session, pods["metadata"]["resourceVersion"]):
            if event["type"] == "ERROR":
                return
            if event["type"] != "DELETED":
                await self._care(session, event["object"])

    async def _care(self, session: aiohttp.ClientSession, pod: Tree) -> None:
        """What a kubelet would do for this pod now."""
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        uid = pod["metadata"]["uid"]  # by now another may have the name
        if "deletionTimestamp" in pod["metadata"]:
            options = {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "gracePeriodSeconds": 0,
                "preconditions": {"uid": uid},
            }
            async with session.delete(path, json=options) as answer:
                assert answer.status in (200, 404, 409), await answer.text()
            return
        if pod["status"].get("phase") in ("Succeeded", "Failed"):  # it never runs again
            return
        wanted = self._status(pod)
        if pod["status"].get("containerStatuses") != wanted["containerStatuses"]:
            seen = {"uid": uid, "resourceVersion": pod["metadata"]["resourceVersion"]}
            body = json.dumps({"metadata": seen, "status": wanted})
            async with session.patch(f"{path}/status", data=body, headers=PATCH) as answer:
                # It may be gone, have changed, or be another one: then an event tells.
                assert answer.status in (200, 404, 409, 422), await answer.text()

    def _status(self, pod: Tree) -> Tree:
        broken = self.broken_images & {container["image"] for container in pod["spec"]["containers"]}
        since = pod["status"].get("startTime") or _text(datetime.now(UTC) - SINCE)
        ready = "False" if broken else "True"
        return {
            "phase": "Pending" if broken else "Running",
            "startTime": since,
            "conditions": [
                {"type": kind, "status": ready, "lastTransitionTime": since}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [
                _container(one["name"], one["image"], since, broken=one["image"] in broken) | _held(one)
                for one in pod["spec"]["containers"]
            ],
        }


def _held(container: Tree) -> Tree:
    """It runs with what it asks for, resized or not. Of a pod that does not say so, the API server takes no resize."""
    resources = container.get("resources") or {}
    allocated = {"allocatedResources": resources["requests"]} if resources.get("requests") else {}
    return {"resources": resources, **allocated}


async def _events(session: aiohttp.ClientSession, version: str) -> AsyncIterator[Tree]:
    query = {"watch": "1", "resourceVersion": version}
    async with session.get("/api/v1/pods", params=query, raise_for_status=True) as stream:
        buffer = b""
        async for chunk in stream.content.iter_any():
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)


def _container(name: str, image: str, since: str, *, broken: bool) -> Tree:
    state = {"waiting": {"reason": "ImagePullBackOff"}} if broken else {"running": {"startedAt": since}}
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": not broken,
        "started": not broken,
        "restartCount": 0,
        "lastState": {},
        "state": state,
    }


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


OF_ANNOTATION = re.compile(r"metadata\.annotations\['(.+)'\]")


class Volume:
    """``..data`` leads to a folder, each file to one in ``..data``; an update moves ``..data`` (``AtomicWriter`` in
    ``k8s.io/kubernetes/pkg/volume/util``), and what was there before is gone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._numbers = itertools.count(1)

    def __getitem__(self, name: str) -> str:
        """The path of a file, as whoever mounts the volume names it."""
        return str(self.folder / name)

    def put(self, **files: bytes) -> None:
        """Replace its content. ``tls_crt`` is the file ``tls.crt``."""
        data, before = self.folder / "..data", (self.folder / "..data").resolve()
        new = self.folder / f"..{next(self._numbers)}"
        new.mkdir()
        for word, content in files.items():
            (new / word.replace("_", ".")).write_bytes(content)
        link = self.folder / "..data_tmp"
        link.symlink_to(new.name)
        link.rename(data)
        for file in new.iterdir():
            if not (self.folder / file.name).is_symlink():
                (self.folder / file.name).symlink_to(Path("..data", file.name))
        if before != data:
            shutil.rmtree(before)

    def issue(
        self, authority: Authority, trusted: bytes | None = None, names: tuple[str, ...] = LOOPBACK_NAMES
    ) -> None:
        """Another pair of the authority. ``ca.crt`` has that authority, unless another one is given."""
        pair = authority.issue(f"{self.folder.name}-{next(self._numbers)}", names)
        ca = authority.ca.read_bytes() if trusted is None else trusted
        self.put(tls_crt=pair.cert.read_bytes(), tls_key=pair.key.read_bytes(), ca_crt=ca)


def of_annotations(template: Tree) -> Iterator[tuple[str, str]]:
    """Each file that a pod's Istio sidecar has from the pod's annotations, and what is in it: by a volume of the
    downward API (https://kubernetes.io/docs/concepts/workloads/pods/downward-api/)."""
    annotations = template["metadata"]["annotations"]
    mounts = json.loads(annotations["sidecar.istio.io/userVolumeMount"])
    folders = {each["name"]: each["mountPath"] for each in mounts}
    for volume in json.loads(annotations["sidecar.istio.io/userVolume"]):
        for item in volume.get("downwardAPI", {}).get("items", []):
            found = OF_ANNOTATION.fullmatch(item["fieldRef"]["fieldPath"])
            assert found is not None, item
            yield f"{folders[volume['name']]}/{item['path']}", annotations[found[1]]
