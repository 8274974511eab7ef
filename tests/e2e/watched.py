"""All versions of the objects of a kind, with the time at which each was heard of."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

from tests.controlplane.api import path_of
from tests.controlplane.plane import Plane

Tree = Any


class Watched(threading.Thread):
    """From now on, in one namespace."""

    def __init__(self, plane: Plane, kind: str, namespace: str) -> None:
        super().__init__(daemon=True)
        self._versions: list[tuple[float, Tree]] = []
        self._api, self._kind = plane.api, kind.partition(".")[0]
        self._path = path_of(kind, namespace)
        self._version = plane.api.call("GET", self._path)["metadata"]["resourceVersion"]
        self.start()

    def run(self) -> None:
        with suppress(Exception):  # the server ends with the test
            for event in self._api.watch(self._path, self._version, 1800):
                self._versions.append((time.time(), event["object"] | {"kind": self._kind}))

    def is_quiet(self, seconds: float) -> bool:
        """Nothing has changed for so long."""
        return not self._versions or time.time() - self._versions[-1][0] > seconds

    def at(self, name: str, moment: float) -> Tree | None:
        """The version of an object that was there at that time."""
        found = [tree for tree in self.until(moment) if tree["metadata"]["name"] == name]
        return found[-1] if found else None

    def until(self, moment: float) -> list[Tree]:
        """All versions up to that time."""
        return [tree for at, tree in tuple(self._versions) if at <= moment]
