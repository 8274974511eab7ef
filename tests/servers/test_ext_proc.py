"""The ext_proc server over real gRPC, asked by a client of another make: the typed messages of envoy-data-plane."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest
from envoy_data_plane.envoy.service.ext_proc import v3 as typed
from envoy_data_plane.google.protobuf import Struct

from extauthz.core.model import Question, Request
from extauthz.core.quota.selectors import METADATA
from extauthz.serve.servers import ext_proc
from extauthz.serve.servers.ext_proc import Lowered
from extauthz.tools.render import envoy as rendered
from extauthz.tools.render.options import SidecarOptions
from tests.servers.listening import listening

TARGET = "/apis/apps/v1/namespaces/shop/deployments/web/scale?fieldManager=x"
NAMED = {
    "request.method": "PATCH",
    "request.path": TARGET,
    "request.headers['content-type']": " application/merge-patch+json ",
    "request.useragent": "kpa",
}


class Lowering:
    """Answers with ``answer``, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.answer: Lowered | None = None

    async def __call__(self, request: Request | Question) -> Lowered | None:
        assert isinstance(request, Request), "no API server asks"
        self.asked.append(request)
        return self.answer


@pytest.fixture
def lowering() -> Lowering:
    return Lowering()


@pytest.fixture
async def channel(lowering: Lowering) -> AsyncIterator[grpc.aio.Channel]:
    async with (
        listening(ext_proc.Processor(lowering).methods()) as (_, address),
        grpc.aio.insecure_channel(address) as made,
    ):
        yield made


def message(body: bytes = b"{}", *, whole: bool = True, named: dict[str, str] | None = None) -> typed.ProcessingRequest:
    attributes = {ext_proc.FILTER: Struct.from_dict(NAMED if named is None else named)}
    return typed.ProcessingRequest(
        request_body=typed.HttpBody(body=body, end_of_stream=whole), attributes=attributes if named != {} else {}
    )


async def told(channel: grpc.aio.Channel, *messages: typed.ProcessingRequest) -> list[typed.ProcessingResponse]:
    """The answers to the messages of one request."""
    call = channel.stream_stream(f"/{ext_proc.SERVICE}/Process")()
    answers = []
    for one in messages:
        await call.write(bytes(one))
        answers.append(typed.ProcessingResponse.parse(await call.read()))
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    return answers


async def test_a_body_is_replaced_and_its_length_told(channel: grpc.aio.Channel, lowering: Lowering):
    lowering.answer = Lowered(4, "", b'{"spec":{"replicas":4}}')
    (answer,) = await told(channel, message(b'{"spec":{"replicas":9}}'))
    assert answer.request_body is not None
    response = answer.request_body.response
    assert response is not None
    assert response.body_mutation is not None
    assert response.body_mutation.body == b'{"spec":{"replicas":4}}'
    assert response.header_mutation is not None
    (option,) = response.header_mutation.set_headers
    assert option.header is not None
    assert (option.header.key, option.header.raw_value) == ("content-length", b"23")
    headers = {"content-type": "application/merge-patch+json", "user-agent": "kpa"}
    assert lowering.asked == [Request("PATCH", TARGET, headers, b'{"spec":{"replicas":9}}')]


async def test_what_needs_no_lowering_passes_as_it_is(channel: grpc.aio.Channel):
    (answer,) = await told(channel, message())
    assert answer.request_body is not None
    assert answer.request_body.response is None


async def test_the_requester_that_envoys_configuration_names_is_told(channel: grpc.aio.Channel, lowering: Lowering):
    call = channel.stream_stream(f"/{ext_proc.SERVICE}/Process")(metadata=((METADATA, "keda"),))
    await call.write(bytes(message()))
    await call.read()
    assert [one.requester for one in lowering.asked] == ["keda"]
    manager = rendered.filter_chain(SidecarOptions(clamp=True, requester="keda"))["filters"][0]["typed_config"]
    (lowers,) = (one["typed_config"] for one in manager["http_filters"] if one["name"] == ext_proc.FILTER)
    assert lowers["grpc_service"]["initial_metadata"] == [{"key": METADATA, "value": "keda"}]


async def test_a_part_of_a_body_is_not_looked_at(channel: grpc.aio.Channel, lowering: Lowering):
    lowering.answer = Lowered(4, "", b"{}")
    (answer,) = await told(channel, message(whole=False))
    assert answer.request_body is not None
    assert answer.request_body.response is None
    assert lowering.asked == []


async def test_attributes_may_come_before_the_body(channel: grpc.aio.Channel, lowering: Lowering):
    first = typed.ProcessingRequest(
        request_headers=typed.HttpHeaders(), attributes={ext_proc.FILTER: Struct.from_dict(NAMED)}
    )
    answer, _ = await told(channel, first, message(named={}))
    assert answer.request_headers is not None
    assert [one.target for one in lowering.asked] == [TARGET]


async def test_without_attributes_nothing_is_known_of_the_request(channel: grpc.aio.Channel, lowering: Lowering):
    await told(channel, message(b"{}", named={}))
    assert lowering.asked == [Request("", "", {}, b"{}")]


async def test_an_empty_message_ends_the_stream(channel: grpc.aio.Channel):
    call = channel.stream_stream(f"/{ext_proc.SERVICE}/Process")()
    await call.write(b"")
    assert await call.read() is grpc.aio.EOF


def test_envoy_is_told_to_send_what_is_read():
    assert set(rendered.ATTRIBUTES) == {ext_proc.METHOD, ext_proc.TARGET, *ext_proc.HEADERS.values()}
    assert rendered.EXT_PROC == ext_proc.FILTER
