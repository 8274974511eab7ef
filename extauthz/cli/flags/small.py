"""Flags of the commands that share none with another: ``demo`` and ``replay``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from extauthz.cli.flags.types import moment, number

DEMO = """\
Sends recorded requests of real autoscalers through a real Envoy, which asks a gate about each write that can grow a
workload. A stand-in for an API server, in memory, holds the result. It uses free ports of this machine and a temporary
directory, asks nothing of any network, and ends by itself.

It needs two packages more: pip install 'extauthz[demo]'."""


PERCENT = number(lambda found: 0 < found <= 100, "is no percentage above 0; write for example 99")
MINUTES = number(lambda found: 0 <= found < 1e15, "is no number of minutes; write for example 0")


def add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("demo", description=DEMO, epilog="exit codes: 0 all went as it must, 1 not so")
    parser.add_argument(
        "--keep",
        action="store_true",
        default=bool(os.environ.get("KEEP")),
        help="Leave the gate's page open at the end, until Ctrl-C (KEEP=1).",
    )


REPLAY = """\
Replays the record of gates (serve --record) against quotas: what they would have refused, whose growth, and for how
long. Without --quotas the recorded ones are in force, with their changes, and each answer is compared with the recorded
one.

--week replays nothing. It sums the record, or logs of gates (JSON): what was refused, and what Enforce would have
refused in mode Audit, of whom and how often. So it shows before a quota is enforced whom that will meet."""

REPLAY_EPILOG = """\
examples:
  extauthz replay --record record/ --quotas smaller.yaml
  extauthz replay --record record/ --suggest 99 > patches.sh
  extauthz replay --record record/ --quotas patches.sh --max-denied-minutes 60 && sh patches.sh
  extauthz replay --week --record record/
  kubectl logs -n extauthz-system -l app.kubernetes.io/name=extauthz --tail=-1 | extauthz replay --week
  extauthz replay --week gate.log gate.log.1 -o json

exit codes: 0 it is replayed, or summed, 1 more is denied than --max-denied-minutes, 64 wrong usage, 65 the record, the
quotas or a log cannot be read, or a log holds no decision, 70 a bug: a grant has taken a quota above its limit"""


def add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("replay", description=REPLAY, epilog=REPLAY_EPILOG)
    parser.add_argument("--record", type=Path, metavar="DIR", help="Files of all gates together.")
    parser.add_argument(
        "--quotas",
        type=Path,
        metavar="FILE",
        help="WorkspaceQuotas, all of them, in a file or folder; or what --suggest prints. Default: the recorded ones.",
    )
    parser.add_argument("--since", type=moment, metavar="T", help="Measure from then on: 2027-02-01T12:00:00Z.")
    parser.add_argument("--until", type=moment, metavar="T", help="Measure up to then.")
    parser.add_argument(
        "--suggest",
        type=PERCENT,
        metavar="P",
        help="Print patches of hard alone, which holds what was wanted P percent of the time; 100: always.",
    )
    parser.add_argument("--max-denied-minutes", type=MINUTES, metavar="N", help="Exit 1 above so many replica-minutes.")
    parser.add_argument("--html", type=Path, metavar="FILE", help="Write a page: wanted, granted and limit over time.")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="Default: table.")
    sums = parser.add_argument_group("sums")
    sums.add_argument(
        "--week", action="store_true", help="Sum what was refused in the seven days up to the newest line."
    )
    sums.add_argument("logs", nargs="*", metavar="LOG", help="In place of --record. Default: standard input.")
