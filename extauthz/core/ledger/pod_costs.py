"""What one pod of a template costs in each namespace, what a rollout adds, and what comes once an object."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from cachetools import LRUCache

from extauthz.core.errors import ObjectError
from extauthz.core.footprint import (
    NO_TERMS,
    UNSEEN_CLASS,
    UNSPECIFIED,
    DeviceTerms,
    LimitRangeDefaults,
    of_devices,
    per_claim,
    per_pod,
    unknown_devices,
    unspecified,
)
from extauthz.core.kinds import DEPLOYMENTS, PRICED_EACH
from extauthz.core.ledger.accounts import Shared, highest
from extauthz.core.model import Amounts, Kind, Observed, Template, Tree, WorkloadRef
from extauthz.core.objects.workloads import DEFAULT_SURGE, intern
from extauthz.core.quantities import NANO

T = TypeVar("T")

_CACHED_CLAIMS = 4_096


class Terms(NamedTuple):
    """What in a namespace bears on costs there."""

    ranges: tuple[LimitRangeDefaults, ...] = ()
    claims: tuple[tuple[str, Template], ...] = ()
    """ResourceClaimTemplates by name, with what they take."""
    for_admins: bool = False
    """Claims of devices may have administrators' access."""


_PLAIN = Terms()
_NO_COSTS: Final[Mapping[bytes, Shared]] = {}


