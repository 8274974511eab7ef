"""Flags of ``extauthz explain``."""

from __future__ import annotations

import argparse

from extauthz.cli.explain_finding import KINDS
from extauthz.cli.flags import asking
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
  extauthz explain hpa/web -n shop --controller tolerance=0.05 -o json
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
    ask = parser.add_argument_group("what if")
    ask.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="METRIC=VALUE",
        help="Another value: cpu=83. For Knative concurrency=N or rps=N, or stable=N and panic=N; panic-mode=0 or 1.",
    )
    ask.add_argument(
        "--controller",
        action="append",
        default=[],
        metavar="FLAG=VALUE",
        help="A flag of kube-controller-manager. Default: as its pod has it, if that is seen; else its own default.",
    )
    asking.add(
        parser, "Without --state objects are read from its cluster. Default: KUBECONFIG, ~/.kube/config, the pod's own."
    )


def _what(text: str) -> tuple[str, str]:
    """An autoscaler's kind, or the plural of a workload; and a name. No kind: a reason."""
    kind, slash, name = text.partition("/")
    if not slash:
        return "", text
    if slash and name and kind.lower() in KINDS:
        return KINDS[kind.lower()], name
    return asking.workload(text)[1], name
