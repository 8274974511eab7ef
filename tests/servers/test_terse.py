"""Terse refusals: no quota and no number for whoever may reach Envoy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extauthz.core.model import Decision, Evidence, Request, Shortage, Turn, Unspecified, Verdict, WorkloadRef
from extauthz.servers import ext_authz
from extauthz.service.deciding import terse

from .running import Running, within

WEB = WorkloadRef("apps", "deployments", "shop", "web")
SECRET = 'deployments.apps "web" is forbidden: exceeded workspace quota: secret-corp, used: pods=3, limited: pods=4'
SHORT = Shortage("secret-corp", ("secret-corp",), "pods", 2, 3, 0, 4)
REFUSED = Decision("d7", Verdict.DENY, "exceeded-quota", SECRET, WEB, evidence=Evidence((SHORT,)))


def decided(decision: Decision) -> Decision:
    found = terse(lambda request: decision)(Request("PATCH", "/", {}, b""))
    assert isinstance(found, Decision)
    return found


@pytest.mark.parametrize(
    ("verdict", "ref", "sentence"),
    [
        (Verdict.DENY, WEB, 'deployments.apps "web" is forbidden: exceeded a workspace quota (decision d7)'),
        (
            Verdict.UNAVAILABLE,
            None,
            "this write was not decided by the quota gate; it is safe to try again (decision d7)",
        ),
    ],
)
def test_a_refusal_names_no_quota_and_no_number(verdict: Verdict, ref: WorkloadRef | None, sentence: str):
    _, body = ext_authz.of(decided(REFUSED._replace(verdict=verdict, ref=ref)))
    assert json.loads(body)["message"] == sentence
    assert "secret-corp" not in body


def test_an_owner_who_has_to_say_more_is_told_so_without_names():
    silent = (Unspecified("secret-corp", ("secret-corp",), "requests.cpu", ("secret-proxy",)),)
    said = decided(REFUSED._replace(reason="must-specify", evidence=Evidence(unspecified=silent))).sentence
    assert said.startswith('deployments.apps "web" is forbidden: its containers must specify')
    assert "secret" not in said


def test_whose_turn_has_not_come_reads_neither_a_quota_nor_a_place():
    evidence = Evidence(turn=Turn("secret-corp", 2, 15.0))
    said = decided(REFUSED._replace(reason="not-its-turn", evidence=evidence)).sentence
    assert said == 'deployments.apps "web" is forbidden: its turn for a workspace quota has not come (decision d7)'


def test_what_is_allowed_stays_as_it_is():
    allowed = REFUSED._replace(verdict=Verdict.ALLOW)
    assert decided(allowed) is allowed


async def test_a_decision_that_comes_later_is_shortened_too():
    async def later() -> Decision:
        return REFUSED

    found = await terse(lambda request: later())(Request("PATCH", "/", {}, b""))
    assert "secret-corp" not in found.sentence


def test_a_long_name_does_not_hide_the_id():
    assert decided(REFUSED._replace(ref=WEB._replace(name="n" * 10**6))).sentence.endswith(" (decision d7)")


@pytest.mark.parametrize(("flags", "told"), [((), True), (("--refusals", "terse"), False)], ids=["full", "terse"])
def test_the_gate_tells_clients_what_the_setting_says_and_the_log_everything(tmp_path: Path, flags, told: bool):
    with Running(tmp_path, *flags) as gate:
        answer = gate.check(9)
        assert answer.denied_response is not None
        assert ("acme" in answer.denied_response.body) is told
        assert within(5, lambda: gate.events("decision"))
        assert "acme" in gate.events("decision")[0]["sentence"]
