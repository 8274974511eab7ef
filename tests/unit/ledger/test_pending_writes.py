"""Pending writes end by the rows of the table, and by no other event (design.md L3)."""

from __future__ import annotations

import pytest

from extauthz.core.ledger.pending_write import TRANSITIONS, Event, PendingWrite, State, is_newer
from extauthz.core.model import Observed, Precondition


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
