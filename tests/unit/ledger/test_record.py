"""Pending writes as records: whatever a pending write says comes back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from extauthz.core.ledger.pending_write import PendingWrite, State
from extauthz.core.ledger.record import RecordError, dump, load
from extauthz.core.model import NO_PRECONDITION, OwnerRef, Precondition, Template, WorkloadRef

REF = WorkloadRef("apps", "deployments", "team-a", "web")
OWNER = OwnerRef("apps", "Deployment", "web", "u1")
PENDING = PendingWrite(
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
)
BARE = PendingWrite("d2", None, (), (), creates=False, precondition=NO_PRECONDITION, expires_s=50.0)


def carried(pending_write: PendingWrite) -> PendingWrite:
    ref, other = load(json.loads(json.dumps(dump(REF, pending_write))), 50.0, 9.0)
    assert ref == REF
    return other


@pytest.mark.parametrize("pending_write", [PENDING, BARE, replace(BARE, replicas=0, labels=("",), renewed=2)])
def test_what_a_pending_write_says_comes_back(pending_write: PendingWrite):
    assert carried(pending_write) == pending_write


def test_what_is_as_usual_is_left_out():
    assert dump(REF, BARE) == {"id": "d2", "workload": list(REF)}


def test_a_renewed_write_of_an_earlier_release_says_only_that_it_was_renewed():
    assert load({**dump(REF, BARE), "renewed": True}, 50.0, 9.0)[1].renewed == 1


def test_an_answered_write_counts_as_answered_now():
    answered = replace(PENDING, state=State.SUCCEEDED, answered_s=3.0)
    other = carried(answered)
    assert (other.state, other.answered_s) == (State.SUCCEEDED, 9.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workload", "x"),
        ("workload", ["apps"]),
        ("replicas", "3"),
        ("renewed", "twice"),
        ("state", "odd"),
        ("templates", 1),
        ("precondition", []),
        ("owner", ["apps"]),
    ],
)
def test_a_record_that_is_none_is_an_error(field: str, value: object):
    with pytest.raises(RecordError):
        load({**dump(REF, PENDING), field: value}, 50.0, 9.0)


@pytest.mark.parametrize("field", ["id", "workload"])
def test_a_record_that_lacks_its_name_is_an_error(field: str):
    with pytest.raises(RecordError, match=field):
        load({key: value for key, value in dump(REF, PENDING).items() if key != field}, 50.0, 9.0)
