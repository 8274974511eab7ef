"""Flags of ``extauthz week``."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """\
Sums the record of gates (serve --record), or their log (JSON): what was refused, and what Enforce would have refused in
mode Audit, of whom and how often. So it shows before a quota is enforced whom that will meet. Lines of several gates
may be in any order."""

EPILOG = """\
examples:
  extauthz week --record record/
  kubectl logs -n extauthz-system -l app.kubernetes.io/name=extauthz --tail=-1 | extauthz week
  extauthz week gate.log gate.log.1 --quota acme
  extauthz week --days 1 -o json < gate.log

exit codes: 0 it is summed, 64 wrong usage, 65 no decision is in it, or the record\ncannot be read"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("week", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("files", nargs="*", metavar="FILE", help="Logs of gates. Default: standard input.")
    parser.add_argument("--record", type=Path, metavar="DIR", help="In place of logs: the files of all gates together.")
    parser.add_argument("--days", type=_days, default=7, metavar="N", help="Up to the newest line. Default: 7.")
    parser.add_argument("--quota", metavar="NAME", help="Only what this quota has refused, or would have.")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="Default: table.")


def _days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:6]) <= 3660:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days; write for example 7")
    return int(text)
