"""The answer in one sentence, for a PodAutoscaler."""

from __future__ import annotations

from typing import Final

from . import words
from .decide import Answer
from .decider import Values
from .rules import Rules
from .scene import Scene

REASONS: Final = {
    "max-scale": "max-scale allows no more",
    "min-scale": "min-scale allows no less",
    "up-rate": "max-scale-up-rate allows no more at once",
    "down-rate": "max-scale-down-rate allows no less at once",
    "activation-scale": "activation-scale allows no less, as long as there are requests",
    "remembered": "panic mode or scale-down-delay keeps it there",
    "zero-disabled": "",
    "zero-waits": "",
    "activating": "",
    "timed-out": "",
    "idle": "nothing asks for it",
    "on-target": "that is what its metric asks for",
    "no-metrics": "the autoscaler has no metrics of it",
}
"""Where it is empty, the step has the words."""
HOLDS: Final = frozenset(REASONS) - {"idle", "on-target"} | {"refused"}
"""Outcomes in which something keeps it from a count that its metric, or its owner, may want."""


def sentence(scene: Scene, answer: Answer) -> str:
    """What the autoscaler does, and why."""
    name, sure = f"kpa/{scene.name}", "" if answer.certain else "probably "
    if answer.outcome == "refused":
        ago = scene.now - scene.refused[-1].at
        return (
            f"{name} was refused {ago:.0f} s ago: it asked for {replicas(answer.desired)} in place of "
            f"{answer.current}, and the write was not let through."
        )
    if answer.desired != answer.current:
        return f"{name} {sure}goes from {answer.current} to {replicas(answer.desired)}: {_why(scene, answer)}."
    why = REASONS[answer.outcome] or answer.note
    if answer.outcome in ("max-scale", "min-scale"):
        why = _bound(scene, answer)
    note = f" ({answer.note})" if answer.outcome == "no-metrics" and answer.note else ""
    return f"{name} {sure}stays at {replicas(answer.current)}: {why}{note}."


def replicas(count: int) -> str:
    """With its noun."""
    return f"{count} replica{'s' * (count != 1)}"


def _why(scene: Scene, answer: Answer) -> str:
    if answer.note:
        return answer.note
    if answer.values is None:
        return f"its status says desiredScale {answer.scale}"
    moving = answer.steps[-1]
    if moving.text.startswith("the bounds"):
        return moving.text
    rules = scene.rules
    return _measured(rules, answer.values)


def _measured(rules: Rules, values: Values) -> str:
    both = sorted({values.stable, values.panic})
    return f"{rules.metric} is {' and '.join(words.amount(one) for one in both)}, {words.target(rules)}"


def _bound(scene: Scene, answer: Answer) -> str:
    """The bound that holds it, and what it holds back if that is known."""
    rules = scene.rules
    most = answer.outcome == "max-scale"
    text = f"max-scale {rules.most} allows no more" if most else f"min-scale {rules.least} allows no less"
    if answer.values is None:
        return text
    return f"{_measured(rules, answer.values)}, which makes {answer.wanted}, and {text}"
