"""Flags of ``extauthz doctor``."""

from __future__ import annotations

import argparse
from pathlib import Path
from urllib.parse import urlsplit

from extauthz.cli.flags import sidecar
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
        type=sidecar.one_of(Profile),
        choices=list(Profile),
        help="Which path rules are wanted. Default: those of any.",
    )
    group.add_argument(
        "--on-outage",
        type=sidecar.one_of(Outage),
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
        type=_namespaced,
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
    group.add_argument(
        "--service", type=_namespaced, metavar="NAMESPACE/NAME", help="The gate's Service, for its port."
    )
    group.add_argument(
        "--gate-account",
        type=_namespaced,
        default=("extauthz-system", "extauthz"),
        metavar="NAMESPACE/NAME",
        help="The gate's service account. Default: extauthz-system/extauthz.",
    )


class _url:  # noqa: N801 (used like a function)
    """A type for argparse: a URL of one of these schemes."""

    def __init__(self, *schemes: str) -> None:
        self._schemes = schemes

    def __call__(self, text: str) -> str:
        try:
            parts = urlsplit(text)
            parts.port  # noqa: B018 (raises if it is none)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
        if parts.scheme not in self._schemes or not parts.hostname:
            raise argparse.ArgumentTypeError(f"{text!r} is not {self._schemes[0]}://host:port")
        return text


def _namespaced(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (slash and namespace and name) or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return namespace, name
