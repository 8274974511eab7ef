"""The floor: the same messages on the same stack, answered with OK and nothing else. ``python -m bench.noop``.

With ``--groups``, in groups as the gate answers: what is left between the two is the decision. With ``--envoy``, what
the gate's own Envoy configuration wants besides: a decision id, and somebody who reads what became of the requests.
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
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsResponse
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

from extauthz.servers import access_log, ext_authz
from extauthz.servers.grouping import Grouping


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


async def drop(messages: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> StreamAccessLogsResponse:
    """Read what became of the requests, and make nothing of it."""
    async for _ in messages:
        pass
    return StreamAccessLogsResponse()


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


async def main() -> None:
    """Serve on a free port, told on standard output, until SIGTERM."""
    answer = decided if "--envoy" in sys.argv else allowed
    grouping = Grouping(answer)

    async def check(message: CheckRequest, context: grpc.aio.ServicerContext) -> CheckResponse:
        return answer(message)  # a handler as anybody would write it

    async def check_in_groups(message: CheckRequest, context: grpc.aio.ServicerContext) -> CheckResponse:
        return await grouping(message)

    one = check_in_groups if "--groups" in sys.argv else check
    method = grpc.unary_unary_rpc_method_handler(one, CheckRequest.FromString, CheckResponse.SerializeToString)
    server = grpc.aio.server()
    stream = grpc.stream_unary_rpc_method_handler(drop, response_serializer=StreamAccessLogsResponse.SerializeToString)
    services = {ext_authz.SERVICE: {"Check": method}, access_log.SERVICE: {"StreamAccessLogs": stream}}
    server.add_generic_rpc_handlers(
        tuple(grpc.method_handlers_generic_handler(name, methods) for name, methods in services.items())
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await server.stop(1)


if __name__ == "__main__":
    uvloop.run(main())
