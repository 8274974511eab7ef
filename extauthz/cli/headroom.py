"""``extauthz headroom``: how many replicas a workload may have, and what stands in the way of one more."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from extauthz.cli import asking, report, tables
from extauthz.core.model import WorkloadRef
from extauthz.servers.api.shown import AMOUNTS

DESCRIPTION = """\
Says how many replicas a workload may have, and which quota stands in the way of one more. It is a look and no promise:
it reserves nothing."""

EPILOG = """\
examples:
  extauthz headroom deploy/web -n shop --quotas quotas/ --state state.yaml
  extauthz headroom deploy/web -n shop --server http://127.0.0.1:9192

exit codes: 0 at least one replica more fits, 1 none does, 64 wrong usage, 65 a file is wrong, 69 no server, or it does
not know the workload"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "headroom",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("workload", type=asking.workload, metavar="KIND/NAME", help="Such as deploy/web.")
    parser.add_argument("-n", "--namespace", required=True, help="Namespace of the workload.")
    asking.add(parser)


@asking.answered
def run(arguments: argparse.Namespace) -> int:
    """Print it; the exit code tells whether one replica more fits."""
    group, plural, name = arguments.workload
    found = asking.source(arguments).headroom(WorkloadRef(group, plural, arguments.namespace, name))
    sys.stdout.write(report.as_json(found) if arguments.output == "json" else as_text(found))
    return 0 if found["replicas"] is None or found["replicas"] > found["observedReplicas"] else 1


def as_text(found: dict[str, Any]) -> str:
    """A sentence or two, and the evidence."""
    count = found["observedReplicas"]
    has = f"{found['resource']} {found['namespace']}/{found['name']} has {count} replica{'s' * (count != 1)}"
    if found["replicas"] is None:
        lines = [f"{has}, and no quota sets a bound."]
    else:
        lines = [f"{has} and may have {found['replicas']}."]
        bound = found["bound"]
        head = ("quota", "resource", *AMOUNTS)
        row = ("/".join(bound["path"]), bound["resource"], *(bound[name] for name in AMOUNTS))
        lines += ["", "One more replica does not fit:", *tables.lines([head, row], "  ")]
    if not found["certain"]:
        lines += ["", "Not all that this rests on is known, so growth may be refused (docs/modes.md)."]
    return "\n".join(lines) + "\n"
