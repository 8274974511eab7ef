"""``extauthz check``: the decision on one request, without a server, charging nothing."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from extauthz.cli import exits, options, report
from extauthz.cluster import file as state_file
from extauthz.core.decision.gate import Gate
from extauthz.core.intake.read import read
from extauthz.core.model import Decision, Request, Verdict
from extauthz.files.problems import FilesError
from extauthz.service.deciding import new_id
from extauthz.service.loading import ConfigFileError, SettingsError
from extauthz.service.settings import KUBERNETES, Settings, policy
from extauthz.sources import file as quota_file

SETTINGS = ("on_unreadable", "on_unknown_workload", "on_unknown_footprint", "on_unspecified", "on_unsynced")

EXITS = {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.UNAVAILABLE: 2}

DESCRIPTION = """\
Decides one request as the gate would, from the same files, and charges nothing. The request is given as it would come
over the wire."""

EPILOG = """\
examples:
  extauthz check --quotas quotas/ --state state.yaml --method PATCH \\
      --path /apis/apps/v1/namespaces/shop/deployments/web/scale \\
      --header content-type:application/merge-patch+json --body patch.json
  echo '{"spec":{"replicas":9}}' | extauthz check --quotas quotas/ --state state.yaml --method PATCH \\
      --path /apis/apps/v1/namespaces/shop/deployments/web/scale \\
      --header content-type:application/merge-patch+json --body - -o json

exit codes: 0 allow, 1 deny, 2 unavailable (for example unreadable), 64 wrong usage, 65 a file is wrong"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "check",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--quotas", type=Path, required=True, metavar="FILE|DIR", help="WorkspaceQuota objects.")
    parser.add_argument(
        "--state", type=Path, required=True, metavar="FILE", help="A Kubernetes List: namespaces and workloads."
    )
    parser.add_argument("--method", required=True, help="PUT, PATCH or POST, or any other.")
    parser.add_argument("--path", required=True, help="The request target with its query, escaped as it would be sent.")
    parser.add_argument(
        "--header", type=_header, action="append", default=[], metavar="NAME:VALUE", help="May be repeated."
    )
    parser.add_argument("--body", metavar="FILE|-", help="The body as it would be sent; - reads standard input.")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="Default: table.")
    options.add(parser, SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Print the decision; the exit code tells the verdict."""
    try:
        settings = options.settings(arguments)
        _only_files(arguments)
        decision = _decide(settings, arguments)
    except (ConfigFileError, FilesError, OSError) as error:
        return exits.fail(exits.DATA, error)
    except SettingsError as error:
        return exits.fail(exits.USAGE, error)
    sys.stdout.write(report.OUTPUTS[arguments.output](decision))
    return EXITS[decision.verdict]


SAVED = {
    "quotas": "kubectl get workspacequotas -o yaml > quotas.yaml",
    "state": "kubectl get ns,deploy,sts,rs,rc,jobs,pods -A -o yaml > state.yaml",
}
"""How to get what ``check`` reads from a cluster."""


def _only_files(arguments: argparse.Namespace) -> None:
    """``serve`` takes ``kubernetes`` and URLs in their place."""
    for name, command in SAVED.items():
        given = str(getattr(arguments, name))
        if given == KUBERNETES or given.startswith(("http:/", "https:/")):
            raise SettingsError(f"--{name}: check asks no {given}, it reads files; save them first: {command}")


def _decide(settings: Settings, arguments: argparse.Namespace) -> Decision:
    gate = Gate(policy(settings))
    request = _request(arguments)
    gate.load_quotas(quota_file.load(arguments.quotas).tree, 0.0)
    gate.load_state(state_file.load(arguments.state).state, 0.0)
    return gate.decide(read(request), new_id(), 0.0, charge=False)


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
