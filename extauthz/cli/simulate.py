"""``extauthz simulate``: seeded worlds in which everything goes wrong that may, and the rules are checked."""

from __future__ import annotations

import argparse
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from extauthz.cli import exits, report
from extauthz.serve.service.setting_types import SettingsError
from tests.worlds import search, sharing
from tests.worlds.plan import FAULTS
from tests.worlds.running import Result
from tests.worlds.search import Wanted
from tests.worlds.sharing import Outcome


def run(arguments: argparse.Namespace) -> int:
    """Run the worlds; 1 at the first that breaks a rule."""
    if arguments.what == "sharing":
        return run_sharing(arguments)
    try:
        wanted = Wanted(arguments.steps, _faults(arguments.faults), arguments.ledger, arguments.gates)
        wanted = wanted._replace(only=_only(arguments.only), entrances=arguments.entrances)
    except SettingsError as error:
        return exits.fail(exits.USAGE, error)
    if arguments.trace:
        return _report(next(search.search(wanted, [arguments.seed], 1)), arguments.words)
    began_s = time.monotonic()
    ran: Counter[str] = Counter()
    for result in search.search(wanted, _seeds(arguments, began_s), arguments.jobs):
        ran.update(seeds=1, steps=len(result.plan.steps), answers=result.answers, virtual_s=round(result.virtual_s))
        if result.violation is not None:
            print(f"seed {result.plan.seed} breaks a rule: {result.violation}\nmaking it shorter …", flush=True)
            return _report(search.shortest(wanted, result.plan.seed), arguments.words)
    took_s = time.monotonic() - began_s
    worlds = "1 world" if ran["seeds"] == 1 else f"{ran['seeds']} worlds"
    print(
        f"{worlds}, {ran['steps']} steps, {ran['answers']} answers, {ran['virtual_s']} s of their time "
        f"in {took_s:.0f} s: no rule was broken"
    )
    return 0


def _report(result: Result, words: Sequence[str]) -> int:
    print("\n".join(result.trace))
    plan = result.plan
    print(
        f"\nseed {plan.seed}: {plan.gates} gates, ledger {plan.ledger}, entrances {plan.entrances}, "
        f"{len(plan.steps)} steps"
    )
    for one in plan.quotas:
        print(f"  quota {' '.join(f'{key}={value}' for key, value in one.items())}")
    if result.violation is None:
        print("no rule was broken")
        return 0
    only = ",".join(str(step.number) for step in plan.steps)
    again = ["extauthz", "simulate", *_repeated(words), "--seed", str(plan.seed), "--only", only, "--trace"]
    print(f"broken: {result.violation}\nagain: {shlex.join(again)}")
    return 1


def _repeated(words: Sequence[str]) -> Iterator[str]:
    """The flags that draw the world."""
    given = iter(words)
    for word in given:
        if word.split("=", 1)[0] in ("--steps", "--faults", "--ledger", "--gates", "--entrances"):
            yield word
            if "=" not in word:
                yield next(given)


def _seeds(arguments: argparse.Namespace, began_s: float) -> Iterator[int]:
    if arguments.minutes is None:
        yield from range(arguments.seed, arguments.seed + arguments.seeds)
        return
    for seed in count(arguments.seed):
        if time.monotonic() - began_s > arguments.minutes * 60:
            return
        yield seed


def _faults(text: str) -> frozenset[str]:
    if text in ("all", "none"):
        return frozenset(FAULTS) if text == "all" else frozenset()
    chosen = frozenset(text.split(","))
    if unknown := sorted(chosen - FAULTS.keys()):
        raise SettingsError(f"--faults: there is no {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    return chosen


def _only(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    try:
        return frozenset(int(one) for one in text.split(",") if one)
    except ValueError:
        raise SettingsError(f"--only: {text!r} is not a list of numbers, as in 3,7,12") from None


# ``extauthz simulate sharing``: autoscalers in one full house, first come and with turns: a table and a chart.

LEAST_JAIN: Final = 0.95
MOST_INTERVALS: Final = 2
"""How long one waits beyond its turn, in intervals of its own."""

_WIDTH: Final = 48
"""Characters of the longest bar."""


def run_sharing(arguments: argparse.Namespace) -> int:
    """Run the worlds under both rules; 1 if turns do not even them out."""
    if arguments.seeds < 1:
        return exits.fail(exits.USAGE, ValueError("--seeds: must be 1 or more"))
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    found = [sharing.outcome(seeds, turns=turns) for turns in (False, True)]
    print("\n".join([*table(found), "", *chart(found)]))
    if arguments.svg:
        try:
            Path(arguments.svg).write_text(svg(found))
        except OSError as error:
            return exits.fail(exits.USAGE, ValueError(f"--svg {arguments.svg}: {error.strerror}"))
    return 0 if holds(found[-1]) else 1


def holds(found: Outcome) -> bool:
    """Whether nobody waits long beyond its turn, and all get their share."""
    late = any(row.beyond_s > MOST_INTERVALS * row.interval_s for row in found.rows)
    return not late and found.jain >= LEAST_JAIN


def table(found: Sequence[Outcome]) -> list[str]:
    """A line for each sort of client under each rule."""
    head = ("TURNS", "CLIENT", "INTERVAL", "WAIT P50", "MAX", "BEYOND ITS TURN", "JAIN", "IN USE")
    rows: list[Sequence[str]] = [head]
    for one in found:
        last = (f"{one.jain:.3f}", f"{one.used:.0%}")
        for row in one.rows:
            times = (f"{seconds:.0f} s" for seconds in row[1:])
            rows.append((_rule(one), row.name, *times, *last))
            last = ("", "")
    return report.lines(rows)


def chart(found: Sequence[Outcome]) -> list[str]:
    """The longest wait beyond its turn of each sort of client, as bars."""
    most = max(row.beyond_s for one in found for row in one.rows) or 1.0
    lines = ["longest wait beyond its turn"]
    for rows in zip(*(one.rows for one in found), strict=True):
        for one, row in zip(found, rows, strict=True):
            bar = "█" * max(round(row.beyond_s / most * _WIDTH), 1)
            lines.append(f"{row.name if one is found[0] else '':14} {_rule(one):9} {bar} {row.beyond_s:.0f} s")
    return lines


def svg(found: Sequence[Outcome]) -> str:
    """The same as a picture."""
    most = max(row.beyond_s for one in found for row in one.rows) or 1.0
    parts, top = [_text(10, 22, "longest wait beyond its turn")], 40
    for rows in zip(*(one.rows for one in found), strict=True):
        parts.append(_text(10, top + 20, rows[0].name))
        for one, row in zip(found, rows, strict=True):
            width, colour = max(row.beyond_s / most * 400, 1), "#2b7a4b" if one.turns else "#c0563a"
            parts.append(f'<rect x="130" y="{top}" width="{width:.1f}" height="14" fill="{colour}"/>')
            parts.append(_text(138 + width, top + 12, f"{row.beyond_s:.0f} s, {_rule(one)}"))
            top += 17
        top += 12
    parts += [_text(10, top + 12, ", ".join(f"{_rule(one)}: Jain's index {one.jain:.3f}" for one in found))]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{top + 24}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="13">', *parts, "</svg>\n"])


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'


def _rule(one: Outcome) -> str:
    return "Share" if one.turns else "FirstCome"
