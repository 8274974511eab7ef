"""``extauthz serve --notify`` as a process, and a real receiver: who is told what, and how often."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from envoy_data_plane.envoy.service.ext_proc import v3 as typed
from envoy_data_plane.google.protobuf import Struct

from extauthz.serve.servers import ext_proc
from tests.servers.running import QUOTAS, STATE, Running, scale, within
from tests.servers.test_serve_live import DEPLOYMENT, QUOTA, Live, api, copied, quota  # noqa: F401 (a fixture)
from tests.support.receiver import Receiver, ReceiverInBackground

WITHIN_S = 20.0
KEY = "k" * 32


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with ReceiverInBackground() as running:
        yield running.receiver


@pytest.fixture
def other() -> Iterator[Receiver]:
    with ReceiverInBackground() as running:
        yield running.receiver


def grown(gate: Running, replicas: int) -> None:
    """The state file says that ``web`` has so many."""
    state = json.loads(json.dumps(STATE))
    state["items"][1]["spec"]["replicas"] = replicas
    state["items"][1]["metadata"]["resourceVersion"] = str(100 + replicas)
    gate.state.write_text(json.dumps(state))


def quotas(pods: int, **spec: Any) -> str:
    (tree,) = yaml.safe_load_all(QUOTAS % pods)
    tree["spec"] |= spec
    return yaml.safe_dump(tree)


def counted(gate: Running, receiver: str, result: str) -> int:
    line = f'extauthz_notices_total{{receiver="{receiver}",result="{result}"}} '
    found = [one for one in gate.get("/metrics")[1].splitlines() if one.startswith(line)]
    return int(float(found[0].removeprefix(line))) if found else 0


def test_an_episode_is_told_once_however_often_the_autoscaler_asks_and_its_end_with_what_fits(receiver, tmp_path):
    with Running(tmp_path, "--notify", f"ops={receiver.url}/n") as gate:
        for _ in range(20):
            assert gate.check(6).denied_response is not None
        assert within(WITHIN_S, lambda: receiver.got)
        gate.quotas.write_text(QUOTAS % 9)
        assert within(WITHIN_S, lambda: gate.allows(6))
        assert gate.check(6).ok_response is not None
        assert within(WITHIN_S, lambda: receiver.taken("room"))
    refused, room = (one.tree for one in receiver.got)
    assert refused["type"] == "dev.extauthz.workspace.refused"
    assert refused["data"]["replicas"] == {"from": 3, "asked": 6, "fits": 4}
    assert refused["data"]["shortages"] == [
        {"quota": "acme", "resource": "pods", "requested": "3", "used": "3", "reserved": "0", "hard": "4"}
    ]
    assert room["data"]["times"] == 20
    assert (room["data"]["replicas"]["asked"], room["data"]["replicas"]["fits"]) == (6, 9)
    assert "up to 9 replicas fit now" in room["data"]["sentence"]


def test_a_quota_names_who_is_told_and_who_is_none_is_logged(receiver, other, tmp_path):
    (tmp_path / "quotas.yaml").write_text(quotas(4, notify=["team", "team-b", "https://evil.example/x"]))
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    flags = ("--notify", f"ops={receiver.url}/n team,named={other.url}/n")
    with Running(tmp_path, *flags) as gate:
        assert gate.check(6).denied_response is not None
        assert within(WITHIN_S, lambda: other.got)
        odd = [line["problem"] for line in gate.events("odd")]
    assert receiver.got == []
    assert [one.split(" is no receiver")[0] for one in odd] == [
        "WorkspaceQuota \"acme\": spec.notify[1]: 'team-b'",
        'WorkspaceQuota "acme": spec.notify[2]: a URL',
    ]


def test_a_receiver_that_hangs_keeps_no_decision_and_no_other_receiver_waiting(receiver, other, tmp_path):
    receiver.hangs = True
    with Running(tmp_path, "--notify", f"slow={receiver.url}/n", "--notify", f"ops={other.url}/n") as gate:
        assert gate.check(6).denied_response is not None
        assert within(WITHIN_S, lambda: receiver.got)
        assert gate.check(6).denied_response is not None, "while the receiver holds the request"
        gate.quotas.write_text(QUOTAS % 9)
        assert within(WITHIN_S, lambda: gate.allows(6))
        assert gate.check(6).ok_response is not None
        assert within(WITHIN_S, lambda: other.taken("room"))
        assert counted(gate, "slow", "delivered") == 0
    assert len(receiver.got) == 1, "the second waits for the first"


def test_a_stop_delivers_what_is_queued_and_says_what_it_could_not(receiver, other, tmp_path):
    receiver.status = 503
    receiver.headers = {"retry-after": "600"}
    with Running(tmp_path, "--notify", f"slow={receiver.url}/n", "--notify", f"ops={other.url}/n") as gate:
        assert gate.check(6).denied_response is not None
        assert within(WITHIN_S, lambda: gate.events("notice-retried") and other.got)
        assert gate.child.terminate() == 0
        (dropped,) = gate.events("notice-dropped")
    assert (dropped["receiver"], dropped["result"], dropped["notices"]) == ("slow", "unsent", 1)
    assert len(receiver.got) == 2, "it is tried once more at the stop"


def test_no_log_line_has_the_url_of_a_receiver(receiver, tmp_path):
    where = receiver.url.removeprefix("http://")
    receiver.status = 404
    both = f"ops=http://{where}/T0PSECRET?token=T0PSECRET dead=http://127.0.0.1:1/T0PSECRET?token=T0PSECRET"
    with Running(tmp_path, "--notify", both, "--log-level=debug") as gate:
        assert gate.check(6).denied_response is not None
        assert within(WITHIN_S, lambda: gate.events("notice-dropped") and gate.events("notice-retried"))
        metrics = gate.get("/metrics")[1]
    assert receiver.got[0].path == "/T0PSECRET"
    assert "T0PSECRET" not in gate.log_file.read_text() + metrics


def test_without_keys_it_is_warned_that_nothing_is_signed(receiver, tmp_path):
    with Running(tmp_path, "--notify", f"ops={receiver.url}/n chat,slack={receiver.url}/n") as gate:
        assert [line["receiver"] for line in gate.events("notices-unsigned")] == ["ops"]


def clamp(gate: Running, replicas: int) -> int | None:
    """Envoy's ext_proc asks: the count that is sent in its place."""
    http = scale(replicas)
    named = {
        ext_proc.METHOD: http.method,
        ext_proc.TARGET: http.path,
        ext_proc.HEADERS["content-type"]: http.headers["content-type"],
    }
    message = typed.ProcessingRequest(
        request_body=typed.HttpBody(body=http.raw_body, end_of_stream=True),
        attributes={ext_proc.FILTER: Struct.from_dict(named)},
    )
    with gate.channel() as channel:
        call = channel.stream_stream(
            f"/{ext_proc.SERVICE}/Process",
            request_serializer=bytes,
            response_deserializer=typed.ProcessingResponse.parse,
        )
        (answer,) = call(iter([message]), timeout=5)
    response = answer.request_body.response
    return json.loads(response.body_mutation.body)["spec"]["replicas"] if response is not None else None