class PodCosts:
    """Costs by template under the known LimitRanges, RuntimeClasses and StorageClasses, each worked out once."""

    def __init__(self) -> None:
        self.overheads: dict[str, Amounts] = {}
        """RuntimeClass to what each of its pods costs besides its containers."""
        self.default_storage_class = ""
        """The storage class of claims that name none."""
        self.charge_surge = False
        """Whether pods that a rollout may add for a while are charged beforehand (``Policy.charge_surge``)."""
        self.max_footprints = 262_144
        """How many footprints are kept by template. Others are worked out again."""
        self.epoch = 0
        """How often something has changed that bears on costs."""
        self._required: frozenset[str] = frozenset()
        """Keys of ``UNSPECIFIED`` that some quota limits."""
        self.extended: dict[str, str] = {}
        """DeviceClass to the extended resource that its devices are too; empty: none."""
        self._terms: dict[str, Terms] = {}
        """Of namespaces that have any."""
        self._costs: dict[Terms, dict[bytes, Shared]] = {}
        """What one pod costs, by the terms of its namespace and the text of its template."""
        self._kept = 0
        """How many these are."""
        self._claims: LRUCache[tuple[bytes, Terms], Mapping[str, Amounts]] = LRUCache(_CACHED_CLAIMS)
        self._sizes: dict[tuple[tuple[str, int], ...], Shared] = {}

    def require(self, limited: Set[str]) -> None:
        """Take the keys that some quota limits: a pod has to say what it needs of those in ``UNSPECIFIED``."""
        required = frozenset(limited & UNSPECIFIED.keys())
        if required != self._required:
            self._required = required
            self._forget()

    @property
    def namespaces(self) -> Set[str]:
        """Those in which something bears on costs."""
        return self._terms.keys()

    def terms(self, namespace: str) -> Terms:
        """Those of a namespace, known or not: they may come before it."""
        return self._terms.get(namespace, _PLAIN)

    def set_terms(self, namespace: str, terms: Terms) -> None:
        """Replace those of a namespace."""
        self.epoch += 1
        self._terms.pop(namespace, None)
        if terms != _PLAIN:
            self._terms[namespace] = terms

    def _devices(self, terms: Terms) -> DeviceTerms:
        if terms is _PLAIN and not self.extended:
            return NO_TERMS
        claims = {name: json.loads(template.text) for name, template in terms.claims}
        return DeviceTerms(claims, self.extended, terms.for_admins)

    def set_overhead(self, runtime_class: str, overhead: Amounts | None) -> bool:
        """Replace what a RuntimeClass adds to each of its pods, or forget it (``None``). False: it is as it was."""
        return self._put(self.overheads, runtime_class, overhead)

    def set_extended(self, device_class: str, name: str | None) -> bool:
        """Replace the extended resource that the devices of a DeviceClass are too (empty: none), or forget the class
        (``None``). False: it is as it was."""
        return self._put(self.extended, device_class, name)

    def _put(self, known: dict[str, T], name: str, value: T | None) -> bool:
        if known.get(name) == value:
            return False
        known.pop(name, None)
        if value is not None:
            known[name] = value
        self._forget()
        return True

    def set_default_storage_class(self, name: str) -> bool:
        """Replace the class of claims that name none. False: it is as it was."""
        is_new, self.default_storage_class = name != self.default_storage_class, name
        if is_new:
            self._forget()
        return is_new

    def _forget(self) -> None:
        self.epoch += 1
        self._forget_costs()
        self._claims.clear()

    def per_pod(self, namespace: str, template: Template) -> Shared:
        """What one pod costs, nano-units by quota key; and one of each ``UNSPECIFIED`` that it says nothing of.

        Raises:
            ObjectError: the API server would not accept the template.
        """
        terms = self.terms(namespace)
        cost = self._costs.get(terms, _NO_COSTS).get(template.text)
        if cost is None:
            if self._kept >= self.max_footprints:
                self._forget_costs()
            cost = self._share(self._per_pod(json.loads(template.text), terms))
            self._costs.setdefault(terms, {})[template.text] = cost
            self._kept += 1
        return cost

    def _forget_costs(self) -> None:
        self._costs.clear()
        self._sizes.clear()
        self._kept = 0

    def _of_groups(self, groups: Iterable[Tree], terms: Terms) -> dict[str, int]:
        total: dict[str, int] = {}
        for one in groups:
            for key, amount in self._per_pod(one, terms).items():
                total[key] = total.get(key, 0) + one["count"] * amount
        return total

    def _per_pod(self, tree: Tree, terms: Terms) -> dict[str, int]:
        if "groups" in tree:
            return self._of_groups(tree["groups"], terms)
        cost = per_pod(
            tree,
            terms.ranges,
            overheads=self.overheads,
            default_storage_class=self.default_storage_class,
            terms=self._devices(terms),
        )
        if self._required:
            cost |= {UNSPECIFIED[key]: NANO for key in unspecified(tree, terms.ranges) if key in self._required}
        return cost

    def unspecified(self, namespace: str, template: Template) -> Mapping[str, tuple[str, ...]]:
        """What a pod says nothing of: keys of ``UNSPECIFIED``, and the names of the containers.

        Raises:
            ObjectError: the API server would not accept the template.
        """
        return unspecified(json.loads(template.text), self.terms(namespace).ranges)

    def unknown_devices(self, namespace: str, template: Template) -> list[str]:
        """The ResourceClaimTemplates of a pod of which it is not known what devices they take, by name.

        Raises:
            ObjectError: the API server would not accept the template.
        """
        return unknown_devices(json.loads(template.text), self._devices(self.terms(namespace)))

    def claims(self, namespace: str, template: Template) -> Mapping[str, Amounts]:
        """What each claim that is made for one pod costs (``per_claim``).

        Raises:
            ObjectError: the API server would not accept the template.
        """
        terms = self.terms(namespace)
        found = self._claims.get((template.text, terms))
        if found is None:
            tree = json.loads(template.text)
            found = per_claim(tree, self.default_storage_class, self._devices(terms))
            self._claims[template.text, terms] = found
        return found

    def _share(self, cost: dict[str, int]) -> Shared:
        """One object for equal amounts: templates are many, sizes of pods are few."""
        return self._sizes.setdefault(tuple(sorted(cost.items())), Shared(cost))

    # Pods of a rollout.

    def surge(self, ref: WorkloadRef, observed: Observed | None) -> int:
        """Pods that a rollout may add for a while, beyond what it shows by itself: ``maxSurge``, percentages rounded
        up.

        They are not charged, and so are bounded, unless each is charged before it is there. By the observed count
        alone: by a higher one that only pends, the envelope would fall below what is there.
        Source: k8s.io/kubernetes/pkg/controller/deployment/util, ``ResolveFenceposts``.
        """
        if observed is None or observed.template is None or ref[:2] != DEPLOYMENTS:
            return 0
        allowed = _allowed(_max_surge(observed.template), observed.replicas)
        return allowed if self.charge_surge else min(allowed, _allowed(_of_surge(DEFAULT_SURGE), observed.replicas))

    def with_surge(self, ref: WorkloadRef, count: int, templates: Iterable[Template | None]) -> int:
        """The most pods that ``count`` replicas of one of ``templates`` are charged as: with those of a rollout, where
        these are charged."""
        if not self.charge_surge or not count or ref[:2] != DEPLOYMENTS:
            return count
        allowed = [_allowed(_max_surge(one), count) for one in templates if one is not None]
        return count + max(allowed, default=0)


_UNKNOWN: Final = Shared()


