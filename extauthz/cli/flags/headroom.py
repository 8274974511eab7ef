"""Flags of ``extauthz headroom``."""

from __future__ import annotations

import argparse

from extauthz.cli.flags import asking

DESCRIPTION = """\
Says how many replicas a workload may have, and which quota stands in the way of one more. It is a look and no promise:
it reserves nothing."""


EPILOG = """\
examples:
  extauthz headroom deploy/web -n shop --quotas quotas/ --state state.yaml
  extauthz headroom deploy/web -n shop --server http://127.0.0.1:9192
  extauthz headroom -f deployment.yaml -n shop          (a gate in the cluster, by kubectl port-forward)

exit codes: 0 at least one replica more fits, 1 none does, 64 wrong usage, 65 a file is wrong, 69 no server, or it does
not know the workload, or would refuse it at any size"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("headroom", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("workload", nargs="?", type=asking.workload, metavar="KIND/NAME", help="Such as deploy/web.")
    parser.add_argument("-n", "--namespace", help="Namespace of the workload.")
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        help="In place of KIND/NAME a manifest of a workload that does not exist yet, or is to be changed; - reads "
        "standard input.",
    )
    asking.add(parser)
