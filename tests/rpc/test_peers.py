"""The package h2 as an independent peer: whatever it does within the rules, both ends agree on every call."""

from __future__ import annotations

from dataclasses import dataclass

from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hpack import Decoder as ReferenceDecoder
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.serve.rpc.frames import Bounds
from extauthz.serve.rpc.heads import Decoder, read
from extauthz.serve.rpc.streams import Asked, Opened
from tests.rpc.client import BIDI, UNARY, Peer, head, prefixed


@dataclass(frozen=True)
class Plan:
    """One call as its client means it."""

    path: str
    messages: tuple[bytes, ...]
    leaves: bool
    """The client gives it up before its end."""
    fields: tuple[tuple[str, str], ...]


MESSAGES = st.builds(lambda size, letter: bytes([letter]) * size, st.sampled_from((0, 1, 7, 500, 16_379, 40_000)),
                     st.integers(0, 255))  # fmt: skip
FIELDS = st.lists(
    st.tuples(st.sampled_from(("x-a", "x-b", "x-request-id")), st.sampled_from(("1", "two", "v" * 300))), max_size=3
)
PLANS = st.one_of(
    st.builds(Plan, st.just(UNARY), st.tuples(MESSAGES), st.booleans(), FIELDS.map(tuple)),
    st.builds(Plan, st.just(BIDI), st.lists(MESSAGES, max_size=4).map(tuple), st.booleans(), FIELDS.map(tuple)),
)
CUTS = st.lists(st.sampled_from((1, 2, 8, 9, 10, 100, 16_384, 70_000)), min_size=1, max_size=6).filter(
    lambda cuts: sum(cuts) > 100
)


class Talk:
    """Calls side by side: of each some DATA in turn, in pieces as they are drawn."""

    def __init__(self, peer: Peer, plans: list[Plan], piece: int) -> None:
        self.peer, self.piece = peer, piece
        self.left: dict[int, bytes] = {}
        self.plans: dict[int, Plan] = {}
        for plan in plans:
            stream = peer.h2.get_next_available_stream_id()
            peer.h2.send_headers(stream, [*head(plan.path), *plan.fields])
            self.plans[stream] = plan
            self.left[stream] = b"".join(prefixed(message) for message in plan.messages)

    def go(self) -> None:
        """Until every client has said everything, or left."""
        while self.left:
            for stream in list(self.left):
                self._say(stream)
            self.peer.exchange()

    def _say(self, stream: int) -> None:
        raw, plan = self.left[stream], self.plans[stream]
        if plan.leaves and len(raw) <= 3:
            self.peer.h2.reset_stream(stream, ErrorCodes.CANCEL)
            del self.left[stream]
            return
        room = min(self.piece, self.peer.h2.local_flow_control_window(stream), 16_384)
        self.peer.h2.send_data(stream, raw[:room], end_stream=room >= len(raw))
        self.left[stream] = raw[room:]
        if room >= len(raw):
            del self.left[stream]


@settings(max_examples=60)
@given(
    plans=st.lists(PLANS, min_size=1, max_size=8),
    cut=CUTS,
    piece=st.sampled_from((50, 5_000, 20_000)),
    window=st.sampled_from((20, 1_000, 65_535, 1 << 20)),
    table=st.sampled_from((0, 100, 4_096)),
)
def test_every_call_is_answered_as_it_was_asked_in_whatever_pieces(plans, cut, piece, window, table):
    told = {SettingCodes.INITIAL_WINDOW_SIZE: window, SettingCodes.HEADER_TABLE_SIZE: table}
    # Patience has a test of its own; here a window of 20 bytes is honest.
    peer = Peer(Bounds(idle_frames=10**9), cut=cut, settings=told)
    talk = Talk(peer, plans, piece)
    talk.go()
    for stream, plan in talk.plans.items():
        answer = peer.answers[stream]
        if plan.path == UNARY and not plan.leaves:
            assert (answer.messages, answer.status, answer.ended) == ([*plan.messages], "0", True)
        if plan.path == BIDI:
            came = peer.came(stream)
            assert came == [*plan.messages][: len(came)]
            assert plan.leaves or len(came) == len(plan.messages)
            for message in came:
                peer.connection.send(stream, message)
                peer.connection.taken(stream, message)
            peer.connection.finish(stream)
    peer.hear()
    for stream, plan in talk.plans.items():
        if plan.path == BIDI and not plan.leaves:
            assert (peer.answers[stream].messages, peer.answers[stream].status) == ([*plan.messages], "0")
    asked = [one.stream for one in peer.of(Asked)]
    assert len(asked) == len(set(asked)), "none twice"
    assert len(peer.of(Opened)) == sum(plan.path == BIDI for plan in plans)
    assert not peer.goaways
    assert not peer.connection._streams
    assert peer.connection._unread == 0


EXTRA = st.tuples(st.just("x-a"), st.sampled_from(("1", "2", "3", "w" * 900)), st.sampled_from((False, False, True)))
HEADS = st.builds(
    lambda sensitive, extra: [*((name, value, sensitive) for name, value in head()), *extra],
    st.sampled_from((True, True, False)),
    st.lists(EXTRA, min_size=1, max_size=2),
)
"""The third of each is whether it stays out of the table. They differ in little, so that the same bytes soon mean
something else: an index of the table, once that has moved."""


@given(
    heads=st.lists(HEADS, min_size=2, max_size=4),
    order=st.lists(st.integers(0, 3), min_size=20, max_size=40),
    sizes=st.lists(st.sampled_from((*[None] * 9, 0, 60, 4_096)), min_size=20, max_size=40),
)
def test_a_head_that_is_known_is_what_it_would_be_if_it_were_decoded_anew(heads, order, sizes):
    """One encoder with a table, two decoders: ours, which knows blocks by their bytes, and one that always decodes."""
    encoder, ours, reference = Encoder(), Decoder(1 << 16), ReferenceDecoder(1 << 16)
    for number, size in zip(order, sizes, strict=False):
        if size is not None:
            encoder.header_table_size = size
        encoded = encoder.encode(heads[number % len(heads)])
        expected = tuple((bytes(name), bytes(value)) for name, value in reference.decode(encoded, raw=True))
        found = ours.head(encoded)
        assert found == read(expected)
        assert not found.is_malformed
        assert [*ours._table.dynamic_entries] == [*reference.header_table.dynamic_entries]
