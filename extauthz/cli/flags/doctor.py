"""Flags of ``extauthz doctor``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from extauthz.cli.flags import types
from extauthz.tools.doctor import table
from extauthz.tools.render.options import Outage, Profile

DESCRIPTION = """\
Checks whether the gate is really asked. It looks at the proxy's configuration and at the cluster, and sends dry runs on
the path that the autoscaler takes. A check whose option is missing is `skipped`, never ok. Nothing is changed: it
writes only dry runs and reviews."""


EPILOG = """\
examples:
  extauthz doctor --admin http://127.0.0.1:9901
  extauthz doctor --admin http://127.0.0.1:9901 --kubeconfig ~/.kube/config --url https://127.0.0.1:6443 \\
      --ca /etc/extauthz/ca.crt --token-file /var/run/secrets/kubernetes.io/serviceaccount/token
  kubectl -n knative-serving exec deploy/autoscaler -c istio-proxy -- \\
      pilot-agent request GET 'config_dump?include_eds' > dump.json
  extauthz doctor --config-dump dump.json --kubeconfig ~/.kube/config --service extauthz-system/extauthz -o json

exit codes: 0 no check fails, 1 one does (with --strict: or warns), 64 wrong usage, 65 a file is wrong"""


def _namespaced(text: str) -> tuple[str, str] | None:
    found = re.fullmatch("([^/]+)/([^/]+)", text)
    return (found[1], found[2]) if found else None


def _url(*schemes: str) -> Callable[[str], str]:
    """A URL of one of these schemes."""

    def read(text: str) -> str | None:
        parts = urlsplit(text)
        parts.port  # noqa: B018 (raises if it is none)
        return text if parts.scheme in schemes and parts.hostname else None

    return types.reading(read, f"is not {schemes[0]}://host:port")


NAMESPACED = types.reading(_namespaced, "is not NAMESPACE/NAME")


def add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("doctor", description=DESCRIPTION, epilog=EPILOG)
    _proxy(parser.add_argument_group("the proxy"))
    _client_path(parser.add_argument_group("the client path: how the autoscaler reaches the API server"))
    _cluster(parser.add_argument_group("the cluster"))
    parser.add_argument("--strict", action="store_true", help="A warning is a failure too: exit code 1.")
    parser.add_argument("-o", "--output", choices=tuple(table.OUTPUTS), default="table", help="Default: table.")


def _proxy(group: argparse._ArgumentGroup) -> None:
    source = group.add_mutually_exclusive_group()
    source.add_argument("--admin", type=_url("http", "https"), metavar="URL", help="Envoy's admin page.")
    source.add_argument(
        "--config-dump", type=Path, metavar="FILE", help="A saved /config_dump?include_eds. It tells less than --admin."
    )
    group.add_argument(
        "--listener",
        metavar="NAME",
        help="Which listener carries the API traffic. Default: by --url; in a mesh, by the Service default/kubernetes.",
    )
    group.add_argument(
        "--profile",
        type=types.one_of(Profile),
        choices=list(Profile),
        help="Which path rules are wanted. Default: those of any.",
    )
    group.add_argument(
        "--on-outage",
        type=types.one_of(Outage),
        choices=list(Outage),
        default=Outage.DENY,
        help="What is wanted while the gate gives no answer. Default: deny.",
    )


def _client_path(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--url", type=_url("https"), metavar="URL", help="Where the autoscaler finds its API server.")
    group.add_argument("--ca", type=Path, metavar="FILE", help="What it trusts. Default: the system's authorities.")
    group.add_argument("--token-file", type=Path, metavar="FILE", help="What it shows.")
    group.add_argument(
        "--canary",
        type=NAMESPACED,
        dest="deployment",
        metavar="NAMESPACE/NAME",
        help="A Deployment for the dry-run scale write. Default: one that the cluster has.",
    )


def _cluster(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="An administrator's, straight at the API server. In a pod that is told nothing else: its own account.",
    )
    group.add_argument("--service", type=NAMESPACED, metavar="NAMESPACE/NAME", help="The gate's Service, for its port.")
    group.add_argument(
        "--gate-account",
        type=NAMESPACED,
        default=("extauthz-system", "extauthz"),
        metavar="NAMESPACE/NAME",
        help="The gate's service account. Default: extauthz-system/extauthz.",
    )
