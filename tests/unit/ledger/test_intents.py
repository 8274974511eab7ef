"""Intents end by the rows of the table, and by no other event (DESIGN §6.3)."""

from __future__ import annotations

import pytest

from extauthz.core.ledger.intents import TRANSITIONS, Event, Intent, State, is_newer
from extauthz.core.model import Observed, Precondition


def intent(state: State = State.OPEN, **precondition: str) -> Intent:
    return Intent("i", 3, (), (), False, Precondition(**precondition), 90.0, state)


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
def test_a_live_intent_ends_by_these_events_and_no_others(state: State, event: Event):
    assert intent(state).on(event) is ((state, event) in ENDINGS)


@pytest.mark.parametrize("event", Event)
def test_what_has_ended_stays_ended(event: Event):
    assert intent(State.ENDED).on(event)


@pytest.mark.parametrize(
    ("precondition", "observed", "passed"),
    [
        pytest.param({}, None, False, id="without-one-it-may-still-land-on-a-recreated-object"),
        pytest.param({"resource_version": "7"}, None, True, id="gone"),
        pytest.param({"resource_version": "7"}, Observed(1, None, resource_version="7"), False, id="still-the-same"),
        pytest.param({"resource_version": "7"}, Observed(1, None, resource_version="8"), True, id="newer"),
        pytest.param({"resource_version": "9"}, Observed(1, None, resource_version="10"), True, id="newer-by-number"),
        pytest.param({"resource_version": "9"}, Observed(1, None, resource_version="8"), False, id="our-view-lags"),
        pytest.param({"resource_version": "7"}, Observed(1, None, resource_version="x"), False, id="incomparable"),
        pytest.param({"uid": "a"}, Observed(1, None, uid="b"), True, id="another-object-of-that-name"),
        pytest.param({"uid": "a"}, Observed(1, None, uid="a"), False, id="the-same-object"),
        pytest.param({"uid": "a"}, Observed(1, None), False, id="no-uid-known"),
    ],
)
def test_a_precondition_is_passed_only_when_it_can_not_be_met_any_more(
    precondition: dict[str, str], observed: Observed | None, passed: bool
):
    assert intent(**precondition).passed_by(observed) is passed


@pytest.mark.parametrize(
    ("a", "b", "newer"), [("10", "9", True), ("9", "10", False), ("9", "9", False), ("", "1", False)]
)
def test_resource_versions_compare_as_numbers(a: str, b: str, newer: bool):
    assert is_newer(a, b) is newer
