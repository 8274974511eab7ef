"""The pure state machine, asked by the package h2: what a call is answered, and what a peer may do wrong."""

from __future__ import annotations

import re
import sys

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from extauthz.serve.rpc.connection import Connection
from extauthz.serve.rpc.frames import PREFACE, BadConnectionError, Bounds, Error
from extauthz.serve.rpc.heads import EMPTY_TABLE, Code, Decoder
from extauthz.serve.rpc.streams import Asked, Drained, Ended, Gone, Message
from tests.rpc.client import BIDI, FLOODS, SINK, UNARY, Peer, block, head, headers, parsed, prefixed, spelled

SMALL = Bounds(message_bytes=100_000, streams=4, unread_bytes=250_000)


@pytest.fixture
def peer() -> Peer:
    return Peer()


class TestCalls:
    @pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 60_000, 65_530, 65_531, 1_000_000, 4 << 20])
    def test_a_message_of_any_size_comes_back(self, peer: Peer, size: int):
        message = bytes(size)
        stream = peer.call(message)
        peer.exchange()
        answer = peer.answers[stream]
        assert answer.messages == [message]
        assert (answer.status, answer.ended, answer.reset) == ("0", True, None)
        assert answer.heads == [{":status": "200", "content-type": "application/grpc"}]

    def test_what_was_read_at_once_is_answered_in_one_piece(self):
        peer = Peer(echo=False)
        streams = [peer.call(b"%d" % number) for number in range(20)]
        asked = [event for event in peer.connection.feed(peer.h2.data_to_send(), 0.0) if isinstance(event, Asked)]
        assert [(one.stream, one.message) for one in asked] == [(s, b"%d" % n) for n, s in enumerate(streams)]
        for one in asked:
            peer.connection.answer(one.stream, one.message)
        peer.hear()
        assert [peer.answers[stream].messages for stream in streams] == [[b"%d" % number] for number in range(20)]

    def test_a_call_given_up_in_the_same_read_is_not_open_any_more(self):
        peer = Peer(echo=False)
        stream = peer.call(b"x")
        peer.h2.reset_stream(stream, ErrorCodes.CANCEL)
        peer.exchange()
        assert [type(event) for event in peer.events] == [Asked, Gone]
        assert not peer.connection.is_open(stream)
        peer.connection.answer(stream, b"late")
        assert peer.connection.pending_bytes() == b""

    def test_messages_of_a_stream_come_as_they_are_cut_and_its_end_after_them(self):
        peer = Peer(cut=[1, 2, 3, 50])
        stream = peer.call(b"one", b"", b"three" * 100, path=SINK, end=False)
        peer.exchange()
        assert peer.came(stream) == [b"one", b"", b"three" * 100]
        assert not peer.of(Ended)
        peer.h2.end_stream(stream)
        peer.exchange()
        assert peer.events[-1] == Ended(stream)

    def test_both_ends_may_write_at_any_time(self, peer: Peer):
        stream = peer.call(b"1", path=BIDI, end=False)
        peer.exchange()
        peer.connection.send(stream, b"a")
        peer.hear()
        peer.data(stream, prefixed(b"2"))
        peer.exchange()
        peer.connection.send(stream, b"b")
        peer.connection.finish(stream)
        peer.hear()
        assert peer.came(stream) == [b"1", b"2"]
        assert (peer.answers[stream].messages, peer.answers[stream].status) == ([b"a", b"b"], "0")

    def test_an_answer_before_the_clients_end_tells_it_to_send_no_more(self, peer: Peer):
        stream = peer.call(b"1", path=SINK, end=False)
        peer.exchange()
        peer.connection.answer(stream, b"enough")
        peer.hear()
        assert (peer.answers[stream].messages, peer.answers[stream].reset) == ([b"enough"], ErrorCodes.NO_ERROR)
        peer.raw(DataFrame(stream, prefixed(b"on its way")), DataFrame(stream, b"", flags=["END_STREAM"]))
        assert not peer.goaways
        assert len(peer.came(stream)) == 1

    def test_metadata_are_the_fields_that_are_not_https_own(self, peer: Peer):
        peer.call(path=BIDI, end=False, x_one="1", x_two="2")
        peer.exchange()
        (opened,) = peer.opened()
        assert {"x-one": "1", "x-two": "2", "te": "trailers"}.items() <= opened.head.metadata.items()
        assert not any(name.startswith(":") for name in opened.head.metadata)


