"""Runs the real ``extauthz serve`` for tests and asks it over real gRPC with messages of another make."""

from __future__ import annotations

import json
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import grpc
from envoy_data_plane.envoy.service.auth.v3 import (
    AttributeContext,
    AttributeContextHttpRequest,
    AttributeContextRequest,
    CheckRequest,
    CheckResponse,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc
from h2.connection import H2Connection
from hyperframe.frame import DataFrame, Frame, PingFrame

from extauthz.demo.processes import Child
from tests.support.numbered import command
from tests.waiting import eventually

WITHIN_S = 1.0
"""A good change of a file takes effect within this (the issue's own words); doubled where a test waits for it."""

QUOTAS = """\
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme}
spec:
  namespaceSelector: {matchLabels: {workspace: acme}}
  hard: {pods: "%d"}
  mode: Enforce
"""

STATE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"workspace": "acme"}}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "5"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
            },
        },
    ],
}


LIMITED = """
import os, resource, sys
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""A program that may have so many descriptors."""


class Running:
    """One gate in a process of its own, its inputs and its log in ``directory``. A context manager."""

    def __init__(
        self,
        directory: Path,
        *flags: str,
        grpc_address: str = "127.0.0.1:0",
        descriptors: int | None = None,
        **numbers: float,
    ) -> None:
        self.quotas = directory / "quotas.yaml"
        self.state = directory / "state.json"
        self.log_file = directory / "log"
        if not self.quotas.exists():
            self.quotas.write_text(QUOTAS % 4)
            self.state.write_text(json.dumps(STATE))
        self._flags = ("--quotas", str(self.quotas), "--state", str(self.state), "--grpc", grpc_address, *flags)
        self._numbers = numbers
        self._limited = () if descriptors is None else (sys.executable, "-c", LIMITED, str(descriptors))
        self.grpc = self.http = ""

    def __enter__(self) -> Self:
        already = len(self.lines())
        serve = command(["serve", "--http", "127.0.0.1:0", *self._flags], **self._numbers)
        self.child = Child([*self._limited, *serve], self.log_file)
        serving = self.child.until(lambda: next(iter(self.events("serving", already)), None))
        self.grpc, self.http = serving.get("grpc", ""), serving["http"]
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()

    def lines(self) -> list[dict[str, Any]]:
        """The log so far. A line that is still being written is left out."""
        if not self.log_file.exists():
            return []
        return [
            json.loads(line) for line in self.log_file.read_text().splitlines(keepends=True) if line.endswith("}\n")
        ]

    def events(self, name: str, since: int = 0) -> list[dict[str, Any]]:
        return [line for line in self.lines()[since:] if line["event"] == name]

    def channel(self, credentials: grpc.ChannelCredentials | None = None) -> grpc.Channel:
        # A channel of its own pool: gRPC would hand out the old connection to a gate on the same socket.
        options = (("grpc.use_local_subchannel_pool", 1),)
        if credentials is None:
            return grpc.insecure_channel(self.grpc, options)
        return grpc.secure_channel(self.grpc, credentials, options)

    def check(self, replicas: int, credentials: grpc.ChannelCredentials | None = None) -> CheckResponse:
        """Ask for so many replicas of ``web``, as Knative's autoscaler does."""
        with self.channel(credentials) as channel:
            return ask(channel, scale(replicas))

    def allows(self, replicas: int) -> bool:
        """Whether it lets ``web`` have so many replicas; asked as a dry run, which charges nothing."""
        with self.channel() as channel:
            response = ask(channel, scale(replicas, "?dryRun=All"))
        return response.ok_response is not None

    def health(self, service: str = "") -> str:
        with self.channel() as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            status = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5).status
        return health_pb2.HealthCheckResponse.ServingStatus.Name(status)

    def get(self, path: str) -> tuple[int, str]:
        request = urllib.request.Request(f"http://{self.http}{path}")
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


def scale(replicas: int, query: str = "") -> AttributeContextHttpRequest:
    headers = {"content-type": "application/merge-patch+json", "user-agent": "test-autoscaler/1"}
    body = json.dumps({"spec": {"replicas": replicas}}).encode()
    path = f"/apis/apps/v1/namespaces/shop/deployments/web/scale{query}"
    return AttributeContextHttpRequest(method="PATCH", path=path, headers=headers, raw_body=body)


def ask(channel: grpc.Channel, http: AttributeContextHttpRequest) -> CheckResponse:
    call = channel.unary_unary(
        "/envoy.service.auth.v3.Authorization/Check",
        request_serializer=bytes,
        response_deserializer=CheckResponse.parse,
    )
    return call(CheckRequest(attributes=AttributeContext(request=AttributeContextRequest(http=http))), timeout=5)


class HalfACheck:
    """A Check of which only the head was sent so far, over HTTP/2 spelled by hand. A context manager."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._stream = self._socket.makefile("rb")
        self._h2 = H2Connection()

    def __enter__(self) -> Self:
        self._h2.initiate_connection()
        head = {
            ":method": "POST",
            ":scheme": "http",
            ":path": "/envoy.service.auth.v3.Authorization/Check",
            ":authority": "gate",
            "content-type": "application/grpc",
            "te": "trailers",
        }
        self._h2.send_headers(1, list(head.items()))
        self._socket.sendall(self._h2.data_to_send())
        self._is_taken_up()
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def _is_taken_up(self) -> None:
        """The server answers a ping only after it has read the head that was sent before."""
        self._socket.sendall(PingFrame(0, b"the head").serialize())
        for frame in self._frames():
            if isinstance(frame, PingFrame) and frame.opaque_data == b"the head":
                return
        raise ConnectionError("the server has closed the connection")

    def finish(self, http: AttributeContextHttpRequest) -> CheckResponse:
        """Send the message and wait for the answer.

        Frame by frame: to the package h2 a connection is closed as soon as the server has said that it will be.
        """
        message = bytes(CheckRequest(attributes=AttributeContext(request=AttributeContextRequest(http=http))))
        data = DataFrame(1, b"\0" + len(message).to_bytes(4) + message, flags=["END_STREAM"])
        self._socket.sendall(data.serialize())
        body = b""
        for frame in self._frames():
            if isinstance(frame, PingFrame) and "ACK" not in frame.flags:
                self._socket.sendall(PingFrame(0, frame.opaque_data, flags=["ACK"]).serialize())
            if isinstance(frame, DataFrame):
                body += frame.data
            if "END_STREAM" in frame.flags:
                break
        return CheckResponse.parse(body[5:])

    def _frames(self) -> Iterator[Frame]:
        while head := self._stream.read(9):
            frame, length = Frame.parse_frame_header(memoryview(head))
            frame.parse_body(memoryview(self._stream.read(length)))
            yield frame


def metadata(response: CheckResponse) -> Mapping[str, str]:
    assert response.dynamic_metadata is not None
    return response.dynamic_metadata.to_dict()


def within(seconds: float, holds: Callable[[], object]) -> bool:
    """Poll until it holds. True, or ``OutOfTimeError``."""
    return bool(eventually(holds, within_s=seconds))
