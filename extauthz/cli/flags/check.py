"""Flags of ``extauthz check``."""

from __future__ import annotations

import argparse

from extauthz.cli.flags import asking

DESCRIPTION = """\
Decides one write as the gate would, from the same files or by a gate that runs, and charges nothing. The write is a
workload and the count that it should get, a request as it would come over the wire, or (-f) whole objects, each by
itself. Of these each gets a line, with the sentence if it is refused; objects without replicas are left out."""


EPILOG = """\
examples:
  extauthz check deploy/web -n shop --replicas 9 --quotas quotas/ --state state.yaml
  extauthz check deploy/web -n shop --replicas 9 --server http://127.0.0.1:9192
  extauthz check --quotas quotas/ --state state.yaml --method PATCH \\
      --path /apis/apps/v1/namespaces/shop/deployments/web/scale \\
      --header content-type:application/merge-patch+json --body patch.json
  extauthz check -f manifests/ -n shop --custom rollouts.argoproj.io
  helm template shop ./chart | extauthz check -f - -n shop --server http://127.0.0.1:9192
  echo '{"spec":{"replicas":9}}' | extauthz check --quotas quotas/ --state state.yaml --method PATCH \\
      --path /apis/apps/v1/namespaces/shop/deployments/web/scale \\
      --header content-type:application/merge-patch+json --body - -o json

exit codes: 0 allow, 1 deny, 2 unavailable (for example unreadable), 64 wrong usage, 65 a file is wrong,
69 no server. Of several objects: 1 if any is denied, else 2 if any is unavailable"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("check", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "workload", nargs="?", type=asking.workload, metavar="KIND/NAME", help="Such as deploy/web, with --replicas."
    )
    parser.add_argument("-n", "--namespace", help="Namespace of the workload.")
    parser.add_argument("--replicas", type=int, metavar="N", help="The count that the workload should get.")
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
    parser.add_argument("--method", help="In place of a workload: PUT, PATCH or POST, or any other.")
    parser.add_argument("--path", help="The request target with its query, escaped as it would be sent.")
    parser.add_argument(
        "--header", type=_header, action="append", default=[], metavar="NAME:VALUE", help="May be repeated."
    )
    parser.add_argument("--body", metavar="FILE|-", help="The body as it would be sent; - reads standard input.")
    asking.add(parser)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:VALUE; write for example content-type:application/json")
    return name.strip().lower(), value.strip()
