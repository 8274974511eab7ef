"""A client that goes on writing while gates come and go. Its writes grow a workload, so gates are asked about them."""

from __future__ import annotations

import base64
import ssl
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from tests.controlplane.api import Api, RefusedError

Tree = Any
EVERY_S = 0.05
HIGHEST = 20


def administrator(kubeconfig: Path, folder: Path) -> Api:
    """By the certificate that a kubeconfig holds."""
    tree = yaml.safe_load(kubeconfig.read_text())
    (cluster,), (user,) = tree["clusters"], tree["users"]
    data = {"ca": cluster["cluster"]["certificate-authority-data"]}
    data |= {"crt": user["user"]["client-certificate-data"], "key": user["user"]["client-key-data"]}
    folder.mkdir(exist_ok=True)
    files = {name: folder / name for name in data}
    for name, text in data.items():
        files[name].write_bytes(base64.b64decode(text))
    tls = ssl.create_default_context(cafile=str(files["ca"]))
    tls.load_cert_chain(files["crt"], files["key"])
    return Api(cluster["cluster"]["server"], tls)


def paused(name: str, namespace: str) -> Tree:
    """A Deployment whose count may change without a pod: its controller makes no ReplicaSet for it."""
    labels = {"app": name}
    container = {"name": "app", "image": "none.test/none", "resources": {"requests": {"cpu": "1m"}}}
    spec = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"paused": True, "replicas": 1, "selector": {"matchLabels": labels}, "template": spec},
    }


class Writer:
    """From enter to exit, some twenty times a second. A context manager."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self.grown = self.away = 0
        """Writes that grew it, and those that found no API server."""
        self.failed: list[str] = []
        """What the server said of a write that it did not take."""
        self._api, self._namespace, self._name = api, namespace, name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)

    def _write(self) -> None:
        replicas = 1
        while not self._stop.wait(EVERY_S):
            replicas = replicas + 1 if replicas < HIGHEST else 1
            try:
                self._api.patch(
                    "Deployment", self._name, self._namespace, {"spec": {"replicas": replicas}}, sub="scale"
                )
                self.grown += replicas > 1
            except RefusedError as error:
                self.failed.append(f"{time.strftime('%H:%M:%S')} {error}")
            except httpx.TransportError:
                self.away += 1

    def more(self, count: int) -> bool:
        """Whether so many writes more than at the last question have grown it."""
        if self.grown < self._asked + count:
            return False
        self._asked = self.grown
        return True

    _asked = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(90)
        assert not self._thread.is_alive()
