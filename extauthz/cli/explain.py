"""``extauthz explain``: why an autoscaler leaves a workload at its count, or where it takes it next."""

from __future__ import annotations

import argparse
import sys
import time

from extauthz.cli import (
    asking,
    exits,
    explain_finding,
    explain_hpa,
    explain_knative,
    explain_quota,
    explain_reason,
    explain_report,
    report,
)
from extauthz.cli.explain_finding import HPA, KPA, KSVC, SCALED_OBJECT, NothingScalesError
from extauthz.cli.explain_quota import Asked
from extauthz.cli.flags.asking import check_credentials
from extauthz.core.quantities import QuantityError
from extauthz.core.texts import stamp
from extauthz.explain.objects import ExplainError, Objects, newest
from extauthz.inputs.files import content
from extauthz.inputs.files.content import FilesError
from extauthz.inputs.files.objects import objects as placed
from extauthz.serve.service.setting_types import SettingsError

UNKNOWN = 2

EXPLAINED = {
    HPA: explain_hpa.explained,
    KPA: explain_knative.explained,
    KSVC: explain_knative.of_service,
    SCALED_OBJECT: explain_hpa.of_scaled_object,
}


@asking.answered
def run(arguments: argparse.Namespace) -> int:
    """Print it; the exit code tells whether something holds it back."""
    kind, name = arguments.what or ("", "")
    if not kind:
        return explain_reason.run(name)
    if arguments.namespace is None:
        raise SettingsError("--namespace is needed with KIND/NAME")
    check_credentials(arguments)
    try:
        return _explained(_asked(arguments))
    except ExplainError as error:
        return exits.fail(UNKNOWN, error)
    except (KeyError, TypeError, AttributeError, QuantityError) as error:
        text = f"an object is not as kubectl prints it: {type(error).__name__}: {error}"
        return exits.fail(exits.DATA, ValueError(text))


def _explained(asked: Asked) -> int:
    namespace = asked.arguments.namespace
    try:
        kind, name = explain_finding.meant(asked.objects, namespace, *asked.arguments.what)
        tree = explain_finding.one(asked.objects, namespace, kind, name)
        found = EXPLAINED[kind](asked, tree) | {"notSeen": list(asked.objects.missing)}
        as_text = explain_knative.service_as_text if kind == KSVC else explain_report.as_text
        text = as_text(found) + explain_report.not_seen(found)
    except NothingScalesError as error:
        found = explain_quota.alone(asked, error)
        text = explain_quota.alone_as_text(found)
    sys.stdout.write(report.as_json(found) if asked.arguments.output == "json" else text)
    return 1 if found["held"] else 0


def _asked(arguments: argparse.Namespace) -> Asked:
    """With all objects, and the time that they are of."""
    if not arguments.state:
        if arguments.quotas is not None:
            raise SettingsError("--quotas needs --state; with a cluster ask a gate that runs: --server URL")
        if arguments.now is not None:
            raise SettingsError("--now is for --state; a cluster is explained as it is now")
        import asyncio

        from extauthz.cli import explain_cluster  # it needs the Kubernetes client

        reading = explain_cluster.read(arguments.kubeconfig, arguments.namespace, *arguments.what)
        return Asked(arguments, asyncio.run(reading), time.time())
    if arguments.kubeconfig is not None:
        raise SettingsError("--state and --kubeconfig are two places; leave one of them out")
    contents = [one for path in arguments.state for one in content.read(path)]
    found, problems = placed(contents)
    if problems:
        raise FilesError(problems)
    objects = Objects(each.tree for each in found)
    now = arguments.now
    if now is None:
        now = newest(objects.all())
        at = stamp(now, "seconds")
        sys.stderr.write(f"extauthz: as of {at}, the newest time in the objects (--now TIME for another)\n")
    return Asked(arguments, objects, now, found)
