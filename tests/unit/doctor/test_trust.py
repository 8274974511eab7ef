"""Certificates, tokens and the canary's answers: what each means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from extauthz.tools.doctor import canary, trust
from extauthz.tools.doctor.canary import CanaryReply
from extauthz.tools.doctor.table import Verdict
from extauthz.tools.doctor.trust import Handshake, Identity

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def shown(left: timedelta) -> Handshake:
    return Handshake("127.0.0.1:6443", expires=NOW + left, names=("localhost",))


@pytest.mark.parametrize(
    ("days", "verdict"), [(60, "ok"), (15, "ok"), (13, "warn"), (0, "fail"), (-1, "fail")], ids=str
)
def test_a_certificate_is_warned_about_two_weeks_before_it_ends(days: int, verdict: str):
    assert trust.validity(shown(timedelta(days=days)), None, NOW).verdict == verdict


def test_of_all_certificates_that_the_proxy_has_the_first_to_expire_counts():
    late = {"path": "/late.crt", "expiration_time": "2027-11-21T00:00:00Z"}
    soon = {"path": "/gate.crt", "expiration_time": "2026-11-22T00:00:00Z"}
    row = trust.validity(shown(timedelta(days=99)), {"certificates": [{"ca_cert": [late], "cert_chain": [soon]}]}, NOW)
    assert row.verdict is Verdict.WARN
    assert row.found.startswith("/gate.crt is the first to expire, 2026-11-22 00:00 UTC (in 1 days)")


def test_what_a_mesh_renews_by_itself_does_not_count():
    day = {
        "expiration_time": "2026-11-22T00:00:00Z",
        "subject_alt_names": [{"uri": "spiffe://cluster.local/ns/a/sa/b"}],
    }
    assert (
        trust.validity(shown(timedelta(days=99)), {"certificates": [{"cert_chain": [day]}]}, NOW).verdict is Verdict.OK
    )


ALICE, BOB = Identity("alice"), Identity("bob")
TOKENS = {
    "same": (ALICE, ALICE, "ok"),
    "another": (ALICE, BOB, "fail"),
    "lost": (Identity("system:anonymous"), ALICE, "fail"),
    "not-taken": (Identity(error="401: Unauthorized"), ALICE, "fail"),
    "not-compared": (ALICE, None, "skipped"),
    "not-told": (ALICE, Identity(error="no review of the token: 403"), "warn"),
    "not-given": (None, None, "skipped"),
}


@pytest.mark.parametrize(("through", "straight", "verdict"), TOKENS.values(), ids=TOKENS)
def test_a_token_must_name_the_same_user_both_ways(through, straight, verdict: str):
    assert trust.token(through, straight).verdict == verdict


DECIDED, PASSED, REFUSED = CanaryReply(403, "d-1"), CanaryReply(200), CanaryReply(400)
OUTAGE = CanaryReply(503, message="quota gate unavailable: nobody could tell …")
ANSWERS = {
    "refused-by-the-gate": ([DECIDED], None, "ok"),
    "unreadable-refused-by-the-gate": ([PASSED, CanaryReply(503, "d-2")], 2, "ok"),
    "passed-uncounted": ([PASSED, REFUSED], 0, "fail"),
    "passed-one-counted": ([PASSED, REFUSED], 1, "fail"),
    "passed-counted": ([PASSED, REFUSED], 2, "warn"),
    "passed-nobody-counts": ([PASSED, REFUSED], None, "fail"),
    "gate-down": ([OUTAGE, OUTAGE], 0, "fail"),
    "no-answer": ([CanaryReply(0, message="refused")], None, "fail"),
    "not-asked": ([], None, "skipped"),
}


@pytest.mark.parametrize(("answers", "counted", "verdict"), ANSWERS.values(), ids=ANSWERS)
def test_only_a_decision_of_the_gates_shows_that_it_is_in_the_way(answers, counted, verdict: str):
    assert canary.row(["team-a/web"], answers, counted).verdict == verdict
