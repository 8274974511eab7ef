"""Flags of ``extauthz simulate memory``."""

from __future__ import annotations

import argparse
import os
from dataclasses import fields
from pathlib import Path

from extauthz.core.pressure import Marks
from extauthz.simulate.memory.setup import DEGREES, REMEDIES, WORKLOADS, Free

DESCRIPTION = """\
Runs the workloads of a paper (Kang and Yu, doi 10.3745/TKIPS.2024.13.3.91) in virtual time: nodes whose memory is
promised to more containers than it has room for, kills, and back-off. It compares no remedy, the paper's (pause the
containers that use the least), and holding growth as a gate could. Each figure is a mean over the seeds, with its 95 %
confidence interval; changes are those to no remedy. docs/memory.md says what follows."""


EPILOG = """\
examples:
  extauthz simulate memory
  extauthz simulate memory --chart memory.png
  extauthz simulate memory --workloads 4GB --degrees 130,140,150 --vary step-s=2,4,6,8
  extauthz simulate memory --remedies none,hold --vary hold-marks=94/91/3/2,85/80/1/3

exit codes: 0 done, 64 wrong usage"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of ``simulate``."""
    parser = commands.add_parser(
        "memory", help="compare what helps where memory is short", description=DESCRIPTION, epilog=EPILOG
    )
    names = ",".join(one.name for one in WORKLOADS)
    parser.add_argument("--workloads", default=names, metavar="A,B", help=f"Default: {names}.")
    degrees = ",".join(map(str, DEGREES))
    parser.add_argument("--degrees", default=degrees, metavar="N,N", help=f"Of 100 to 150 %%. Default: {degrees}.")
    parser.add_argument("--remedies", default=",".join(REMEDIES), metavar="A,B", help="Default: none,pause,hold.")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="The first. Default: 0.")
    parser.add_argument("--seeds", type=int, default=30, metavar="N", help="Runs of each cell. Default: 30.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="Cells at a time.")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="Draw the table too (.png, .svg); needs matplotlib.")
    parser.add_argument("--vary", metavar="NAME=V,V", help="Run for each value of a parameter; totals and restarts.")
    group = parser.add_argument_group("parameters", "What the paper does not give: the default, and why.")
    for one in fields(Free):
        choices = one.metadata.get("choices")
        metavar = (
            "|".join(choices) if choices else "N" if one.type == "int" else "U/L/T/R" if one.type == "Marks" else "X"
        )
        group.add_argument(
            f"--{one.name.replace('_', '-')}",
            metavar=metavar,
            help=f"Default: {_shown(one.default)}: {one.metadata['reason']}.".replace("%", "%%"),
        )


def _shown(default: object) -> str:
    return "/".join(map(str, default)) if isinstance(default, Marks) else str(default)