class TestRefusals:
    @pytest.mark.parametrize(
        ("messages", "path", "more", "code", "text"),
        [
            pytest.param([b"x"], "/a.Test/Nothing", {}, Code.UNIMPLEMENTED, "no such method", id="method"),
            pytest.param([b"x"], UNARY, {"grpc_encoding": "gzip"}, Code.UNIMPLEMENTED, "gzip", id="compression"),
            pytest.param([b"x"], UNARY, {"grpc_timeout": "9 s"}, Code.INTERNAL, "grpc-timeout", id="timeout"),
            pytest.param([b"x"], UNARY, {"grpc_timeout": "123456789S"}, Code.INTERNAL, "grpc-timeout", id="9-digits"),
            pytest.param([b"x" * 100_001], UNARY, {}, Code.RESOURCE_EXHAUSTED, "100001 bytes", id="too-long"),
            pytest.param([b"x" * 100_001], SINK, {}, Code.RESOURCE_EXHAUSTED, "100001 bytes", id="too-long-of-stream"),
            pytest.param([b"x", b"y"], UNARY, {}, Code.UNIMPLEMENTED, "second message", id="two-messages"),
            pytest.param([], UNARY, {}, Code.UNIMPLEMENTED, "no message", id="no-message"),
        ],
    )
    def test_a_call_that_cannot_be_answered_has_a_status_and_a_reason(self, messages, path, more, code, text):
        peer = Peer(SMALL)
        stream = peer.call(*messages, path=path, **more)
        peer.exchange()
        assert peer.answers[stream].status == str(int(code))
        assert text in peer.answers[stream].text
        assert not peer.of(Asked)
        assert peer.call(b"next")
        peer.exchange()
        assert peer.of(Asked), "the connection goes on"

    def test_compression_is_refused_with_what_would_do(self, peer: Peer):
        stream = peer.call(b"x", grpc_encoding="gzip")
        peer.exchange()
        assert peer.answers[stream].heads[0]["grpc-accept-encoding"] == "identity"

    @pytest.mark.parametrize(
        ("raw", "text"),
        [
            pytest.param(prefixed(b"x", compressed=1), "compressed", id="compressed"),
            pytest.param(prefixed(b"xyz")[:-1], "cut off", id="cut-off"),
            pytest.param(b"\0\0", "cut off", id="not-even-a-prefix"),
        ],
    )
    def test_a_message_that_is_none_is_an_internal_error(self, peer: Peer, raw: bytes, text: str):
        stream = peer.call(end=False)
        peer.data(stream, raw, end=True)
        peer.exchange()
        assert peer.answers[stream].status == "13"
        assert text in peer.answers[stream].text

    def test_a_text_is_spelled_so_that_any_character_gets_through(self, peer: Peer):
        stream = peer.call(path=BIDI)
        peer.exchange()
        peer.connection.finish(stream, Code.NOT_FOUND, "50 % of \n Zürich")
        peer.hear()
        assert peer.answers[stream].text == "50 %25 of %0A Z%C3%BCrich"

    @pytest.mark.parametrize(
        ("fields", "status", "body"),
        [
            pytest.param({":method": "GET", "content-type": ""}, "415", True, id="get"),
            pytest.param({":method": "HEAD", "content-type": ""}, "415", False, id="head"),
            pytest.param({"content-type": "application/json"}, "415", True, id="json"),
            pytest.param({":method": "PUT"}, "405", True, id="put"),
        ],
    )
    def test_who_does_not_speak_grpc_is_told_so_in_http(self, peer: Peer, fields, status, body):
        stream = peer.h2.get_next_available_stream_id()
        peer.h2.send_headers(stream, head(**fields), end_stream=True)
        peer.exchange()
        assert peer.answers[stream].heads[0][":status"] == status
        assert (b"gRPC" in peer.answers[stream].data) is body
        assert peer.answers[stream].ended

    def test_a_body_that_is_not_grpc_is_dropped_whatever_its_length(self, peer: Peer):
        stream = peer.h2.get_next_available_stream_id()
        peer.h2.send_headers(stream, head(**{"content-type": "text/plain"}))
        for _ in range(10):
            peer.data(stream, bytes(1 << 20))
            peer.exchange()
        peer.h2.end_stream(stream)
        peer.exchange()
        assert peer.answers[stream].heads[0][":status"] == "415"


