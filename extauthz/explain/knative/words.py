"""The steps of an explanation of a PodAutoscaler."""

from __future__ import annotations

from extauthz.explain.answer import Step
from extauthz.explain.limits import Range

from .decider import Values, Wanted
from .rules import INT32, Rules
from .scaler import Bounds
from .scene import Scene

UNITS = {"concurrency": "requests at a time", "rps": "requests a second"}


def amount(value: float) -> str:
    """A value of a metric, as a person writes it."""
    return f"{value:.6g}"


def target(rules: Rules) -> str:
    """What each replica is aimed at."""
    part = rules.target / rules.total if rules.total else 1.0
    made = "" if part == 1.0 else f" ({amount(rules.total)} × {part * 100:.6g} %)"
    return f"the target is {amount(rules.target)} for each replica{made}"


def metric(rules: Rules, values: Values, found: Wanted, *, certain: bool) -> Step:
    """Both windows against the target."""
    aim = amount(rules.target)
    text = (
        f"{rules.metric} is {amount(values.stable)} over the stable window ({rules.stable_window_s:g} s) and "
        f"{amount(values.panic)} over the panic window ({rules.panic_window_s:g} s); {target(rules)}: "
        f"⌈{amount(values.stable)} / {aim}⌉ = {found.by_stable} and ⌈{amount(values.panic)} / {aim}⌉ = {found.by_panic}"
    )
    if not rules.config_known:
        text += " (config-autoscaler is not among the objects, or has what is no number; defaults stand in)"
    return Step("metric", text, found.by_stable, certain)


def rates(rules: Rules, found: Wanted, ready: int, *, certain: bool) -> list[Step]:
    """What one step may be at most, and activation-scale."""
    steps = []
    both = (found.by_stable, found.by_panic)
    if max(both) > found.ceiling or min(both) < found.floor:
        text = (
            f"with {ready} ready, max-scale-up-rate {rules.up_rate:g} allows at most {found.ceiling}, and "
            f"max-scale-down-rate {rules.down_rate:g} at least {found.floor}"
        )
        held = min(max(found.by_stable, found.floor), found.ceiling)
        steps.append(Step("rates", text, held, certain))
    if found.activated:
        text = f"activation-scale makes at least {rules.activation} of what is not 0"
        steps.append(Step("activation-scale", text, rules.activation, certain))
    return steps


def panic(scene: Scene, values: Values, found: Wanted, *, certain: bool) -> Step:
    """Panic mode, and the counts that it keeps."""
    rules, pods = scene.rules, max(1, scene.ready)
    ratio = f"{found.by_panic} / {pods} ready = {amount(found.by_panic / pods)}"
    if found.over:
        text = (
            f"{ratio} is at least the panic threshold of {rules.panic_threshold:g}: panic mode, which never scales down"
        )
    elif values.panics:
        text = f"{ratio} is below the panic threshold of {rules.panic_threshold:g}, but it is still in panic mode"
    elif values.panics is False:
        text = f"{ratio} is below the panic threshold of {rules.panic_threshold:g}, and it is not in panic mode"
    else:
        text = (
            f"{ratio} is below the panic threshold of {rules.panic_threshold:g}; whether it is still in panic mode "
            f"only the autoscaler knows (--at panic-mode=0 or 1)"
        )
        text = text if not certain else f"{ratio} is below the panic threshold of {rules.panic_threshold:g}"
    if rules.delay_s:
        text += f"; the largest count of the last {rules.delay_s:g} s stays (scale-down-delay)"
    if not certain and found.counts.high > found.counts.low:
        most = "any number" if found.counts.high == INT32 else str(found.counts.high)
        text += f"; what it remembers may make it {found.counts.low} to {most}"
    return Step("panic", text, found.counts.guess, certain)


def bounds(rules: Rules, limits: Bounds, wanted: int, found: Range, *, certain: bool) -> Step:
    """Minimum and maximum."""
    most = str(limits.most) if limits.most else "none"
    within = f"min-scale {rules.least}, max-scale {most}"
    if limits.note:
        within = f"{limits.least} at least ({limits.note}), max-scale {most}"
    if found.guess == wanted:
        return Step("bounds", f"{wanted} is within the bounds ({within})", wanted, certain)
    return Step("bounds", f"the bounds make {found.guess} of {wanted} ({within})", found.guess, certain)


def status(scene: Scene) -> Step:
    """What its last decision tells of its metric."""
    rules, scale = scene.rules, scene.scale
    if scale == 0:
        return Step("status", f"{rules.metric} is 0, by its status (desiredScale 0)", 0, certain=False)
    least, most = amount(rules.target * (scale - 1)), amount(rules.target * scale)
    unit = UNITS[rules.metric]
    if rules.most and scale >= rules.most:
        means = f"more than {least} {unit}"
    elif scale <= rules.least:
        means = f"at most {most} {unit}"
    else:
        means = f"more than {least} and at most {most} {unit}, if panic mode, rates and delay change nothing"
    text = (
        f"what it measures is known to the autoscaler only (--at {rules.metric}=N); its status says desiredScale "
        f"{scale}, and {target(rules)}: that is {means}"
    )
    return Step("status", text, scale, certain=False)


def no_metrics(note: str) -> str:
    """It has not decided yet."""
    return "the autoscaler has not decided: it has no metrics" + (f" ({note})" if note else "")
