"""One attempt, against a real receiver: what is sent, how it is judged, and what is never done."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from pathlib import Path

import pytest

from extauthz.tell.notify.receivers import Notice, NoticeKind, parse
from extauthz.tell.notify.sending import Attempt, Sender, retry_after
from tests.support.certs import Authority
from tests.support.receiver import Receiver

NOW_S = 1_795_000_000.0
DATA = {"sentence": "forbidden", "workspaces": ["acme"]}
NOTICE = Notice("id-1", NoticeKind.REFUSED, "deployments.apps/shop/web", NOW_S, DATA)
KEY = "k" * 32


def folder(tmp_path: Path, name: str = "ops") -> Path:
    (tmp_path / f"{name}.key").write_text(KEY)
    return tmp_path


async def test_a_cloudevent_is_posted_signed_over_what_is_sent(tmp_path: Path):
    async with Receiver() as there, Sender("/x", folder(tmp_path), clock=lambda: NOW_S) as sender:
        assert await sender.send(parse(f"ops={there.url}/in?a=b"), NOTICE) == Attempt(True)
    (got,) = there.got
    assert got.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert got.tree["source"] == "/x"
    text = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode() + got.body
    signature = base64.b64encode(hmac.new(KEY.encode(), text, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{signature}"
    assert (got.headers["webhook-id"], got.headers["webhook-timestamp"]) == ("id-1", "1795000000")


async def test_slack_gets_its_own_form_and_no_signature(tmp_path: Path):
    async with Receiver() as there, Sender("/x", tmp_path) as sender:
        assert (await sender.send(parse(f"ops,slack={there.url}/in"), NOTICE)).well
    (got,) = there.got
    assert got.headers["content-type"] == "application/json"
    assert got.tree == {"text": "[refused] acme: forbidden"}
    assert "webhook-signature" not in got.headers


async def test_a_key_that_is_changed_signs_the_next_attempt(tmp_path: Path):
    async with Receiver() as there, Sender("/x", folder(tmp_path), clock=lambda: NOW_S) as sender:
        ops = parse(f"ops={there.url}/in")
        await sender.send(ops, NOTICE)
        (tmp_path / "ops.key").write_text("n" * 32)
        await sender.send(ops, NOTICE)
        (tmp_path / "ops.key").unlink()
        unsigned = await sender.send(ops, NOTICE)
    first, second = (one.headers["webhook-signature"] for one in there.got)
    assert first != second
    assert (unsigned.well, unsigned.again) == (False, True), "nothing goes out unsigned"
    assert "No such file" in unsigned.why


@pytest.mark.parametrize(
    ("status", "well", "again"),
    [
        (200, True, False),
        (202, True, False),
        (204, True, False),
        (400, False, False),
        (401, False, False),
        (404, False, False),
        (410, False, False),
        (408, False, True),
        (425, False, True),
        (429, False, True),
        (500, False, True),
        (503, False, True),
    ],
)
async def test_answers_are_judged_by_whether_trying_again_may_help(status: int, well: bool, again: bool):
    async with Receiver(status=status) as there, Sender("/x") as sender:
        answer = await sender.send(parse(f"ops={there.url}/in"), NOTICE)
    assert (answer.well, answer.again) == (well, again)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status: int):
    async with Receiver() as elsewhere:
        to = {"location": f"{elsewhere.url}/in"}
        async with Receiver(status=status, headers=to) as there, Sender("/x") as sender:
            answer = await sender.send(parse(f"ops={there.url}/in"), NOTICE)
    assert elsewhere.got == []
    assert answer == Attempt(False, False, f"it answered {status}; redirects are not followed")


async def test_a_receiver_that_hangs_is_given_up_after_a_while():
    async with Receiver(hangs=True) as there, Sender("/x", timeout_s=0.05) as sender:
        answer = await sender.send(parse(f"ops={there.url}/in"), NOTICE)
    assert answer == Attempt(False, True, "no answer within 0.05 s")


@pytest.mark.parametrize("identified", [True, False], ids=["key identifiers", "none"])
async def test_a_certificate_that_nobody_trusts_is_not_spoken_to(tmp_path: Path, identified: bool):
    authority = Authority(tmp_path, identified=identified)
    pair = authority.issue("receiver")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    async with Receiver(tls=context) as there:
        ops = parse(f"ops={there.url}/T0PSECRET")
        async with Sender("/x") as sender:
            answer = await sender.send(ops, NOTICE)
        async with Sender("/x", ca=authority.ca) as sender:
            trusted = await sender.send(ops, NOTICE)
    assert answer == Attempt(False, True, "its certificate is not trusted")
    assert trusted.well
    assert len(there.got) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/T0PSECRET", "https://nowhere.invalid/T0PSECRET?x=T0PSECRET"])
async def test_an_error_of_the_network_shows_no_path(url: str):
    async with Sender("/x") as sender:
        answer = await sender.send(parse(f"ops={url}"), NOTICE)
    assert (answer.well, answer.again) == (False, True)
    assert answer.why
    assert "T0PSECRET" not in answer.why


async def test_a_url_in_a_file_may_change_meanwhile(tmp_path: Path):
    file = tmp_path / "url"
    ops = parse(f"ops=file:{file}")
    async with Receiver() as there, Sender("/x") as sender:
        assert "No such file" in (await sender.send(ops, NOTICE)).why
        assert "No such file" in sender.problem(ops)
        file.write_text(f"{there.url}/a")
        assert sender.problem(ops) == ""
        assert (await sender.send(ops, NOTICE)).well
        file.write_text(f"{there.url}/b")
        assert (await sender.send(ops, NOTICE)).well
    assert [one.path for one in there.got] == ["/a", "/b"]


def test_what_a_file_has_wrong_is_known_before_anything_is_sent(tmp_path: Path):
    ops = parse("ops=https://h.example/")
    assert "ops.key" in Sender("/x", tmp_path).problem(ops)
    assert Sender("/x", tmp_path).problem(parse("ops,slack=https://h.example/")) == ""
    assert Sender("/x", folder(tmp_path)).problem(ops) == ""
    assert "FileNotFoundError" in Sender("/x", ca=tmp_path / "ca.crt").problem(ops)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", None),
        ("0", 0.0),
        ("120", 120.0),
        ("Sat, 21 Nov 2026 07:00:00 GMT", 3600.0),
        ("Sat, 21 Nov 2026 05:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("9" * 40, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None):
    assert retry_after(text, 1_795_240_800.0) == seconds
