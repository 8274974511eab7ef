"""The claims of a StatefulSet or of a pod, and what those that exist add to its cost.

A claim outlives the replica it was made for, and is taken up again when that ordinal comes back (design.md L7). So a
StatefulSet costs the claims that exist, whatever their ordinal, and those that ordinals within its count lack.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from extauthz.core.footprint import of_devices
from extauthz.core.kinds import CLAIMS, PODS, STATEFUL_SETS
from extauthz.core.ledger.accounts import highest
from extauthz.core.ledger.pod_costs import NamespaceCosts, spans
from extauthz.core.model import Amounts, Labels, Observed, Template, WorkloadRef


class Claims:
    """The claims that exist of one StatefulSet: ordinals by claim template and size, of which there are few.

    Or of a group of pods that are alike: by ephemeral volume or claim of devices and size, each as if it were of
    ordinal 0.
    """

    def __init__(self) -> None:
        self._ordinals: dict[tuple[str, Template | None], list[int]] = {}
        self._places: dict[WorkloadRef, tuple[tuple[str, Template | None], int, Labels]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, ref: WorkloadRef, observed: Observed, owner: WorkloadRef, volume: str | None = None) -> None:
        """Add a claim that exists; ``volume``: its ephemeral volume, or which claim of devices it is of a pod."""
        stem, ordinal = split(ref.name)
        if volume is not None:
            group, ordinal = (volume, observed.template), 0
        else:
            group = stem.removesuffix(f"-{owner.name}"), observed.template
        insort(self._ordinals.setdefault(group, []), ordinal)
        self._places[ref] = group, ordinal, observed.labels

    def remove(self, ref: WorkloadRef) -> None:
        """Forget one."""
        group, ordinal, _ = self._places.pop(ref)
        self._ordinals[group].remove(ordinal)
        if not self._ordinals[group]:
            del self._ordinals[group]

    def those(self, keep: Callable[[Labels], bool]) -> Claims | None:
        """The claims with labels that ``keep`` is true of; ``None``: there are none."""
        kept = Claims()
        for ref, (group, ordinal, labels) in self._places.items():
            if keep(labels):
                insort(kept._ordinals.setdefault(group, []), ordinal)
                kept._places[ref] = group, ordinal, labels
        return kept or None

    def unshared(
        self, count: int, templates: Iterable[Template | None], costs: NamespaceCosts, *, by_themselves: bool = False
    ) -> Amounts:
        """What there is to add to ``count`` times a replica with all its claims; the most over ``templates``.

        Every claim that exists counts whole. What it has in common with the one that its ordinal asks for is taken off
        again, so that the larger of both counts.

        Args:
            by_themselves: they are counted already, so that they are only taken off.
        """
        several = list(templates)
        asked, times = spans(count, several), 0 if by_themselves else 1
        return highest([dict(self._unshared(asked, template, costs, times)) for template in several])

    def _unshared(
        self, spans: list[tuple[int, int]], template: Template | None, costs: NamespaceCosts, times: int
    ) -> Iterator[tuple[str, int]]:
        wanted, count = costs.claims(template), sum(end - start for start, end in spans)
        total: dict[str, int] = {}
        left: dict[str, int] = {}
        largest = sorted(self._ordinals, key=lambda one: sorted(costs.one(one[1]).items()), reverse=True)
        for claim, size in largest:  # of several of one name, it is the largest that a pod has
            ordinals = self._ordinals[claim, size]
            taken_up = sum(bisect_left(ordinals, end) - bisect_left(ordinals, start) for start, end in spans)
            taken_up = min(taken_up, left.get(claim, count))  # anybody can say that a claim of devices is a pod's
            left[claim] = left.get(claim, count) - taken_up
            asked = wanted.get(claim, {})
            for key, amount in costs.one(size).items():
                shared = taken_up * min(amount, asked.get(key, 0))
                total[key] = total.get(key, 0) + times * len(ordinals) * amount - shared
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
    """What stands for the claims that a StatefulSet makes, each once: two of its claim templates may have one name."""
    if ref[:2] != STATEFUL_SETS or observed is None or observed.template is None:
        return ()
    names = dict.fromkeys(_names(observed.template))
    return tuple(WorkloadRef(*CLAIMS, ref.namespace, f"{claim}-{ref.name}") for claim in names)


def ephemeral(pod: WorkloadRef, observed: Observed | None) -> dict[WorkloadRef, str]:
    """The claims of a pod's generic ephemeral volumes, each with its volume.

    ``VolumeClaimName`` in ``k8s.io/component-helpers/storage/ephemeral``.
    """
    if observed is None or observed.template is None:
        return {}
    return {WorkloadRef(*CLAIMS, pod.namespace, f"{pod.name}-{name}"): name for name in _volumes(observed.template)}


def claimed_by(claim: WorkloadRef, observed: Observed) -> tuple[WorkloadRef, str] | None:
    """The pod that a claim of devices was made for, and which of its claims it is; ``None``: for none."""
    owner = observed.owner
    if observed.template is None or owner is None or (owner.group, owner.kind) != ("", "Pod"):
        return None
    return WorkloadRef(*PODS, claim.namespace, owner.name), of_devices(json.loads(observed.template.text)["of"])


@lru_cache(maxsize=4096)
def _volumes(template: Template) -> tuple[str, ...]:
    tree = json.loads(template.text)
    spec = tree["finished"] if "finished" in tree else tree["template"]["spec"]
    return tuple(volume["name"] for volume in spec.get("volumes", ()))


@lru_cache(maxsize=4096)
def _names(template: Template) -> tuple[str, ...]:
    claims = json.loads(template.text).get("volumeClaimTemplates", ())
    return tuple(claim.get("metadata", {}).get("name", "") for claim in claims)
