"""Flags of ``extauthz guard``."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """\
When a node passes --upper, lowers the CPU limits of the pods on it that use the least memory: these are about to
allocate more. When the node is down to --lower, when the guard ends, and when it starts after a crash, it restores the
limits. What it changed is written on each pod before it is changed. Only Burstable pods with the label, in the named
namespaces, and never critical ones. Without --apply it only says what it would do. Needs metrics-server, and
Kubernetes 1.33 or later (pods/resize). docs/memory.md says what this can do for memory, and what not."""


EPILOG = """\
examples:
  extauthz guard --namespace shop --print-rbac | kubectl apply -f -
  extauthz guard --namespace shop                  # says what it would do
  extauthz guard --namespace shop --apply
  extauthz guard --namespace shop --restore        # once, if a guard is gone for good

exit codes: 0 all is restored, 1 a pod stays lowered, 64 wrong usage"""


HOME = "extauthz-system"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("guard", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "--namespace", action="append", required=True, metavar="NAME", help="Where pods may be lowered; once for each."
    )
    parser.add_argument(
        "--label", default="extauthz.dev/guard=pause", metavar="KEY=VALUE", help="Which pods. Default: %(default)s."
    )
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--apply", action="store_true", help="Change limits. Default: only say what would change.")
    does.add_argument("--restore", action="store_true", help="Restore all pods of the namespaces, and end.")
    does.add_argument("--print-rbac", action="store_true", help=f"Print the rights that it needs (in {HOME}), and end.")
    add = parser.add_argument
    add("--upper", type=int, default=89, metavar="N", help="Percent of a node's memory (Mupper). Default: 89.")
    add("--lower", type=int, default=86, metavar="N", help="Percent (Mlower). Default: 86.")
    add("--patience", type=int, default=3, metavar="N", help="Looks until more are paused (T). Default: 3.")
    add("--step", type=int, default=1, metavar="N", help="Pods that are paused at a time (R). Default: 1.")
    add("--floor", default="10m", metavar="CPU", help="No limit is set below it, nor to the request. Default: 10m.")
    add("--round-s", type=float, default=15, metavar="N", help="From look to look; as metrics-server's. Default: 15.")
    add(
        "--stale-after-s",
        type=float,
        default=60,
        metavar="N",
        help="A node without newer metrics is not known: its pods are restored. Default: 60.",
    )
    add("--end-within-s", type=float, default=20, metavar="N", help="To restore all at the end. Default: 20.")
    add("--kubeconfig", type=Path, metavar="FILE", help="Default: the pod's own service account.")
