"""A pending write, and what ends it.

A *pending write* was allowed and may still land. "Not there" is not "will never be": the API server may finish a
request after its client went away. So a pending write ends only by the rows of ``TRANSITIONS``, and every pair of state
and event has a row (design.md L3).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from extauthz.core.model import Labels, Observed, OwnerRef, Precondition, Template


class State(StrEnum):
    OPEN = "open"
    """Allowed; nothing certain is known since."""
    SUCCEEDED = "succeeded"
    """The API server answered 2xx. No read after that answer has shown the effect yet."""
    EXPIRED = "expired"
    """The landing window has elapsed. It cannot land any more, but its effect may not be observed yet."""
    ENDED = "ended"


class Event(StrEnum):
    NOT_FORWARDED = "not-forwarded"
    """It never left the proxy (L3a)."""
    REFUSED = "refused"
    """Answered 4xx, but not 408, in a single attempt (L3b)."""
    ANSWERED_OK = "answered-ok"
    """Answered 2xx."""
    ANSWERED_UNCLEAR = "answered-unclear"
    """408, 5xx or a reset: it may have landed, and may still."""
    SEEN = "seen"
    """A consistent read that began after the answer is part of the observed state (L3c)."""
    PRECONDITION_PASSED = "precondition-passed"
    """The observed object has moved past the precondition, or is gone (L3d)."""
    WINDOW_ELAPSED = "window-elapsed"
    """The landing window has elapsed (L3e)."""
    READ_AFTER_WINDOW = "read-after-window"
    """A consistent read that began after the landing window is part of the observed state (L3e)."""


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.OPEN: {
        Event.NOT_FORWARDED: State.ENDED,
        Event.REFUSED: State.ENDED,
        Event.ANSWERED_OK: State.SUCCEEDED,
        Event.ANSWERED_UNCLEAR: State.OPEN,
        Event.SEEN: State.OPEN,  # without a response nothing seen proves that it will not land later
        Event.PRECONDITION_PASSED: State.ENDED,
        Event.WINDOW_ELAPSED: State.EXPIRED,
        Event.READ_AFTER_WINDOW: State.OPEN,
    },
    State.SUCCEEDED: {
        Event.NOT_FORWARDED: State.SUCCEEDED,
        Event.REFUSED: State.SUCCEEDED,
        Event.ANSWERED_OK: State.SUCCEEDED,
        Event.ANSWERED_UNCLEAR: State.SUCCEEDED,
        Event.SEEN: State.ENDED,
        Event.PRECONDITION_PASSED: State.ENDED,
        Event.WINDOW_ELAPSED: State.SUCCEEDED,
        Event.READ_AFTER_WINDOW: State.ENDED,
    },
    State.EXPIRED: {
        Event.NOT_FORWARDED: State.ENDED,
        Event.REFUSED: State.ENDED,
        Event.ANSWERED_OK: State.SUCCEEDED,
        Event.ANSWERED_UNCLEAR: State.EXPIRED,
        Event.SEEN: State.EXPIRED,
        Event.PRECONDITION_PASSED: State.ENDED,
        Event.WINDOW_ELAPSED: State.EXPIRED,
        Event.READ_AFTER_WINDOW: State.ENDED,
    },
    State.ENDED: dict.fromkeys(Event, State.ENDED),
}


ANSWERS = frozenset({Event.NOT_FORWARDED, Event.REFUSED, Event.ANSWERED_OK})
"""An event that is certain about one request."""


@dataclass(slots=True)
class PendingWrite:
    """What one allowed request may still do. ``None`` and ``()`` mean: it leaves that as it is. Where it may
    leave one of several, all are listed."""

    id: str
    replicas: int | None
    templates: tuple[Template, ...]
    labels: tuple[Labels, ...]
    creates: bool
    """It may create the object."""
    precondition: Precondition
    expires_s: float
    """When the landing window has elapsed, on the gate's own monotonic clock."""
    state: State = State.OPEN
    source: str = ""
    """Who sent it; empty: not known."""
    answered_s: float | None = None
    """When the answer of success came, on the clock of ``expires_s``."""
    owner: OwnerRef | None = None
    """The controller that it names; ``None``: none, or as it is."""
    frees: bool = False
    """It may remove the object's controller."""
    renewed: int = 0
    """For how many later requests of the same effect it stands too. So the answer to one of them does not end it."""
    joins: tuple[Labels, ...] = ()
    """The labels of the owner whose family it may bring the object into: the object may come to count by them."""

    @property
    def counts_alone(self) -> bool:
        """It changes no template and no label, and brings the object into no family."""
        return not self.templates and not self.labels and not self.joins

    @property
    def touches(self) -> bool:
        """It writes the template, the labels or the owner, or creates the object."""
        return bool(self.templates or self.labels or self.creates or self.frees or self.owner is not None)

    @property
    def is_admitted_create(self) -> bool:
        """It brings a whole object, whose uid is known. It lands only where there is none, and is seen when it has."""
        return self.creates and self.precondition.uid is not None

    def changes(self, observed: Observed) -> bool:
        """It leaves a template, labels or an owner that differ from those ``observed``."""
        return (
            self.frees
            or self.owner not in (None, observed.owner)
            or any(template != observed.template for template in self.templates)
            or any(labels != observed.labels for labels in self.labels)
        )

    @property
    def made(self) -> Observed | None:
        """The object that it makes where there is none; ``None``: it makes none."""
        if not self.creates:
            return None
        template = self.templates[0] if self.templates else None
        return Observed(self.replicas or 0, template, self.labels[0] if self.labels else "", owner=self.owner)

    @property
    def effect(self) -> tuple[object, ...]:
        """Its effect and its precondition. Identical retries have the same."""
        what = self.replicas, self.templates, self.labels, self.owner
        return *what, self.creates, self.frees, self.precondition

    def on(self, event: Event) -> bool:
        """Take ``event``. True: the pending write has ended."""
        if self.renewed and event in ANSWERS:
            event = Event.ANSWERED_UNCLEAR  # the answer to one of several requests
        self.state = TRANSITIONS[self.state][event]
        return self.state is State.ENDED

    def on_read(self, started_s: float) -> bool:
        """Take a consistent read of its workload that began at ``started_s``. True: the pending write has ended."""
        if self.expires_s <= started_s:
            self.on(Event.WINDOW_ELAPSED)
            return self.on(Event.READ_AFTER_WINDOW)
        return self.answered_s is not None and self.answered_s < started_s and self.on(Event.SEEN)

    def passed_by(self, before: Observed | None, observed: Observed | None) -> bool:
        """Whether its precondition can no longer be met, as the step from ``before`` to ``observed`` shows. ``None``
        means gone.

        The caller may have seen more than the gate: that what was there before is gone, or is still there, proves
        nothing.
        """
        wants_version, wants_uid = self.precondition
        if self.is_admitted_create and observed is not None and observed.uid == wants_uid:
            return True
        if wants_uid and before is not None and before.uid == wants_uid:
            now = observed.uid if observed is not None else "(gone)"
            if now and now != wants_uid:
                return True
        if wants_version is None:
            return False
        if observed is not None:
            return is_newer(observed.resource_version, wants_version)
        seen = before.resource_version if before is not None else ""
        return seen == wants_version or is_newer(seen, wants_version)


def is_newer(version: str, than: str) -> bool:
    """Whether resourceVersion ``version`` is later than ``than``; False where the two cannot be compared.

    resourceVersions of one resource are ordered decimal integers of any length, without zeros before them: the longer
    one is later (KEP-5504, comparable resource version).
    """
    is_later = (len(version), version) > (len(than), than)
    return is_later and _VERSION(version) is not None and _VERSION(than) is not None


_VERSION: Final = re.compile("0|[1-9][0-9]*").fullmatch
