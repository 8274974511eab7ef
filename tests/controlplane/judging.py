"""What the reader makes of a request, set beside what a real API server made of it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from extauthz.core import footprint
from extauthz.core.effects.resolve import resolve
from extauthz.core.intake import read
from extauthz.core.model import NotAWrite, Observed, Outcome, Request, Template, Unreadable, WorkloadRef, Write
from extauthz.core.objects.metadata import labels_text
from extauthz.core.objects.workloads import observe
from tests.controlplane.fixtures import REPLICAS_PATHS

Tree = Any


class State(NamedTuple):
    """What a quota sees of an object: its count, the cost of a pod, its labels (each set that it may have)."""

    replicas: int
    cost: Mapping[str, int]
    labels: frozenset[str]


class Read(NamedTuple):
    """A write that the reader could tell, and what it leads to from what was there."""

    write: Write
    outcome: Outcome
    base: Observed | None


def ref_of(text: str) -> WorkloadRef:
    """``deployments.apps default/web`` as the gate names it."""
    group_resource, _, place = text.partition(" ")
    resource, _, group = group_resource.partition(".")
    return WorkloadRef(group, resource, *place.split("/"))


def base_of(ref: str, tree: Tree) -> Observed | None:
    """The object as an informer would have it; None where there is none."""
    if tree is None:
        return None
    path = REPLICAS_PATHS.get(ref.partition(" ")[0], ("spec", "replicas"))
    if not is_custom(ref):
        return observe(tree)[1]
    count = tree
    for step in path:
        count = count[step]
    return Observed(count, None)


def is_custom(ref: str) -> bool:
    """Whether it is one of the fixtures' custom resources."""
    return ref.partition(" ")[0].endswith(".example.dev")


def cost(*templates: Template | None) -> dict[str, int]:
    """The highest of the templates' footprints, resource by resource."""
    highest: dict[str, int] = {}
    for template in templates:
        if template is not None:
            for key, amount in footprint.per_pod(json.loads(template.text)).items():
                highest[key] = max(amount, highest.get(key, 0))
    return highest


def state_of(observed: Observed | None) -> State:
    """What is there."""
    if observed is None:
        return State(0, {}, frozenset({""}))
    return State(observed.replicas, cost(observed.template), frozenset({observed.labels}))


def after(before: State, change: Tree) -> State:
    """What the server made of ``before``, from a row's record of the difference."""
    return State(
        change.get("replicas", before.replicas) or 0,
        footprint.per_pod(change["template"]) if "template" in change else before.cost,
        frozenset({labels_text(change["labels"])}) if "labels" in change else before.labels,
    )


def read_as(before: State, outcome: Outcome) -> State:
    """What the reader makes of ``before``."""
    return State(
        before.replicas if outcome.replicas is None else outcome.replicas,
        cost(*outcome.templates) if outcome.templates else before.cost,
        frozenset(outcome.label_sets) or before.labels,
    )


def covers(wide: State, narrow: State) -> bool:
    """Whether whoever charges ``wide`` has charged ``narrow``."""
    return (
        wide.replicas >= narrow.replicas
        and wide.labels >= narrow.labels
        and all(wide.cost.get(key, 0) >= amount for key, amount in narrow.cost.items())
    )


def reading_of(request: Request, seen: Callable[[str], Observed | None]) -> Read | NotAWrite | Unreadable:
    """The two steps that the gate takes: what the request means, and what it leads to from what was seen."""
    reading = read(request)
    if not isinstance(reading, Write):
        return reading
    base = seen(str(reading.ref))
    outcome = resolve(reading, base)
    return outcome if isinstance(outcome, Unreadable) else Read(reading, outcome, base)


def same_object(written: WorkloadRef, ref: WorkloadRef) -> bool:
    """A generated name is not known before."""
    return written == ref or (written == ref._replace(name="") and ref.name.startswith("fresh-"))


def packed_body(request: Tree) -> bytes:
    """The body of a row's request."""
    packed = request.get("body_zlib_b64")
    return zlib.decompress(base64.b64decode(packed)) if packed else base64.b64decode(request["body_b64"])


def as_a_door_hands_it_over(method: str, target: str, headers: list[list[str]], body: bytes) -> Request:
    """Header names lowered, and doubled headers joined by a comma, as Envoy does it."""
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name.lower()] = f"{joined[name.lower()]},{value}" if name.lower() in joined else value
    return Request(method, target, joined, body)
