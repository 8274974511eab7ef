"""Flags of ``extauthz replay``."""

from __future__ import annotations

import argparse
from pathlib import Path

from extauthz.core.texts import seconds

DESCRIPTION = """\
Replays the record of gates (serve --record) against quotas: what they would have refused, whose growth, and for how
long. Without --quotas the recorded ones are in force, with their changes, and each answer is compared with the recorded
one."""

EPILOG = """\
examples:
  extauthz replay --record record/ --quotas smaller.yaml
  extauthz replay --record record/ --suggest 99 > quotas.yaml
  extauthz replay --record record/ --quotas quotas.yaml --max-denied-minutes 0 && kubectl apply -f quotas.yaml

exit codes: 0 it is replayed, 1 more is denied than --max-denied-minutes, 64 wrong usage, 65 the record or the quotas
cannot be read, 70 a bug: a grant has taken a quota above its limit"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("replay", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--record", type=Path, required=True, metavar="DIR", help="Files of all gates together.")
    parser.add_argument(
        "--quotas",
        type=Path,
        metavar="FILE",
        help="WorkspaceQuotas, all of them, in a file or folder. Default: the recorded ones.",
    )
    parser.add_argument("--since", type=_time, metavar="T", help="Measure from then on: 2027-02-01T12:00:00Z.")
    parser.add_argument("--until", type=_time, metavar="T", help="Measure up to then.")
    parser.add_argument(
        "--suggest",
        type=_percent,
        metavar="P",
        help="Print quotas whose limits hold what was wanted P percent of the time; 100: always.",
    )
    parser.add_argument(
        "--max-denied-minutes", type=_minutes, metavar="N", help="Exit 1 above so many replica-minutes."
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="Write a page: wanted, granted and limit over time.")
    parser.add_argument(
        "--hours", type=Path, metavar="FILE", help="Write CSV: hours of CPUs, GiB and devices, by quota and workload."
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="Default: table.")


def _time(text: str) -> float:
    found = seconds(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write for example 2027-02-01T12:00:00Z, with a zone")
    return found


def _number(text: str) -> float:
    """Below 0: it is none."""
    try:
        return float(text)
    except ValueError:
        return -1.0


def _percent(text: str) -> float:
    found = _number(text)
    if not 0 < found <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage above 0; write for example 99")
    return found


def _minutes(text: str) -> float:
    found = _number(text)
    if not 0 <= found < 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of minutes; write for example 0")
    return found