class TestDeadlines:
    def test_a_call_ends_at_its_deadline_whether_or_not_it_has_come_whole(self):
        peer = Peer(echo=False)
        half = peer.call(end=False, grpc_timeout="500m")
        asked = peer.call(b"x", grpc_timeout="2S")
        opened = peer.call(path=BIDI, end=False, grpc_timeout="3S")
        peer.connection.send(opened, b"a")
        for_ever = peer.call(b"x")
        peer.exchange()
        assert peer.connection.deadline_s == 0.5
        for now_s, gone, next_s in ((0.4, [], 0.5), (0.5, [half], 2.0), (3.5, [asked, opened], None)):
            found = peer.connection.expire(now_s)
            assert [event.stream for event in found if isinstance(event, Gone)] == gone
            assert peer.connection.deadline_s == next_s
        peer.hear()
        assert [peer.answers[stream].status for stream in (half, asked, opened)] == ["4"] * 3
        assert peer.connection.is_open(for_ever)

    def test_a_message_has_a_time_to_come_whole_and_then_the_call_only_its_clients(self):
        peer = Peer(Bounds(whole_s=5.0), echo=False)
        half, whole, log = peer.call(end=False), peer.call(b"x", grpc_timeout="9S"), peer.call(path=SINK, end=False)
        text = peer.call(end=False, content_type="text/plain")
        peer.data(half, prefixed(b"half")[:-1])
        peer.exchange()
        assert peer.connection.deadline_s == 5.0
        for now_s, ended in ((4.9, set()), (5.0, {half, text}), (9.0, {half, text, whole})):
            peer.connection.expire(now_s)
            peer.hear()
            assert {one for one in (half, text, whole, log) if not peer.connection.is_open(one)} == ended
        assert [peer.answers[one].status for one in (half, whole)] == [str(int(Code.DEADLINE_EXCEEDED))] * 2
        assert peer.connection.deadline_s is None, "a stream has none"


class TestWhatIsHeld:
    def test_a_client_is_waited_for_unless_a_call_is_whole_and_not_answered(self):
        peer = Peer(echo=False, settings={SettingCodes.INITIAL_WINDOW_SIZE: 0})
        peer.call(end=False)
        peer.call(b"1", path=BIDI, end=False)
        peer.exchange()
        assert peer.connection.awaits_client
        asked = [peer.call(b"x") for _ in range(3)]
        peer.exchange()
        assert not peer.connection.awaits_client
        peer.connection.answer(asked[0], b"its client gives it no room")
        peer.connection.finish(asked[1], Code.NOT_FOUND)
        peer.h2.reset_stream(asked[2])
        peer.exchange()
        assert peer.connection.awaits_client

    def test_heads_parts_and_answers_that_are_not_taken_count_and_nothing_is_left_in_the_end(self):
        peer = Peer(echo=False, settings={SettingCodes.INITIAL_WINDOW_SIZE: 0})
        first = peer.connection.held_bytes
        large = peer.call(b"x", x_large="y" * 5_000)
        peer.exchange()
        assert peer.connection.held_bytes > first + 5_000
        half = peer.call(end=False)
        peer.data(half, prefixed(bytes(7_000))[:-1])
        peer.exchange()
        assert peer.connection.held_bytes > first + 12_000
        peer.connection.answer(large, bytes(9_000))
        assert peer.connection.held_bytes > first + 21_000
        for stream in (large, half):
            peer.h2.reset_stream(stream)
        peer.exchange()
        assert peer.connection.held_bytes - peer.connection._decoder.known_bytes == first

    def test_what_is_not_read_yet_counts_and_is_read_when_it_is_its_turn(self, peer: Peer):
        streams = [peer.call(b"%d" % number) for number in range(5)]
        said = peer.h2.data_to_send()
        told = peer.connection.feed(said, 0.0, lambda count: count >= 2)
        assert [event.stream for event in told] == streams[:2]
        assert peer.connection.has_more
        assert peer.connection.held_bytes > len(said) // 2
        assert [event.stream for event in peer.connection.feed(b"", 0.0)] == streams[2:]
        assert not peer.connection.has_more


