"""``extauthz-guard``: pauses pods on nodes that run out of memory, by lowering their CPU limits, and restores them."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from extauthz.cli import Parser, exits
from extauthz.inputs.kube.connection import connect
from extauthz.inputs.kube.session import NoClusterError
from extauthz.serve.service.setting_types import SettingsError
from extauthz.tools.render.manifests import Part, to_yaml
from memory_pressure.marks import Marks

from . import rights
from .controller import Controller, Options
from .limits import Limits

DESCRIPTION = """\
When a node passes --upper, lowers the CPU limits of the pods on it that use the least memory: these are about to
allocate more. When the node is down to --lower, when the guard ends, and when it starts after a crash, it restores the
limits. What it changed is written on each pod before it is changed. Only Burstable pods labelled
extauthz.dev/guard=pause, in the named namespaces, and never critical ones. Without --apply it only says what it would
do. Needs metrics-server, and Kubernetes 1.33 or later (pods/resize). guard.md says what this can do for memory, and
what not."""

EPILOG = """\
examples:
  extauthz-guard --namespace shop --print-rbac | kubectl apply -f -
  extauthz-guard --namespace shop                  # says what it would do
  extauthz-guard --namespace shop --apply
  extauthz-guard --namespace shop --restore        # once, if a guard is gone for good

exit codes: 0 all is restored, 1 a pod stays lowered, 64 wrong usage"""

HOME = "extauthz-system"


def main(argv: Sequence[str] | None = None) -> int:
    """Until SIGTERM; its exit code."""
    return run(_parser().parse_args(argv))


def _parser() -> Parser:
    parser = Parser(prog="extauthz-guard", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "--namespace", action="append", required=True, metavar="NAME", help="Where pods may be lowered; once for each."
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
    add("--round-s", type=float, default=15, metavar="N", help="From look to look; as metrics-server's. Default: 15.")
    add("--kubeconfig", type=Path, metavar="FILE", help="Default: the pod's own service account.")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Until SIGTERM; 1 if a pod stays lowered."""
    if arguments.print_rbac:
        says = "Made by `extauthz-guard --print-rbac`: the guard may write only in the namespaces that have opted in."
        print(to_yaml([Part(says, rights.objects(arguments.namespace, HOME))]), end="")
        return 0
    try:
        return asyncio.run(_run(arguments, _options(arguments)))
    except (SettingsError, NoClusterError) as error:
        return exits.fail(exits.USAGE, error)


async def _run(arguments: argparse.Namespace, options: Options) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with connect(arguments.kubeconfig, user_agent="extauthz-guard") as connection:
        limits = Limits(connection, tuple(arguments.namespace))
        controller = Controller(limits, options, tell, time.time)
        restored = await (controller.end() if arguments.restore else controller.run(stop))
    return 0 if restored else 1


def tell(event: str, **fields: str) -> None:
    """A line of JSON."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    print(json.dumps({"time": stamp, "event": event} | fields, ensure_ascii=False), flush=True)


def _options(arguments: argparse.Namespace) -> Options:
    marks = Marks(arguments.upper, arguments.lower, arguments.patience, arguments.step)
    if not 0 < marks.lower < marks.upper <= 100:
        raise SettingsError("--upper and --lower: write two percentages, the lower one lower")
    for flag in ("patience", "step", "round_s"):
        if not getattr(arguments, flag) > 0:
            raise SettingsError(f"--{flag.replace('_', '-')}: write a number above 0")
    return Options(marks, arguments.round_s, dry_run=not (arguments.apply or arguments.restore))
