"""What KEDA does itself with a ScaledObject: pauses, the way from and to zero, fallback. The rest its HPA decides.

In the order of ``RequestScale`` of KEDA (``pkg/scaling/executor/scale_scaledobjects.go``). Whether triggers are active
is known of its last look only, so what follows from that is likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from extauthz.core import numbers
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from . import answer, refused, said
from . import target as targets
from .answer import Answer, Step
from .objects import Objects, condition, moment, time_of

KIND: Final = "ScaledObject"
ACTIVATION_FAILED: Final = "KEDAScaleTargetActivationFailed"
NOTES: Final = "autoscaling.keda.sh/"
COOLDOWN_S: Final = 300
DEFAULT_MAX: Final = 100
"""``maxReplicaCount`` of a ScaledObject that gives none (``pkg/apis/keda/v1alpha1/scaledobject_types.go``)."""
FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


@dataclass(frozen=True, slots=True)
class Scene:
    """All that is known of one ScaledObject."""

    tree: Tree
    replicas: int
    now: float
    events: Sequence[Tree] = ()
    """About it, the newest last."""

    @property
    def name(self) -> str:
        return str(self.tree["metadata"]["name"])

    @property
    def idle(self) -> int | None:
        found: int | None = at(self.tree, "spec", "idleReplicaCount")
        return found

    @property
    def least(self) -> int:
        return at(self.tree, "spec", "minReplicaCount") or 0

    @property
    def most(self) -> int:
        found = at(self.tree, "spec", "maxReplicaCount")
        return DEFAULT_MAX if found is None else int(found)

    def note(self, name: str) -> str | None:
        found: str | None = (at(self.tree, "metadata", "annotations") or {}).get(NOTES + name)
        return found

    def says(self, name: str) -> bool:
        """An annotation that is there and not false: KEDA takes what is no boolean for true."""
        found = self.note(name)
        return found is not None and found not in FALSE


def of(objects: Objects, tree: Tree, now: float) -> Scene:
    """What there is to see.

    Raises:
        ExplainError: what it scales is not among the objects.
    """
    found = targets.required(objects, tree, "scaledobject")
    return Scene(tree, found.asked, now, objects.events(KIND, tree))


def hpa_name(tree: Tree) -> str:
    """Of the HPA that KEDA makes for it."""
    config = at(tree, "spec", "advanced", "horizontalPodAutoscalerConfig", "name")
    return str(at(tree, "status", "hpaName") or config or f"keda-hpa-{tree['metadata']['name']}")


def decide(scene: Scene) -> Answer:
    if scene.note("paused-replicas") is not None or scene.says("paused"):
        return _paused(scene)
    found = _unless_refused(scene, _decided(scene))
    return replace(found, steps=(*_said(scene), *found.steps))


def without_hpa(scene: Scene) -> Answer:
    """Where KEDA says that it is not ready, and has made no HPA: nothing moves."""
    told = _said(scene)
    why = "; ".join(one.text for one in told)
    return Answer(scene.replicas, scene.replicas, "not-ready", False, tuple(told), note=why)


def _said(scene: Scene) -> list[Step]:
    """Faults of triggers and of writes have their places in the arithmetic."""
    ready = condition(scene.tree, "Ready")
    if ready.get("reason") in ("TriggerError", "PartialTriggerError", "ErrorScalingTarget"):
        return []
    return said.of(scene.tree, said.KEDA)


def _decided(scene: Scene) -> Answer:
    active = condition(scene.tree, "Active")
    if scene.says("force-activation") or active.get("status") == "True":
        return _active(scene)
    if active.get("status") != "False":
        if scene.replicas == 0 and _said(scene):
            return replace(without_hpa(scene), steps=())
        step = Step("active", "KEDA has not said yet whether its triggers are active", None, certain=False)
        return _left_to_hpa(scene, step)
    return _inactive(scene)


def _answer(
    scene: Scene, desired: int, outcome: str, rule: str, text: str, *, certain: bool = False, why: str = ""
) -> Answer:
    """By one rule. ``why`` where the sentence is shorter."""
    return Answer(scene.replicas, desired, outcome, certain, (Step(rule, text, desired, certain),), note=why or text)


def _paused(scene: Scene) -> Answer:
    current, text = scene.replicas, scene.note("paused-replicas")
    if text is None:
        why = f"it is paused (annotation {NOTES}paused); KEDA has taken its HPA away"
        return _answer(scene, current, "paused", "paused", why, certain=True)
    count = numbers.whole(text.removeprefix("+"), numbers.INT32)  # KEDA asks for no fewer than none
    if count is None:
        why = f"annotation {NOTES}paused-replicas is {text!r}, which is no number"
        return _answer(scene, current, "paused", "paused", why, certain=True)
    why = f"it is paused at {count} (annotation {NOTES}paused-replicas)"
    return _answer(scene, count, "paused", "paused", f"{why}; KEDA has taken its HPA away", certain=True, why=why)


def _active(scene: Scene) -> Answer:
    forced = scene.says("force-activation")
    why = f"activation is forced (annotation {NOTES}force-activation)" if forced else "its triggers are active"
    current, least = scene.replicas, scene.least
    if not (current == 0 or (scene.idle is not None and current < least)):
        return _left_to_hpa(scene, Step("active", why, None, forced))
    wanted = max(least, 1)
    if scene.says("paused-scale-out"):
        text = f"{why}, but scaling out is paused (annotation {NOTES}paused-scale-out)"
        return _answer(scene, current, "paused", "active", text, certain=forced)
    text = f"{why}, so KEDA takes it to {wanted} (minReplicaCount {least})"
    return _answer(scene, wanted, "scales-up", "active", text, certain=forced, why=why)


def _unless_refused(scene: Scene, answer: Answer) -> Answer:
    """Since KEDA 2.21 a condition says that its write was refused; before it says so in an event only."""
    if answer.outcome not in ("scales-up", "scales-down"):
        return answer
    ready = condition(scene.tree, "Ready")
    if ready.get("reason") == "ErrorScalingTarget":
        text = f"its write was refused: {ready.get('message', '')}"
    elif answer.desired > answer.current and (event := _refusal(scene)) is not None:
        text = f"its write was refused ({event['reason']}): {refused.plain(str(event.get('message', '')))}"
    else:
        return answer
    step = Step("write", text, answer.current, certain=False)
    return replace(answer, outcome="refused", certain=False, steps=(step, *answer.steps), note=text)


def _refusal(scene: Scene) -> Tree | None:
    """The event that says it, ours before KEDA's; ``None``: none that is young enough to be of its last write."""
    for reason in (refused.EXCEEDED, ACTIVATION_FAILED):
        for event in reversed(scene.events):
            is_young = scene.now - time_of(event) <= refused.EPISODE_S
            if event.get("reason") == reason and is_young:
                return event
    return None


