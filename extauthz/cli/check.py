"""``extauthz check``: the decision on one write, or how many replicas fit; it charges nothing."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import Final

from extauthz.cli import asking, check_files, headroom, report
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.serve.servers.api import shown
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.servers.api.shown import Json
from extauthz.serve.service.setting_types import SettingsError

EXITS: Final = {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.UNAVAILABLE: 2}


@asking.answered
def run(arguments: argparse.Namespace) -> int:
    """Print the decision, or how many fit; the exit code tells the verdict, or whether one replica more fits."""
    if arguments.filename is not None:
        return EXITS[check_files.run(arguments)]
    ref = _ref(arguments)
    source = asking.source(arguments)
    if arguments.replicas is None:
        found = source.headroom(ref)
        code = 0 if found["replicas"] is None or found["replicas"] > found["observedReplicas"] else 1
        text = headroom.as_text(found) + _override(source, found)
    else:
        found = source.decision(shown.named(ref) | {"replicas": arguments.replicas})
        code, text = EXITS[Verdict(found["verdict"])], report.as_table(found)
    sys.stdout.write(report.as_json(found) if arguments.output == "json" else text)
    return code


def _override(source: asking.Source, found: Json) -> str:
    """Of the quota in the way: the override that is in force. Empty: none is, or the quota may not be seen."""
    quota = (found["bound"] or {}).get("quota")
    if quota is None:
        return ""
    with suppress(Problem):
        if (one := source.quota(quota))["override"]:
            return f"\n{quota}: {shown.override(one)}\n"
    return ""


def _ref(arguments: argparse.Namespace) -> WorkloadRef:
    if arguments.workload is None:
        raise SettingsError("say what to decide: KIND/NAME -n NAMESPACE, or -f FILE")
    if arguments.namespace is None:
        raise SettingsError("--namespace is needed with a workload")
    group, plural, name = arguments.workload
    return WorkloadRef(group, plural, arguments.namespace, name)