class TestWindows:
    def test_no_more_is_sent_than_the_client_has_room_for(self):
        peer = Peer(settings={SettingCodes.INITIAL_WINDOW_SIZE: 10})
        stream = peer.call(b"x" * 100)
        peer.h2.acknowledge_received_data = lambda *_: None
        peer.exchange()
        assert len(peer.answers[stream].data) == 10
        peer.h2.increment_flow_control_window(95, stream)
        peer.exchange()
        assert (len(peer.answers[stream].data), peer.answers[stream].status) == (105, "0")

    def test_who_waits_for_the_connections_window_goes_on_in_turn(self, peer: Peer):
        peer.h2.acknowledge_received_data = lambda *_: None
        streams = [peer.call(b"x" * 60_000) for _ in range(3)]
        peer.exchange()
        assert sum(len(peer.answers[stream].data) for stream in streams) == 65_535
        for _ in range(3):
            peer.h2.increment_flow_control_window(60_000)
            peer.exchange()
        assert [peer.answers[stream].status for stream in streams] == ["0"] * 3

    def test_a_smaller_window_holds_up_what_is_under_way_until_it_is_positive_again(self):
        peer = Peer(echo=False)
        stream = peer.call(path=BIDI)
        peer.exchange()
        peer.connection.send(stream, b"x" * 995)
        peer.hear()
        peer.h2.acknowledge_received_data = lambda *_: None
        peer.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 500})
        peer.exchange()
        peer.connection.send(stream, b"y" * 95)
        peer.hear()
        assert len(peer.answers[stream].data) == 1000
        assert peer.connection.has_unsent(stream)
        peer.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 5_000})
        peer.exchange()
        assert len(peer.answers[stream].data) == 1100
        assert peer.events[-1] == Drained(stream)

    def test_a_handler_that_does_not_read_holds_its_client_up_and_nobody_else(self):
        peer = Peer(Bounds(message_bytes=100_000))
        stream = peer.call(path=BIDI, end=False)
        peer.exchange()
        while peer.h2.local_flow_control_window(stream) >= 50_005:
            peer.data(stream, prefixed(bytes(50_000)))
            peer.exchange()
        held = peer.came(stream)
        assert 4 <= len(held) <= 5
        other = peer.call(b"x" * 90_000)
        peer.exchange()
        assert peer.answers[other].status == "0"
        for message in held:
            peer.connection.taken(stream, message)
        peer.hear()
        assert peer.h2.local_flow_control_window(stream) >= 100_005, "the longest message gets through"

    def test_what_is_kept_unread_of_all_calls_is_bounded_and_the_one_beyond_it_is_told(self):
        peer = Peer(SMALL)
        streams = [peer.call(end=False) for _ in range(3)]
        for stream in streams:
            peer.data(stream, prefixed(bytes(99_000))[:-1])
            peer.exchange()
        assert [peer.answers[stream].status for stream in streams] == [None, None, "8"]
        for stream in streams[:2]:
            peer.data(stream, b"\0", end=True)
        peer.exchange()
        assert [peer.answers[stream].status for stream in streams] == ["0", "0", "8"]
        assert peer.connection._unread == 0

    def test_what_python_keeps_of_a_message_counts_as_unread_too(self):
        """Many of a byte held six times the bound."""
        peer = Peer(SMALL)
        stream = peer.call(path=BIDI, end=False)
        for _ in range(40):
            peer.data(stream, prefixed(b"xy") * 100)
            peer.exchange()
            if peer.answers[stream].status:
                break
        held = [event.message for event in peer.events if isinstance(event, Message)]
        assert peer.answers[stream].status == "8"
        assert sum(map(sys.getsizeof, held)) < SMALL.unread_bytes
        other = peer.call(path=BIDI, end=False)
        peer.data(other, prefixed(b"xy") * 3)
        peer.exchange()
        for _ in range(3):
            peer.connection.taken(other, b"xy")
        assert peer.connection._unread == 0

    def test_padding_gives_its_room_back(self, peer: Peer):
        stream = peer.call(path=SINK, end=False)
        for _ in range(40_000):
            peer.h2.send_data(stream, b"", pad_length=255)
            if peer.h2.local_flow_control_window(stream) < 300:
                break
        else:
            pytest.fail("the window never got small")
        peer.connection._patience._left = 1e9  # empty frames are counted: not what this is about
        peer.exchange()
        assert peer.h2.local_flow_control_window(stream) > 1 << 20