class NamespaceCosts:
    """What templates cost in one namespace, as far as it is known."""

    __slots__ = ("_namespace", "pod_costs", "unknown")

    def __init__(self, namespace: str, pod_costs: PodCosts) -> None:
        self._namespace = namespace
        self.pod_costs = pod_costs
        self.unknown = False
        """The cost of some template is not known."""

    def highest(self, templates: Iterable[Template | None]) -> Amounts:
        """The highest cost for each key, of templates with known cost."""
        return highest([self.one(template) for template in templates])

    def one(self, template: Template | None) -> Shared:
        """The cost of one pod; empty, or what is known of it, if it is not known."""
        if template is not None:
            try:
                cost = self.pod_costs.per_pod(self._namespace, template)
                self.unknown |= UNSEEN_CLASS in cost
                return cost
            except ObjectError:
                pass
        self.unknown = True
        return _UNKNOWN

    def is_dearer(self, templates: Iterable[Template], than: Template | None) -> bool:
        """Whether more is known of the cost of one of ``templates`` than of that of another one."""
        before = self.one(than)
        return any(amount > before.get(key, 0) for key, amount in self.highest(templates).items())

    def claims(self, template: Template | None) -> Mapping[str, Amounts]:
        """What each claim that is made for one pod costs (``per_claim``)."""
        if template is not None:
            try:
                return self.pod_costs.claims(self._namespace, template)
            except ObjectError:
                pass
        self.unknown = True
        return {}

    def finished(self, count: int, templates: Iterable[Template | None]) -> Amounts:
        """What pods of a Job leave that have finished, beside ``count`` that run; the most over ``templates``.

        Each of its completions and retries leaves an object, and the claims of its ephemeral volumes.
        """
        found = []
        for template in templates if count else ():
            completions, retries = _of_job(template) if template is not None else (0, 0)
            if left := max(completions - count, 0) + retries:
                each = Counter({"count/pods": NANO})
                for name, cost in self.claims(template).items():
                    each.update({} if name.startswith(of_devices("")) else cost)
                found.append({key: left * amount for key, amount in each.items()})
        return highest(found)


@lru_cache(maxsize=4096)
def _of_job(template: Template) -> tuple[int, int]:
    tree = json.loads(template.text)
    return tree.get("completions", 0), tree.get("retries", 0)


def count_each(*refs: WorkloadRef) -> Shared:
    """How many there are of each resource (``count/<resource>``), shared: families of few kinds are alike."""
    return _count_kinds(tuple(map(_KIND, refs)))


_KIND: Final = itemgetter(slice(2))


@lru_cache(maxsize=1024)
def _count_kinds(kinds: tuple[Kind, ...]) -> Shared:
    counted = [kind for kind in kinds if kind not in PRICED_EACH]
    names = [f"count/{resource}.{group}" if group else f"count/{resource}" for group, resource in counted]
    return Shared({name: names.count(name) * NANO for name in names})


def spans(count: int, templates: Iterable[Template | None]) -> list[tuple[int, int]]:
    """The ordinals that ``count`` replicas may have, as templates of a StatefulSet begin at several: first and end of
    each range, which do not overlap. Of what is no StatefulSet they begin at zero.

    Its controller makes the pods of a new range before it deletes those of the old one (``updateStatefulSet`` in
    ``pkg/controller/statefulset/stateful_set_control.go``). A revision does not say where it begins.
    """
    begins = {first_ordinal(one) for one in templates if one is not None}
    known = sorted(start for start in begins if start is not None) or [0]
    return [(start, min(start + count, later)) for start, later in pairwise([*known, known[-1] + count])]


@lru_cache(maxsize=4096)
def of_revision(own: Template, revision: Template) -> Template:
    """The template of pods of a ReplicaSet or of a revision. It holds their part alone: the Deployment says its surge,
    the StatefulSet which claims they have, and where its ordinals begin."""
    return intern(json.loads(own.text) | json.loads(revision.text))


def ordinals(count: int, templates: Iterable[Template | None]) -> int:
    """How many these are."""
    return sum(end - start for start, end in spans(count, templates))


@lru_cache(maxsize=4096)
def first_ordinal(template: Template) -> int | None:
    """Where the template of a StatefulSet begins; ``None``: it is of something else."""
    start: int | None = json.loads(template.text).get("ordinals", {}).get("start")
    return start


@lru_cache(maxsize=4096)
def is_paused(template: Template) -> bool:
    """Whether it is of a Deployment that is paused."""
    return bool(json.loads(template.text).get("paused", False))


@lru_cache(maxsize=4096)
def _max_surge(template: Template) -> int | Fraction:
    return _of_surge(json.loads(template.text).get("maxSurge", DEFAULT_SURGE))


def _of_surge(surge: int | str) -> int | Fraction:
    """Pods, or a part of the replicas."""
    return surge if isinstance(surge, int) else Fraction(int(surge.removesuffix("%")), 100)


def _allowed(max_surge: int | Fraction, count: int) -> int:
    return max_surge if isinstance(max_surge, int) else ceil(max_surge * count)
