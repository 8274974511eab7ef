"""Stands for a kubelet: runs the gates that the chart's Deployment asks for, as processes of this machine.

The pods are those that kube-controller-manager makes of the Deployment. A gate is started with its pod's arguments,
asked for its readiness as the pod's probe says, and ended as the pod says: preStop, SIGTERM, SIGKILL after the grace
period. Only what must be local is translated: ports without an address get one of loopback, a volume's files are in a
folder here, and a kubeconfig with the token of the pod's service account is in the place of a mounted token.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from extauthz.demo.gate import SERVE
from extauthz.demo.processes import Child, page
from tests.controlplane.access import service_account
from tests.controlplane.api import path_of
from tests.controlplane.manager import Looping
from tests.controlplane.plane import Plane, write_kubeconfig

Tree = Any
NODE = "node-1"
SELECTED = "?labelSelector=app.kubernetes.io%2Fname%3Dextauthz"
LOOK_EVERY_S = 0.1
NET = os.getpid() % 250 + 1
"""Runs beside each other have addresses of their own."""


def of_loopback(address: str) -> str:
    """Where a pod's address is on this machine: an EndpointSlice takes none of loopback."""
    return address.replace("10.", "127.", 1)


class GatePod:
    """One pod, and the gate in it."""

    def __init__(self, plane: Plane, folder: Path, tree: Tree, address: str, place: str) -> None:
        folder.mkdir()
        metadata, self._spec = tree["metadata"], tree["spec"]
        self.uid, self.hash = metadata["uid"], metadata["labels"]["pod-template-hash"]
        self._address, self._place = address, place
        self.code: int | None = None
        """The exit code, once it has ended as it was told."""
        self.log = folder / "gate.log"
        self._api, self._path = plane.api, path_of("Pod", metadata["namespace"], metadata["name"])
        self._plane, self._namespace, self._folder = plane, metadata["namespace"], folder
        (self._container,) = self._spec["containers"]
        self._api.call("POST", f"{self._path}/binding", _binding(metadata))
        self._since, self._leaving_s, self._told = metadata["creationTimestamp"], 0.0, False
        self._probed_s, self._misses, self.ready = 0.0, 0, False
        self._child = Child([*SERVE, *self._arguments()], self.log)
        self._say()

    def _arguments(self) -> list[str]:
        assert self._container["command"] == ["extauthz", "serve"]
        kubeconfig = self._folder / "kubeconfig"
        token = service_account(self._plane, self._namespace, self._spec["serviceAccountName"])
        write_kubeconfig(kubeconfig, self._plane.url, self._plane.ca, {"token": token})
        text = "\n".join(self._container["args"])
        for mount in self._container.get("volumeMounts", ()):
            text = text.replace(f"={mount['mountPath']}/", f"={self._mounted(mount['name'])}/")
        text = re.sub(r"=:(?=\d+$)", f"={self._place}:", text, flags=re.MULTILINE)
        return [*text.splitlines(), f"--kubeconfig={kubeconfig}"]

    def _mounted(self, name: str) -> Path:
        """The volume, which is a Secret."""
        (secret,) = (each["secret"]["secretName"] for each in self._spec["volumes"] if each["name"] == name)
        folder = self._folder / name
        folder.mkdir()
        tree = self._api.get("Secret", secret, self._namespace)
        for file, data in tree["data"].items():
            (folder / file).write_bytes(base64.b64decode(data))
        return folder

    def care(self, tree: Tree) -> None:
        """What a kubelet would do now."""
        if "deletionTimestamp" in tree["metadata"]:
            self._end(tree["metadata"]["deletionGracePeriodSeconds"])
            return
        assert self._child.running, self._child.tail()
        probe = self._container["readinessProbe"]
        if time.monotonic() - self._probed_s >= probe["periodSeconds"]:
            self._probed_s = time.monotonic()
            self._misses = 0 if self._answers(probe) else self._misses + 1
            ready = self._misses == 0 or (self.ready and self._misses < probe["failureThreshold"])
            if ready != self.ready:
                self.ready = ready
                self._say()

    def _answers(self, probe: Tree) -> bool:
        asked = probe["httpGet"]
        ports = {each["name"]: each["containerPort"] for each in self._container["ports"]}
        try:
            return bool(self.page(asked["path"], ports[asked["port"]], probe["timeoutSeconds"]))
        except OSError:
            return False

    def page(self, path: str, port: int = 9192, within_s: float = 5.0) -> str:
        """Of its server for operators. Raises OSError: it does not answer, or not with 200."""
        return page(f"http://{self._place}:{port}{path}", within_s=within_s)

    def _end(self, grace_s: int) -> None:
        now_s = time.monotonic()
        self._leaving_s = self._leaving_s or now_s
        if not self._told and now_s - self._leaving_s >= self._pre_stop_s():
            os.kill(self._child.pid, signal.SIGTERM)
            self._told = True
        if self._child.running and now_s - self._leaving_s >= grace_s:
            self._child.kill()
        if not self._child.running:
            self.code = self._child.terminate()
            preconditions = {"uid": self.uid}
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
            self._api.call("DELETE", self._path, options | {"preconditions": preconditions})

    def _pre_stop_s(self) -> int:
        hook = self._container.get("lifecycle", {}).get("preStop", {"sleep": {"seconds": 0}})
        return int(hook["sleep"]["seconds"])

    def _say(self) -> None:
        """Its status."""
        ready = "True" if self.ready else "False"
        conditions = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
        container = {
            "name": self._container["name"],
            "image": self._container["image"],
            "imageID": "",
            "ready": self.ready,
            "started": True,
            "restartCount": 0,
            "lastState": {},
            "state": {"running": {"startedAt": self._since}},
        }
        status = {
            "phase": "Running",
            "startTime": self._since,
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "conditions": [
                {"type": kind, "status": value, "lastTransitionTime": self._since} for kind, value in conditions.items()
            ],
            "containerStatuses": [container],
        }
        self._api.call("PATCH", f"{self._path}/status", {"status": status}, "application/merge-patch+json")

    def events(self, event: str) -> list[Tree]:
        """Lines of its log of one kind."""
        lines = self.log.read_text().splitlines(keepends=True)
        trees = (json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n"))
        return [tree for tree in trees if tree.get("event") == event]

    def kill(self) -> None:
        self._child.kill()


class GatePods(Looping):
    """All pods of the gate's Deployment. A context manager."""

    def __init__(self, plane: Plane, namespace: str, folder: Path) -> None:
        super().__init__("gate pods", self._care_for_all)
        self.api = plane.api
        self._plane, self._namespace, self._folder = plane, namespace, folder
        self.all: list[GatePod] = []
        """In the order of their starts, also those that have ended."""

    def __enter__(self) -> Self:
        self._plane.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, None, trace)  # whatever else failed, failed of what failed here
        finally:
            for pod in self.all:
                pod.kill()

    @property
    def running(self) -> list[GatePod]:
        return [pod for pod in self.all if pod.code is None]

    def _care_for_all(self, ends: threading.Event) -> None:
        while not ends.wait(LOOK_EVERY_S):
            for tree in self.api.list("Pod", self._namespace, SELECTED):
                self._care(tree)

    def _care(self, tree: Tree) -> None:
        known = next((pod for pod in self.all if pod.uid == tree["metadata"]["uid"]), None)
        if known is None:
            number = len(self.all) + 1
            address = f"10.244.{NET}.{number}"
            known = GatePod(self._plane, self._folder / f"pod-{number}", tree, address, of_loopback(address))
            self.all.append(known)
        known.care(tree)


def _binding(metadata: Tree) -> Tree:
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
