"""The two forms of a notice. A CloudEvent is what the project's own package reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from extauthz.notify.notice import CLOUDEVENT, Kind, Notice, cloudevent, slack

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
