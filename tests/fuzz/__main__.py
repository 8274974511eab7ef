"""``make fuzz``: mutate costly bodies for FUZZ_SECONDS, print the worst of each kind, exit 1 beyond the budget. Then as
long frames for the gRPC server: exit 1 where one raises or anything is kept. Then for a fifth of that what else
strangers may write, a row each (``rows``): exit 1 where one raises what it should not, or costs too much.

Then objects of a cluster (``observed``), FUZZ_OBJECTS of them: exit 1 where one ends a gate.

FUZZ_SEED repeats a run. FUZZ_TRIES is how many bodies are tried at least. FUZZ_SLACK is how many times the budget may
be used, where other work runs beside.
"""

from __future__ import annotations

import os
import random
import sys
import time
import traceback

from . import frames, observed, rows
from .measure import (
    FIXED,
    FLOOR_BYTES,
    LOOP,
    LOOP_COUNT,
    MEMORY_FIXED,
    MEMORY_PER_BYTE,
    PER_BYTE,
    Case,
    Cost,
    cost,
    floor_s,
    peak_bytes,
)
from .shapes import KINDS, REVIEW

MAX_BYTES = 6 << 20

MANY = 1_000_000
"""Objects of a cluster that are shown. A thousand take a second or two."""


def search(seconds: float, seed: int, tries: int = 1) -> tuple[dict[tuple[str, bool], Cost], float, int]:
    """Try bodies for ``seconds``, and at least ``tries`` of them.

    Returns the worst of each kind, the floor in seconds, and how many were tried.
    """
    draw, floor, tried = random.Random(seed), floor_s(), 0
    worst: dict[tuple[str, bool], Cost] = {}
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or tried < tries:
        case = mutated(draw, worst)
        found = measured(case, floor)
        tried += 1
        key = case.kind, case.scale
        if found is not None and (key not in worst or found.ratio(floor) > worst[key].ratio(floor)):
            worst[key] = found
    return worst, floor, tried


def mutated(draw: random.Random, worst: dict[tuple[str, bool], Cost]) -> Case:
    """A case of a kind that is drawn: a new one, or its worst one so far in another size."""
    kind = draw.choice(sorted(KINDS))
    scale = kind != REVIEW and draw.random() < 0.5
    known = worst.get((kind, scale))
    if known is None or draw.random() < 0.6:
        shape = draw.choice(sorted(KINDS[kind][2]))
        return Case(kind, shape, int(10 ** draw.uniform(0, 6 if kind == REVIEW else 4)), scale)
    return known.case._replace(size=max(1, int(known.case.size * draw.choice((0.5, 0.8, 1, 1.2, 2)))))


def measured(case: Case, floor: float) -> Cost | None:
    """Its cost; where it is too much, that of the fastest of more runs, as other work may have been in the way."""
    if len(case.body()) > MAX_BYTES:
        return None
    found = cost(case)
    return cost(case, 5) if found.ratio(floor) > 0.5 else found


def report(worst: dict[tuple[str, bool], Cost], floor: float, slack: float) -> bool:
    """Print a line for each kind. Returns whether all are within ``slack`` times the budget."""
    heads = f"{'size':>8} {'KiB':>8} {'loop ms':>8} {'aside ms':>8} {'peak MiB':>9} {'of budget':>9}"
    print(f"{'kind':30} {'shape':18} {heads}  result")
    good = True
    for (kind, scale), found in sorted(worst.items()):
        peak = peak_bytes(found.case)
        share = max(found.ratio(floor), peak / (MEMORY_FIXED + MEMORY_PER_BYTE * found.bytes))
        good = good and share <= slack
        kib, loop_ms, aside_ms = found.bytes / 1024, found.loop_s * 1000, found.aside_s * 1000
        name = f"{kind}{' (scale)' * scale}"
        print(
            f"{name:30} {found.case.shape:18} {found.case.size:8} {kib:8.1f} {loop_ms:8.2f} {aside_ms:8.2f}"
            f" {peak / 2**20:9.1f} {share:9.0%}  {found.result}"
        )
    return good


def main() -> int:
    seconds = float(os.environ.get("FUZZ_SECONDS", "60"))
    seed = int(os.environ.get("FUZZ_SEED") or random.SystemRandom().randrange(10**9))
    print(f"FUZZ_SEED={seed} FUZZ_SECONDS={seconds:g}")
    tries = int(os.environ.get("FUZZ_TRIES", "1"))
    worst, floor, tried = search(seconds, seed, tries)
    floor_ms = floor * 1000
    print(f"{tried} bodies; floor: json.loads of an ordinary object of {FLOOR_BYTES >> 10} KiB takes {floor_ms:.2f} ms")
    print(f"budget: {LOOP} floors of the loop's time, {LOOP_COUNT} for a count;")
    print(f"where it holds nobody up {FIXED} floors, and {PER_BYTE} for each {FLOOR_BYTES >> 10} KiB of the body")
    slack = float(os.environ.get("FUZZ_SLACK", "1"))
    good = [
        report(worst, floor, slack),
        converse(seconds, seed),
        watched(seed, int(os.environ.get("FUZZ_OBJECTS", MANY))),
    ]
    good += [others(row, seconds / 5, seed, floor, slack) for row in rows.ROWS]
    return 0 if all(good) else 1


def others(row: str, seconds: float, seed: int, floor: float, slack: float) -> bool:
    """Try a row for ``seconds``, and print a line. Returns whether nothing raised, and nothing cost too much."""
    ends, number, worst = time.monotonic() + seconds, 0, rows.tried(row, seed, floor)
    while time.monotonic() < ends and not worst.error:
        number += 1
        found = rows.tried(row, seed + number, floor)
        if found.error or found.share > worst.share:
            worst = found
    told = f"worst {worst.share:.0%} of budget by rows.tried({row!r}, {worst.seed})"
    print(f"{row:30} {number + 1} tried; {told} {worst.error}")
    return worst.share <= slack and not worst.error


def converse(seconds: float, seed: int) -> bool:
    """Feed connections for ``seconds``. Returns whether all kept to their bounds; prints the seed of the first that did
    not."""
    ends, runs = time.monotonic() + seconds, [frames.run(seed)]
    while time.monotonic() < ends and runs[-1].peak_bytes <= frames.KEPT_BYTES:
        runs.append(frames.run(seed + len(runs)))
    peak, told = max(one.peak_bytes for one in runs), sum(one.frames for one in runs)
    answered, faults = sum(one.answered for one in runs), sum(one.ended_by_fault for one in runs)
    print(
        f"{len(runs)} connections, {told} frames, {answered} calls answered, {faults} connections ended for a fault;"
        f" at most {peak / 2**20:.2f} MiB kept of one, of {frames.KEPT_BYTES / 2**20:.2f}"
    )
    if peak > frames.KEPT_BYTES:
        print(f"too much: frames.run({seed + len(runs) - 1})")
    return peak <= frames.KEPT_BYTES


def watched(seed: int, objects: int) -> bool:
    """Show so many objects. Returns whether the gates lived, decided others, and counted right."""
    try:
        found = observed.run(seed, objects)
    except AssertionError as error:
        traceback.print_exception(error)
        return False
    print(f"{found.objects} objects of a cluster shown, {found.named} named as unreadable")
    return True


if __name__ == "__main__":
    sys.exit(main())
