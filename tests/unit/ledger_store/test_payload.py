"""What gates tell each other comes back as it was, within bounds; anything else is known to be none."""

from __future__ import annotations

import base64
import json
import random
import zlib

import pytest

from extauthz.ledger_store.payload import (
    FORMAT,
    MAX_TEXT_BYTES,
    OtherFormatError,
    Payload,
    PayloadError,
    TooLargeError,
    decode,
    encode,
)


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
    "eAE9jE0KgCAQhfedImYtUW4CLxOSE0GaohMRMndvKmj3/r5XYYk5WAKjFcw+ztsUCphB3Bq9E0n5wM9MuLvy1rpXcFpCIfMGpoLD"
    "5OMVcKfS2ZQEG1kBYUheZs8hN+vQ1j8SiLlxEvENcYAssg=="
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


GOOD = {"format": FORMAT, "watermark": {}, "templates": 0, "clock_ms": 0, "holds": False, "hold_ends_ms": 0}


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
        text(good(templates=2) + b"\nd1 {}"),
        text(good(templates="1")),
        text(good(watermark=[])),
        text(good(watermark={"pods": "x"})),
        text(good(clock_ms="1")),
        text(json.dumps({k: v for k, v in GOOD.items() if k != "holds"}).encode()),
        text(good(templates=-1) + b"\nd1 {}"),
        text(good() + b" " * (17 << 20)),
    ],
    ids=lambda bad: bad[:12],
)
def test_what_is_no_payload_is_an_error(bad: str):
    with pytest.raises(PayloadError):
        decode(bad)


def test_one_of_another_release_is_told_from_gibberish():
    with pytest.raises(OtherFormatError, match="run one release"):
        decode(text(json.dumps({"format": FORMAT - 1, "intents": {}}).encode()))
