"""What the quota says to the count that an autoscaler wants: a gate that runs is asked, or one made of files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from extauthz.cli import asking, asking_files, asking_server, headroom
from extauthz.cli.explain_finding import NothingScalesError
from extauthz.cli.flags.settings import effective
from extauthz.cli.report import wrapped
from extauthz.core.decision.gate import CLAMPED
from extauthz.core.decision.sentences import ordinal
from extauthz.core.kinds import GATED
from extauthz.core.model import Tree, WorkloadRef
from extauthz.core.objects.fields import at
from extauthz.explain import remedies, target
from extauthz.explain.answer import Change, replicas
from extauthz.explain.objects import ExplainError, Objects, namespace_of
from extauthz.inputs.cluster import file as state_file
from extauthz.inputs.files.objects import Placed
from extauthz.serve.servers.api import shown
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.service import pod_groups

Json = dict[str, Any]


class Asked(NamedTuple):
    """A question: its flags, the objects that it is about, and the time that they are of, in seconds since 1970."""

    arguments: argparse.Namespace
    objects: Objects
    now: float
    placed: Sequence[Placed] = ()
    """The objects again, where they are of files."""

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
        decision = source.decision(shown.named(workload) | {"replicas": wanted})
        found = {"asked": wanted, "decision": decision, "headroom": source.headroom(workload), "mayAskFor": most}
        return found | {"line": _line(source, decision, workload)}


def _source(asked: Asked) -> asking.Source:
    if asked.arguments.server:
        return asking_server.asked(asked.arguments)
    where = pod_groups.where(effective(asked.arguments).pod_groups)
    found = [one for one in asked.placed if at(one.tree, "kind")]  # what metrics servers answer has none
    return asking_files.of_state(asked.arguments, lambda: state_file.of(found, where), asked.now)


def _line(source: asking.Source, decision: Json, ref: WorkloadRef) -> Json | None:
    """Where a workload stands in line, as the ``turn`` of a decision has it; ``None``: in none that may be seen."""
    if (turn := decision.get("turn")) is not None:
        return dict(turn)
    for root in dict.fromkeys(row["path"][0] for row in decision["shortages"] if row["path"]):
        with suppress(Problem):  # it may not be seen, or is gone by now
            for one in source.line(root)["items"]:
                if shown.named(ref).items() <= one.items():
                    return {"quota": root, "place": one["place"], "againSeconds": one["asksEverySeconds"]}
    return None


# What is told of it. ``quota``: a decision and a headroom as the HTTP API shows them (docs/explain.md).


def is_denied(quota: Json | None) -> bool:
    """Whether the gate was asked, and does not allow all of it."""
    return quota is not None and (quota["decision"]["verdict"] != "allow" or quota["decision"].get("reason") == CLAMPED)


def sentence(quota: Json | None, *, wants_more: bool, was_refused: bool = False) -> str:
    """A sentence of its own, where more is wanted, or where not all fits that it may ask for.

    Args:
        was_refused: the controller says that its last write was refused.
    """
    if quota is None:
        return ""
    most, asks = quota["headroom"]["replicas"], quota["mayAskFor"]
    is_short = None not in (most, asks) and most < asks
    share = f"{most} of the {asks} replicas that it may ask for would fit." if is_short else ""
    if not wants_more:
        return share and f" {share}"
    if not is_denied(quota):
        return f" The quota {'would allow it now' if was_refused else 'allows it'}.{share and ' '}{share}"
    line = quota["line"]
    if quota["decision"].get("reason") == CLAMPED and quota["decision"]["fits"] is not None:
        return f" The quota grants {quota['decision']['fits']} of the {quota['asked']} (mode Clamp)."
    if quota["decision"].get("turn") is not None:
        return f" The quota does not allow it yet: {_in_line(line)}."
    why = "." if most is None else f": {share or f'{replicas(most)} at most.'}"
    return f" The quota does not allow it{why}" + (f" It stands {_in_line(line)}." if line is not None else "")


def changes(quota: Json | None, would: Sequence[Change], *, wants_more: bool) -> list[Change]:
    """What would do for one more replica. Where the quota refuses that, its room comes first: alone if the autoscaler
    asks for it already; else it is needed besides any of the others."""
    if quota is None:
        return list(would)
    if not is_denied(quota):
        return [one for one in would if one.kind != "quota"]
    room = remedies.of_quota(quota["decision"]["sentence"], quota["asked"])
    if wants_more:
        return room
    return [*room, *(one for one in would if one.kind != "quota")] if would else []


def _in_line(line: Json) -> str:
    """A place in line. Whose quota may not be seen has no name, and the place there no number."""
    where = "others come first"
    if line["place"] is not None:
        where = f"{ordinal(line['place'])} in line for workspace quota {line['quota']}"
    return f"{where}; asks again in {line['againSeconds']} s"


def heading(kinds: Sequence[str]) -> str:
    """What stands above the changes, by their kinds."""
    if kinds[:1] != ["quota"]:
        return "for one more replica, any of these:"
    return "for what it asks for:" if len(kinds) == 1 else "for one more replica, the first of these and any other:"
