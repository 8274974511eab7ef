"""Intents as records: whatever an intent says comes back, but for the patch, which stays in memory."""

from __future__ import annotations

import json

import pytest

from extauthz.core.ledger.intents import Intent, State
from extauthz.core.ledger.record import RecordError, dump, load
from extauthz.core.model import NO_PRECONDITION, OwnerRef, Precondition, Template, WorkloadRef

REF = WorkloadRef("apps", "deployments", "team-a", "web")
OWNER = OwnerRef("apps", "Deployment", "web", "u1")


def an_intent() -> Intent:
    return Intent(
        id="d1",
        replicas=3,
        templates=(Template(b'{"template":{}}'),),
        labels=("a=1", "b=2"),
        creates=True,
        precondition=Precondition("7", "u0"),
        expires_s=50.0,
        source="10.0.0.9",
        owner=OWNER,
        frees=True,
        keeps_count=True,
        renewed=True,
    )


def carried(intent: Intent) -> Intent:
    ref, other = load(json.loads(json.dumps(dump(REF, intent))), 50.0, 9.0)
    assert ref == REF
    return other


def test_what_an_intent_says_comes_back():
    assert carried(an_intent()) == an_intent()


def test_one_that_names_nothing_comes_back():
    bare = Intent("d2", None, (), (), creates=False, precondition=NO_PRECONDITION, expires_s=50.0)
    assert carried(bare) == bare


def test_an_answered_write_counts_as_answered_now():
    intent = an_intent()
    intent.state = State.SUCCEEDED
    intent.answered_s = 3.0
    other = carried(intent)
    assert (other.state, other.answered_s) == (State.SUCCEEDED, 9.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workload", "x"),
        ("replicas", "3"),
        ("state", "odd"),
        ("templates", 1),
        ("precondition", []),
        ("owner", ["apps"]),
    ],
)
def test_a_record_that_is_none_is_an_error(field: str, value: object):
    with pytest.raises(RecordError):
        load({**dump(REF, an_intent()), field: value}, 50.0, 9.0)


def test_a_record_that_lacks_a_field_is_an_error():
    with pytest.raises(RecordError, match="frees"):
        load({key: value for key, value in dump(REF, an_intent()).items() if key != "frees"}, 50.0, 9.0)
