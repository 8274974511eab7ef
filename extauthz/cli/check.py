"""``extauthz check``: the decision on one request, without a server, charging nothing."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from extauthz.cli import asking, asking_files, check_files, report
from extauthz.core.intake.counts import read
from extauthz.core.model import Request, Verdict, WorkloadRef
from extauthz.servers.api import shown
from extauthz.servers.api.shown import Json
from extauthz.service.ids import new_id
from extauthz.service.setting_types import SettingsError


@asking.answered
def run(arguments: argparse.Namespace) -> int:
    """Print the decision; the exit code tells the verdict."""
    if arguments.filename is not None:
        return check_files.run(arguments)
    decision = _decide(arguments)
    sys.stdout.write(report.OUTPUTS[arguments.output](decision))
    return check_files.EXITS[Verdict(decision["verdict"])]


def _decide(arguments: argparse.Namespace) -> Json:
    if arguments.workload is not None:
        asked = _of_workload(arguments)
        with asking.source(arguments) as source:
            return source.decision(asked)
    if arguments.method is None or arguments.path is None:
        raise SettingsError("say what to decide: KIND/NAME -n NAMESPACE --replicas N, -f FILE, or --method and --path")
    if arguments.server is not None or arguments.port_forward is not None:
        raise SettingsError("a server answers for KIND/NAME -n NAMESPACE --replicas N; for --method give files")
    return shown.decision(asking_files.gate(arguments).decide(read(_request(arguments)), new_id(), 0.0, charge=False))


def _of_workload(arguments: argparse.Namespace) -> Json:
    given = [name for name in ("method", "path", "body") if getattr(arguments, name) is not None]
    if given:
        raise SettingsError(f"--{given[0]}: leave it out where a workload is given")
    for name in ("namespace", "replicas"):
        if getattr(arguments, name) is None:
            raise SettingsError(f"--{name} is needed with a workload")
    group, plural, name = arguments.workload
    ref = WorkloadRef(group, plural, arguments.namespace, name)
    return shown.named(ref) | {"replicas": arguments.replicas}


def _request(arguments: argparse.Namespace) -> Request:
    headers: dict[str, str] = {}
    for name, value in arguments.header:
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    # Bytes that are not UTF-8 reach the gate as Envoy's stand-in for them would: as something that is no name.
    target = os.fsencode(arguments.path).decode("utf-8", "replace")
    return Request(arguments.method, target, headers, _body(arguments.body))


def _body(source: str | None) -> bytes:
    if source is None:
        return b""
    return sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
