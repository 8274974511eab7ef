"""Flags of ``extauthz explain``."""

from __future__ import annotations

import argparse
from pathlib import Path

from extauthz.cli.explain_finding import KINDS
from extauthz.cli.flags import asking, settings, types
from extauthz.explain import objects as controller

DESCRIPTION = """\
Says why an autoscaler leaves a workload at its count, or where it takes it next: one sentence, then the arithmetic step
by step, as the controller does it. It knows HorizontalPodAutoscalers (hpa/NAME), Knative's own autoscaler (kpa/NAME, or
ksvc/NAME for a Service) and KEDA (scaledobject/NAME). Then it says what would have to change for one replica more, and
what the quota says. A step is `certain` if it follows from the objects, and `likely` if it needs what only the
controller remembers, or pods and metrics that are not given. It only reads.

Of the reason of a decision it says what it means, who can cure it, and how. That is the field `reason` of the log, of
the API and of `check`, and of a refusal by Envoy `details.causes[0].reason`."""


EPILOG = f"""\
examples:
  extauthz explain hpa/web -n shop
  extauthz explain deploy/web -n shop --server http://127.0.0.1:9192
  kubectl get hpa,deploy,pods,podmetrics,ns -A -o yaml > state.yaml
  extauthz explain hpa/web -n shop --state state.yaml --quotas quotas/
  extauthz explain hpa/web -n shop --at cpu=83
  extauthz explain hpa/web -n shop --tolerance up=0.05 -o json
  extauthz explain ksvc/hello -n shop
  extauthz explain kpa/hello-00001 -n shop --at concurrency=150 --at panic=300
  extauthz explain scaledobject/worker -n shop
  extauthz explain exceeded-quota

flags of kube-controller-manager (--controller): {", ".join(controller.names())}

exit codes: 0 the autoscaler gets what it asks for, 1 something holds it back (the sentence says what), 2 what it
depends on is not among the objects, 64 wrong usage, 65 a file is wrong, 69 no cluster or server"""


def add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("explain", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "what",
        nargs="?",
        type=_what,
        metavar="KIND/NAME|REASON",
        help="Such as hpa/web, kpa/web, ksvc/web, scaledobject/web, or what they scale: deploy/web. Or the reason of a "
        "decision: exceeded-quota. Without it: all reasons.",
    )
    parser.add_argument("-n", "--namespace", help="Its namespace.")
    where = parser.add_argument_group("where the objects are", "Without --state they are read from the cluster.")
    where.add_argument(
        "--state",
        type=Path,
        action="append",
        default=[],
        metavar="FILE|DIR",
        help="Objects as kubectl prints them, metrics among them if they are saved. May be repeated.",
    )
    where.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="Default: KUBECONFIG, ~/.kube/config, or the pod's own account."
    )
    where.add_argument(
        "--now",
        type=types.moment,
        metavar="TIME",
        help="With --state: a time such as 2027-02-01T12:00:00Z. Default: the newest time in the objects.",
    )
    _add_what_if(parser.add_argument_group("what if"))
    quota = parser.add_argument_group("what the quota says")
    quota.add_argument("--server", metavar="URL", help="A gate that runs, by its --http or --api address.")
    quota.add_argument("--quotas", type=Path, metavar="FILE|DIR", help="WorkspaceQuota objects; with --state.")
    asking.add_credentials(parser, asking.OWN)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="Default: text.")
    settings.add(parser, asking.SETTINGS)


def _add_what_if(ask: argparse._ArgumentGroup) -> None:
    ask.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="METRIC=VALUE",
        help="Another value: cpu=83. For Knative concurrency=N or rps=N, or stable=N and panic=N; panic-mode=0 or 1.",
    )
    ask.add_argument(
        "--tolerance",
        action="append",
        default=[],
        metavar="[up=|down=]N",
        help="Another flag: 0.05. Fields of the HPA win over it; up=0.05 and down=0.05 stand for those.",
    )
    ask.add_argument(
        "--controller",
        action="append",
        default=[],
        metavar="FLAG=VALUE",
        help="A flag of kube-controller-manager. Default: as its pod has it, if that is seen; else its own default.",
    )


def _what(text: str) -> tuple[str, str]:
    """An autoscaler's kind, or the plural of a workload; and a name. No kind: a reason."""
    kind, slash, name = text.partition("/")
    if not slash:
        return "", text
    if slash and name and kind.lower() in KINDS:
        return KINDS[kind.lower()], name
    return asking.workload(text)[1], name
