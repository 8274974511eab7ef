"""``extauthz guard``: pauses pods on nodes that run out of memory, by lowering their CPU limits, and restores them."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time
from datetime import UTC, datetime

from extauthz.cli import exits
from extauthz.cli.flags.guard import HOME
from extauthz.core import quantities
from extauthz.core.pressure import Marks
from extauthz.core.quantities import QuantityError
from extauthz.guard import rights
from extauthz.guard.controller import Controller, Options
from extauthz.guard.limits import Limits
from extauthz.guard.pods import Opted
from extauthz.kube.connection import connect
from extauthz.kube.credentials import NoClusterError
from extauthz.render.manifests import Part, to_yaml
from extauthz.service.setting_errors import SettingsError


def run(arguments: argparse.Namespace) -> int:
    """Until SIGTERM; 1 if a pod stays lowered."""
    if arguments.print_rbac:
        says = "Made by `extauthz guard --print-rbac`: the guard may write only in the namespaces that have opted in."
        print(to_yaml([Part(says, rights.objects(arguments.namespace, HOME))]), end="")
        return 0
    try:
        options, opted = _options(arguments), _opted(arguments)
        return asyncio.run(_run(arguments, options, opted))
    except (SettingsError, NoClusterError) as error:
        return exits.fail(exits.USAGE, error)


async def _run(arguments: argparse.Namespace, options: Options, opted: Opted) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with connect(arguments.kubeconfig, user_agent="extauthz-guard") as connection:
        limits = Limits(connection, tuple(arguments.namespace), opted)
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
    for flag in ("patience", "step", "round_s", "stale_after_s", "end_within_s"):
        if not getattr(arguments, flag) > 0:
            raise SettingsError(f"--{flag.replace('_', '-')}: write a number above 0")
    is_dry = not (arguments.apply or arguments.restore)
    return Options(marks, arguments.round_s, arguments.stale_after_s, is_dry, arguments.end_within_s)


def _opted(arguments: argparse.Namespace) -> Opted:
    label, equals, value = arguments.label.partition("=")
    if not (label and equals):
        raise SettingsError(f"--label: {arguments.label!r} is not KEY=VALUE")
    try:
        floor = quantities.parse(arguments.floor)
    except QuantityError as error:
        raise SettingsError(f"--floor: {error}") from None
    if floor < quantities.parse("10m"):
        raise SettingsError("--floor: the kubelet gives no container less than 10m of a limit")
    return Opted(label, value, floor)
