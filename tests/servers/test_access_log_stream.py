"""The access-log door over real gRPC, fed by a client of another make: the typed messages of envoy-data-plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from envoy_data_plane.envoy.config.core.v3 import Metadata
from envoy_data_plane.envoy.data.accesslog import v3 as typed
from envoy_data_plane.envoy.service.accesslog import v3 as typed_service
from envoy_data_plane.google.protobuf import Struct

from extauthz.core.ledger.pending_write import Event
from extauthz.rpc.link import Server
from extauthz.servers import access_log
from tests.servers.hearing import Heard
from tests.servers.listening import listening
from tests.waiting import until


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def server(heard: Heard) -> AsyncIterator[tuple[Server, str]]:
    async with listening(heard.door.methods()) as served:
        yield served


def typed_message(decision_id: str, code: int) -> bytes:
    """Made by envoy-data-plane."""
    metadata = Metadata(filter_metadata={access_log.EXT_AUTHZ: Struct.from_dict({"decision_id": decision_id})})
    common = typed.AccessLogCommon(metadata=metadata, upstream_request_attempt_count=1)
    response = typed.HttpResponseProperties(response_code=code, response_code_details="via_upstream")
    made = typed.HttpAccessLogEntry(common_properties=common, response=response)
    logs = typed_service.StreamAccessLogsMessageHttpAccessLogEntries(log_entry=[made])
    return bytes(typed_service.StreamAccessLogsMessage(http_logs=logs))


async def test_entries_are_heard_while_the_stream_stays_open_and_bad_ones_do_not_end_it(heard: Heard, server):
    async with grpc.aio.insecure_channel(server[1]) as channel:
        call = channel.stream_unary(f"/{access_log.SERVICE}/StreamAccessLogs")()
        await call.write(typed_message("d-1", 409))
        await until(lambda: heard.answers == [("d-1", Event.REFUSED)])
        await call.write(b"\xff\xff\xff")
        await call.write(typed_message("d-2", 201))
        await until(lambda: heard.answers[1:] == [("d-2", Event.ANSWERED_OK)])
        assert heard.skips == ["no-message"]
        await call.done_writing()
        assert await call == b""


async def test_streams_end_when_the_gate_leaves_so_that_a_stop_need_not_wait_for_them(heard: Heard, server):
    async with grpc.aio.insecure_channel(server[1]) as channel:
        calls = [channel.stream_unary(f"/{access_log.SERVICE}/StreamAccessLogs")() for _ in range(3)]
        for call in calls:
            await call.write(typed_message("d-1", 409))
        await until(lambda: len(heard.answers) == 3)
        async with asyncio.timeout(10):
            await server[0].stop(600)
            for call in calls:
                assert await call == b""


async def test_a_stream_that_is_cut_is_no_error_and_the_next_goes_on(heard: Heard, server, caplog):
    for number in (1, 2):
        async with grpc.aio.insecure_channel(server[1]) as channel:
            call = channel.stream_unary(f"/{access_log.SERVICE}/StreamAccessLogs")()
            await call.write(typed_message("d-1", 409))
            await until(lambda wanted=number: len(heard.answers) == wanted)
            call.cancel()
    await asyncio.sleep(0.2)
    assert not caplog.records
