"""Flags of ``top``, ``headroom`` and ``check``: where their answers come from, and of which workload."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from extauthz.cli.flags import credentials, settings
from extauthz.core import texts
from extauthz.core.kinds import GATED
from extauthz.core.quota import overrides

PLACE: Final = "extauthz-system/extauthz"
"""Namespace and Service of a gate, as the chart is installed by default."""

SETTINGS = (
    "on_unreadable", "on_unknown_workload", "on_unknown_footprint", "on_unspecified", "on_unknown_policy",
    "on_unsynced", "scaled_templates", "pod_groups",
)  # fmt: skip


SHORT: Final = {"deploy": "deployments", "sts": "statefulsets", "rs": "replicasets", "rc": "replicationcontrollers"}


def add(parser: argparse.ArgumentParser) -> None:
    """The flags that say where answers come from, and how they are printed."""
    parser.add_argument(
        "--server",
        metavar="URL",
        help="A gate that runs, by its --http address: http://127.0.0.1:9192; or by its --api address: https://…",
    )
    parser.add_argument(
        "--port-forward",
        metavar="NAMESPACE/SERVICE",
        help=f"A gate in the cluster, by kubectl. Default, where no other place is given: {PLACE}",
    )
    parser.add_argument("--quotas", type=Path, metavar="FILE|DIR", help="WorkspaceQuota objects, in place of a server.")
    parser.add_argument(
        "--state", type=Path, metavar="FILE", help="With --quotas: a Kubernetes List of namespaces and workloads."
    )
    parser.add_argument(
        "--now",
        type=moment,
        metavar="TIME",
        help="With --quotas: the time at which overrides and policies are looked at, such as 2027-02-01T12:00:00Z.",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="Default: table.")
    credentials.add_credentials(parser)
    settings.add(parser, SETTINGS)


def moment(text: str) -> float:
    """Seconds since 1970 of a time of RFC 3339.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    found = texts.seconds(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time of RFC 3339; {overrides.TIME_CURE}")
    return found


def workload(text: str) -> tuple[str, str, str]:
    """API group, plural and name of ``deploy/web``, ``deployment/web``, ``deployments.apps/web``.

    Raises:
        argparse.ArgumentTypeError: it is none of these.
    """
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no KIND/NAME; write for example deploy/web")
    plural, _, group = SHORT.get(kind.lower(), kind.lower()).partition(".")
    for one in GATED:
        if plural in (one.key[1], one.name.lower()) and group in ("", one.key[0]):
            return *one.key, name
    if group:
        return group, plural, name
    known = ", ".join(sorted((*SHORT, *(one.key[1] for one in GATED))))
    raise argparse.ArgumentTypeError(f"{kind!r} is no kind with replicas; there are {known}, and PLURAL.GROUP")
