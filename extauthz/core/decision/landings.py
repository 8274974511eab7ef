"""What a write may leave, in whatever order it and the writes under way land.

A patch leaves what it makes of what it finds. So it is resolved on every state that the patches under way may leave
before it, and each of those is resolved anew on what it may leave itself: two patches that fit each by itself can make
more together, in one order or the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from extauthz.core.intake.resolve import resolve
from extauthz.core.ledger.entry import Entry
from extauthz.core.model import Observed, Outcome, Put, Unreadable, Write

MAX_PATCHES = 4
"""Different patches of one workload under way at once: they may land in 4! orders."""

MAX_STATES = 128
"""States that they may leave. A workload's author rarely needs five, and each costs some tens of microseconds."""


@dataclass(slots=True)
class Landings:
    """All that may come of one write."""

    own: list[Outcome] = field(default_factory=list)
    """Its own outcomes, one for each state that it may find."""
    late: list[Outcome] = field(default_factory=list)
    """Outcomes of patches under way, where they land after it."""


class _TooMany(Exception):  # noqa: N818 (not an error of anybody)
    """More orders than are worth following."""


class _Unreadable(Exception):  # noqa: N818
    def __init__(self, reading: Unreadable) -> None:
        super().__init__(reading.code)
        self.reading = reading


def is_patch(write: Write) -> bool:
    """Whether what it leaves of the template and the labels depends on what it finds."""
    return not write.scale and not isinstance(write.change, Put)


def follow(write: Write, entry: Entry | None) -> Landings | Unreadable:
    """Resolve ``write`` on every state that it may find, and what is under way on every state that it may leave."""
    observed = entry.observed if entry is not None else None
    if entry is None or not entry.intents or (write.scale and observed is not None):
        outcome = resolve(write, observed)  # nothing comes before or after it that matters to it: nearly every write
        return outcome if isinstance(outcome, Unreadable) else Landings([outcome])
    return _follow_all(write, entry)


def _follow_all(write: Write, entry: Entry) -> Landings | Unreadable:
    starts = tuple(_starts(entry))
    if write.scale or not any(intent.templates or intent.labels for intent in entry.live_intents()):
        starts = starts[:1]
        pending: list[Write] = []
    else:
        pending = _different(intent.patch for intent in entry.live_intents() if intent.patch is not None)
    landings = Landings()
    try:
        if len(pending) > MAX_PATCHES:
            raise _TooMany
        _explore(write, starts or (None,), pending, landings)
    except _TooMany:
        detail = f"{len(pending)} other patches of it are under way and may land in any order; try again after W"
        return Unreadable("too-many-patches", detail, write.ref)
    except _Unreadable as stop:
        return stop.reading
    return landings


def _starts(entry: Entry) -> Iterator[Observed]:
    """The observed state, and what writes under way leave whatever they find (creates, and PUTs of whole objects)."""
    observed = entry.observed
    if observed is not None:
        yield observed
    for intent in entry.live_intents():
        if intent.patch is not None and observed is not None:
            continue  # followed from the other states
        if observed is None and not intent.creates:
            continue  # what it would find is not known
        for template in intent.templates:
            for labels in intent.labels or (observed.labels if observed is not None else "",):
                yield replace(observed or Observed(0, None), template=template, labels=labels)


def _different(patches: Iterator[Write]) -> list[Write]:
    """Each once: an identical retry leaves what the first one left."""
    different: list[Write] = []
    for patch in patches:
        if all(patch.change != other.change for other in different):
            different.append(patch)
    return different


def _explore(write: Write, starts: Sequence[Observed | None], pending: list[Write], landings: Landings) -> None:
    todo = [(start, frozenset(range(len(pending))), False) for start in starts]
    seen = set()
    while todo:
        base, left, landed = todo.pop()
        key = (base and (base.template, base.labels), left, landed)
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > MAX_STATES:
            raise _TooMany
        if not landed:
            outcome = _resolve(write, base)
            landings.own.append(outcome)
            todo += [(state, left, True) for state in _left_by(outcome, base)]
        for index in left:
            outcome = _resolve(pending[index], base)
            if landed:
                landings.late.append(outcome)
            todo += [(state, left - {index}, landed) for state in _left_by(outcome, base)]


def _resolve(write: Write, base: Observed | None) -> Outcome:
    outcome = resolve(write, base)
    if isinstance(outcome, Unreadable):
        raise _Unreadable(outcome)
    return outcome


def _left_by(outcome: Outcome, base: Observed | None) -> Iterator[Observed]:
    found = base or Observed(0, None)
    for template in outcome.templates or (found.template,):
        for labels in outcome.label_sets or (found.labels,):
            yield replace(found, template=template, labels=labels)
