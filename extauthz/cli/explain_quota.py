"""What the quota says to the count that an autoscaler wants: a gate that runs is asked, or one made of files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from extauthz.cli import asking, asking_files, asking_server, headroom
from extauthz.cli.explain_finding import NothingScalesError
from extauthz.cli.flags.settings import effective
from extauthz.cli.report import wrapped
from extauthz.core.decision.cluster_state import Snapshot
from extauthz.core.errors import ObjectError
from extauthz.core.kinds import GATED
from extauthz.core.model import Tree, WorkloadRef
from extauthz.explain import by_quota, target
from extauthz.explain.objects import ExplainError, Objects, namespace_of
from extauthz.inputs.cluster.snapshot import DEFINITION, SnapshotBuilder
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.servers.api.shown import named
from extauthz.serve.service import pod_groups
from extauthz.serve.service.setting_types import SettingsError

Json = dict[str, Any]


class Asked(NamedTuple):
    """A question: its flags, the objects that it is about, and the time that they are of, in seconds since 1970."""

    arguments: argparse.Namespace
    objects: Objects
    now: float

    @property
    def is_for_quota(self) -> bool:
        """Whether the flags name a gate, or quotas."""
        return self.arguments.server is not None or self.arguments.quotas is not None


def alone(asked: Asked, error: NothingScalesError) -> Json:
    """Of a workload that nothing scales: how many replicas its quota allows, and why not one more.

    Raises:
        NothingScalesError: no gate is asked.
        ExplainError: what the quota says is not known.
    """
    key = next((one.key for one in GATED if one.key[1] == error.kind), None) or asked.objects.resource(error.kind)
    if key is None or not asked.is_for_quota:
        raise error
    namespace = asked.arguments.namespace
    with _known():
        found = _source(asked).headroom(WorkloadRef(*key, namespace, error.name))
    is_full = found["replicas"] is not None and found["replicas"] <= found["observedReplicas"]
    return {
        "workload": {"kind": error.kind, "name": error.name},
        "namespace": namespace,
        "sentence": f"{headroom.sentence(found)} Nothing scales it.",
        "held": is_full,
        "currentReplicas": found["observedReplicas"],
        "headroom": found,
    }


@contextmanager
def _known() -> Iterator[None]:
    try:
        yield
    except Problem as problem:
        raise ExplainError(f"what the quota says is not known: {problem}") from None


def alone_as_text(found: Json) -> str:
    """The sentence, and what stands in the way of one more."""
    lines = "".join(f"{line}\n" for line in wrapped(found["sentence"]))
    return lines + headroom.evidence(found["headroom"])


def said(asked: Asked, autoscaler: Tree, wanted: int, most: int | None) -> Json | None:
    """What the gate says to the count that an autoscaler wants; ``None``: it is not asked.

    Args:
        most: replicas that the autoscaler may ask for; ``None``: any number.
    """
    if not asked.is_for_quota:
        return None
    group, kind, name = target.named(autoscaler)
    plural = target.plural(kind, asked.objects.definition(group, kind))
    workload = WorkloadRef(group, plural, namespace_of(autoscaler), name)
    with _known():
        source = _source(asked)
        decision = source.decision(named(workload) | {"replicas": wanted})
        found = {"asked": wanted, "decision": decision, "headroom": source.headroom(workload), "mayAskFor": most}
        return found | {"line": _line(source, decision, workload)}


def _source(asked: Asked) -> asking.Source:
    if asked.arguments.server:
        return asking_server.asked(asked.arguments)
    return asking_files.of_state(asked.arguments, lambda: _state(asked), asked.now)


def _line(source: asking.Source, decision: Json, ref: WorkloadRef) -> Json | None:
    """Where it stands in line."""

    def waiting(quota: str) -> list[Json]:
        with suppress(Problem):  # it may not be seen, or is gone by now
            return list(source.line(quota)["items"])
        return []

    return by_quota.line(decision, named(ref), waiting)


def _state(asked: Asked) -> Snapshot:
    builder = SnapshotBuilder(pod_groups.where(effective(asked.arguments).pod_groups))
    try:
        for tree in sorted(asked.objects.all(), key=lambda one: one.get("kind") != DEFINITION[1]):
            if tree.get("kind"):
                builder.add(tree)
    except ObjectError as error:
        raise SettingsError(f"--state: {error}") from None
    return builder.state()
