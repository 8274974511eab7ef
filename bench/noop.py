"""The floor: the same messages on the same stack, answered with OK and nothing else. ``python -m bench.noop``.

On the gate's own gRPC server; with ``--grpc-aio`` on that of grpcio. What is left between the first and the gate is the
decision. With ``--envoy``, what the gate's own Envoy configuration wants besides: a decision id, and somebody who reads
what became of the requests.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import grpc
import uvloop
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

from extauthz.serve.rpc.heads import Sink, Unary
from extauthz.serve.rpc.link import Server
from extauthz.serve.servers import access_log, ext_authz


def allowed(message: CheckRequest) -> CheckResponse:
    """The least that Envoy takes for OK."""
    response = CheckResponse()
    response.ok_response.SetInParent()
    return response


def decided(message: CheckRequest) -> CheckResponse:
    """The least that the gate's own Envoy configuration takes for OK."""
    response = allowed(message)
    response.dynamic_metadata["decision_id"] = "1"
    return response


class Noop:
    """The handler in a process of its own. A context manager."""

    def __init__(self, *options: str) -> None:
        self._command = [sys.executable, "-m", "bench.noop", *options]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=10)


def check(raw: bytes) -> bytes:
    """A handler as anybody would write it."""
    answer = decided if "--envoy" in sys.argv else allowed
    response: bytes = answer(CheckRequest.FromString(raw)).SerializeToString()
    return response


def drop(raw: bytes) -> None:
    """Make nothing of what became of the requests."""


CHECK, LOG = f"/{ext_authz.SERVICE}/Check", f"/{access_log.SERVICE}/StreamAccessLogs"


@asynccontextmanager
async def ours() -> AsyncIterator[int]:
    """On the gate's own server; its port."""
    bound = socket.create_server(("127.0.0.1", 0))
    server = Server({CHECK: Unary(lambda raw, _: check(raw)), LOG: Sink(drop)}, [bound])
    await server.start()
    yield bound.getsockname()[1]
    await server.stop(1)


@asynccontextmanager
async def grpc_aio() -> AsyncIterator[int]:
    """On that of grpcio; its port."""

    async def answer(raw: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return check(raw)

    async def read(messages: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes:
        async for raw in messages:
            drop(raw)
        return b""

    server = grpc.aio.server()
    for path, method in ((CHECK, grpc.unary_unary_rpc_method_handler(answer)),
                         (LOG, grpc.stream_unary_rpc_method_handler(read))):  # fmt: skip
        service, name = path[1:].split("/")
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield port
    await server.stop(1)


async def main() -> None:
    """Serve on a free port, told on standard output, until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with grpc_aio() if "--grpc-aio" in sys.argv else ours() as port:
        print(port, flush=True)
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(main())
