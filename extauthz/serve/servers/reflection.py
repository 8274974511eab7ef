"""gRPC reflection, by the servicer of grpcio-reflection. Loaded only where it is asked for, because it loads grpcio."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from extauthz.serve.rpc.heads import Call, Code, Methods, StatusError, Streaming

SERVICE: str = reflection.SERVICE_NAME


def methods(services: Iterable[str]) -> Methods:
    """For a gRPC server that has these services beside."""
    servicer = reflection.ReflectionServicer((*services, SERVICE))

    async def run(call: Call) -> None:
        async for raw in call:
            try:
                request = ServerReflectionRequest.FromString(raw)
            except DecodeError:
                raise StatusError(Code.INTERNAL, "this is no ServerReflectionRequest") from None
            for answer in servicer.ServerReflectionInfo(iter((request,)), None):
                await call.write(answer.SerializeToString())

    return {f"/{SERVICE}/ServerReflectionInfo": Streaming(run)}
