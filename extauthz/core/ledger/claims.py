"""Volume claims of StatefulSets and of pods: which exist, and what replicas cost in addition to them (design.md
L7).

A claim outlives the replica it was made for, and is taken up again when that ordinal comes back. So a StatefulSet costs
the claims that exist, whatever their ordinal, and those that ordinals within its count lack.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Protocol

from extauthz.core.kinds import CLAIMS, STATEFUL_SETS
from extauthz.core.ledger.position import highest
from extauthz.core.model import Amounts, Labels, Observed, Template, WorkloadRef


class ClaimCosts(Protocol):
    """What claims cost."""

    def one(self, template: Template | None) -> Amounts: ...

    def claims(self, template: Template | None) -> tuple[int, Mapping[str, Amounts]]:
        """The first ordinal, and what one claim of each claim template costs, by its name."""


class Claims:
    """The claims that exist of one StatefulSet: ordinals by claim template and size, of which there are few.

    Or of a group of pods that are alike: by ephemeral volume and size, each as if it were of ordinal 0.
    """

    def __init__(self) -> None:
        self._ordinals: dict[tuple[str, Template | None], list[int]] = {}
        self._places: dict[str, tuple[tuple[str, Template | None], int, Labels]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, ref: WorkloadRef, observed: Observed, owner: WorkloadRef, volume: str | None = None) -> None:
        """Add a claim that exists; ``volume``: its ephemeral volume."""
        stem, ordinal = split(ref.name)
        if volume is not None:
            group, ordinal = (volume, observed.template), 0
        else:
            group = stem.removesuffix(f"-{owner.name}"), observed.template
        insort(self._ordinals.setdefault(group, []), ordinal)
        self._places[ref.name] = group, ordinal, observed.labels

    def remove(self, ref: WorkloadRef) -> None:
        """Forget one."""
        group, ordinal, _ = self._places.pop(ref.name)
        self._ordinals[group].remove(ordinal)
        if not self._ordinals[group]:
            del self._ordinals[group]

    def those(self, keep: Callable[[Labels], bool]) -> Claims | None:
        """The claims with labels that ``keep`` is true of; ``None``: there are none."""
        kept = Claims()
        for name, (group, ordinal, labels) in self._places.items():
            if keep(labels):
                insort(kept._ordinals.setdefault(group, []), ordinal)
                kept._places[name] = group, ordinal, labels
        return kept or None

    def beside(self, count: int, templates: Iterable[Template | None], costs: ClaimCosts) -> Amounts:
        """What there is to add to ``count`` times a replica with all its claims; the most over ``templates``.

        Every claim that exists counts whole. What it has in common with the one that its ordinal asks for is taken off
        again, so that the larger of both counts.
        """
        return highest([dict(self._beside(count, template, costs)) for template in templates])

    def _beside(self, count: int, template: Template | None, costs: ClaimCosts) -> Iterator[tuple[str, int]]:
        start, wanted = costs.claims(template)
        total: dict[str, int] = {}
        for (claim, size), ordinals in self._ordinals.items():
            taken_up = bisect_left(ordinals, start + count) - bisect_left(ordinals, start)
            asked = wanted.get(claim, {})
            for key, amount in costs.one(size).items():
                shared = taken_up * min(amount, asked.get(key, 0))
                total[key] = total.get(key, 0) + len(ordinals) * amount - shared
        return iter(total.items())


def split(name: str) -> tuple[str, int]:
    """``("data-db", 3)`` of ``data-db-3``; ``("", -1)`` of a name that no StatefulSet gives to a claim.

    ``getPersistentVolumeClaimName`` in ``pkg/controller/statefulset/stateful_set_utils.go``.
    """
    stem, _, ordinal = name.rpartition("-")
    if not ordinal.isascii() or not ordinal.isdecimal() or str(int(ordinal[:12])) != ordinal:
        return "", -1
    return stem, int(ordinal)


def stem_of(ref: WorkloadRef) -> WorkloadRef | None:
    """Names all claims of one claim template of one StatefulSet: ``ref`` is one of them, by its name."""
    stem, _ = split(ref.name)
    return ref._replace(name=stem) if stem else None


def stems(ref: WorkloadRef, observed: Observed | None) -> tuple[WorkloadRef, ...]:
    """What stands for the claims that a StatefulSet makes."""
    if ref[:2] != STATEFUL_SETS or observed is None or observed.template is None:
        return ()
    return tuple(WorkloadRef(*CLAIMS, ref.namespace, f"{claim}-{ref.name}") for claim in _names(observed.template))


def ephemeral(pod: WorkloadRef, observed: Observed | None) -> dict[WorkloadRef, str]:
    """The claims of a pod's generic ephemeral volumes, each with its volume.

    ``VolumeClaimName`` in ``k8s.io/component-helpers/storage/ephemeral``.
    """
    if observed is None or observed.template is None:
        return {}
    return {WorkloadRef(*CLAIMS, pod.namespace, f"{pod.name}-{name}"): name for name in _volumes(observed.template)}


@lru_cache(maxsize=4096)
def _volumes(template: Template) -> tuple[str, ...]:
    volumes = json.loads(template.text)["template"]["spec"].get("volumes", ())
    return tuple(volume["name"] for volume in volumes)


@lru_cache(maxsize=4096)
def _names(template: Template) -> tuple[str, ...]:
    claims = json.loads(template.text).get("volumeClaimTemplates", ())
    return tuple(claim.get("metadata", {}).get("name", "") for claim in claims)
