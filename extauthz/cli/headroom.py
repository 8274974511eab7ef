"""``extauthz headroom``: how many replicas a workload may have, and what stands in the way of one more."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from extauthz.cli import asking, report
from extauthz.core.kinds import BY_NAME, GATED
from extauthz.core.model import Tree, WorkloadRef
from extauthz.inputs.files.content import Content, FilesError
from extauthz.inputs.files.objects import objects
from extauthz.serve.servers.api import shown
from extauthz.serve.servers.api.shown import Json
from extauthz.serve.service.setting_types import SettingsError


@asking.answered
def run(arguments: argparse.Namespace) -> int:
    """Print it; the exit code tells whether one replica more fits."""
    ask = _question(arguments)
    with asking.source(arguments) as source:
        found = ask(source)
    sys.stdout.write(report.as_json(found) if arguments.output == "json" else as_text(found))
    return 0 if found["replicas"] is None or found["replicas"] > found["observedReplicas"] else 1


def _question(arguments: argparse.Namespace) -> Callable[[asking.Source], Json]:
    """What to ask. Raises SettingsError, FilesError and OSError."""
    if (arguments.workload is None) == (arguments.filename is None):
        raise SettingsError("say of what: KIND/NAME -n NAMESPACE, or -f FILE with a manifest")
    if arguments.filename is not None:
        asked = {"object": _manifest(arguments.filename)}
        if arguments.namespace is not None:
            asked["namespace"] = arguments.namespace
        return lambda source: source.headroom_of(asked)
    if arguments.namespace is None:
        raise SettingsError("--namespace is needed with a workload")
    group, plural, name = arguments.workload
    ref = WorkloadRef(group, plural, arguments.namespace, name)
    return lambda source: source.headroom(ref)


def _manifest(filename: str) -> Json:
    """The one workload of a file; what else is in it (a Service, say) is passed over."""
    data = sys.stdin.buffer.read() if filename == "-" else Path(filename).read_bytes()
    read, problems = objects([Content(filename, data)])
    if problems:
        raise FilesError(problems)
    found = [one.tree for one in read if _has_replicas(one.tree)]
    if len(found) != 1:
        kinds = ", ".join(kind.name for kind in GATED)
        raise SettingsError(f"--filename: {filename} holds {len(found)} workloads; give one with one ({kinds})")
    return dict(found[0])


def _has_replicas(tree: Tree) -> bool:
    group = str(tree.get("apiVersion", "")).rpartition("/")[0] if isinstance(tree, dict) else ""
    kind = BY_NAME.get((group, str(tree.get("kind")))) if isinstance(tree, dict) else None
    return kind is not None and kind.is_gated


def _within(found: dict[str, Any], count: int) -> str:
    """Of what it may have more, how much nobody else can get."""
    guaranteed = found.get("guaranteedReplicas")
    if guaranteed is None or found["replicas"] <= count:
        return ""
    return f": {found['replicas'] - count} more, {max(guaranteed - count, 0)} of them within its guarantee"


def _of(found: dict[str, Any]) -> str:
    """What its autoscaler may ask for, where not all of that fits. Gates of before do not say it."""
    asks = found.get("mayAskFor")
    return f" of the {asks} that its autoscaler may ask for" if asks is not None and asks > found["replicas"] else ""


def as_text(found: dict[str, Any]) -> str:
    """A sentence or two, and the evidence."""
    count = found["observedReplicas"]
    has = f"{found['resource']} {found['namespace']}/{found['name']} {shown.has(found)}"
    if found["replicas"] is None:
        lines = [f"{has}, and no quota sets a bound."]
    else:
        lines = [f"{has} and {shown.may(found)}{_of(found)}{_within(found, count)}."]
        bound = found["bound"]
        names = report.amounts(bound.get("kept", "0") != "0")
        head = ("quota", "resource", *names)
        row = ("/".join(bound["path"]), bound["resource"], *(bound[name] for name in names))
        lines += ["", f"{shown.one_more(found)} does not fit:", *report.lines([head, row], "  ")]
    if (short := found.get("auditBound")) is not None:
        limit = f"{short['resource']}: used {short['used']}, hard {short['hard']}"
        who = f"{'/'.join(short['path'])}, in mode Audit, refuses nothing and"
        lines += ["", f"{who} would allow {found['auditReplicas']} ({limit})."]
    if not found["certain"]:
        lines += ["", "Not all that this rests on is known, so growth may be refused (docs/modes.md)."]
    return "\n".join(lines) + "\n"
