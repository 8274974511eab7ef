"""Flags of ``extauthz top``."""

from __future__ import annotations

import argparse

from extauthz.cli.flags import asking

DESCRIPTION = """\
Shows every quota with what is used, reserved and hard. With the name of a quota, it shows the workloads that count in
it: what uses most comes first. Reserved is what writes that are under way may add."""


EPILOG = """\
examples:
  extauthz top --quotas quotas/ --state state.yaml
  extauthz top acme --sort requests.nvidia.com/gpu --server http://127.0.0.1:9192
  extauthz top acme --by kind                           (who has the GPUs: Deployments, Jobs, …)
  extauthz top                                          (a gate in the cluster, by kubectl port-forward)

exit codes: 0 shown, 64 wrong usage, 65 a file is wrong, 69 no server, or it does not know the quota"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "top",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("quota", nargs="?", help="Show the workloads that count in this quota.")
    parser.add_argument("--sort", metavar="RESOURCE", help="Of workloads. Default: the fullest resource of the quota.")
    parser.add_argument(
        "--by", choices=["kind"], help="What kinds of workloads use of each resource of the quota, devices first."
    )
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="Workloads at most. Default: 20.")
    asking.add(parser)
