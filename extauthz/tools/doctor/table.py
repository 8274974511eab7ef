"""Rows as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

OUTAGE = "quota gate unavailable"
"""How Envoy's own sentence begins when the gate gives no answer."""

ENVOYS = (
    *("accepted", "chain", "listener", "order", "failure mode", "request body", "headers"),
    *("path rules", "watches", "growth timeouts", "trust", "certificate", "token", "canary"),
    *("gate reachable", "gate timeout"),
)
"""Checks of Envoy's way."""
WEBHOOKS_ROW = "webhook"

GROUP, VERSION = "extauthz.dev", "v1alpha1"
DEFINITIONS = ("workspacequotas.extauthz.dev", "workspaceledgers.extauthz.dev")


# The result of a check: one row of a table.


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """It works, but somebody should know something."""
    FAIL = "fail"
    SKIPPED = "skipped"
    """Not checked. The cure names the missing option."""


class Row(NamedTuple):
    name: str
    verdict: Verdict
    found: str
    """What was seen, in a sentence."""
    cure: str = ""
    """What to do about it; empty if nothing."""


def ok(name: str, found: str) -> Row:
    return Row(name, Verdict.OK, found)


def warn(name: str, found: str, cure: str) -> Row:
    return Row(name, Verdict.WARN, found, cure)


def fail(name: str, found: str, cure: str) -> Row:
    return Row(name, Verdict.FAIL, found, cure)


def skipped(name: str, why: str, option: str) -> Row:
    """``option``: what to give so that it is looked at."""
    return Row(name, Verdict.SKIPPED, why, option)


def all_skipped(names: Iterable[str], why: str, option: str) -> list[Row]:
    return [skipped(name, why, option) for name in names]


def judged(name: str, found: str, problems: list[str], cure: str) -> Row:
    """Fails with all ``problems`` if there are any, and else says what was ``found``."""
    return fail(name, "; ".join(problems), cure) if problems else ok(name, found)


WORST_FIRST = (Verdict.FAIL, Verdict.WARN, Verdict.SKIPPED, Verdict.OK)
MAX_WIDTH = 140
NARROWEST = 30
"""Columns of the sentence, however narrow the terminal."""


def as_json(rows: Sequence[Row]) -> str:
    """``{"verdict": the worst, "checks": [{"name", "verdict", "found", "cure"}]}``."""
    checks = [
        {"name": each.name, "verdict": each.verdict.value, "found": each.found, "cure": each.cure} for each in rows
    ]
    return json.dumps({"verdict": worst(rows).value, "checks": checks}, indent=2) + "\n"


def as_table(rows: Sequence[Row]) -> str:
    """A line each, wrapped; below it the cure after an arrow; a summary at the end. Rows that say the same are one."""
    first = max((len(each.name) for each in shown(rows)), default=0)
    second = max(map(len, Verdict))
    width = max(NARROWEST, min(shutil.get_terminal_size().columns, MAX_WIDTH) - first - second - 4)
    indent = " " * (first + second + 4)
    lines: list[str] = []
    for each in collapsed(shown(rows)):
        said = _wrapped(each.found, width) + [
            ("→ " if not number else "  ") + line for number, line in enumerate(_wrapped(each.cure, width - 2))
        ]
        lines.append(f"{each.name:<{first}}  {each.verdict.value:<{second}}  {said[0]}".rstrip())
        lines += [indent + line for line in said[1:]]
    left_out = len(rows) - len(shown(rows))
    more = f"; {left_out} checks of an Envoy are left out (--admin, or --config-dump)" if left_out else ""
    return "\n".join([*lines, "", _summary(shown(rows)) + more]) + "\n"


def shown(rows: Sequence[Row]) -> list[Row]:
    """Without the checks of Envoy's way, where nothing of it was named and the API server itself asks the gate."""
    envoys = [each for each in rows if each.name in ENVOYS]
    asks = any(each.name == WEBHOOKS_ROW and each.verdict is not Verdict.SKIPPED for each in rows)
    if not asks or any(each.verdict is not Verdict.SKIPPED for each in envoys):
        return list(rows)
    return [each for each in rows if each not in envoys]


def collapsed(rows: Sequence[Row]) -> list[Row]:
    """Checks with the same result in one row, which counts and names them. It stands where the first of them stood."""
    alike: dict[tuple[str, ...], list[Row]] = {}
    for each in rows:
        alike.setdefault(each[1:], []).append(each)
    return [_one(group) for group in alike.values()]


def _one(group: Sequence[Row]) -> Row:
    if len(group) == 1:
        return group[0]
    names = ", ".join(each.name for each in group)
    return group[0]._replace(found=f"{group[0].found} ({len(group)} checks: {names})")


def failed(rows: Sequence[Row], *, strict: bool = False) -> bool:
    """Whether a check fails; if ``strict``, a warning is a failure too."""
    bad = {Verdict.FAIL, Verdict.WARN} if strict else {Verdict.FAIL}
    return any(each.verdict in bad for each in rows)


def worst(rows: Sequence[Row]) -> Verdict:
    """The verdict of all rows. A skipped check may hide anything, so the whole is not ok then. A known warning is
    worse."""
    there = {each.verdict for each in rows}
    return next((each for each in WORST_FIRST if each in there), Verdict.SKIPPED)


def _summary(rows: Sequence[Row]) -> str:
    counts = Counter(each.verdict for each in rows)
    return ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])


def _wrapped(text: str, width: int) -> list[str]:
    # Parts of it come from others: nothing in it may move the terminal's cursor.
    printable = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return textwrap.wrap(printable, width, break_long_words=False, break_on_hyphens=False)


OUTPUTS: Mapping[str, Callable[[Sequence[Row]], str]] = {"table": as_table, "json": as_json}
