"""The ext_proc server: a body that asks for too many replicas → one that asks for as many as fit (mode Clamp).

The protocol is Envoy's ``envoy.service.ext_proc.v3.ExternalProcessor``
(https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/ext_proc/v3/external_processor.proto). Envoy asks before
ext_authz, which then decides about what is really sent. Nothing is refused or charged here.

Envoy is told to send no headers, but the whole body, and with it what else is needed as attributes. So there is one
message for each request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from envoy.config.core.v3.base_pb2 import HeaderValue, HeaderValueOption
from envoy.service.ext_proc.v3.external_processor_pb2 import CommonResponse, ProcessingRequest, ProcessingResponse
from google.protobuf.message import DecodeError

from extauthz.core.model import Question, Request
from extauthz.core.quota.selectors import METADATA
from extauthz.serve.rpc.heads import Call, Code, Methods, StatusError, Streaming
from extauthz.serve.servers.ext_authz import MAX_HEADER

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"

FILTER = "envoy.filters.http.ext_proc"
"""Attributes come under this name."""

METHOD, TARGET = "request.method", "request.path"

HEADERS: Final = {"content-type": "request.headers['content-type']", "user-agent": "request.useragent"}
"""Header to attribute. No other header comes here."""

LENGTH = "content-length"


class Processor:
    """The service: a stream for each request."""

    def __init__(self, lower: Lower) -> None:
        self._lower = lower

    def methods(self) -> Methods:
        return {f"/{SERVICE}/Process": Streaming(self._process)}

    async def _process(self, call: Call) -> None:
        attributes: dict[str, str] = {}
        requester = call.metadata.get(METADATA, "")
        async for raw in call:
            message = _parsed(raw)
            phase = message.WhichOneof("request")
            if phase is None:
                return
            attributes |= _attributes(message)  # they are in the first message, whichever that is
            answer = ProcessingResponse()
            getattr(answer, phase).SetInParent()  # by itself it lets everything pass as it is
            if phase == "request_body" and message.request_body.end_of_stream:
                request = to_request(attributes, message.request_body.body, requester)
                _replace(answer.request_body.response, await self._lower(request))
            await call.write(answer.SerializeToString())


def _parsed(raw: bytes) -> ProcessingRequest:
    try:
        return ProcessingRequest.FromString(raw)
    except DecodeError:
        raise StatusError(Code.INTERNAL, "this is no ProcessingRequest") from None


def _attributes(message: ProcessingRequest) -> dict[str, str]:
    if FILTER not in message.attributes:  # asking for it would make one
        return {}
    return {name: value.string_value for name, value in message.attributes[FILTER].fields.items()}


def to_request(attributes: Mapping[str, str], body: bytes, requester: str = "") -> Request:
    """The HTTP request that they describe. Its target carries the query, and is not decoded."""
    named = {name: attributes[attribute] for name, attribute in HEADERS.items() if attribute in attributes}
    headers = {name: value.strip()[:MAX_HEADER] for name, value in named.items()}
    return Request(attributes.get(METHOD, ""), attributes.get(TARGET, ""), headers, body, requester=requester)


def _replace(response: CommonResponse, lowered: Lowered | None) -> None:
    """Put a body with fewer replicas in the place of the one that came, if that is what fits."""
    if lowered is None:
        return
    response.body_mutation.body = lowered.body
    # An Envoy that has sent headers too keeps the client's length, and would answer 500 (envoyproxy/envoy#29536).
    length = HeaderValue(key=LENGTH, raw_value=str(len(lowered.body)).encode())
    option = HeaderValueOption(header=length, append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD)
    response.header_mutation.set_headers.append(option)


class Lowered(NamedTuple):
    """A write that is asked for with fewer replicas."""

    replicas: int
    warning: str
    """For whoever sends it, if he is told anything."""
    body: bytes = b""
    """What to send in place of the body that came; of a question none."""


Lower: TypeAlias = Callable[[Request | Question], Awaitable[Lowered | None]]
"""Of a request whose body the server can change, or an object that the API server is about to store. Answers with
``None`` what is to be left as it is. Must neither block nor raise, and charges nothing."""