def over_by_growth_past_the_gate(api: Any) -> None:  # noqa: F811
    grown = copied(STATE["items"][1])
    grown["spec"]["replicas"] = 6
    api.objects.put(DEPLOYMENT, grown, "MODIFIED")


def test_on_a_cluster_the_gate_that_writes_the_status_tells_and_no_other_after_it(api, receiver, tmp_path: Path):  # noqa: F811
    with Live(tmp_path, "--notify", f"ops={receiver.url}/n"):
        over_by_growth_past_the_gate(api)
        assert within(WITHIN_S, lambda: receiver.taken("over"))
    with Live(tmp_path, "--notify", f"ops={receiver.url}/n") as gate:
        assert gate.check(9).denied_response is not None
        assert within(WITHIN_S, lambda: receiver.taken("refused"))
        lower = copied(api.objects.items[QUOTA])
        lower["spec"]["hard"]["pods"] = "5"
        api.objects.put(QUOTA, lower, "MODIFIED")
        assert within(WITHIN_S, lambda: condition(api, "WithinHard")["message"].startswith("pods: used 6, hard 5"))
    assert [one["data"]["amounts"] for one in receiver.taken("over")] == [
        [{"resource": "pods", "used": "6", "hard": "4"}]
    ]


def condition(api: Any, kind: str) -> dict[str, str]:  # noqa: F811
    """Of the status of ``acme``."""
    found = api.objects.items[QUOTA].get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == kind), {"status": "", "message": ""})
