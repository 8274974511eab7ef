"""The access-log door: from each entry that Envoy can send to the event of a pending write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import product

import grpc
import pytest
from envoy.data.accesslog.v3.accesslog_pb2 import HTTPAccessLogEntry, ResponseFlags
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage
from envoy_data_plane.envoy.config.core.v3 import Metadata
from envoy_data_plane.envoy.data.accesslog import v3 as typed
from envoy_data_plane.envoy.service.accesslog import v3 as typed_service
from envoy_data_plane.google.protobuf import Struct
from hypothesis import given
from hypothesis import strategies as st

from extauthz.core.ledger.entry import Event
from extauthz.inputs.settlement import answers
from extauthz.inputs.settlement.answers import Fate
from extauthz.serve.rpc.link import Server
from extauthz.serve.servers import access_log
from tests.servers.listening import Heard, listening
from tests.waiting import until

ANSWER = Fate(code=200, details="via_upstream", flags=frozenset(), attempts=1, sent=True)
LOST = Fate(
    code=503,
    details="upstream_reset_before_response_started",
    flags=frozenset({"upstream_connection_failure"}),
    attempts=1,
    sent=False,
)

REFUSED_STREAM = Fate(
    code=503,
    details="upstream_reset_before_response_started",
    flags=frozenset({"upstream_remote_reset"}),
    attempts=1,
    sent=True,
    inner="remote_refused_stream_reset",
)
"""What Envoy 1.40 says of a stream that was refused, or that stands above the last one of a GOAWAY
(``tests/envoy/test_streams.py``)."""

ENDS_AT_ONCE = {401, 403, 404, 405, 409, 413, 415, 422, 429}
UNCLEAR_4XX = {408}

FLAGS = [field.name for field in ResponseFlags.DESCRIPTOR.fields]


def test_the_only_answer_of_the_api_server_counts_by_its_code():
    for code in range(1000):
        if code in ENDS_AT_ONCE:
            wanted = Event.REFUSED
        elif code // 100 == 2 or (code // 100 == 4 and code not in UNCLEAR_4XX):
            wanted = Event.ANSWERED_OK
        else:
            wanted = Event.ANSWERED_UNCLEAR
        assert answers.event(ANSWER._replace(code=code)) is wanted, code


@pytest.mark.parametrize("code", [400, 406])
def test_a_4xx_that_may_come_after_the_write_has_landed_waits_for_a_read(code: int):
    assert answers.event(ANSWER._replace(code=code)) is Event.ANSWERED_OK


NEVER_LEFT = {
    "ext_authz_denied": "unauthorized_details",
    "ext_authz_error": "unauthorized_details",
    "ext_authz_invalid": "unauthorized_details",
    "rbac_access_denied_matched_policy[none]": None,
    "route_not_found": "no_route_found",
    "cluster_not_found": "no_cluster_found",
    "no_healthy_upstream": "no_healthy_upstream",
    "upstream_reset_before_response_started": "upstream_connection_failure",
}


@pytest.mark.parametrize("code", [0, 403, 500, 503])
@pytest.mark.parametrize("attempts", [0, 1])
@pytest.mark.parametrize(("details", "flag"), NEVER_LEFT.items(), ids=NEVER_LEFT)
def test_what_provably_never_left_was_not_forwarded(details: str, flag: str | None, attempts: int, code: int):
    flags = frozenset({flag} if flag else ())
    assert answers.event(Fate(code, details, flags, attempts, sent=False)) is Event.NOT_FORWARDED


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"sent": True}, id="a-byte-was-sent"),
        pytest.param({"attempts": 2}, id="a-second-attempt"),
        pytest.param({"flags": frozenset()}, id="no-flag"),
        pytest.param({"flags": frozenset({"upstream_remote_reset"})}, id="reset-by-the-api-server"),
        pytest.param({"flags": frozenset({"upstream_connection_termination"})}, id="connection-ended"),
        pytest.param({"flags": frozenset({"upstream_connection_failure", "local_reset"})}, id="two-flags"),
        pytest.param({"details": "upstream_reset_after_response_started"}, id="answer-had-begun"),
        pytest.param({"details": "downstream_remote_disconnect"}, id="client-gone"),
    ],
)
def test_what_may_have_left_is_unclear(change: dict):
    assert answers.event(LOST._replace(**change)) is Event.ANSWERED_UNCLEAR


@pytest.mark.parametrize("sent", [True, False])
def test_a_stream_that_was_refused_in_the_only_attempt_was_not_processed(sent: bool):
    assert answers.event(REFUSED_STREAM._replace(sent=sent)) is Event.NOT_FORWARDED


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"attempts": 0}, id="no-attempt"),
        pytest.param({"attempts": 2}, id="a-second-attempt"),
        pytest.param({"inner": "remote_reset"}, id="reset-for-another-reason"),
        pytest.param({"inner": ""}, id="no-reason"),
        pytest.param({"inner": "local_refused_stream_reset"}, id="refused-by-envoy"),
        pytest.param({"inner": "remote_refused_stream_reset|x"}, id="something-more"),
        pytest.param({"details": "upstream_reset_after_response_started"}, id="answer-had-begun"),
        pytest.param({"details": "via_upstream"}, id="answered"),
        pytest.param({"flags": frozenset()}, id="no-flag"),
        pytest.param({"flags": frozenset({"upstream_remote_reset", "local_reset"})}, id="two-flags"),
        pytest.param({"flags": frozenset({"upstream_connection_termination"})}, id="connection-ended"),
    ],
)
def test_any_other_reset_may_have_been_processed(change: dict):
    assert answers.event(REFUSED_STREAM._replace(**change)) is Event.ANSWERED_UNCLEAR


def test_in_doubt_nothing_ends():
    """Every combination of what an entry can say: room comes back early only by the three rules above."""
    details = ["", "via_upstream", "downstream_remote_disconnect", "upstream_response_timeout", *NEVER_LEFT]
    details += ["upstream_reset_after_response_started", "response_payload_too_large"]
    flag_sets = [frozenset(), *(frozenset({flag}) for flag in FLAGS)]
    inners = ["", "remote_reset", "remote_refused_stream_reset"]
    for code, detail, flags, attempts, sent, inner in product(
        [0, 200, 400, 403, 408, 500, 504], details, flag_sets, [0, 1, 2], [False, True], inners
    ):
        fate = Fate(code, detail, flags, attempts, sent, inner)
        found = answers.event(fate)
        if fate._replace(code=503, sent=True) == REFUSED_STREAM:
            assert found is Event.NOT_FORWARDED
        elif found is Event.NOT_FORWARDED:
            assert not sent
            assert attempts < 2
            assert detail in NEVER_LEFT
        elif found is not Event.ANSWERED_UNCLEAR:
            assert (detail, flags, attempts) == ("via_upstream", frozenset(), 1)
            assert code in (200, 400, 403)


# Entries.


def entry(decision_id: object = "d-1", code: int = 403, details: str = "via_upstream") -> HTTPAccessLogEntry:
    made = HTTPAccessLogEntry()
    made.common_properties.metadata.filter_metadata[access_log.EXT_AUTHZ]["decision_id"] = decision_id
    made.common_properties.upstream_request_attempt_count = 1
    made.response.response_code.value = code
    made.response.response_code_details = details
    return made


def message(*entries: HTTPAccessLogEntry) -> bytes:
    made = StreamAccessLogsMessage()
    made.http_logs.log_entry.extend(entries)
    return made.SerializeToString()


@pytest.mark.parametrize(
    ("said", "details", "inner"),
    [("via_upstream", "via_upstream", ""), ("a{b|c}", "a", "b|c"), ("a{b", "a", "b"), ("a{b}c}", "a", "b}c")],
)
def test_details_are_told_apart_from_what_stands_in_braces(said: str, details: str, inner: str):
    fate = access_log.fate(entry(details=said))
    assert (fate.details, fate.inner) == (details, inner)


@pytest.mark.parametrize("sign", ["time", "bytes"])
def test_a_byte_to_the_api_server_is_known_by_either_sign(sign: str):
    made = entry()
    assert not access_log.fate(made).sent
    if sign == "time":
        made.common_properties.time_to_first_upstream_tx_byte.SetInParent()
    else:
        made.common_properties.upstream_wire_bytes_sent = 1
    assert access_log.fate(made).sent


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_is_read(flag: str):
    made = entry()
    field = getattr(made.common_properties.response_flags, flag)
    if flag == "unauthorized_details":
        field.SetInParent()
    else:
        setattr(made.common_properties.response_flags, flag, True)
    assert access_log.fate(made).flags == {flag}


def test_a_message_may_hold_many_entries():
    heard = Heard()
    heard.door.take(message(entry("d-1", 403), entry("d-2", 200), entry("d-3", 500)))
    assert heard.answers == [("d-1", Event.REFUSED), ("d-2", Event.ANSWERED_OK), ("d-3", Event.ANSWERED_UNCLEAR)]
    assert not heard.skips


def without_metadata() -> HTTPAccessLogEntry:
    made = entry()
    made.common_properties.ClearField("metadata")
    return made


def of_another_filter() -> HTTPAccessLogEntry:
    made = without_metadata()
    made.common_properties.metadata.filter_metadata["envoy.filters.http.rbac"]["decision_id"] = "d-1"
    return made


def intermediate() -> HTTPAccessLogEntry:
    made = entry()
    made.common_properties.intermediate_log_entry = True
    return made


def without_response() -> HTTPAccessLogEntry:
    made = entry()
    made.ClearField("response")
    return made


def malformed() -> Iterator[object]:
    yield pytest.param(b"\xff\xff\xff", "no-message", id="no-protobuf")
    yield pytest.param(message(without_metadata()), "no-decision", id="no-metadata")
    yield pytest.param(message(of_another_filter()), "no-decision", id="metadata-of-another-filter")
    yield pytest.param(message(entry(7)), "no-decision", id="id-is-a-number")
    yield pytest.param(message(entry("")), "no-decision", id="id-is-empty")
    yield pytest.param(message(intermediate()), "not-over", id="intermediate")
    yield pytest.param(message(without_response()), "no-response", id="no-response")
    tcp = StreamAccessLogsMessage()
    tcp.tcp_logs.log_entry.add()
    yield pytest.param(tcp.SerializeToString(), "not-http", id="tcp")


@pytest.mark.parametrize(("raw", "why"), [*malformed()])
def test_what_is_no_entry_is_counted_by_name_and_skipped(raw: bytes, why: str):
    heard = Heard()
    heard.door.take(raw)
    assert heard.skips == [why]
    assert not heard.answers


def test_a_bad_entry_takes_no_other_with_it():
    heard = Heard()
    heard.door.take(message(without_metadata(), entry("d-2")))
    assert heard.answers == [("d-2", Event.REFUSED)]
    assert heard.skips == ["no-decision"]


@given(st.binary(max_size=300))
def test_no_bytes_whatever_raise(raw: bytes):
    Heard().door.take(raw)


@given(st.builds(entry, st.text(max_size=20), st.integers(0, 2**32 - 1), st.text(max_size=40)))
def test_no_entry_whatever_raises_or_ends_a_pending_write_by_another_rule(made: HTTPAccessLogEntry):
    heard = Heard()
    heard.door.take(message(made))
    assert len(heard.answers) + len(heard.skips) == 1
    for _, event in heard.answers:
        assert event in (Event.NOT_FORWARDED, Event.REFUSED, Event.ANSWERED_OK, Event.ANSWERED_UNCLEAR)


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
