"""The answer in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from . import refused, words
from .answer import Answer, Proposal
from .changes import Change
from .specs import Scene

REASONS: Final = {
    "stabilized": "its stabilization window keeps it there",
    "max-replicas": "its metrics ask for more, and maxReplicas does not allow it",
    "min-replicas": "its metrics ask for less, and minReplicas does not allow it",
    "up-policies": "its metrics ask for more, and the policies for scaling up do not allow it now",
    "down-policies": "its metrics ask for less, and the policies for scaling down do not allow it now",
    "on-target": "that is what its metrics ask for",
    "disabled": "a count of 0 turns it off",
    "pods-not-counted": "with the pods that are unready or have no metric, its metrics ask for no more",
}
HOLDS: Final = frozenset(REASONS) - {"on-target"} | {"tolerance", "failed", refused.OUTCOME}
"""Outcomes in which something keeps an HPA from a count that its metrics, or its owner, may want."""


def sentence(scene: Scene, answer: Answer, changes: Sequence[Change]) -> str:
    """What the HPA does, and why."""
    name = f"hpa/{scene.hpa['metadata']['name']}"
    sure = "" if answer.certain else "probably "
    if answer.outcome == refused.OUTCOME:
        asks = f"asks for {answer.desired}" if answer.desired > answer.current else "asked for more when it last looked"
        return f"{name} {sure}stays at {_replicas(answer.current)}: it {asks}, and is refused: {answer.steps[-1].text}."
    if answer.desired != answer.current:
        return f"{name} {sure}goes from {answer.current} to {_replicas(answer.desired)}: {_why_it_moves(answer)}."
    stays = f"{name} {sure}stays at {_replicas(answer.current)}: "
    if answer.outcome == "failed":
        return stays + f"{answer.steps[-1].text}; {_first_error(answer.proposals)}".rstrip("; ") + "."
    if answer.outcome == "tolerance":
        return stays + _tolerance(scene, answer, changes) + "."
    return stays + REASONS[answer.outcome] + "."


def _replicas(count: int) -> str:
    return f"{count} replica{'s' * (count != 1)}"


def _first_error(proposals: Sequence[Proposal]) -> str:
    return next((f"{one.metric.said}: {one.error}" for one in proposals if one.error), "")


def _why_it_moves(answer: Answer) -> str:
    if not answer.proposals:
        return answer.steps[-1].text
    found = [one for one in answer.proposals if one.result is not None]
    most = max(found, key=lambda one: one.result.replicas if one.result else 0)
    assert most.result is not None
    return f"{most.metric.said} is {words.amount(most.metric, most.result.value)}, {_against(most)}"


def _against(one: Proposal) -> str:
    return f"the target is {words.amount(one.metric, one.metric.target)}"


def _tolerance(scene: Scene, answer: Answer, changes: Sequence[Change]) -> str:
    inside = [one for one in answer.proposals if one.result is not None and one.result.why == "tolerance"]
    most = max(inside, key=lambda one: one.result.ratio if one.result else 0.0)
    assert most.result is not None
    ratio = most.result.again[1] if most.result.again else most.result.ratio
    band = scene.band.up if ratio > 1.0 else scene.band.down
    acts = next((f"; it acts at {each.value}" for each in changes if each.kind == "metric"), "")
    value = words.amount(most.metric, most.result.value)
    within = f"that is within the tolerance of {words.percent(band)}"
    return f"{most.metric.said} is {value}, {_against(most)}, and {within}{acts}"