OVER = {
    "data of an idle stream": ([DataFrame(1, b"x")], ErrorCodes.PROTOCOL_ERROR),
    "data of no stream": ([spelled(0, 0, 0, b"x")], ErrorCodes.PROTOCOL_ERROR),
    "a stream of the server's": ([headers(2)], ErrorCodes.PROTOCOL_ERROR),
    "headers of no stream": ([spelled(1, 4, 0, block())], ErrorCodes.PROTOCOL_ERROR),
    "too much padding": ([headers(1), spelled(0, 8, 1, b"\5xx")], ErrorCodes.PROTOCOL_ERROR),
    "padding of nothing": ([headers(1), spelled(0, 8, 1, b"")], ErrorCodes.PROTOCOL_ERROR),
    "a long frame": ([headers(1), DataFrame(1, bytes(16_385))], ErrorCodes.FRAME_SIZE_ERROR),
    "headers again after the end": (
        [headers(1, flags=("END_HEADERS", "END_STREAM")), headers(1)],
        ErrorCodes.STREAM_CLOSED,
    ),
    "a lower stream": ([headers(5), headers(3)], ErrorCodes.STREAM_CLOSED),
    "a head interrupted": ([headers(1, flags=()), PingFrame(0, b"12345678")], ErrorCodes.PROTOCOL_ERROR),
    "a head continued elsewhere": ([headers(1, flags=()), ContinuationFrame(3, b"")], ErrorCodes.PROTOCOL_ERROR),
    "a head continued that never began": ([ContinuationFrame(1, b"")], ErrorCodes.PROTOCOL_ERROR),
    "a head without end": (
        [headers(1, b"x" * 9_000, ()), ContinuationFrame(1, b"x" * 9_000)],
        ErrorCodes.ENHANCE_YOUR_CALM,
    ),
    "a head that cannot be decoded": ([headers(1, b"\xff\xff\xff\xff\xff\xff")], ErrorCodes.COMPRESSION_ERROR),
    "a head of a field that is not there": ([headers(1, b"\xfe")], ErrorCodes.COMPRESSION_ERROR),
    "a head that swells": (
        [headers(1, b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4_000 + b"\xbe" * 4)],
        ErrorCodes.ENHANCE_YOUR_CALM,
    ),
    "a table too large": ([headers(1, b"\x3f\xe2\x1f" + block())], ErrorCodes.COMPRESSION_ERROR),
    "a priority cut off": ([spelled(1, 0x24, 1, b"abc")], ErrorCodes.FRAME_SIZE_ERROR),
    "a stream that depends on itself": (
        [headers(1, flags=("END_HEADERS", "PRIORITY"), depends_on=1)],
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "priority of no stream": ([spelled(2, 0, 0, bytes(5))], ErrorCodes.PROTOCOL_ERROR),
    "a short priority": ([spelled(2, 0, 1, bytes(4))], ErrorCodes.FRAME_SIZE_ERROR),
    "a reset of an idle stream": ([RstStreamFrame(1, 8)], ErrorCodes.PROTOCOL_ERROR),
    "a short reset": ([headers(1), spelled(3, 0, 1, b"abc")], ErrorCodes.FRAME_SIZE_ERROR),
    "settings of a stream": ([spelled(4, 0, 1, b"")], ErrorCodes.PROTOCOL_ERROR),
    "settings cut off": ([spelled(4, 0, 0, b"abc")], ErrorCodes.FRAME_SIZE_ERROR),
    "settings in an acknowledgement": ([spelled(4, 1, 0, bytes(6))], ErrorCodes.FRAME_SIZE_ERROR),
    "push neither on nor off": ([spelled(4, 0, 0, b"\0\2\0\0\0\2")], ErrorCodes.PROTOCOL_ERROR),
    "too large a window": ([spelled(4, 0, 0, b"\0\4\x80\0\0\0")], ErrorCodes.FLOW_CONTROL_ERROR),
    "too small a frame": ([spelled(4, 0, 0, b"\0\5\0\0\0\1")], ErrorCodes.PROTOCOL_ERROR),
    "windows grown too large": (
        [headers(1), WindowUpdateFrame(1, 0x7FFF0000), spelled(4, 0, 0, b"\0\4\0\2\0\0")],
        ErrorCodes.FLOW_CONTROL_ERROR,
    ),
    "a push": ([PushPromiseFrame(1, 2, block(), flags=["END_HEADERS"])], ErrorCodes.PROTOCOL_ERROR),
    "a ping of a stream": ([spelled(6, 0, 1, bytes(8))], ErrorCodes.PROTOCOL_ERROR),
    "a short ping": ([spelled(6, 0, 0, bytes(7))], ErrorCodes.FRAME_SIZE_ERROR),
    "a farewell of a stream": ([spelled(7, 0, 1, bytes(8))], ErrorCodes.PROTOCOL_ERROR),
    "a short farewell": ([spelled(7, 0, 0, bytes(7))], ErrorCodes.FRAME_SIZE_ERROR),
    "a window of an idle stream": ([WindowUpdateFrame(1, 1)], ErrorCodes.PROTOCOL_ERROR),
    "a short window": ([spelled(8, 0, 0, b"abc")], ErrorCodes.FRAME_SIZE_ERROR),
    "a window that grows by nothing": ([spelled(8, 0, 0, bytes(4))], ErrorCodes.PROTOCOL_ERROR),
    "a window beyond the largest": ([WindowUpdateFrame(0, 0x7FFFFFFF)], ErrorCodes.FLOW_CONTROL_ERROR),
}


@pytest.mark.parametrize(("frames", "code"), OVER.values(), ids=OVER.keys())
def test_a_peer_that_breaks_a_rule_of_the_connection_ends_it_and_learns_why(frames: list[Frame], code: int):
    peer = Peer(echo=False)
    bystander = Peer()
    for one in frames:
        peer.connection.feed(one if isinstance(one, bytes) else one.serialize(), 0.0)
    goaway = parsed(peer.connection.pending_bytes())[-1]
    assert isinstance(goaway, GoAwayFrame)
    assert goaway.error_code == code, goaway.additional_data
    assert goaway.additional_data, "a reason for whoever looks"
    assert peer.connection.finished
    assert peer.connection.feed(PingFrame(0, b"12345678").serialize(), 0.0) == []
    assert peer.connection.pending_bytes() == b"", "nothing more is said"
    stream = bystander.call(b"x")
    bystander.exchange()
    assert bystander.answers[stream].status == "0"


ENDED = {
    "headers in the middle": ([headers(1), headers(1)], ErrorCodes.PROTOCOL_ERROR),
    "trailers with a field of http's": (
        [headers(1), headers(1, Encoder().encode([(":path", "/")]), ("END_HEADERS", "END_STREAM"))],
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "a window that grows by nothing": ([headers(1), spelled(8, 0, 1, bytes(4))], ErrorCodes.PROTOCOL_ERROR),
    "a window beyond the largest": ([headers(1), WindowUpdateFrame(1, 0x7FFFFFFF)], ErrorCodes.FLOW_CONTROL_ERROR),
    "more than its length": (
        [headers(1, block(content_length="3")), DataFrame(1, b"\0\0\0\0")],
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "less than its length": (
        [headers(1, block(content_length="9")), DataFrame(1, prefixed(b"x"), flags=["END_STREAM"])],
        ErrorCodes.PROTOCOL_ERROR,
    ),
    **{
        f"a head with {name}": ([headers(1, Encoder().encode(fields))], ErrorCodes.PROTOCOL_ERROR)
        for name, fields in {
            "a capital letter": [*head(), ("Accept", "x")],
            "no name": [*head(), ("", "x")],
            "a line break": [*head(), ("x", "a\nb")],
            "a space at the end": [*head(), ("x", "a ")],
            "a field of connections": [*head(), ("connection", "close")],
            "te of something else": [*head(te=""), ("te", "gzip")],
            "an unknown field of http's": [(":status", "200"), *head()],
            "one of http's behind others": [*head()[:3], *head()[4:], head()[3]],
            "one of http's twice": [head()[0], *head()],
            "no path": head(**{":path": ""}),
            "no method": head(**{":method": ""}),
            "a length that is none": [*head(), ("content-length", "-1")],
            "connect and a path": head(**{":method": "CONNECT"}),
        }.items()
    },
}


@pytest.mark.parametrize(("frames", "code"), ENDED.values(), ids=ENDED.keys())
def test_a_peer_that_breaks_a_rule_of_a_stream_ends_that_alone(frames: list[Frame], code: int):
    peer = Peer(echo=False)
    peer.h2.get_next_available_stream_id()
    told: list[bytes] = []
    for one in frames:
        peer.connection.feed(one if isinstance(one, bytes) else one.serialize(), 0.0)
        told.append(peer.connection.pending_bytes())
    assert RstStreamFrame(1, error_code=code).serialize() in told
    assert not peer.connection.finished
    assert not peer.connection.is_open(1)
    assert peer.connection.feed(headers(3).serialize(), 0.0) == []
    assert peer.connection.is_open(3)


def test_a_connect_is_refused_in_http():
    peer = Peer(echo=False)
    encoded = Encoder().encode([(":method", "CONNECT"), (":authority", "x:1"), ("content-type", "application/grpc")])
    peer.connection.feed(headers(1, encoded, ("END_HEADERS", "END_STREAM")).serialize(), 0.0)
    assert b"405" in peer.connection.pending_bytes()


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/1.1\r\n", b"\x16\x03\x01"])
def test_who_does_not_begin_as_http2_does_is_sent_away(first: bytes):
    connection = Connection({}, Bounds())
    assert connection.feed(first, 0.0) == []
    assert connection.finished
    assert b"not HTTP/2" in connection.pending_bytes()


@pytest.mark.parametrize("frame", [PingFrame(0, bytes(8)), SettingsFrame(0, flags=["ACK"])], ids=["ping", "ack"])
def test_the_first_frame_is_settings(frame: Frame):
    connection = Connection({}, Bounds())
    connection.feed(PREFACE + frame.serialize(), 0.0)
    assert connection.finished


class TestHarmless:
    @pytest.mark.parametrize(
        "frame",
        [
            pytest.param(PriorityFrame(7, depends_on=3, stream_weight=9), id="priority"),
            pytest.param(spelled(0x20, 0xFF, 5, b"anything"), id="unknown-type"),
            pytest.param(spelled(4, 0, 0, b"\xff\xff\0\0\0\0"), id="unknown-setting"),
            pytest.param(GoAwayFrame(0, last_stream_id=0), id="farewell"),
            pytest.param(spelled(6, 1, 0, b"whatever"), id="answer-to-no-ping"),
        ],
    )
    def test_what_may_be_ignored_is(self, peer: Peer, frame):
        peer.raw(frame)
        stream = peer.call(b"x")
        peer.exchange()
        assert peer.answers[stream].status == "0"

    def test_a_ping_is_answered(self, peer: Peer):
        peer.h2.ping(b"a ping!!")
        peer.exchange()
        assert [type(event).__name__ for event in peer.other].count("PingAckReceived") == 1

    def test_a_head_in_pieces_padded_and_with_a_priority_is_one(self, peer: Peer):
        encoded = block()
        first = headers(1, encoded[:10], ("PADDED", "PRIORITY"), pad_length=9, depends_on=0)
        rest = [ContinuationFrame(1, encoded[10:30]), ContinuationFrame(1, encoded[30:], flags=["END_HEADERS"])]
        peer.h2.get_next_available_stream_id()
        told = []
        for one in (first, *rest, DataFrame(1, prefixed(b"x"), flags=["PADDED", "END_STREAM"], pad_length=3)):
            told += peer.connection.feed(one.serialize(), 0.0)
        assert [event.message for event in told] == [b"x"]

    def test_a_client_may_end_with_trailers(self, peer: Peer):
        stream = peer.call(b"x", end=False)
        peer.h2.send_headers(stream, [("x-trailer", "1")], end_stream=True)
        peer.exchange()
        assert peer.answers[stream].messages == [b"x"]

    def test_a_client_may_make_its_table_smaller(self):
        peer = Peer(settings={SettingCodes.HEADER_TABLE_SIZE: 0})
        for _ in range(2):
            stream = peer.call(b"x")
            peer.exchange()
            assert peer.answers[stream].status == "0"


def test_of_values_that_one_frame_repeats_the_last_counts():
    peer = Peer(echo=False)
    stream = peer.call(b"x")
    peer.exchange()
    peer.raw(spelled(4, 0, 0, b"".join(b"\x00\x04" + value.to_bytes(4, "big") for value in (9, 2**31, 20))))
    peer.connection.answer(stream, bytes(100))
    assert not peer.goaways
    assert sum(len(one.data) for one in parsed(peer.connection.pending_bytes()) if isinstance(one, DataFrame)) == 20


class TestBounds:
    def test_more_calls_than_there_is_room_for_are_refused_and_may_be_tried_again(self):
        peer = Peer(SMALL, echo=False)
        whole = DataFrame(1, prefixed(b"x"), flags=["END_STREAM"])
        told = []
        for number in range(1, 13, 2):
            whole.stream_id = number
            told += peer.connection.feed(headers(number).serialize() + whole.serialize(), 0.0)
        refused = [one for one in parsed(peer.connection.pending_bytes()) if isinstance(one, RstStreamFrame)]
        assert [one.stream for one in told] == [1, 3, 5, 7]
        assert [(one.stream_id, one.error_code) for one in refused] == [
            (9, ErrorCodes.REFUSED_STREAM),
            (11, ErrorCodes.REFUSED_STREAM),
        ]
        peer.connection.answer(1, b"y")
        peer.connection.feed(headers(13).serialize(), 0.0)
        assert peer.connection.is_open(13)

    @pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
    def test_frames_that_bring_no_call_forward_are_bounded_in_a_row_and_in_a_second(self, flood):
        peer = Peer(echo=False)

        def until_calm(now_s: float) -> int:
            for number in range(5_000):
                for one in flood(number):
                    peer.connection.feed(one if isinstance(one, bytes) else one.serialize(), now_s)
                if peer.connection.finished:
                    return number
                assert len(peer.connection.pending_bytes()) < 100, "no frame makes more bytes than it has"
            return -1

        assert 400 < until_calm(0.0) <= 1_001
        assert b"bring no call forward" in peer.connection.pending_bytes()

    def test_a_second_gives_some_back_and_an_answered_call_too(self):
        peer = Peer()
        for second in range(100):
            peer.now_s = float(second)
            peer.raw(*[PingFrame(0, bytes(8))] * 30)
        assert not peer.goaways
        for _ in range(600):
            peer.call(b"x")
            given_up = peer.call(b"x", end=False)
            peer.h2.ping(bytes(8))
            peer.h2.reset_stream(given_up)
            peer.exchange()
        assert not peer.goaways
        peer.raw(*[PingFrame(0, bytes(8))] * 1_100)
        assert peer.goaways

    def test_heads_are_remembered_in_bounded_number(self, peer: Peer):
        for number in range(200):
            peer.connection.feed(headers(2 * number + 1, block(x=str(number))).serialize(), 0.0)
        assert len(peer.connection._decoder._known) == peer.connection._decoder.KNOWN


class TestLeaving:
    def test_calls_on_their_way_are_answered_and_then_it_is_finished(self):
        peer = Peer(echo=False)
        first = peer.call(b"1")
        peer.exchange()
        peer.connection.go_away()
        peer.connection.go_away()  # twice changes nothing
        on_its_way = headers(3).serialize() + DataFrame(3, prefixed(b"2"), flags=["END_STREAM"]).serialize()
        (second,) = peer.connection.feed(on_its_way, 0.0)
        peer.connection.settle()
        assert not peer.connection.finished
        assert peer.connection.feed(headers(5).serialize(), 0.0) == [], "one that came too late is dropped"
        for stream in (first, second.stream):
            peer.connection.answer(stream, b"y")
        assert peer.connection.finished

    def test_the_answer_to_its_ping_settles_it(self, peer: Peer):
        peer.connection.go_away()
        assert not peer.connection.finished
        raw = peer.connection.pending_bytes()
        assert raw.count(b"leaving!") == 1
        peer.connection.feed(PingFrame(0, b"leaving!", flags=["ACK"]).serialize(), 0.0)
        assert peer.connection.finished

    def test_settling_before_leaving_is_nothing(self, peer: Peer):
        peer.connection.settle()
        assert not peer.connection.finished


def test_every_error_that_the_specification_names_is_spelled_as_there():
    assert {one.name: int(one) for one in Error} == {one.name: int(one) for one in ErrorCodes}


def test_no_text_of_a_fault_tells_what_was_sent():
    """They go to logs of others: numbers and names of frames only."""
    peer = Peer(echo=False)
    peer.raw(headers(1, b"\x00\x06secret\x01"))
    assert not re.search(b"secret", peer.goaways[0].additional_data or b"")


def test_messages_are_handed_over_as_their_own_type(peer: Peer):
    stream = peer.call(b"x" * 40_000, path=SINK)
    peer.exchange()
    assert [type(one.message) for one in peer.of(Message)] == [bytes]
    assert peer.came(stream) == [b"x" * 40_000]


def decoder_that_knows() -> tuple[Decoder, bytes]:
    """One that knows a block which leans on its table, and that block."""
    decoder, encoder = Decoder(16_384), Encoder()
    decoder.head(encoder.encode(head()))
    known = encoder.encode(head())
    assert decoder.head(known) is decoder.head(known)
    return decoder, known


def test_a_block_with_the_same_bytes_is_read_once():
    decoder, known = decoder_that_knows()
    assert [*decoder._known] == [known]


@pytest.mark.parametrize("is_trailer", [False, True], ids=["head", "trailer"])
def test_a_block_is_forgotten_when_the_table_gets_smaller(is_trailer: bool):
    decoder, known = decoder_that_knows()
    (decoder.fields if is_trailer else decoder.head)(EMPTY_TABLE)
    with pytest.raises(BadConnectionError) as fault:
        decoder.head(known)
    assert fault.value.code is Error.COMPRESSION_ERROR


def test_a_block_is_forgotten_when_trailers_add_to_the_table():
    decoder, _ = decoder_that_knows()
    decoder.fields(b"\x40\x01a\x01b")
    assert decoder._known == {}


@pytest.mark.parametrize(("times", "is_taken"), [(2, True), (3, False), (16_000, False)])
@pytest.mark.parametrize("resize", [b"\x20", b"\x3e", b"\x3f\xe1\x1f"])
def test_a_block_resizes_the_table_twice_at_most(resize: bytes, times: int, is_taken: bool):
    """RFC 7541 §4.2. Each cost two microseconds, and 16,000 fit into a block."""
    encoded = resize * times + block()
    if is_taken:
        assert not Decoder(1 << 14).head(encoded).is_malformed
    else:
        with pytest.raises(BadConnectionError, match="more than twice"):
            Decoder(1 << 14).head(encoded)


def test_long_blocks_are_not_kept():
    decoder = Decoder(16_384)
    long = Encoder().encode([(name, value, True) for name, value in head(x="v" * 600)])
    decoder.head(long)
    assert decoder._known == {}