def _inactive(scene: Scene) -> Answer:
    current, least, idle = scene.replicas, scene.least, scene.idle
    why = "its triggers are not active"
    if fault := _trigger_fault(scene):
        return _left_to_hpa(scene, Step("active", fault, None, certain=False))
    if current > (idle or 0) and (idle is not None or least == 0):
        return _to_rest(scene, why, idle or 0)
    if idle is None and current < least:
        text = f"{why}; {current} is less than minReplicaCount {least}"
        certain = not at(scene.tree, "spec", "fallback", "replicas")
        if not certain:
            text += (
                " (if none is in error: KEDA leaves the count to the fallback then, which does nothing at 0 replicas)"
            )
        return _answer(scene, least, "scales-up", "active", text, certain=certain)
    if current == (idle or 0) and (idle is not None or least == 0):
        return _answer(scene, current, "idle", "active", f"{why}, so KEDA leaves it at {current}", why=why)
    return _left_to_hpa(scene, Step("active", f"{why}; minReplicaCount {least} stays", None, certain=False))


def _trigger_fault(scene: Scene) -> str:
    """Where a trigger fails KEDA does not go to zero."""
    ready, fallback = condition(scene.tree, "Ready"), at(scene.tree, "spec", "fallback")
    failing = sorted(
        name for name, one in (at(scene.tree, "status", "health") or {}).items() if one.get("status") == "Failing"
    )
    if fallback is not None and fallback.get("replicas") and failing:
        return f"triggers fail ({', '.join(failing)}), so KEDA does not take it to zero, because of its fallback"
    if ready.get("reason") in ("TriggerError", "PartialTriggerError"):
        return f"triggers fail ({ready['reason']}: {ready.get('message', '')}), so KEDA changes nothing"
    return ""


