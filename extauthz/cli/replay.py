"""``extauthz replay``: a record of growth against other quotas."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

from extauthz.cli import exits, report, week
from extauthz.core import quantities
from extauthz.core.quota.tree import QuotaTree
from extauthz.core.texts import stamp
from extauthz.inputs.files.content import FilesError
from extauthz.inputs.sources import file
from extauthz.serve.service.collector import SELDOM
from extauthz.tell.record.reading import Record, RecordError
from extauthz.tools.replay import page
from extauthz.tools.replay.peaks import checked
from extauthz.tools.replay.play import NeverOverError
from extauthz.tools.replay.run import Replay, Result, patched, suggested
from extauthz.tools.replay.wanted import Waiting

MAX_PATCHES = 16 << 20
"""Bytes of patches: some 100,000 quotas."""

MOST_SHOWN = 20
"""Refused wants in the table. JSON has more."""

PARTS = (0.5, 0.95, 0.99)
"""Percentiles of the table."""


def run(arguments: argparse.Namespace) -> int:
    """Print what it has found."""
    if arguments.week:
        return week.run(arguments)
    if arguments.record is None or arguments.logs:
        return exits.fail(exits.USAGE, ValueError("--record DIR is needed, and no log; --week sums logs"))
    try:
        result = _replayed(arguments)
        for warning in result.warnings:
            print(f"extauthz: {warning}", file=sys.stderr)
        _write(arguments, result)
    except (RecordError, FilesError, OSError, ValueError) as error:
        return exits.fail(exits.DATA, error)
    except NeverOverError as error:
        return exits.fail(exits.SOFTWARE, error)
    most = arguments.max_denied_minutes
    if most is None or result.denied_minutes <= most:
        return 0
    told = f"{_minutes(result.denied_minutes)} replica-minutes are denied, more than --max-denied-minutes {most:g}"
    print(f"extauthz: {told}", file=sys.stderr)
    return 1


def _replayed(arguments: argparse.Namespace) -> Result:
    since_s = arguments.since if arguments.since is not None else -inf
    until_s = arguments.until if arguments.until is not None else inf
    if since_s >= until_s:
        raise RecordError("--until is not after --since; write a later time")
    gc.set_threshold(*SELDOM)
    record = Record(arguments.record)
    replay = Replay(
        record,
        _quotas(arguments.quotas, record) if arguments.quotas is not None else None,
        since_s=since_s,
        until_s=until_s,
        draws=arguments.html is not None,
        tell=_progress(record.begins_s, record.ends_s),
    )
    result = replay.run()
    is_before, is_after = until_s <= result.begins_s, since_s > max(result.begins_s, result.ends_s)
    if is_before or is_after:
        times = f"from {stamp(result.begins_s, 'seconds')} to {stamp(result.ends_s, 'seconds')}"
        raise RecordError(f"nothing of the record is in that time; it is {times}")
    result.peaks = checked(record, result, since_s=since_s, until_s=until_s)
    return result


def _quotas(path: Path, record: Record) -> QuotaTree:
    """Quotas of files, or the recorded ones with the patches that ``--suggest`` has printed."""
    if path.is_file() and path.stat().st_size <= MAX_PATCHES:
        text = path.read_text()
        if text.startswith("kubectl patch "):
            return patched(Replay(record, None, limits={}).run().tree, text)
    return file.load(path).tree


def _progress(begins_s: float, ends_s: float) -> Callable[[float], None]:
    """Tells a person of how far it is, where it takes long."""
    next_s = time.monotonic() + 3.0

    def tell(at_s: float) -> None:
        nonlocal next_s
        if time.monotonic() > next_s and sys.stderr.isatty():
            next_s = time.monotonic() + 1.0
            part = (at_s - begins_s) / max(ends_s - begins_s, 1.0)
            print(f"\r{stamp(at_s, 'seconds')}  {min(part, 1.0):4.0%}", end="\r", file=sys.stderr, flush=True)

    return tell


def _write(arguments: argparse.Namespace, result: Result) -> None:
    if arguments.html is not None:
        arguments.html.write_text(page.page(result, summary(result), _wants(result, page.MOST_WANTS)))
    if arguments.suggest is not None:
        sys.stdout.write(suggested(result, arguments.suggest))
    elif arguments.output == "json":
        sys.stdout.write(report.as_json(as_json(result)))
    else:
        sys.stdout.write("\n".join(table(result)) + "\n")


# Texts.


def table(result: Result) -> list[str]:
    """A line for each limit, and the sum."""
    titles = [f"P{round(part * 100)}" for part in PARTS]
    rows = [("QUOTA", "RESOURCE", "HARD", *titles, "PEAK", "REFUSED", "WORKLOADS", "DENIED-MIN", "LONGEST")]
    for row in _rows(result):
        refused = str(row["refused"]) + (f" (+{row['more']})" if row["more"] else "")
        levels = (row["hard"], *(row[f"p{round(part * 100)}"] for part in PARTS), row["peak"])
        last = (str(row["workloads"]), _minutes(row["denied_minutes"]), _lasting(row["longest_s"]))
        rows.append((row["quota"], row["resource"], *levels, refused, *last))
    lines = report.lines(rows) if len(rows) > 1 else ["no quota limits anything of what is recorded"]
    return [*lines, *_whose(result), *_peaks(result), summary(result)]


def _minutes(minutes: float) -> str:
    return f"{minutes:.4g}" if minutes < 10 else f"{minutes:.0f}"


def _whose(result: Result) -> list[str]:
    """A line for each refused want, retries among it."""
    if not result.under.wants:
        return []
    head = ("REFUSED WORKLOAD", "ASKED BY", "HAD", "WANTED", "SINCE", "FOR", "DENIED-MIN", "BY")
    rows = _wants(result, MOST_SHOWN)
    more = result.under.want_count - len(rows)
    return ["", *report.lines([head, *rows]), *([f"and {more:,} more; -o json has them"] if more else []), ""]


def _wants(result: Result, most: int) -> list[tuple[str, ...]]:
    """Those that missed most."""
    return [
        (
            want.ask.workload,
            want.ask.asker or "-",
            str(want.first),
            str(want.ask.to or 0),
            stamp(want.since_s, "seconds"),
            _lasting(want.seconds),
            _minutes(want.missed / 60.0),
            ", ".join(" ".join(row) for row in want.rows),
        )
        for want in result.most_missed[:most]
    ]


def _peaks(result: Result) -> list[str]:
    """What replays with the peaks have shown."""
    peaks = result.peaks
    if peaks is None:
        return ["PEAK is not replayed: the record is too long for that"]
    tight = [row for row, what in peaks.less.items() if what == "refuses"]
    loose = sorted(" ".join(row) for row, what in peaks.less.items() if what == "refuses nothing")
    if peaks.refused or loose:
        return [f"PEAK does not hold, which is a bug: it refuses {peaks.refused} asks; too high: {', '.join(loose)}"]
    return [f"PEAK is replayed: it refuses nothing, one pod less refuses in {len(tight)} of {len(peaks.less)} rows"]


def summary(result: Result) -> str:
    """What became of all questions, in a sentence."""
    told = [f"{result.same:,} the same"]
    told += [f"{result.refused_now:,} granted then and refused now"] if result.refused_now else []
    told += [f"{result.granted_now:,} refused then and granted now"] if result.granted_now else []
    parts = [f"{result.asks:,} asks: {', '.join(told)}"]
    if result.exceptions:
        named = ", ".join(f"{count:,} {why}" for why, count in sorted(result.exceptions.items()))
        parts.append(f"exceptions: {named}")
    parts += [f"{result.taken:,} taken as recorded"] if result.taken else []
    parts.append(f"{_minutes(result.denied_minutes)} replica-minutes denied")
    count = f"{result.gaps} gap{'s' if result.gaps > 1 else ''}"
    parts.append(f"{count}, {_lasting(result.gap_s)} that count for nothing" if result.gaps else "no gaps")
    return "; ".join(parts)


def as_json(result: Result) -> dict[str, Any]:
    """The same for programs: docs/internals/record.md has the fields."""
    return {
        "asks": result.asks,
        "same": result.same,
        "granted_then_refused_now": result.refused_now,
        "refused_then_granted_now": result.granted_now,
        "taken_as_recorded": result.taken,
        "exceptions": dict(result.exceptions),
        "gaps": result.gaps,
        "gap_s": round(result.gap_s, 3),
        "counted_s": round(result.counted_s, 3),
        "denied_minutes": round(result.denied_minutes, 3),
        "quotas": list(_rows(result)),
        "wants": [_as_want(want) for want in result.most_missed],
    }


def _as_want(want: Waiting) -> dict[str, Any]:
    return {
        "workload": want.ask.workload,
        "asker": want.ask.asker or None,
        "by": [{"quota": quota, "resource": key} for quota, key in want.rows],
        "had": want.first,
        "to": want.ask.to or 0,
        "since": stamp(want.since_s, "milliseconds"),
        "seconds": round(want.seconds, 3),
        "denied_minutes": round(want.missed / 60.0, 3),
    }


def _rows(result: Result) -> Iterator[dict[str, Any]]:
    for (quota, key), hard in result.hard.items():
        level, refused = result.free.levels.get((quota, key)), result.under.refused[quota, key]
        if level is None and not refused.asks:
            continue
        values = [level.percentile(part) if level is not None else 0 for part in PARTS]
        shown = {f"p{round(p * 100)}": quantities.format(v, key) for p, v in zip(PARTS, values, strict=True)}
        yield {
            "quota": quota,
            "resource": key,
            "hard": quantities.format(hard, key),
            **shown,
            "peak": quantities.format(result.peak((quota, key)), key),
            "one_pod_less": result.peaks.less.get((quota, key)) if result.peaks is not None else None,
            "refused": refused.asks,
            "more": refused.more,
            "workloads": len(refused.workloads),
            "denied_minutes": round(refused.missed / 60.0, 3),
            "longest_s": round(refused.longest_s, 3),
        }


def _lasting(seconds: float) -> str:
    """``18m``, ``2h05m``, ``45s``; of nothing ``-``."""
    whole = round(seconds)
    if not whole:
        return "-"
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m" if minutes and whole % 60 == 0 else f"{minutes}m{whole % 60:02}s" if minutes else f"{whole}s"
