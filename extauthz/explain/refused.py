"""What an HPA itself says of a count that was refused to it: its condition first, then events.

The controller sets ``AbleToScale=False`` with the reason ``FailedUpdateScale`` at the sync at which the API server
refused its write, and at the next one it says something else if that goes otherwise (``reconcileAutoscaler`` in
``k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go``). So the condition is newer than any arithmetic.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NamedTuple

from extauthz.core import numbers
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from .answer import Answer, Step
from .objects import condition, time_of
from .specs import Scene

OUTCOME: Final = "refused"
EXCEEDED: Final = "WorkspaceQuotaExceeded"
CLAMPED: Final = "WorkspaceQuotaClamped"
OURS: Final = (EXCEEDED, CLAMPED, "WorkspaceQuotaHasRoom")
"""Reasons of the gate's events."""

EPISODE_S: Final = 25 * 60.0
"""After that an event of the gate says nothing of now."""

_BEFORE: Final = re.compile(
    r"^the HPA controller was unable to update the target scale: |^admission webhook \"[^\"]*\" denied the request: "
)
_ASKED: Final = re.compile(r"^New size: (\d+); reason: .*; error: ", re.DOTALL)
_CONFLICT: Final = "Operation cannot be fulfilled"
"""Another write was faster. The controller tries again at once."""


class Refused(NamedTuple):
    """A write that the API server did not take."""

    text: str
    """Its sentence, without what the controller and the API server put before it."""
    asked: int | None
    """For how many replicas, where an event says so."""
    certain: bool
    """The controller itself says so, and has looked since the count last changed."""


def of(scene: Scene) -> Refused | None:
    """The refusal that holds it where it is; ``None``: its last write was taken, or it made none."""
    able = condition(scene.hpa, "AbleToScale")
    if not able:
        return _by_event(scene)
    message = str(able.get("message", ""))
    if able.get("status") != "False" or able.get("reason") != "FailedUpdateScale" or _CONFLICT in message:
        return None
    looked = at(scene.hpa, "status", "currentReplicas") in (None, scene.target.asked)
    return Refused(plain(message), _asked(scene), looked)


def believed(scene: Scene, answer: Answer) -> Answer:
    """The answer, with what the controller did in place of what the arithmetic alone would say: a refusal, or that it
    stayed with these values. Where the arithmetic goes down, a refusal of growth holds nothing."""
    refusal = of(scene)
    if refusal is None or answer.desired < answer.current:
        return _stayed(answer) if _has_seen(scene, answer) else answer
    desired = max(answer.desired, refusal.asked or 0)
    step = Step(OUTCOME, refusal.text, answer.current, refusal.certain)
    return replace(answer, desired=desired, outcome=OUTCOME, certain=refusal.certain, steps=(step, *answer.steps))


def _has_seen(scene: Scene, answer: Answer) -> bool:
    """Whether the controller has looked at these values at this count, and no window or limit kept it then."""
    able, limited = condition(scene.hpa, "AbleToScale"), condition(scene.hpa, "ScalingLimited")
    counts = [at(scene.hpa, "status", key) for key in ("currentReplicas", "desiredReplicas")]
    calm = able.get("reason") == "ReadyForNewScale" and limited.get("status") == "False"
    seen = any(one.known.of_status for one in answer.proposals if one.known is not None)
    return seen and calm and counts == [answer.current] * 2 and answer.desired != answer.current and not answer.certain


def _stayed(answer: Answer) -> Answer:
    why = "some of its pods do not count, or the controller has other flags"
    text = f"it stayed at {answer.current} with these values when it last looked: {why}"
    step = Step("status", text, answer.current, certain=False)
    return replace(answer, desired=answer.current, outcome="pods-not-counted", steps=(*answer.steps, step))


def plain(message: str) -> str:
    """The sentence of whoever refused."""
    before = None
    while before != message:
        before, message = message, _BEFORE.sub("", message)
    return message.partition("; see: ")[0].rstrip(". ")


def _by_event(scene: Scene) -> Refused | None:
    """Of an HPA that has no conditions, as far as is seen, the gate's own event is the last word."""
    found = [one for one in _events(scene) if one.get("reason") in OURS]
    if not found or scene.now - time_of(found[-1]) > EPISODE_S or found[-1]["reason"] != EXCEEDED:
        return None
    return Refused(plain(str(found[-1].get("message", ""))), None, certain=False)


def _asked(scene: Scene) -> int | None:
    for event in reversed(_events(scene)):
        if event.get("reason") == "FailedRescale" and (found := _ASKED.match(str(event.get("message", "")))):
            return numbers.whole(found[1], numbers.INT32)
    return None


def _events(scene: Scene) -> list[Tree]:
    return scene.objects.events("HorizontalPodAutoscaler", scene.hpa)
