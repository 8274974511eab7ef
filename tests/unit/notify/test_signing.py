"""Signatures of notices: Standard Webhooks, and the example of docs/internals/notices.md."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from extauthz.notify.receivers import ReceiverError
from extauthz.notify.sending import headers, read_keys

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "notices.md"
NOW_S = 1_795_000_000.9

KNOWN = {
    "key": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "time_s": 1614265330.0,
    "body": b'{"test": 2432232314}',
    "signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
"""A vector of Standard Webhooks' own libraries (the tests of each)."""


def keys(tmp_path: Path, text: str) -> tuple[bytes, ...]:
    path = tmp_path / "ops.key"
    path.write_text(text)
    return read_keys(path)


def test_a_signature_is_what_standard_webhooks_says(tmp_path: Path):
    said = headers(keys(tmp_path, KNOWN["key"]), KNOWN["id"], KNOWN["time_s"], KNOWN["body"])
    assert said == {
        "webhook-id": KNOWN["id"],
        "webhook-timestamp": "1614265330",
        "webhook-signature": KNOWN["signature"],
    }


def test_a_key_is_taken_as_it_is_written_or_in_base64(tmp_path: Path):
    plain = "k" * 24
    encoded = "whsec_" + base64.b64encode(plain.encode()).decode()
    assert keys(tmp_path, f"{plain}\n") == keys(tmp_path, f"  {encoded}\n\n") == (plain.encode(),)


def test_while_a_key_is_changed_there_is_a_signature_by_each(tmp_path: Path):
    both = headers(keys(tmp_path, f"{'n' * 32}\n{'o' * 32}\n"), "1", NOW_S, b"{}")["webhook-signature"]
    alone = [headers((key * 32,), "1", NOW_S, b"{}")["webhook-signature"] for key in (b"n", b"o")]
    assert both == " ".join(alone)


def test_without_a_key_it_is_told_which_notice_it_is():
    assert headers((), "1", NOW_S, b"{}") == {"webhook-id": "1", "webhook-timestamp": "1795000000"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds 0 keys"),
        ("\n".join(["k" * 32] * 5), "holds 5 keys"),
        ("T0PSECRET", "a key has at least 24 bytes"),
        ("whsec_T0PSECRE?", "is no base64"),
        ("whsec_" + base64.b64encode(b"short").decode(), "at least 24 bytes"),
    ],
)
def test_a_bad_key_is_refused_without_being_shown(tmp_path: Path, text: str, why: str):
    with pytest.raises(ReceiverError, match=why) as refused:
        keys(tmp_path, text)
    assert "T0PSECRE" not in str(refused.value)


def test_a_file_that_is_not_there_is_named_with_the_cure(tmp_path: Path):
    with pytest.raises(ReceiverError, match=r"ops\.key: No such file.*openssl rand -base64 32"):
        read_keys(tmp_path / "ops.key")


@pytest.fixture
def verify() -> Any:
    """The example of the page, as a receiver would paste it."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code.splitlines()) <= 14, "it stays short"
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    return names["verified"]


def test_the_example_of_the_page_verifies_what_we_sign(verify: Any):
    key, body = b"k" * 32, b'{"a":1}'
    said = headers((b"o" * 32, key), "1", NOW_S, body)
    assert verify(key, said, body, NOW_S + 60)


@pytest.mark.parametrize("change", ["id", "timestamp", "signature", "body", "key", "time"])
def test_and_refuses_what_was_changed_or_is_old(verify: Any, change: str):
    key, body, now_s = b"k" * 32, b'{"a":1}', NOW_S
    said = headers((key,), "1", NOW_S, body)
    if change in ("id", "timestamp"):
        said[f"webhook-{change}"] += "0"
    if change == "signature":
        said["webhook-signature"] = "v1,AAAA"
    body = b'{"a":2}' if change == "body" else body
    key = b"x" * 32 if change == "key" else key
    now_s = NOW_S + 301 if change == "time" else now_s
    assert not verify(key, said, body, now_s)
