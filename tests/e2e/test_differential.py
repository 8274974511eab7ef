"""Growth for a real API server is the same growth for the reader (docs/design.md rule 8): random requests.

``EXTAUTHZ_SEED`` makes the requests of an earlier run again, ``EXTAUTHZ_REQUESTS`` sets how many there are.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

import pytest

from extauthz.core.model import NotAWrite, Observed, Request, Unreadable
from tests.controlplane import judging
from tests.controlplane.corpus import mixed
from tests.controlplane.judging import (
    Read,
    State,
    after,
    as_a_door_hands_it_over,
    base_of,
    covers,
    is_custom,
    packed_body,
    read_as,
    ref_of,
    same_object,
    state_of,
)
from tests.controlplane.plane import running_plane
from tests.controlplane.record_spellings import Recorder, all_spellings
from tests.controlplane.wire import Wire

Tree = Any
# Taken out of the environment: a gate refuses settings that it does not know.
SEED = int(os.environ.pop("EXTAUTHZ_SEED", "") or random.SystemRandom().randrange(1 << 32))
REQUESTS = int(os.environ.pop("EXTAUTHZ_REQUESTS", "") or 4000)
SHOWN = 10
"""Of the requests that were read otherwise, so many are printed."""

Reading: TypeAlias = Read | NotAWrite | Unreadable

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """Of a control plane with nothing else in it: all objects are looked at after each request."""
    with running_plane() as plane, contextlib.closing(Wire(plane)) as wire, contextlib.closing(Wire(plane)) as raw:
        recorder = Recorder(wire, raw)
        recorder.set_up()
        yield recorder


def test_whatever_the_server_takes_for_growth_or_for_a_dry_run_the_reader_has_read_as_that(recorder, tell):
    tell(f"{REQUESTS} requests by EXTAUTHZ_SEED={SEED}")
    verdicts: Counter[str] = Counter()
    faults = []
    for spelling in mixed.spellings(SEED, REQUESTS, all_spellings()):
        before = recorder.before
        row = recorder.record(spelling)
        reading = judging.reading_of(request_of(row), seen(before))
        for verdict, fault in judged(row, reading, before):
            verdicts[verdict] += 1
            if fault:
                faults.append(f"{fault}\n  {reading}\n  {json.dumps(row)}")
    tell(", ".join(f"{verdict}: {count}" for verdict, count in sorted(verdicts.items())))
    assert not faults, f"EXTAUTHZ_SEED={SEED}: {len(faults)} read otherwise:\n" + "\n".join(faults[:SHOWN])
    assert verdicts["growth"] > REQUESTS / 20, "these requests hardly tried anything"
    assert verdicts["growth read"] > verdicts["growth"] / 2, "what is not read is refused, and that is no reading"
    assert verdicts["dry run"] > REQUESTS / 300


def request_of(row: Tree) -> Request:
    request = row["request"]
    return as_a_door_hands_it_over(request["method"], request["target"], request["headers"], packed_body(request))


def seen(before: Mapping[str, Tree]) -> Callable[[str], Observed | None]:
    """The objects before the request, as an informer would have them."""
    return lambda ref: base_of(ref, before.get(ref))


def judged(row: Tree, reading: Reading, before: Mapping[str, Tree]) -> Iterator[tuple[str, str]]:
    """What came of a request, and what is wrong with how it was read (empty where nothing is)."""
    for ref, change in row["changed"].items():
        if change is None:
            yield "gone", ""
            continue
        old = state_of(base_of(ref, before.get(ref)))
        new = after(old, change)
        if covers(old, new):
            yield "shrunk", "less was taken for a dry run" if is_dry_run(reading) else ""
            continue
        scale = unquote(row["request"]["target"].partition("?")[0]).rstrip("/").endswith("/scale")
        fault = fault_of_growth(ref, old, new, reading, scale=scale)
        yield "growth", fault
        if isinstance(reading, Read) and not fault:
            yield "growth read", ""
    if "answered" in row and isinstance(reading, Read):
        yield from judged_as_dry_run(row["answered"], reading)


def is_dry_run(reading: Reading) -> bool:
    return isinstance(reading, Read) and reading.write.dry_run


def fault_of_growth(ref: str, old: State, new: State, reading: Reading, *, scale: bool) -> str:
    match reading:
        case Unreadable():
            return ""  # refused: seen, and nothing grows
        case NotAWrite():
            only_labels = covers(old._replace(labels=new.labels), new)
            # What no reader could see, and what rule 7 keeps off the gate: OUT_OF_SIGHT of the recorded spellings.
            out_of_sight = (is_custom(ref) and not scale) or (reading.code == "status" and only_labels)
            return "" if out_of_sight else "growth was not seen"
    if reading.write.dry_run:
        return "growth was taken for a dry run"
    if not same_object(reading.write.ref, ref_of(ref)):
        return "growth of another object"
    return "" if covers(read_as(state_of(reading.base), reading.outcome), new) else "growth was read as less"


def judged_as_dry_run(answered: Tree, reading: Read) -> Iterator[tuple[str, str]]:
    """The answer shows an object that is not what is stored: unless it is that of another, unchanged one."""
    base = state_of(reading.base)
    if after(base, answered) != base:
        yield "dry run", "" if reading.write.dry_run else "a dry run was taken for a write"
