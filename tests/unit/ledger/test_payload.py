"""What gates tell each other comes back as it was, within bounds; anything else is known to be none."""

from __future__ import annotations

import base64
import json
import random
import zlib

import pytest

from extauthz.core.ledger.payload import MAX_TEXT_BYTES, Payload, PayloadError, TooLargeError, decode, encode


def text(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw)).decode()


@pytest.mark.parametrize(
    "payload",
    [Payload(), Payload({"d1": {"id": "d1"}}, {"deployments.apps": 7}, ("acme", "sub"), holds=True)],
    ids=["empty", "full"],
)
def test_a_payload_comes_back(payload: Payload):
    assert decode(encode(payload)) == payload


def test_two_thousand_writes_fit():
    assert len(
        encode(Payload({f"{n:016x}": {"workload": ["apps", "deployments", f"n{n}", f"w{n}"]} for n in range(2000)}))
    )


def test_what_does_not_fit_is_an_error_that_says_how_much_there_is():
    chance = random.Random(0)
    intents = {str(n): {"x": chance.randbytes(32).hex()} for n in range(20_000)}
    with pytest.raises(TooLargeError, match=f"20000 writes .* {MAX_TEXT_BYTES} fit"):
        encode(Payload(intents))


GOOD = {"format": 1, "intents": {}, "watermark": {}, "quotas": [], "holds": False}


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "%",
        base64.b64encode(b"no zlib").decode(),
        text(b"{"),
        text(b"[]"),
        text(b"[" * 100_000),
        text(json.dumps(GOOD).encode())[:-8],
        text(json.dumps(GOOD | {"format": 2}).encode()),
        text(json.dumps(GOOD | {"intents": {"d1": 3}}).encode()),
        text(json.dumps(GOOD | {"intents": []}).encode()),
        text(json.dumps(GOOD | {"watermark": {"pods": "x"}}).encode()),
        text(json.dumps({k: v for k, v in GOOD.items() if k != "holds"}).encode()),
        text(b" " * (65 << 20)),
    ],
    ids=lambda bad: bad[:12],
)
def test_what_is_no_payload_is_an_error(bad: str):
    with pytest.raises(PayloadError):
        decode(bad)
