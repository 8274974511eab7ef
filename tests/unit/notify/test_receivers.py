"""How a receiver is named, which URLs may be asked, and that no error shows one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from extauthz.notify.receivers import (
    CLOUDEVENT,
    Kind,
    Notice,
    Receiver,
    ReceiverError,
    cloudevent,
    parse,
    parse_all,
    shown,
    slack,
)

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
NOTICE = Notice("6b1", Kind.REFUSED, "deployments.apps/shop/web", 1_795_000_000.25, DATA)


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
