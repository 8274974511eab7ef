"""A scripted gate: gives the answers that a test sets, also late or nonsense, and keeps what it received."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, Self, TypeAlias

import grpc
from envoy.config.core.v3.base_pb2 import HeaderValueOption
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage, StreamAccessLogsResponse
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

Message: TypeAlias = Any
"""A message of xds-protos, which come without types."""

Answer: TypeAlias = Callable[[Message], Message | bytes]
"""CheckRequest to CheckResponse, or to the raw bytes of anything else."""


class ScriptedAuthz:
    """The services Check and AccessLog on a free port of 127.0.0.1. A context manager. Set ``answer`` at any time."""

    def __init__(self) -> None:
        self.answer: Answer = allow()
        self.checks: list[Message] = []
        """Every CheckRequest that came, in order."""
        self.patience_s: float | None = None
        """How long the last one who asked would still wait."""
        self.entries: list[Message] = []
        """Every HTTPAccessLogEntry that came, in order."""
        self.streams = 0
        """How many streams of entries were opened so far."""
        self.hears = True
        """Whether there is a service for entries at all."""
        self._server: grpc.Server | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((self._handler(), self._log_handler()))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.stop(None).wait(10)

    def _handler(self) -> grpc.GenericRpcHandler:
        method = grpc.unary_unary_rpc_method_handler(
            self._check,
            request_deserializer=CheckRequest.FromString,
            response_serializer=lambda answer: answer if isinstance(answer, bytes) else answer.SerializeToString(),
        )
        return grpc.method_handlers_generic_handler("envoy.service.auth.v3.Authorization", {"Check": method})

    def _log_handler(self) -> grpc.GenericRpcHandler:
        method = grpc.stream_unary_rpc_method_handler(
            self._keep,
            request_deserializer=StreamAccessLogsMessage.FromString,
            response_serializer=StreamAccessLogsResponse.SerializeToString,
        )
        service = "envoy.service.accesslog.v3.AccessLogService"
        return grpc.method_handlers_generic_handler(service, {"StreamAccessLogs": method})

    def _keep(self, messages: Iterator[Message], context: grpc.ServicerContext) -> Message:
        if not self.hears:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "")
        self.streams += 1
        for message in messages:
            self.entries.extend(message.http_logs.log_entry)
        return StreamAccessLogsResponse()

    def _check(self, request: Message, context: grpc.ServicerContext) -> Message:
        self.checks.append(request)
        self.patience_s = context.time_remaining()
        return self.answer(request)


def allow(decision_id: str = "d-allow") -> Answer:
    """Lets everything pass."""
    response = CheckResponse()
    response.ok_response.SetInParent()
    response.dynamic_metadata["decision_id"] = decision_id
    return lambda request: response


def deny(code: int, message: str, decision_id: str = "d-deny") -> Answer:
    """Refuses as the gate does: a ``metav1.Status`` in JSON, with the decision's id in header and metadata."""
    response = CheckResponse()
    response.status.code = grpc.StatusCode.PERMISSION_DENIED.value[0]
    response.denied_response.status.code = code
    response.denied_response.body = json.dumps({"kind": "Status", "apiVersion": "v1", "message": message, "code": code})
    for name, value in (("content-type", "application/json"), ("x-extauthz-decision-id", decision_id)):
        option = HeaderValueOption(append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD)
        option.header.key, option.header.value = name, value
        response.denied_response.headers.append(option)
    response.dynamic_metadata["decision_id"] = decision_id
    return lambda request: response


def held(until: threading.Event, then: Answer) -> Answer:
    """Answers only once the event is set: a slow gate whose slowness the test decides."""

    def answer(request: Message) -> Message | bytes:
        until.wait(30)
        return then(request)

    return answer


def garbage(raw: bytes) -> Answer:
    """Answers bytes that are no CheckResponse, or a CheckResponse that no gate would send."""
    return lambda request: raw
