"""What the quota says to the count that an autoscaler wants: a gate that runs is asked, or one made of files."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import Any

from extauthz.cli import asking, asking_files, asking_server, headroom
from extauthz.cli.explain_finding import NothingScalesError
from extauthz.cli.flags.settings import effective
from extauthz.cli.report import wrapped
from extauthz.core.errors import ObjectError
from extauthz.core.kinds import GATED
from extauthz.core.model import Tree, WorkloadRef
from extauthz.explain import by_quota, target
from extauthz.explain.objects import ExplainError, Objects
from extauthz.inputs.cluster.snapshot import DEFINITION, Snapshot, SnapshotBuilder
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.servers.api.shown import named
from extauthz.serve.service import pod_groups
from extauthz.serve.service.setting_types import SettingsError

Json = dict[str, Any]


def workload(objects: Objects, ref: Tree, namespace: str) -> WorkloadRef:
    """What a ``scaleTargetRef`` names."""
    group, kind = target.group_of_ref(ref), ref.get("kind") or "Deployment"
    return WorkloadRef(group, target.plural(kind, objects.definition(group, kind)), namespace, ref["name"])


def alone(arguments: argparse.Namespace, objects: Objects, error: NothingScalesError, now: float) -> Json:
    """Of a workload that nothing scales: how many replicas its quota allows, and why not one more.

    Raises:
        NothingScalesError: no gate is asked.
        ExplainError: what the quota says is not known.
    """
    key = next((one.key for one in GATED if one.key[1] == error.kind), None) or objects.resource(error.kind)
    if key is None or (arguments.server is None and arguments.quotas is None):
        raise error
    ref = WorkloadRef(*key, arguments.namespace, error.name)
    source = _source(arguments, objects, now)
    try:
        found = source.headroom(ref)
    except Problem as problem:
        raise ExplainError(f"what the quota says is not known: {problem}") from None
    is_full = found["replicas"] is not None and found["replicas"] <= found["observedReplicas"]
    return {
        "workload": {"kind": error.kind, "name": error.name},
        "namespace": arguments.namespace,
        "sentence": f"{headroom.sentence(found)} Nothing scales it.",
        "held": is_full,
        "currentReplicas": found["observedReplicas"],
        "headroom": found,
    }


def alone_as_text(found: Json) -> str:
    """The sentence, and what stands in the way of one more."""
    lines = "".join(f"{line}\n" for line in wrapped(found["sentence"]))
    return lines + headroom.evidence(found["headroom"])


def said(
    arguments: argparse.Namespace, objects: Objects, ref: WorkloadRef, wanted: int, most: int | None, now: float
) -> Json | None:
    """What the gate says to this count; ``None``: it is not asked.

    Args:
        most: replicas that its autoscaler may ask for; ``None``: any number.
        now: seconds since 1970, for overrides and policies of files.
    """
    if arguments.server is None and arguments.quotas is None:
        return None
    source = _source(arguments, objects, now)
    try:
        decision = source.decision(named(ref) | {"replicas": wanted})
        found = {"asked": wanted, "decision": decision, "headroom": source.headroom(ref), "mayAskFor": most}
        return found | {"line": _line(source, decision, ref)}
    except Problem as problem:
        raise ExplainError(f"what the quota says is not known: {problem}") from None


def _source(arguments: argparse.Namespace, objects: Objects, now: float) -> asking.Source:
    if arguments.server:
        return asking_server.asked(arguments)
    return asking_files.of_state(arguments, lambda: _state(arguments, objects), now)


def _line(source: asking.Source, decision: Json, ref: WorkloadRef) -> Json | None:
    """Where it stands in line."""

    def waiting(quota: str) -> list[Json]:
        with suppress(Problem):  # it may not be seen, or is gone by now
            return list(source.line(quota)["items"])
        return []

    return by_quota.line(decision, named(ref), waiting)


def _state(arguments: argparse.Namespace, objects: Objects) -> Snapshot:
    builder = SnapshotBuilder(pod_groups.where(effective(arguments).pod_groups))
    try:
        for tree in sorted(objects.all(), key=lambda one: one.get("kind") != DEFINITION[1]):
            if tree.get("kind"):
                builder.add(tree)
    except ObjectError as error:
        raise SettingsError(f"--state: {error}") from None
    return builder.state()
