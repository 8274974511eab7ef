"""How a receiver is named, which URLs may be asked, and that no error shows one."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from extauthz.tell.notify.receivers import (
    CLOUDEVENT,
    Notice,
    NoticeKind,
    Receiver,
    ReceiverError,
    cloudevent,
    parse,
    parse_all,
    shown,
    slack,
)
from extauthz.tell.notify.sending import headers, read_keys

URL = "https://hooks.example.com/T0PSECRET?token=T0PSECRET"


def test_options_stand_after_the_name():
    assert parse(f"ops={URL}") == Receiver("ops", URL)
    assert parse(f"team-a,slack,named={URL}") == Receiver("team-a", URL, slack=True, named=True)
    assert parse(f"a,grants,allow-http={URL}") == Receiver("a", URL, grants=True, allow_http=True)


def test_what_follows_the_first_equals_sign_is_the_url():
    assert parse("ops=https://h.example/?a=b").where == "https://h.example/?a=b"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (URL, "it has no name of a receiver"),
        ("https://h.example/x", "it has no name of a receiver"),
        (f"Ops={URL}", "'Ops' is no name of a receiver"),
        (f"a_b={URL}", "'a_b' is no name"),
        (f"-={URL}", "'-' is no name"),
        (f"{'a' * 64}={URL}", "is no name"),
        (f"={URL}", "'' is no name"),
        (f"ops,slak={URL}", "ops: there is no option 'slak'; known are slack, grants, named, allow-http"),
        ("ops=", "ops: this is no https URL"),
        ("ops=hooks.example.com/T0PSECRET", "ops: this is no https URL"),
        ("ops=ftp://h.example/T0PSECRET", "ops: this is no https URL"),
        ("ops=https:///T0PSECRET", "ops: this is no https URL"),
        ("ops=https://h.example:99999/T0PSECRET", "ops: this is no URL"),
        ("ops=https://h.example:0/T0PSECRET", "ops: this is no https URL"),
        ("ops=https://[::1/T0PSECRET", "ops: this is no URL"),
        ("ops=https://u:T0PSECRET@h.example/", "ops: a URL has no user"),
        ("ops=https://h.example/#T0PSECRET", "no #fragment"),
        ("ops=https://h.example/T0PSECRET\x00", "all of them ASCII"),
        (f"ops=https://h.example/T0PSECRET{'x' * 2048}", "at most 2048 characters"),
        ("ops=http://h.example/T0PSECRET", "ops: http is not encrypted; write https, or add the option allow-http"),
        ("ops=http://127.evil.example/T0PSECRET", "http is not encrypted"),
    ],
)
def test_what_is_wrong_is_told_without_the_url(text: str, why: str):
    with pytest.raises(ReceiverError) as refused:
        parse(text)
    assert why in str(refused.value)
    assert "T0PSECRET" not in str(refused.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3:8080", "[::1]:9"])
def test_http_is_for_this_host(host: str):
    assert parse(f"ops=http://{host}/x").url() == f"http://{host}/x"


def test_or_where_it_is_allowed_by_name():
    assert parse("ops,allow-http=http://sink.monitoring.svc/x").url() == "http://sink.monitoring.svc/x"


def test_a_url_in_a_file_is_read_anew_and_checked_each_time(tmp_path: Path):
    file = tmp_path / "ops"
    receiver = parse(f"ops=file:{file}")
    with pytest.raises(ReceiverError, match=f"{file}: No such file"):
        receiver.url()
    file.write_text(f"{URL}\n")
    assert receiver.url() == URL
    file.write_text("http://h.example/T0PSECRET")
    with pytest.raises(ReceiverError) as refused:
        receiver.url()
    assert str(refused.value) == f"{file}: http is not encrypted; write https, or add the option allow-http"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ReceiverError, match="it is no text"):
        receiver.url()


def test_no_two_have_one_name():
    with pytest.raises(ReceiverError, match="two receivers have the name ops"):
        parse_all([f"ops={URL}", f"b={URL}", f"ops,slack={URL}"])


def test_what_is_shown_has_no_url():
    assert shown(f"ops,slack={URL}") == "ops,slack=(hidden)"
    assert shown("ops=file:/etc/x/ops.url") == "ops=file:/etc/x/ops.url"


DATA = {"sentence": 'deployments.apps "web" is forbidden', "workspaces": ["acme", "beta"]}
NOTICE = Notice("6b1", NoticeKind.REFUSED, "deployments.apps/shop/web", 1_795_000_000.25, DATA)


def test_a_cloudevent_is_what_the_package_cloudevents_reads():
    message = HTTPMessage({"content-type": CLOUDEVENT}, cloudevent(NOTICE, "/clusters/east"))
    event = from_http(message, JSONFormat())
    assert isinstance(event, CloudEvent), "of version 1.0"
    assert event.get_specversion() == "1.0"
    assert (event.get_id(), event.get_source()) == ("6b1", "/clusters/east")
    assert event.get_type() == "dev.extauthz.workspace.refused"
    assert event.get_subject() == "deployments.apps/shop/web"
    assert event.get_time() == datetime.fromtimestamp(1_795_000_000.25, UTC)
    assert event.get_datacontenttype() == "application/json"
    assert event.get_data() == DATA


def test_it_has_no_attribute_of_a_wrong_name_or_none():
    attributes = json.loads(cloudevent(NOTICE, "/x"))
    assert sorted(attributes) == ["data", "datacontenttype", "id", "source", "specversion", "subject", "time", "type"]


def test_no_text_of_a_client_stands_in_the_way_of_a_notice():
    odd = NOTICE._replace(data={"sentence": "half a pair: \ud800, \x1b[31m, ü", "workspaces": ["acme"]})
    assert json.loads(cloudevent(odd, "/x"))["data"] == odd.data
    assert json.loads(slack(odd))["text"].endswith("half a pair: \ud800, \x1b[31m, ü")


def test_slack_gets_a_text():
    assert json.loads(slack(NOTICE)) == {"text": '[refused] acme, beta: deployments.apps "web" is forbidden'}
    without = NOTICE._replace(data=DATA | {"workspaces": []})
    assert json.loads(slack(without))["text"].startswith("[refused] no workspace: ")


def test_no_name_of_a_tenant_becomes_a_link_or_calls_a_channel():
    hostile = NOTICE._replace(data={"sentence": "<!channel> &lt; <https://evil.example|look>", "workspaces": ["<@U1>"]})
    text = json.loads(slack(hostile))["text"]
    assert text == ("[refused] &lt;@U1&gt;: &lt;!channel&gt; &amp;lt; &lt;https://evil.example|look&gt;")


# Signatures of notices: Standard Webhooks, and the example of docs/notices.md.


PAGE = Path(__file__).parents[3] / "docs" / "notices.md"
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
