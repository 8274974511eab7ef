"""What gates tell each other comes back as it was, within bounds; anything else is known to be none."""

from __future__ import annotations

import base64
import json
import random
import zlib
from dataclasses import replace

import pytest

from extauthz.core.ledger.entry import PendingWrite
from extauthz.core.model import Precondition, Template
from extauthz.serve.ledger_store import committing, kubernetes
from extauthz.serve.ledger_store.payload import (
    FORMAT,
    MAX_TEXT_BYTES,
    Line,
    OtherFormatError,
    Payload,
    PayloadError,
    TooLargeError,
    decode,
    encode,
    pack,
    unpack,
)
from extauthz.tools.render.options import SidecarOptions


def text(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw)).decode()


FULL = Payload(
    {"d1": '{"workload":["a b"]}', "d2": "{}"}, {"h1": '{"template": {}}'}, {"deployments.apps": 7}, 12, True, 20
)


@pytest.mark.parametrize("payload", [Payload(), FULL], ids=["empty", "full"])
def test_a_payload_comes_back(payload: Payload):
    assert decode(encode(payload)) == payload


def test_an_empty_payload_holds_nothing_and_its_clock_is_at_the_start():
    assert Payload() == Payload({}, {}, {}, clock_ms=0, holds=False, hold_ends_ms=0)


RECORDED = (
    "eAEljEsKwzAQQ/c5RdHalHwWAV8mmHhKIHZs7AlpMXP3TtqdnsRTwyuV6Bh2MlhDWvclVthhNNhS8Bq5nPSHhQ5ff/PYG1yOSc2ywzZ4"
    "yiF9Ih1cny5n1WYxYHrzfSbdNjyaYsxBLRVEOq+VfAG5Aisc"
)


def test_what_a_gate_of_this_format_has_written_is_read_by_the_next_release():
    """A change of what this text says is another ``FORMAT``."""
    was = Payload({"d1": "{}"}, {"h1": '{"template":{}}'}, {"deployments.apps": 7}, 12, True, 20)
    assert decode(RECORDED) == was


def test_two_thousand_writes_fit_and_take_less_than_half_of_their_length():
    lines = {f"{n:016x}": json.dumps({"workload": ["apps", "deployments", f"n{n}", f"w{n}"]}) for n in range(2000)}
    packed = encode(Payload(lines))
    assert decode(packed).pending_writes == lines
    assert len(packed) < sum(map(len, lines.values())) / 2


def test_what_does_not_fit_is_an_error_that_says_how_much_there_is():
    chance = random.Random(0)
    pending_writes = {str(n): chance.randbytes(32).hex() for n in range(20_000)}
    with pytest.raises(TooLargeError, match=f"20000 pending writes .* {MAX_TEXT_BYTES} fit"):
        encode(Payload(pending_writes))


GOOD = {"format": FORMAT, "watermark": {}, "texts": 0, "clock_ms": 0, "holds": False, "hold_ends_ms": 0}


def good(**other: object) -> bytes:
    return json.dumps(GOOD | other).encode()


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "%",
        base64.b64encode(b"no zlib").decode(),
        text(b"{"),
        text(b"[]"),
        text(b"[" * 100_000),
        text(b"\xff"),
        text(good())[:-8],
        f"{text(good())[:8]}%%{text(good())[8:]}",
        text(good() + b"\nlonely"),
        text(good(texts=2) + b"\nd1 {}"),
        text(good(texts="1")),
        text(good(watermark=[])),
        text(good(watermark={"pods": "x"})),
        text(good(clock_ms="1")),
        text(json.dumps({k: v for k, v in GOOD.items() if k != "holds"}).encode()),
        text(good(texts=-1) + b"\nd1 {}"),
        text(good() + b" " * (17 << 20)),
    ],
    ids=lambda bad: bad[:12],
)
def test_what_is_no_payload_is_an_error(bad: str):
    with pytest.raises(PayloadError):
        decode(bad)


@pytest.mark.parametrize("other", [FORMAT - 1, FORMAT + 1, "3"])
def test_one_of_another_release_is_told_from_gibberish(other: object):
    with pytest.raises(OtherFormatError, match="run one release"):
        decode(text(json.dumps({"format": other, "intents": {}}).encode()))


OF_A_TEMPLATE = PendingWrite("a", None, (Template(b"{}"),), (), False, Precondition(), 100.0)


def line(pending_write: PendingWrite) -> Line:
    return Line("", {}, frozenset(), pending_write.expires_s, pending_write.renewed)


@pytest.mark.parametrize("more", [{"renewed": 1}, {"expires_s": 100.5}], ids=lambda more: next(iter(more)))
def test_a_line_is_written_anew_where_the_write_may_land_for_longer(more):
    assert line(OF_A_TEMPLATE).says_less_than(replace(OF_A_TEMPLATE, **more))
    assert not line(replace(OF_A_TEMPLATE, **more)).says_less_than(OF_A_TEMPLATE)
    assert not line(OF_A_TEMPLATE).says_less_than(OF_A_TEMPLATE)


@pytest.mark.parametrize("name", ["web", "w", "a", "#d1"])
def test_a_line_comes_back_whatever_its_name_is(name: str):
    tree = {
        "workload": ["apps", "deployments", "shop", name],
        "templates": ['{"a":"web"}', "{}"],
        "labels": ["a=web", ""],
    }
    text, texts = pack(tree)
    assert unpack(text, texts) == tree


def test_texts_that_differ_by_the_name_alone_are_one():
    def packed(name: str) -> dict[str, str]:
        return pack({"workload": ["apps", "deployments", "shop", name], "labels": [f"app={name},b=c"]})[1]

    assert packed("web") == packed("api") != packed("b")


def test_a_call_to_the_store_fits_into_an_answer_and_an_answer_into_what_envoy_waits():
    assert kubernetes.WITHIN_S < committing.WITHIN_S < SidecarOptions().gate_timeout_s


def test_who_waits_for_another_gate_looks_before_who_waits_for_the_store_and_both_before_who_waits_for_nothing():
    assert 0 < committing.CATCH_UP_S < committing.AGAIN_S < committing.HOUSEKEEPING_S < committing.IDLE_AGAIN_S
