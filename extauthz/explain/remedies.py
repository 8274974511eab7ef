"""What helps where the HPA's own spec does not decide: a quota refuses, or KEDA owns the HPA."""

from __future__ import annotations

import re
from typing import Final

from extauthz.core import quantities
from extauthz.core.model import Tree
from extauthz.core.objects.fields import at

from .answer import Change
from .objects import Objects

_QUOTA: Final = re.compile(
    r"exceeded workspace quota: (?P<name>[^,\s]+), requested: (?P<requested>[^\s;]+), used: (?P<used>[^\s;]+)"
    r"(?:, reserved: (?P<reserved>[^\s;]+))?(?:, kept for guarantees: (?P<kept>[^\s;]+))?"
    r", limited: (?P<limited>[^\s;]+)"
)
"""As ``core.decision.sentences`` writes it."""


def of_quota(sentence: str, asked: int) -> list[Change]:
    """What a refusal by quotas takes away, all at once; empty: no quota refused it.

    >>> text = "exceeded workspace quota: acme, requested: pods=2,cpu=500m, used: pods=3,cpu=1, limited: pods=4,cpu=1"
    >>> [one.text for one in of_quota(text, 5)]
    ['raise pods of workspace quota acme by 1 and cpu of workspace quota acme by 500m, or free as much: 5 replicas']
    """
    lacks = []
    for found in _QUOTA.finditer(sentence):
        limited = _amounts(found["limited"])
        taken = [_amounts(found[name] or "") for name in ("requested", "used", "reserved", "kept")]
        for resource, hard in limited.items():
            over = sum(one.get(resource, 0) for one in taken) - hard
            if over > 0:
                amount = quantities.format(over, resource)
                lacks.append(f"{resource} of workspace quota {found['name']} by {amount}")
    if not lacks:
        return []
    text = f"raise {' and '.join(lacks)}, or free as much: {asked} replicas"
    return [Change("quota", text, "", asked)]


def _amounts(text: str) -> dict[str, int]:
    pairs = (part.partition("=") for part in text.strip(",").split(",") if "=" in part)
    return {name: quantities.parse(amount) for name, _, amount in pairs}


OWNER: Final = "ScaledObject"
ADVANCED: Final = "advanced.horizontalPodAutoscalerConfig."


def in_terms_of_keda(hpa: Tree, objects: Objects, found: list[Change]) -> list[Change]:
    """KEDA writes the HPA's spec anew from its ScaledObject, so that is where each change has to be made."""
    name = _owner(hpa)
    if name is None:
        return found
    tree = objects.one(OWNER, str(at(hpa, "metadata", "namespace") or "default"), name)
    return [_by_keda(one, name, tree) for one in found]


def _owner(hpa: Tree) -> str | None:
    """The ScaledObject that an HPA is of."""
    for one in at(hpa, "metadata", "ownerReferences") or []:
        if one.get("kind") == OWNER:
            return str(one["name"])
    name = str(at(hpa, "metadata", "name"))
    return name.removeprefix("keda-hpa-") if name.startswith("keda-hpa-") else None


def _by_keda(change: Change, name: str, tree: Tree | None) -> Change:
    where = f"of scaledobject/{name}"
    if change.kind == "max-replicas":
        return change._replace(text=f"maxReplicaCount {where}: {change.value}: {change.replicas} replicas")
    if change.kind == "target":
        return change._replace(text=f"{change.text} ({_trigger(change, tree)} {where})")
    if change.kind in ("tolerance", "window", "policies"):
        return change._replace(text=f"{change.text} ({ADVANCED}behavior.scaleUp {where})")
    return change


def _trigger(change: Change, tree: Tree | None) -> str:
    """The trigger behind a metric, by its number in the name (``s0-prometheus``), and its field with the target."""
    found = re.search(r"for s(\d+)-", change.text)
    triggers = at(tree, "spec", "triggers") or []
    metric = change.text.partition(":")[0]
    numbers = [number for number, one in enumerate(triggers) if metric.endswith(f" {one.get('type')}")]
    if found is not None:
        numbers = [int(found[1])]
    if not numbers or numbers[0] >= len(triggers):
        return "threshold or value of its trigger"
    fields = triggers[numbers[0]].get("metadata") or {}
    known = [key for key in fields if re.search(r"(?i)(threshold|value|length|target|count)$", key)]
    return f"triggers[{numbers[0]}].metadata.{known[0] if len(known) == 1 else 'threshold or value'}"
