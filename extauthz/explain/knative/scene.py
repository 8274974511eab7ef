"""What a PodAutoscaler is explained from: itself, what it scales, its pods, and what was refused before."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from extauthz.core import numbers
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at
from extauthz.explain import refused, target
from extauthz.explain.objects import ExplainError, Objects, condition, moment, namespace_of, time_of, told
from extauthz.explain.pods import is_ready

from . import rules
from .decider import Memory
from .rules import KPA, Rules

KIND: Final = "PodAutoscaler"
EVENT: Final = "Event"
REVISION: Final = "serving.knative.dev/revision"
_REFUSED: Final = re.compile(r"failed to apply scale (\d+) to scale target[^:]*:? ?(.*)", re.IGNORECASE | re.DOTALL)


class Refusal(NamedTuple):
    """A write of the autoscaler that was not let through."""

    replicas: int
    text: str
    """The sentence of whoever refused."""
    at: float


@dataclass(frozen=True, slots=True)
class Scene:
    """All that is known of one PodAutoscaler."""

    objects: Objects
    autoscaler: Tree
    rules: Rules
    replicas: int
    """``spec.replicas`` of what it scales."""
    ready: int
    ready_known: bool
    scale: int
    """``status.desiredScale``; -1 as long as there is none."""
    refused: tuple[Refusal, ...]
    """The oldest first."""
    memory: Memory
    now: float

    @property
    def name(self) -> str:
        return str(self.autoscaler["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return namespace_of(self.autoscaler)

    @property
    def last_refusal(self) -> Refusal | None:
        """``None``: there is none, or it is over. It is over once Active has changed: a refused write leaves it."""
        last = self.refused[-1] if self.refused else None
        changed = condition(self.autoscaler, "Active").get("lastTransitionTime")
        return None if last is None or (changed and moment(changed) > last.at) else last

    @property
    def initialized(self) -> bool:
        """Whether it has had its initial scale once."""
        return bool(condition(self.autoscaler, "ScaleTargetInitialized").get("status") == "True")


def of(objects: Objects, autoscaler: Tree, now: float) -> Scene:
    """What there is to see.

    Raises:
        ExplainError: what it scales is not among the objects.
    """
    scaled = target.required(objects, autoscaler, "kpa")
    own = rules.of(autoscaler, rules.config_of(objects))
    ready = _ready(objects, autoscaler)
    scale = at(autoscaler, "status", "desiredScale")
    refused = _refusals(objects, autoscaler)
    scale = -1 if scale is None else scale
    return Scene(
        objects=objects,
        autoscaler=autoscaler,
        rules=own,
        replicas=scaled.asked,
        ready=ready or 0,
        ready_known=ready is not None,
        scale=scale,
        refused=refused,
        memory=_memory(objects, own, scale, ready or 0, refused),
        now=now,
    )


def autoscaler_class(autoscaler: Tree) -> str:
    """What decides it: ``kpa.…`` or ``hpa.autoscaling.knative.dev``, or somebody's own."""
    return str(rules.annotation(at(autoscaler, "metadata", "annotations") or {}, "class") or KPA)


def _memory(objects: Objects, own: Rules, scale: int, ready: int, refused: tuple[Refusal, ...]) -> Memory:
    """A write that is refused leaves the status at the count before it, so without events nothing is sure. An
    autoscaler that was started anew begins with as many as are ready."""
    if EVENT not in objects.asked and not objects.of(EVENT):
        return Memory(numbers.INT32, max(scale, 0))
    last = max(scale, 0)
    most = max(last, ready, *(one.replicas for one in refused), 0)
    # At its maximum, or above, the status does not tell what was wanted.
    return Memory(numbers.INT32 if own.most and most >= own.most else most, last)


def _ready(objects: Objects, autoscaler: Tree) -> int | None:
    """Of the pods if they are there, else by its status; ``None``: nobody says."""
    revision = at(autoscaler, "metadata", "labels", REVISION)
    pods = objects.of("Pod", namespace_of(autoscaler))
    own = [one for one in pods if revision and at(one, "metadata", "labels", REVISION) == revision]
    if own or "Pod" in objects.asked:
        return sum(is_ready(one) and not at(one, "metadata", "deletionTimestamp") for one in own)
    actual = at(autoscaler, "status", "actualScale")
    return None if actual is None else int(actual)


def _refusals(objects: Objects, autoscaler: Tree) -> tuple[Refusal, ...]:
    """From events on it. A write that was refused is in no status."""
    found = []
    for event in objects.events(KIND, autoscaler):
        text = str(event.get("message", ""))
        if match := _REFUSED.search(text):
            asked = numbers.capped(match[1], numbers.INT32) or 0
            found.append(Refusal(asked, refused.plain(match[2] or text), time_of(event)))
    return tuple(found)


class Revision(NamedTuple):
    """Its PodAutoscaler has the same name."""

    name: str
    role: str
    """What it is for, in words."""


def revisions(tree: Tree) -> list[Revision]:
    """In the order of the traffic.

    Raises:
        ExplainError: it has none yet.
    """
    found: dict[str, str] = {}
    for one in at(tree, "status", "traffic") or []:
        name = one.get("revisionName")
        if not name:
            continue
        share, tag = one.get("percent") or 0, one.get("tag")
        role = f"{share} % of the traffic" if share else f"tag {tag}" if tag else "no traffic"
        found[name] = f"{found[name]}, {role}" if name in found else role
    newest = at(tree, "status", "latestCreatedRevisionName")
    if newest and newest not in found:
        ready = newest == at(tree, "status", "latestReadyRevisionName")
        found[newest] = "the newest, no traffic" if ready else "the newest, not ready"
    if not found:
        note = told(condition(tree, "Ready"))
        raise ExplainError(f"ksvc/{tree['metadata']['name']} has no revision yet" + (f" ({note})" if note else ""))
    return [Revision(name, role) for name, role in found.items()]
