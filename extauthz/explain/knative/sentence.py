"""The answer in one sentence, for a PodAutoscaler."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from extauthz.explain import remedies
from extauthz.explain.answer import Change, least, replicas
from extauthz.explain.answer import sentence as said

from . import rules
from .decide import Answer, amount, decide, target
from .decider import Values
from .rules import GROUP, Rules
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
    name = f"kpa/{scene.name}"
    if answer.outcome == "refused":
        ago = scene.now - scene.refused[-1].at
        return (
            f"{name} was refused {ago:.0f} s ago: it asked for {replicas(answer.desired)} in place of "
            f"{answer.current}; {answer.note}."
        )
    if answer.desired != answer.current:
        return said(name, answer, _why(scene, answer))
    if answer.outcome in ("max-scale", "min-scale"):
        return said(name, answer, _bound(scene, answer))
    note = f" ({answer.note})" if answer.outcome == "no-metrics" and answer.note else ""
    return said(name, answer, f"{REASONS[answer.outcome] or answer.note}{note}")


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
    return f"{rules.metric} is {' and '.join(amount(one) for one in both)}, {target(rules)}"


def _bound(scene: Scene, answer: Answer) -> str:
    """The bound that holds it, and what it holds back if that is known."""
    rules = scene.rules
    most = answer.outcome == "max-scale"
    text = f"max-scale {rules.most} allows no more" if most else f"min-scale {rules.least} allows no less"
    if not most and answer.desired > rules.least:
        text = f"initial-scale {answer.desired} has not been reached once, which wins over min-scale and max-scale"
    if answer.values is None:
        return text
    return f"{_measured(rules, answer.values)}, which makes {answer.wanted}, and {text}"


def changes(scene: Scene, answer: Answer) -> list[Change]:
    """All that would do, each by itself."""
    wanted = max(answer.current, answer.desired) + 1
    if answer.outcome == "refused":
        return remedies.of_quota(answer.note, answer.desired)
    return [
        *_value(scene, wanted),
        *_target(scene, answer.values, wanted),
        *_maximum(scene, answer, wanted),
        *_minimum(scene, wanted),
    ]


def _value(scene: Scene, wanted: int) -> Iterator[Change]:
    """The same over both windows. Above a multiple of the target it takes one more."""
    aim = scene.rules.target

    def at(count: int) -> int:
        value = aim * (count - 0.5)
        return decide(scene, Values(value, value)).desired

    if (count := least(lambda one: at(one) >= wanted)) is None:
        return
    after, shown = at(count), amount(aim * (count - 1))
    text = f"{scene.rules.metric} above {shown} over both windows ({target(scene.rules)}): {replicas(after)}"
    yield Change("metric", text, shown, after)


def _target(scene: Scene, values: Values | None, wanted: int) -> Iterator[Change]:
    """Lower, in whole numbers or else in hundredths."""
    if values is None:
        return
    total = scene.rules.total

    for step in (1.0, 0.01):

        def with_target(lowered: int, step: float = step) -> int:
            given = f"{total - lowered * step:g}"
            return decide(_annotated(scene, "target", given), values).desired

        most = int((total - step) / step + 1e-9)
        if most >= 1 and with_target(most) >= wanted:
            lowered = least(lambda one: with_target(one) >= wanted) or most
            shown = f"{total - lowered * step:g}"
            after = with_target(lowered)
            yield Change("target", f"{GROUP}/target: {shown} (it is {total:g}): {replicas(after)}", shown, after)
            return


def _maximum(scene: Scene, answer: Answer, wanted: int) -> Iterator[Change]:
    own = scene.rules
    if not own.most or answer.outcome not in ("max-scale", "scales-up"):
        return
    if (
        answer.values is not None
        and decide(_annotated(scene, "max-scale", str(wanted)), answer.values).desired < wanted
    ):
        return
    if answer.values is None and answer.outcome != "max-scale":
        return
    limit = f"; max-scale-limit of the cluster is {own.limit}" if own.limit and wanted > own.limit else ""
    unsure = "" if answer.values is not None else ", if its metric asks for so many"
    yield Change("max-scale", f"{GROUP}/max-scale: {wanted}: {replicas(wanted)}{unsure}{limit}", str(wanted), wanted)


def _minimum(scene: Scene, wanted: int) -> Iterator[Change]:
    if 0 < scene.rules.most < wanted:
        return  # Knative does not take a minimum above the maximum
    changed = _annotated(scene, "min-scale", str(wanted))
    after = decide(changed, Values(0.0, 0.0)).desired
    if after >= wanted:
        yield Change("min-scale", f"{GROUP}/min-scale: {wanted}: {replicas(after)}", str(wanted), after)


def _annotated(scene: Scene, name: str, value: str) -> Scene:
    tree = copy.deepcopy(scene.autoscaler)
    tree["metadata"].setdefault("annotations", {})[f"{GROUP}/{name}"] = value
    return replace(scene, rules=rules.of(tree, rules.config_of(scene.objects)))
