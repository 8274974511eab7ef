"""``extauthz replay --week``: what was refused, and what would have been, summed from records or logs of gates.

A gate keeps the last decisions alone, and forgets them with its process. Its log is what every cluster keeps.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from extauthz.cli import exits, report
from extauthz.core.model import WOULD_REFUSE, Verdict
from extauthz.core.texts import stamp
from extauthz.tell.record.lines import Ask
from extauthz.tell.record.reading import Record

Line = Mapping[str, Any]

_REFUSED: Final = (Verdict.DENY, Verdict.UNAVAILABLE)
WEEK: Final = timedelta(days=7)
"""Up to the newest line."""

_NO_QUOTA: Final = "-"
"""Of what was refused for want of knowledge, and by no quota."""


@dataclass
class Row:
    """One workload in one quota."""

    quota: str
    workload: str
    reason: str
    """The last one."""
    refused: int = 0
    would: int = 0
    """What Enforce would have refused."""
    wanted: int = 0
    """The highest count that was asked for."""
    days: set[str] = field(default_factory=set)
    last: str = ""


def run(arguments: argparse.Namespace) -> int:
    if arguments.record is not None and arguments.logs:
        return exits.fail(exits.USAGE, ValueError("a record and logs tell the same; name one of them"))
    try:
        found = _found(arguments)
    except (OSError, ValueError) as error:
        return exits.fail(exits.DATA, error)
    since = max(map(_at, found)) - WEEK
    within = [line for line in found if _at(line) > since]
    rows = summed(within)
    print_as = _as_json if arguments.output == "json" else _as_table
    sys.stdout.write(print_as(within, rows))
    return 0


def _found(arguments: argparse.Namespace) -> list[Line]:
    """A line for each decision, or for a row of equal refused ones.

    Raises:
        ValueError: there is none, and why.
    """
    if arguments.record is not None:
        record = Record(arguments.record)
        found = [_of_ask(event) for event in record.events() if isinstance(event, Ask)]
        for warning in record.warnings:
            print(f"extauthz: {warning}", file=sys.stderr)
        why = "no decision is in it; the record of a later time may have some"
    else:
        found = [line for source in _sources(arguments.logs) for line in _decisions(source)]
        why = "no line of a decision is in it; it must be the gate's log in JSON, at level info"
    if not found:
        raise ValueError(why)
    return found


def _of_ask(ask: Ask) -> Line:
    """As a log has it, with how many there were."""
    return {
        "time": stamp(ask.at_s, "milliseconds"),
        "until": stamp(ask.ends_s, "milliseconds"),
        "n": ask.n,
        "workload": ask.workload,
        "to": ask.to,
        "verdict": Verdict.ALLOW if ask.is_allowed else Verdict.DENY,
        "would": Verdict.DENY if ask.would_refuse or ask.reason == WOULD_REFUSE else None,
        "reason": ask.reason,
        "shortages": [{"quota": quota} for quota in ask.by],
    }


def _sources(files: Iterable[str]) -> Iterator[Iterable[bytes]]:
    names = list(files)
    if not names:
        yield sys.stdin.buffer
    for name in names:
        with open(name, "rb") as file:
            yield file


def _decisions(lines: Iterable[bytes]) -> Iterator[Line]:
    """Those of decisions that were meant. What else stands there, and before a line, is passed over."""
    for raw in lines:
        begin = raw.find(b"{")
        if begin < 0 or b'"decision"' not in raw:
            continue
        try:
            line = json.loads(raw[begin:])
            _at(line)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if line.get("event") == "decision" and not line.get("dry_run") and isinstance(line.get("workload"), str):
            yield line


def _at(line: Line) -> datetime:
    at = datetime.fromisoformat(_last(line))
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def summed(lines: Iterable[Line]) -> list[Row]:
    """A row for each quota and workload: what was refused most comes first."""
    rows: dict[tuple[str, str], Row] = {}
    for line in lines:
        verdict, would = line.get("verdict"), line.get("would")
        if verdict not in _REFUSED and would not in _REFUSED:
            continue
        for name in _quotas(line):
            _count(rows.setdefault((name, line["workload"]), Row(name, line["workload"], "")), line)
    return sorted(rows.values(), key=lambda row: (-row.would - row.refused, row.quota, row.workload))


def _quotas(line: Line) -> list[str]:
    """Those that speak against it, by their paths."""
    against = [row for key in ("shortages", "audit", "unspecified") for row in line.get(key) or ()]
    return sorted({row["quota"] for row in against}) or [_NO_QUOTA]


def _count(row: Row, line: Line) -> None:
    is_refused, n = line.get("verdict") in _REFUSED, _n(line)
    row.refused += n if is_refused else 0
    row.would += 0 if is_refused else n
    row.wanted = max(row.wanted, line.get("to") or 0)
    row.days.update(_days(line))
    last = _last(line)
    if last >= row.last:
        row.last, row.reason = last, line["reason"]


def _n(line: Line) -> int:
    return int(line.get("n", 1))


def _last(line: Line) -> str:
    return str(line.get("until", line["time"]))


def _days(line: Line) -> Iterator[str]:
    """All from the first to the last of a row."""
    day, last = date.fromisoformat(line["time"][:10]), date.fromisoformat(_last(line)[:10])
    while day <= last:
        yield day.isoformat()
        day += timedelta(days=1)


def _as_table(lines: list[Line], rows: list[Row]) -> str:
    begins, ends, count = min(line["time"] for line in lines), max(map(_last, lines)), sum(map(_n, lines))
    refused = sum(_n(line) for line in lines if line.get("verdict") in _REFUSED)
    would = sum(_n(line) for line in lines if line.get("verdict") not in _REFUSED and line.get("would") in _REFUSED)
    told = f"{begins} to {ends}: {count} writes decided, {refused} refused, {would} that Enforce would refuse"
    names = ("QUOTA", "WORKLOAD", "WOULD", "REFUSED", "DAYS", "WANTED", "REASON", "LAST")
    cells = [
        (row.quota, row.workload, *map(str, (row.would, row.refused, len(row.days), row.wanted)), row.reason, row.last)
        for row in rows
    ]
    return "\n".join([told, *(["", *report.lines([names, *cells])] if rows else [])]) + "\n"


def _as_json(lines: list[Line], rows: list[Row]) -> str:
    return report.as_json([{**vars(one), "days": sorted(one.days)} for one in rows])
