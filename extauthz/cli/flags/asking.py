"""Flags of ``top`` and ``check``: what is asked, where their answers come from, and what ``--server`` is
shown by who asks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from extauthz.cli.flags import settings, types
from extauthz.core.kinds import GATED
from extauthz.serve.service.setting_types import SettingsError

SETTINGS = (
    "allow_unknown",
    "pod_groups",
)

SHORT: Final = {"deploy": "deployments", "sts": "statefulsets", "rs": "replicasets", "rc": "replicationcontrollers"}


def add(parser: argparse.ArgumentParser, kubeconfig: str) -> None:
    """The flags that say where answers come from, and how they are printed; ``kubeconfig``: what it is for."""
    parser.add_argument(
        "--server",
        metavar="URL",
        help="A gate that runs, by its --http address: http://127.0.0.1:9192; or by its --api address: https://…",
    )
    parser.add_argument("--quotas", type=Path, metavar="FILE|DIR", help="WorkspaceQuota objects, in place of a server.")
    parser.add_argument(
        "--state",
        type=Path,
        action="append",
        metavar="FILE|DIR",
        help="Objects as kubectl prints them: namespaces, workloads, pods. May be repeated.",
    )
    parser.add_argument(
        "--now",
        type=types.moment,
        metavar="TIME",
        help="With --state: a time such as 2027-02-01T12:00:00Z. Default: now; of explain the newest in the objects.",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="Default: table.")
    group = parser.add_argument_group("a --server that asks who you are (its --api address, https)")
    for name, text in CREDENTIALS.items():
        group.add_argument(f"--{_word(name)}", type=Path, metavar="FILE", help=text)
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help=kubeconfig)
    settings.add(parser, SETTINGS)


def workload(text: str) -> tuple[str, str, str]:
    """API group, plural and name of ``deploy/web``, ``deployment/web``, ``deployments.apps/web``.

    Raises:
        argparse.ArgumentTypeError: it is something else.
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


CREDENTIALS: Final = {
    "ca": "Authorities of the gate's certificate, PEM. Default: the system's.",
    "token_file": "A bearer token, such as `kubectl create token` prints.",
    "client_cert": "A client certificate of an authority in the gate's --api-client-ca, PEM.",
    "client_key": "Its private key, PEM.",
}
KUBECONFIG: Final = "Shows --server the token, or the client certificate, of its current user."


def _word(name: str) -> str:
    return name.replace("_", "-")


def check_credentials(arguments: argparse.Namespace, *more: str) -> None:
    """Whether the flags go together; else SettingsError. ``more``: others that show who asks."""
    given = [name for name in (*CREDENTIALS, *more) if getattr(arguments, name) is not None]
    if not given:
        return
    if arguments.server is None:
        raise SettingsError(f"--{_word(given[0])} is for --server https://…; give that, or leave it out")
    if not arguments.server.startswith("https://"):
        raise SettingsError(f"--{_word(given[0])}: credentials go over https only; write --server https://…")
    if (arguments.client_cert is None) != (arguments.client_key is None):
        raise SettingsError("--client-cert and --client-key go together; give both or neither")
    if "kubeconfig" in given and set(given) - {"kubeconfig", "ca"}:
        raise SettingsError("--kubeconfig stands in place of --token-file and --client-cert; leave one of them out")


TOP = """\
Shows every quota with what is used, reserved and hard. With the name of a quota, it shows the workloads that count in
it: what uses most comes first. Reserved is what writes that are under way may add."""

TOP_EPILOG = """\
examples:
  extauthz top --quotas quotas/ --state state.yaml
  extauthz top acme --sort requests.nvidia.com/gpu --server http://127.0.0.1:9192

exit codes: 0 shown, 64 wrong usage, 65 a file is wrong, 69 no server, or it does not know the quota"""


def add_top(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("top", description=TOP, epilog=TOP_EPILOG)
    parser.add_argument("quota", nargs="?", help="Show the workloads that count in this quota.")
    parser.add_argument("--sort", metavar="RESOURCE", help="Of workloads. Default: the fullest resource of the quota.")
    add(parser, KUBECONFIG)


CHECK = """\
Decides one write as the gate would, from the same files or by a gate that runs, and charges nothing. The write is a
workload and the count that it should get, or (-f) whole objects, each by itself. Of these each gets a line, with the
sentence if it is refused. Objects of which pods come, but which are not weighed, are named as `not weighed`; other
objects are left out.

Of a workload without --replicas it says how many it may have, and which quota stands in the way of one more. It is a
look and no promise: it reserves nothing."""

CHECK_EPILOG = """\
examples:
  extauthz check deploy/web -n shop --server http://127.0.0.1:9192                      (how many fit)
  extauthz check deploy/web -n shop --replicas 9 --server http://127.0.0.1:9192
  extauthz check deploy/web -n shop --replicas 9 --quotas quotas/ --state state.yaml
  extauthz check -f manifests/ -n shop --custom rollouts.argoproj.io --server http://127.0.0.1:9192
  helm template shop ./chart | extauthz check -f - -n shop --server http://127.0.0.1:9192

exit codes: 0 allow, 1 deny, 2 unavailable (for example unreadable), 64 wrong usage, 65 a file is wrong,
69 no server, or it does not know the workload. Of several objects: 1 if any is denied, else 2 if any is unavailable
or not weighed.
Without --replicas: 0 at least one replica more fits, 1 none does"""


def add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("check", description=CHECK, epilog=CHECK_EPILOG)
    parser.add_argument("workload", nargs="?", type=workload, metavar="KIND/NAME", help="Such as deploy/web.")
    parser.add_argument("-n", "--namespace", help="Namespace of the workload.")
    parser.add_argument(
        "--replicas", type=int, metavar="N", help="The count that the workload should get. Without it: how many fit."
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        metavar="FILE|DIR|-",
        help="In place of a workload: the objects of these YAML or JSON files, each as the webhook would be shown it; "
        "- reads standard input. May be repeated.",
    )
    parser.add_argument(
        "--custom",
        action="append",
        default=[],
        metavar="PLURAL.GROUP",
        help="With -f: also objects of this custom resource, such as rollouts.argoproj.io, which the webhook is asked "
        "about with the same flag. May be repeated.",
    )
    add(parser, KUBECONFIG)
