"""The same methods on grpcio's own server (``--grpc-server grpcio``). The only module that imports grpcio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeAlias

import grpc

from extauthz.serve.rpc.frames import Bounds
from extauthz.serve.rpc.heads import Method, Methods, Sink, StatusError, Unary

Tls: TypeAlias = Callable[[], tuple[list[tuple[bytes, bytes]], bytes | None]]
"""What a handshake shows, from any thread: pairs of key and certificates, and clients' authorities. PEM."""


class GrpcioServer(grpc.GenericRpcHandler):  # type: ignore[misc] # it has no types
    """A gRPC server, bound to ``host:port`` or ``unix:/path``. Raises RuntimeError where that cannot be."""

    def __init__(self, methods: Methods, address: str, tls: Tls | None, bounds: Bounds, connections: int) -> None:
        options = (
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", bounds.message_bytes),
            ("grpc.max_concurrent_streams", bounds.streams),
            ("grpc.absolute_max_metadata_size", bounds.header_bytes),
            ("grpc.max_allowed_incoming_connections", connections),
            ("grpc.server_handshake_timeout_ms", 5_000),
            ("grpc.compression_enabled_algorithms_bitset", 1),  # identity
        )
        self._methods = methods
        self._sinks: set[asyncio.Timeout] = set()
        self._server = grpc.aio.server(handlers=[self], options=options)
        if tls is None:
            self.port: int = self._server.add_insecure_port(address)
        else:
            newest = lambda: grpc.ssl_server_certificate_configuration(*tls())  # noqa: E731
            shown = grpc.dynamic_ssl_server_credentials(newest(), newest, tls()[1] is not None)  # type: ignore[no-untyped-call]
            self.port = self._server.add_secure_port(address, shown)

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace_s: float) -> None:
        for until in self._sinks:
            until.reschedule(0.0)
        await self._server.stop(grace_s)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """What grpcio asks for each call."""
        method = self._methods.get(details.method)
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        return (unary if isinstance(method, Unary) else stream)(partial(self._told, method)) if method else None

    async def _told(self, method: Method, given: Any, context: Any) -> bytes | None:  # noqa: ANN401
        """The answer. What a handler raises is its own call's status."""
        try:
            if isinstance(method, Unary):
                answer = method.answer(given, context.time_remaining())
                return answer if isinstance(answer, bytes) else await answer
            await (self._drain(method, context) if isinstance(method, Sink) else method.run(_Call(context)))
        except StatusError as error:
            await context.abort(grpc.StatusCode[error.code.name], error.text)
        except Exception as error:  # noqa: BLE001
            asyncio.get_running_loop().call_exception_handler({"message": "a gRPC handler failed", "exception": error})
            await context.abort(grpc.StatusCode.UNKNOWN, "the server failed")
        return None

    async def _drain(self, sink: Sink, context: Any) -> None:  # noqa: ANN401
        try:
            async with asyncio.timeout(None) as until:
                self._sinks.add(until)
                async for raw in _Call(context):
                    sink.take(raw)
        except TimeoutError:
            pass  # it leaves
        finally:
            self._sinks.discard(until)
        await context.write(sink.last)


class _Call:
    def __init__(self, context: Any) -> None:  # noqa: ANN401
        self.write, self._read = context.write, context.read
        given = context.invocation_metadata() or ()
        self.metadata = {name: ",".join(str(value) for key, value in given if key == name) for name, _ in given}

    async def read(self) -> bytes | None:
        raw = await self._read()
        return None if raw is grpc.aio.EOF else raw

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (raw := await self.read()) is not None:
            yield raw
