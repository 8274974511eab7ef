"""``extauthz-simulate-memory``: containers on nodes whose memory is promised more than once, with three remedies."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from extauthz.cli import Parser, exits, report
from extauthz.serve.service.setting_types import SettingsError
from memory_pressure.marks import Marks

from . import table
from .running import Wanted, run_all
from .setup import ALSO_TAKEN, DEGREES, REMEDIES, REPORTED_TEXT, WORKLOADS, Free

DESCRIPTION = """\
Runs the workloads of a paper (Kang and Yu, doi 10.3745/TKIPS.2024.13.3.91) in virtual time: nodes whose memory is
promised to more containers than it has room for, kills, and back-off. It compares no remedy, the paper's (pause the
containers that use the least), and holding growth as a gate could. Each figure is a mean over the seeds, with its 95 %
confidence interval; changes are those to no remedy. simulation.md says what follows."""

EPILOG = """\
examples:
  extauthz-simulate-memory
  extauthz-simulate-memory --workloads 4GB --degrees 130,140,150 --step-s 4
  extauthz-simulate-memory --remedies none,hold --hold-marks 94/91/3/2

exit codes: 0 done, 64 wrong usage"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run all cells and print the table; its exit code."""
    return run(_parser().parse_args(argv))


def _parser() -> Parser:
    parser = Parser(prog="extauthz-simulate-memory", description=DESCRIPTION, epilog=EPILOG)
    names = ",".join(one.name for one in WORKLOADS)
    parser.add_argument("--workloads", default=names, metavar="A,B", help=f"Default: {names}.")
    degrees = ",".join(map(str, DEGREES))
    parser.add_argument("--degrees", default=degrees, metavar="N,N", help=f"Of 100 to 150 %%. Default: {degrees}.")
    parser.add_argument("--remedies", default=",".join(REMEDIES), metavar="A,B", help="Default: none,pause,hold.")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="The first. Default: 0.")
    parser.add_argument("--seeds", type=int, default=30, metavar="N", help="Runs of each cell. Default: 30.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="Cells at a time.")
    group = parser.add_argument_group("parameters", f"What the paper does not give: the default, and why. {ALSO_TAKEN}")
    for one in fields(Free):
        group.add_argument(
            f"--{one.name.replace('_', '-')}",
            metavar={"int": "N", "Marks": "U/L/T/R"}.get(str(one.type), "X"),
            help=f"Default: {_shown(one.default)}: {one.metadata['reason']}.".replace("%", "%%"),
        )
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Run all cells and print the table."""
    try:
        wanted = _wanted(arguments)
    except SettingsError as error:
        return exits.fail(exits.USAGE, error)
    results = run_all(wanted, arguments.jobs)
    print("\n".join(report.lines(table.rows(results))))
    print(f"\n{arguments.seeds} seeds from {arguments.seed}; ± is the 95 % confidence interval.\n{REPORTED_TEXT}")
    return 0


def _wanted(arguments: argparse.Namespace) -> Wanted:
    if arguments.seeds < 1 or arguments.jobs < 1:
        raise SettingsError("--seeds and --jobs: one or more")
    given = {one.name: getattr(arguments, one.name) for one in fields(Free)}
    free = Free(**{name: _value(name, text) for name, text in given.items() if text is not None})
    return Wanted(
        _chosen("--workloads", arguments.workloads, [one.name for one in WORKLOADS]),
        [_degree(text) for text in arguments.degrees.split(",")],
        _chosen("--remedies", arguments.remedies, REMEDIES),
        range(arguments.seed, arguments.seed + arguments.seeds),
        free,
    )


def _chosen(flag: str, text: str, there: Sequence[str]) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in there]:
        raise SettingsError(f"{flag}: there is no {', '.join(unknown)}; there are {', '.join(there)}")
    return names


def _degree(text: str) -> int:
    if not (text.isdecimal() and 100 <= int(text) <= 150):
        raise SettingsError(f"--degrees: {text!r} is not a percentage of 100 to 150")
    return int(text)


def _value(name: str, text: str) -> Any:  # noqa: ANN401 (of any parameter)
    """A parameter's value. Raises SettingsError."""
    field = next(one for one in fields(Free) if one.name == name)
    flag = f"--{name.replace('_', '-')}"
    try:
        if field.type == "Marks":
            upper, lower, patience, step = (int(one) for one in text.split("/"))
            if not (0 < lower <= upper <= 100 and patience > 0 and step > 0):
                raise ValueError(text)
            return Marks(upper, lower, patience, step)
        number = int(text) if field.type == "int" else float(text)
    except ValueError:
        raise SettingsError(f"{flag}: {text!r} is not {_wants(str(field.type))}") from None
    least, most = field.metadata["range"]
    if not least <= number <= most:
        raise SettingsError(f"{flag}: {text} is not between {least} and {most}")
    return number


def _wants(kind: str) -> str:
    return {"int": "a whole number", "float": "a number"}.get(kind, "UPPER/LOWER/T/R, as in 85/80/1/3")


def _shown(default: object) -> str:
    return "/".join(map(str, default)) if isinstance(default, Marks) else str(default)