def _to_rest(scene: Scene, why: str, rest: int) -> Answer:
    current = scene.replicas
    if scene.says("paused-scale-in"):
        text = f"{why}, but scaling in is paused (annotation {NOTES}paused-scale-in)"
        return _answer(scene, current, "paused", "active", text)
    last, made = at(scene.tree, "status", "lastActiveTime"), at(scene.tree, "metadata", "creationTimestamp")
    name = "initialCooldownPeriod" if last is None else "cooldownPeriod"
    period = at(scene.tree, "spec", name)
    period = (0 if last is None else COOLDOWN_S) if period is None else period
    since = last or made
    left = 0.0 if since is None else moment(since) + period - scene.now
    if left > 0:
        text = f"{why}, and KEDA waits {period} s for new work ({name}), {left:.0f} s from now; then it goes to {rest}"
        return replace(_answer(scene, current, "cooldown", "cooldown", text), left_s=left)
    text = f"{why}, and {name} of {period} s is over, so KEDA takes it to {rest}"
    return _answer(scene, rest, "scales-down", "cooldown", text)


def _left_to_hpa(scene: Scene, step: Step) -> Answer:
    steps = [step, *_fallback(scene)]
    why = steps[-1].text
    for way, name in (("in", "scaleDown"), ("out", "scaleUp")):
        if scene.says(f"paused-scale-{way}"):
            text = f"scaling {way} is paused (annotation {NOTES}paused-scale-{way}): {name}.selectPolicy is Disabled"
            steps.append(Step("paused", text, None, certain=True))
    return Answer(scene.replicas, scene.replicas, "", step.certain, tuple(steps), note=why)


def _fallback(scene: Scene) -> list[Step]:
    """What the HPA is told in place of a metric that fails."""
    fallback = at(scene.tree, "spec", "fallback")
    if fallback is None or condition(scene.tree, "Fallback").get("status") != "True":
        return []
    limit, count = fallback.get("failureThreshold", 0), fallback.get("replicas", 0)
    behavior = fallback.get("behavior") or "static"
    failing = [
        f"{name}: {one.get('numberOfFailures', 0)}"
        for name, one in sorted((at(scene.tree, "status", "health") or {}).items())
        if one.get("status") == "Failing" and one.get("numberOfFailures", 0) > limit
    ]
    counts = {
        "static": count,
        "currentReplicas": scene.replicas,
        "currentReplicasIfHigher": max(scene.replicas, count),
        "currentReplicasIfLower": min(scene.replicas, count),
    }
    wanted = counts.get(behavior)
    asks = f"the HPA is told what makes {wanted}" if wanted is not None else "its formula decides"
    text = f"more than {limit} failures in a row ({', '.join(failing)}): fallback {behavior}, {asks}"
    return [Step("fallback", text, wanted, certain=False)]


HOLDS: Final = frozenset({"paused", refused.OUTCOME, "cooldown", "not-ready"})
"""Outcomes in which something keeps it from a count that its triggers may want."""


def sentence(scene: Scene, found: Answer) -> str:
    name = f"scaledobject/{scene.name}"
    if found.outcome == refused.OUTCOME:
        return f"{name} is refused: KEDA asks for {found.desired} in place of {found.current}; {found.note}."
    return answer.sentence(name, found, found.note)
