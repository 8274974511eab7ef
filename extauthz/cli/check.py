"""``extauthz check``: the decision on one request, without a server, charging nothing."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from extauthz.cli import asking, report
from extauthz.core.intake.read import read
from extauthz.core.model import Request, Verdict, WorkloadRef
from extauthz.servers.api import shown
from extauthz.servers.api.shown import Json
from extauthz.service.deciding import new_id
from extauthz.service.loading import SettingsError

EXITS = {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.UNAVAILABLE: 2}

DESCRIPTION = """\
Decides one write as the gate would, from the same files or by a gate that runs, and charges nothing. The write is a
workload and the count that it should get, or a request as it would come over the wire."""

EPILOG = """\
examples:
  extauthz check deploy/web -n shop --replicas 9 --quotas quotas/ --state state.yaml
  extauthz check deploy/web -n shop --replicas 9 --server http://127.0.0.1:9192
  extauthz check --quotas quotas/ --state state.yaml --method PATCH \\
      --path /apis/apps/v1/namespaces/shop/deployments/web/scale \\
      --header content-type:application/merge-patch+json --body patch.json
  echo '{"spec":{"replicas":9}}' | extauthz check --quotas quotas/ --state state.yaml --method PATCH \\
      --path /apis/apps/v1/namespaces/shop/deployments/web/scale \\
      --header content-type:application/merge-patch+json --body - -o json

exit codes: 0 allow, 1 deny, 2 unavailable (for example unreadable), 64 wrong usage, 65 a file is wrong,
69 no server"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "check",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "workload", nargs="?", type=asking.workload, metavar="KIND/NAME", help="Such as deploy/web, with --replicas."
    )
    parser.add_argument("-n", "--namespace", help="Namespace of the workload.")
    parser.add_argument("--replicas", type=int, metavar="N", help="The count that the workload should get.")
    parser.add_argument("--method", help="In place of a workload: PUT, PATCH or POST, or any other.")
    parser.add_argument("--path", help="The request target with its query, escaped as it would be sent.")
    parser.add_argument(
        "--header", type=_header, action="append", default=[], metavar="NAME:VALUE", help="May be repeated."
    )
    parser.add_argument("--body", metavar="FILE|-", help="The body as it would be sent; - reads standard input.")
    asking.add(parser)


@asking.answered
def run(arguments: argparse.Namespace) -> int:
    """Print the decision; the exit code tells the verdict."""
    decision = _decide(arguments)
    sys.stdout.write(report.OUTPUTS[arguments.output](decision))
    return EXITS[Verdict(decision["verdict"])]


def _decide(arguments: argparse.Namespace) -> Json:
    if arguments.workload is not None:
        asked = _of_workload(arguments)
        with asking.source(arguments) as source:
            return source.decision(asked)
    if arguments.method is None or arguments.path is None:
        raise SettingsError("say what to decide: KIND/NAME -n NAMESPACE --replicas N, or --method and --path")
    if arguments.server is not None or arguments.port_forward is not None:
        raise SettingsError("a server answers for KIND/NAME -n NAMESPACE --replicas N; for --method give files")
    return shown.decision(asking.gate(arguments).decide(read(_request(arguments)), new_id(), 0.0, charge=False))


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


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:VALUE; write for example content-type:application/json")
    return name.strip().lower(), value.strip()


def _body(source: str | None) -> bytes:
    if source is None:
        return b""
    return sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
