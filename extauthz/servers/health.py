"""Standard gRPC health (https://github.com/grpc/grpc/blob/master/doc/health-checking.md)."""

from __future__ import annotations

import asyncio

from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from extauthz.rpc.heads import Call, Code, Methods, StatusError, Streaming, Unary
from extauthz.servers import ext_authz

SERVICE = "grpc.health.v1.Health"


class Health:
    """Of the server as a whole and of ext_authz: serving from the start until ``leave``."""

    _NAMES = ("", ext_authz.SERVICE)

    def __init__(self) -> None:
        self._left = asyncio.Event()

    def leave(self) -> None:
        """Say NOT_SERVING for good: to those who ask, and to those who watch, whose streams then end."""
        self._left.set()

    def methods(self) -> Methods:
        """For a gRPC server."""
        return {f"/{SERVICE}/Check": Unary(self._check), f"/{SERVICE}/Watch": Streaming(self._watch)}

    def _check(self, raw: bytes) -> bytes:
        service = _asked(raw)
        if service not in self._NAMES:
            raise StatusError(Code.NOT_FOUND, f"{service}: nobody asks the health of that here")
        return self._now(service)

    async def _watch(self, call: Call) -> None:
        service = _asked(await call.read() or b"")
        if not self._left.is_set():
            await call.write(self._now(service))
            await self._left.wait()
        await call.write(self._now(service))

    def _now(self, service: str) -> bytes:
        status = HealthCheckResponse.NOT_SERVING if self._left.is_set() else HealthCheckResponse.SERVING
        if service not in self._NAMES:
            status = HealthCheckResponse.SERVICE_UNKNOWN
        response: bytes = HealthCheckResponse(status=status).SerializeToString()
        return response


def _asked(raw: bytes) -> str:
    """The name of the service that is asked for."""
    try:
        service: str = HealthCheckRequest.FromString(raw).service
    except DecodeError:
        raise StatusError(Code.INTERNAL, "this is no HealthCheckRequest") from None
    return service
