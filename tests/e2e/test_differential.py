"""What a real API server stores is the count that was read at Envoy, or what the webhook reads of the object: random
requests (design.md rule 8).

``EXTAUTHZ_SEED`` makes the requests of an earlier run again, ``EXTAUTHZ_REQUESTS`` sets how many there are.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest

from extauthz.core.intake import read
from extauthz.core.model import NotACount, NotAWrite, Reading, Request, Unreadable, Write
from tests.controlplane import mixed
from tests.controlplane.judging import (
    after,
    as_a_door_hands_it_over,
    base_of,
    grew,
    is_custom,
    packed_body,
    ref_of,
    same_object,
    shown,
    state_of,
)
from tests.controlplane.plane import running_plane
from tests.controlplane.record_spellings import Recorder, all_spellings
from tests.controlplane.wire import Wire

Tree = Any
# Taken out of the environment: a gate refuses settings that it does not know.
SEED = int(os.environ.pop("EXTAUTHZ_SEED", "") or random.SystemRandom().randrange(1 << 32))
REQUESTS = int(os.environ.pop("EXTAUTHZ_REQUESTS", "") or 2000)
SHOWN = 10
"""Of the requests that were read otherwise, so many are printed."""

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
        reading = read(request_of(row))
        for verdict, fault in judged(row, reading, before):
            verdicts[verdict] += 1
            if fault:
                faults.append(f"{fault}\n  {reading}\n  {json.dumps(row)}")
    tell(", ".join(f"{verdict}: {count}" for verdict, count in sorted(verdicts.items())))
    assert not faults, f"EXTAUTHZ_SEED={SEED}: {len(faults)} read otherwise:\n" + "\n".join(faults[:SHOWN])
    assert verdicts["growth"] > REQUESTS / 20, "these requests hardly tried anything"
    assert verdicts["growth read"] > verdicts["growth"] / 2, "what is not read is refused, and that is no reading"
    assert verdicts["dry run"] > REQUESTS / 500


def request_of(row: Tree) -> Request:
    request = row["request"]
    return as_a_door_hands_it_over(request["method"], request["target"], request["headers"], packed_body(request))


def judged(row: Tree, reading: Reading, before: Mapping[str, Tree]) -> Iterator[tuple[str, str]]:
    """What came of a request, and what is wrong with how it was read (empty where nothing is)."""
    for ref, change in row["changed"].items():
        if change is None:
            yield "gone", ""
            continue
        old = state_of(base_of(ref, before.get(ref)))
        scale = unquote(row["request"]["target"].partition("?")[0]).rstrip("/").endswith("/scale")
        fault = fault_of_change(ref, before.get(ref), change, reading, scale=scale)
        if not grew(old, after(old, change)):
            yield "no growth", fault
            continue
        yield "growth", fault
        if isinstance(reading, Write | NotACount) and not fault:
            yield "growth read", ""
    if "answered" in row and isinstance(reading, Write):
        yield from judged_as_dry_run(row["answered"], reading, before)


def fault_of_change(ref: str, tree: Tree, change: Tree, reading: Reading, *, scale: bool) -> str:
    match reading:
        case Unreadable():
            return ""  # refused: seen, and nothing grows
        case NotAWrite():
            # What no reader could see, and what rule 7 keeps off the gate: OUT_OF_SIGHT of the recorded spellings.
            by_status = reading.code == "status" and not change.keys() - {"labels"}
            return "" if (is_custom(ref) and not scale) or by_status else "a change was not seen"
    if not same_object(reading.ref, ref_of(ref)):
        return "a change of another object"
    if isinstance(reading, NotACount):
        return fault_of_review(ref, tree, change, scale=scale)
    if reading.dry_run:
        return "a change was taken for a dry run"
    return "" if change == {"replicas": reading.replicas} else "a change was read as another count"


def fault_of_review(ref: str, tree: Tree, change: Tree, *, scale: bool) -> str:
    """What is wrong with what the webhook reads of the object that was stored."""
    base, write = base_of(ref, tree), shown(ref, tree, change, scale=scale)
    if not isinstance(write, Write):
        return f"the webhook read {write}"
    made = write.object or replace(base, replicas=write.replicas)
    return "" if state_of(made) == after(state_of(base), change) else "the webhook read another object"


def judged_as_dry_run(answered: Tree, write: Write, before: Mapping[str, Tree]) -> Iterator[tuple[str, str]]:
    """The answer shows an object that is not what is stored: unless it is that of another, unchanged one."""
    base = state_of(base_of(str(write.ref), before.get(str(write.ref))))
    if after(base, answered) != base:
        yield "dry run", "" if write.dry_run else "a dry run was taken for a write"
