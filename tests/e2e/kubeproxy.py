"""Stands for kube-proxy: leads connections to a Service by the EndpointSlices that the real controller writes."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from tests.controlplane.gatepods import GatePods, of_loopback
from tests.controlplane.manager import Looping
from tests.e2e.balancing import Balancer

Tree = Any
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
OF_SERVICE = "?labelSelector=kubernetes.io%2Fservice-name%3D{}"
SYNC_S = 1.0
"""Its rules are up to so old, as kube-proxy's are (``--iptables-min-sync-period``)."""


class KubeProxy(Balancer):
    """One port of one Service of the gates. A context manager.

    Of the endpoints that its rules name, kube-proxy chooses any. This one makes the worst choice: as long as one of
    them does not listen, a connection is led there.

    Args:
        pods: those behind the Service.
        service: namespace and name.
        port: its name.
    """

    def __init__(self, pods: GatePods, service: tuple[str, str], port: str) -> None:
        super().__init__()
        self._pods, self._port_name = pods, port
        self._path = SLICES.format(service[0]) + OF_SERVICE.format(service[1])
        self._rules: list[tuple[str, int]] = []
        self._syncing = Looping("kube-proxy", self._sync)

    def __enter__(self) -> Self:
        self._syncing.__enter__()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._syncing.__exit__(kind, error, trace)
        finally:
            super().__exit__(kind, error, trace)

    def _sync(self, ends: threading.Event) -> None:
        while not ends.is_set():
            self._rules = self._endpoints()
            ends.wait(SYNC_S)

    def _endpoints(self) -> list[tuple[str, int]]:
        """Those that are ready; where none is, those that still serve while they end (KEP-1669)."""
        found = [
            (each["conditions"], (of_loopback(address), port["port"]))
            for one in self._pods.api.call("GET", self._path)["items"]
            for port in one.get("ports") or ()
            if port["name"] == self._port_name
            for each in one.get("endpoints") or ()
            for address in each["addresses"]
        ]
        return [place for conditions, place in found if conditions["ready"]] or [
            place for conditions, place in found if conditions["serving"]
        ]

    def _connect(self) -> socket.socket:
        with ExitStack() as others:
            ends = [others.enter_context(socket.create_connection(place)) for place in self._rules]
            if not ends:
                raise ConnectionRefusedError("the Service has no endpoint")
            return random.choice(ends).dup()
