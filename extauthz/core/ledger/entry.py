"""A workload in the ledger: what is observed of it, the intents on it, and the position that both add up to."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from extauthz.core.footprint import FootprintError
from extauthz.core.ledger.charge import NOTHING, Charge, highest
from extauthz.core.ledger.intents import Intent
from extauthz.core.ledger.scope import Nodes, Scope
from extauthz.core.model import Amounts, Labels, Observed, Template, WorkloadRef


class Entry:
    """One workload. A ReplicaSet that its live Deployment covers has ``head`` set and is charged through it."""

    __slots__ = ("born", "children", "head", "intents", "observed", "ref")

    def __init__(self, ref: WorkloadRef) -> None:
        self.ref = ref
        self.observed: Observed | None = None
        self.born: Observed | None = None
        """The object as an allowed create would make it: attributes it to its owner until it is observed."""
        self.intents: dict[str, Intent] | None = None
        self.children: dict[WorkloadRef, Entry] | None = None
        self.head: Entry | None = None

    @property
    def idle(self) -> bool:
        """Nothing is known of it and nothing pends: it can be forgotten."""
        return self.observed is None and not self.intents

    def live_intents(self) -> tuple[Intent, ...]:
        return tuple(self.intents.values()) if self.intents else ()

    def top_replicas(self) -> int:
        """The highest replica count over observed state and live intents (DESIGN, "envelope")."""
        top = self.observed.replicas if self.observed is not None else 0
        if self.intents:
            for intent in self.intents.values():
                if intent.replicas is not None and intent.replicas > top:
                    top = intent.replicas
        return top

    def all_labels(self) -> Iterator[Labels]:
        """The labels that it has and those that an intent may give it."""
        if self.observed is not None:
            yield self.observed.labels
        for intent in self.live_intents():
            yield from intent.labels


class Position(NamedTuple):
    """What an entry and its children amount to, and in which quotas."""

    used: Charge
    used_in: Nodes
    envelope: Charge
    envelope_in: Nodes
    unknown: bool
    """Some template's cost cannot be told."""


def position(entry: Entry, scope: Scope) -> Position:
    """Add up ``entry``, which must be a head."""
    observed = entry.observed
    if observed is not None and not entry.intents and not entry.children:
        return _quiet_position(entry.ref, observed, scope)
    used_in = scope.nodes(entry.ref.namespace, observed.labels) if observed is not None else ()
    observed_pods, known = _price(entry, scope, _observed_templates(entry))
    highest_pods, all_known = _price(entry, scope, _all_templates(entry))
    used = Charge(_observed_replicas(entry), observed_pods, _per_object(entry, pending=False))
    envelope = Charge(_envelope_replicas(entry), highest_pods, _per_object(entry, pending=True))
    return Position(
        used if observed is not None else NOTHING,
        used_in,
        envelope,
        _envelope_nodes(entry, scope, used_in),
        not (known and all_known),
    )


def _quiet_position(ref: WorkloadRef, observed: Observed, scope: Scope) -> Position:
    nodes = scope.nodes(ref.namespace, observed.labels)
    pods: Amounts = {}
    unknown = observed.template is None
    if observed.template is not None:
        try:
            pods = scope.per_pod(ref.namespace, observed.template)
        except FootprintError:
            unknown = True
    charge = Charge(observed.replicas, pods, _count_one(ref.group_resource))
    return Position(charge, nodes, charge, nodes, unknown)


_COUNTS: dict[str, Amounts] = {}


def _count_one(group_resource: str) -> Amounts:
    """``count/<resource>`` = 1, shared: there are few kinds."""
    found = _COUNTS.get(group_resource)
    if found is None:
        found = _COUNTS[group_resource] = {f"count/{group_resource}": 10**9}
    return found


def _per_object(entry: Entry, *, pending: bool) -> Amounts:
    def exists(one: Entry) -> bool:
        return one.observed is not None or (pending and any(i.creates for i in one.live_intents()))

    counts: dict[str, int] = {}
    for one in (entry, *(entry.children or {}).values()):
        if exists(one):
            for key, amount in _count_one(one.ref.group_resource).items():
                counts[key] = counts.get(key, 0) + amount
    return counts


def _observed_replicas(entry: Entry) -> int:
    own = entry.observed.replicas if entry.observed is not None else 0
    children = sum(c.observed.replicas for c in (entry.children or {}).values() if c.observed is not None)
    return max(own, children - surge(entry.observed, own))


def _envelope_replicas(entry: Entry) -> int:
    own = entry.top_replicas()
    children = sum(child.top_replicas() for child in (entry.children or {}).values())
    return max(own, children - surge(entry.observed, own))


def surge(observed: Observed | None, replicas: int) -> int:
    """Pods that a rollout may add for a while, which are not charged (``maxSurge``, percentages rounded up).

    Source: k8s.io/kubernetes/pkg/controller/deployment/util, ``ResolveFenceposts``.
    """
    allowed = observed.max_surge if observed is not None else None
    if allowed is None:
        return 0
    if isinstance(allowed, int):
        return allowed
    return ceil(int(allowed.rstrip("%")) * replicas / 100)


def _observed_templates(entry: Entry) -> Iterator[Template | None]:
    if entry.observed is not None:
        yield entry.observed.template
    for child in (entry.children or {}).values():
        if child.observed is not None and child.observed.replicas:
            yield child.observed.template


def _all_templates(entry: Entry) -> Iterator[Template | None]:
    yield from _observed_templates(entry)
    for intent in entry.live_intents():
        yield from intent.templates
    for child in (entry.children or {}).values():
        pending = child.live_intents()
        if pending and child.observed is not None:
            yield child.observed.template
        for intent in pending:
            yield from intent.templates


def _price(entry: Entry, scope: Scope, templates: Iterator[Template | None]) -> tuple[Amounts, bool]:
    costs: list[Amounts] = []
    known = True
    for template in templates:
        if template is None:
            known = False
            continue
        try:
            costs.append(scope.per_pod(entry.ref.namespace, template))
        except FootprintError:
            known = False
    return highest(costs), known


def _envelope_nodes(entry: Entry, scope: Scope, used_in: Nodes) -> Nodes:
    result = used_in
    for labels in entry.all_labels():
        nodes = scope.nodes(entry.ref.namespace, labels)
        if nodes != result:
            result += tuple(node for node in nodes if node not in result)
    return result
