"""Intents as records: whatever an intent says comes back, but what a patch says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from extauthz.core.ledger.intents import Intent, State
from extauthz.core.ledger.record import RecordError, dump, load
from extauthz.core.model import NO_PRECONDITION, OwnerRef, Precondition, Template, WorkloadRef

REF = WorkloadRef("apps", "deployments", "team-a", "web")
OWNER = OwnerRef("apps", "Deployment", "web", "u1")
INTENT = Intent(
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
)
BARE = Intent("d2", None, (), (), creates=False, precondition=NO_PRECONDITION, expires_s=50.0)


def carried(intent: Intent) -> Intent:
    ref, other = load(json.loads(json.dumps(dump(REF, intent))), 50.0, 9.0)
    assert ref == REF
    return other


@pytest.mark.parametrize("intent", [INTENT, BARE, replace(BARE, replicas=0, labels=("",), renewed=True)])
def test_what_an_intent_says_comes_back(intent: Intent):
    assert carried(intent) == intent


def test_what_is_as_usual_is_left_out():
    assert dump(REF, BARE) == {"id": "d2", "workload": list(REF)}


def test_an_answered_write_counts_as_answered_now():
    answered = replace(INTENT, state=State.SUCCEEDED, answered_s=3.0)
    other = carried(answered)
    assert (other.state, other.answered_s) == (State.SUCCEEDED, 9.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workload", "x"),
        ("workload", ["apps"]),
        ("replicas", "3"),
        ("state", "odd"),
        ("templates", 1),
        ("precondition", []),
        ("owner", ["apps"]),
    ],
)
def test_a_record_that_is_none_is_an_error(field: str, value: object):
    with pytest.raises(RecordError):
        load({**dump(REF, INTENT), field: value}, 50.0, 9.0)


@pytest.mark.parametrize("field", ["id", "workload"])
def test_a_record_that_lacks_its_name_is_an_error(field: str):
    with pytest.raises(RecordError, match=field):
        load({key: value for key, value in dump(REF, INTENT).items() if key != field}, 50.0, 9.0)
