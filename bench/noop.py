"""The floor: the same messages on grpcio's server, answered with OK and nothing else. ``python -m bench.noop``.

The answer has what the gate's own Envoy configuration wants besides: a decision id. And somebody reads what became of
the requests.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Self

import grpc
import uvloop
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

from extauthz.serve.servers import access_log, ext_authz


class Noop:
    """The handler in a process of its own. A context manager."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([sys.executable, "-m", "bench.noop"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=10)


async def check(raw: bytes, _: grpc.aio.ServicerContext) -> bytes:
    """A handler as anybody would write it."""
    CheckRequest.FromString(raw)
    response = CheckResponse()
    response.ok_response.SetInParent()
    response.dynamic_metadata["decision_id"] = "1"
    return bytes(response.SerializeToString())


async def drop(messages: AsyncIterator[bytes], _: grpc.aio.ServicerContext) -> bytes:
    """Make nothing of what became of the requests."""
    async for _message in messages:
        pass
    return b""


HANDLERS = {
    (ext_authz.SERVICE, "Check"): grpc.unary_unary_rpc_method_handler(check),
    (access_log.SERVICE, "StreamAccessLogs"): grpc.stream_unary_rpc_method_handler(drop),
}


async def main() -> None:
    """Serve on a free port, told on standard output, until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = grpc.aio.server()
    for (service, name), handler in HANDLERS.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await stop.wait()
    await server.stop(1)


if __name__ == "__main__":
    uvloop.run(main())
