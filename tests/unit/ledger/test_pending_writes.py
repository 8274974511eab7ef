"""Pending writes end by the rows of the table, and by no other event (design.md L3)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from extauthz.core.ledger.entry import TRANSITIONS, Event, PendingWrite, State, is_newer
from extauthz.core.ledger.pending_writes import RecordError, dump, load
from extauthz.core.model import NO_PRECONDITION, Observed, OwnerRef, Precondition, Template, WorkloadRef


def pending_write(state: State = State.OPEN, **precondition: str) -> PendingWrite:
    return PendingWrite("i", 3, (), (), False, Precondition(**precondition), 90.0, state)


ENDINGS = {
    (State.OPEN, Event.NOT_FORWARDED),
    (State.OPEN, Event.REFUSED),
    (State.OPEN, Event.PRECONDITION_PASSED),
    (State.SUCCEEDED, Event.SEEN),
    (State.SUCCEEDED, Event.PRECONDITION_PASSED),
    (State.SUCCEEDED, Event.READ_AFTER_WINDOW),
    (State.EXPIRED, Event.NOT_FORWARDED),
    (State.EXPIRED, Event.REFUSED),
    (State.EXPIRED, Event.PRECONDITION_PASSED),
    (State.EXPIRED, Event.READ_AFTER_WINDOW),
}


def test_every_state_has_a_row_for_every_event():
    assert set(TRANSITIONS) == set(State)
    assert all(set(row) == set(Event) for row in TRANSITIONS.values())


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", [State.OPEN, State.SUCCEEDED, State.EXPIRED])
def test_a_live_pending_write_ends_by_these_events_and_no_others(state: State, event: Event):
    assert pending_write(state).on(event) is ((state, event) in ENDINGS)


@pytest.mark.parametrize("event", Event)
def test_what_has_ended_stays_ended(event: Event):
    assert pending_write(State.ENDED).on(event)


SEVEN, EIGHT = (Observed(1, None, uid="a", resource_version=version) for version in ("7", "8"))


@pytest.mark.parametrize(
    ("precondition", "before", "observed", "passed"),
    [
        pytest.param({}, SEVEN, None, False, id="without-one-it-may-still-land-on-a-recreated-object"),
        pytest.param({"resource_version": "7"}, SEVEN, None, True, id="gone"),
        pytest.param({"resource_version": "7"}, EIGHT, None, True, id="newer-and-gone"),
        pytest.param({"resource_version": "8"}, SEVEN, None, False, id="gone-what-was-before-it"),
        pytest.param({"resource_version": "8"}, None, None, False, id="never-there"),
        pytest.param({"resource_version": "7"}, None, SEVEN, False, id="still-the-same"),
        pytest.param({"resource_version": "7"}, SEVEN, EIGHT, True, id="newer"),
        pytest.param(
            {"resource_version": "9"}, None, Observed(1, None, resource_version="10"), True, id="newer-by-number"
        ),
        pytest.param({"resource_version": "9"}, SEVEN, EIGHT, False, id="our-view-lags"),
        pytest.param(
            {"resource_version": "7"}, SEVEN, Observed(1, None, resource_version="x"), False, id="incomparable"
        ),
        pytest.param({"uid": "a"}, SEVEN, Observed(1, None, uid="b"), True, id="another-object-of-that-name"),
        pytest.param({"uid": "b"}, None, SEVEN, False, id="still-the-object-before-it"),
        pytest.param({"uid": "a"}, SEVEN, None, True, id="that-object-is-gone"),
        pytest.param({"uid": "a"}, SEVEN, EIGHT, False, id="the-same-object"),
        pytest.param({"uid": "a"}, SEVEN, Observed(1, None), False, id="no-uid-known"),
    ],
)
def test_a_precondition_is_passed_only_when_it_can_not_be_met_any_more(
    precondition: dict[str, str], before: Observed | None, observed: Observed | None, passed: bool
):
    assert pending_write(**precondition).passed_by(before, observed) is passed


@pytest.mark.parametrize(
    ("a", "b", "newer"), [("10", "9", True), ("9", "10", False), ("9", "9", False), ("", "1", False)]
)
def test_resource_versions_compare_as_numbers(a: str, b: str, newer: bool):
    assert is_newer(a, b) is newer


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
