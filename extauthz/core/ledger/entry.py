"""A workload in the ledger: what is observed of it, the intents on it, and the position that both add up to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from extauthz.core.footprint import FootprintError
from extauthz.core.ledger.charge import NOTHING, Charge, Product, charge, highest
from extauthz.core.ledger.intents import Intent
from extauthz.core.ledger.kinship import selects
from extauthz.core.ledger.scope import Nodes, Scope
from extauthz.core.model import Amounts, Labels, Observed, Template, WorkloadRef


class Entry:
    """One workload. A ReplicaSet that its live Deployment covers has ``head`` set and is charged through it."""

    __slots__ = ("born", "children", "head", "intents", "observed", "ref", "standing")

    def __init__(self, ref: WorkloadRef) -> None:
        self.ref = ref
        self.observed: Observed | None = None
        self.born: Observed | None = None
        """The object as an allowed create would make it: attributes it to its owner until it is observed."""
        self.intents: dict[str, Intent] | None = None
        self.children: dict[WorkloadRef, Entry] | None = None
        self.head: Entry | None = None
        self.standing: Position | None = None
        """Its position, kept while an intent lives on it: autoscalers ask again before their last write is settled."""

    @property
    def idle(self) -> bool:
        """Nothing is known of it and nothing pends: it can be forgotten."""
        return self.observed is None and not self.intents

    @property
    def is_known(self) -> bool:
        """It was seen, or a create of it was allowed."""
        return self.observed is not None or any(intent.creates for intent in self.live_intents())

    @property
    def shown(self) -> Observed | None:
        """The best that is known of the object: a refused create may mean that another one came first."""
        return self.observed or self.born

    def live_intents(self) -> tuple[Intent, ...]:
        return tuple(self.intents.values()) if self.intents else ()

    def add(self, intent: Intent) -> None:
        if self.intents is None:
            self.intents = {}
        self.intents[intent.id] = intent

    def remove(self, intent: Intent) -> None:
        assert self.intents is not None, "an entry with a live intent has a table of them"
        del self.intents[intent.id]
        self.intents = self.intents or None

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
        if self.shown is not None:
            yield self.shown.labels
        for intent in self.live_intents():
            yield from intent.labels

    def may_leave(self) -> bool:
        """Whether some intent may take it from ``head``, whose controller then puts another in its place."""
        return any(self._leaves(intent) for intent in self.live_intents())

    def _leaves(self, intent: Intent) -> bool:
        owner = self.head.observed if self.head is not None else None
        assert owner is not None, "only a live owner covers"
        if intent.owner is not None and intent.owner.uid != owner.uid:
            return True
        made_of_nobody = intent.creates and intent.owner is None and self.observed is None
        return intent.frees or made_of_nobody or not all(selects(owner.selector, one) for one in intent.labels)


class Position(NamedTuple):
    """What an entry and its children amount to, and in which quotas."""

    used: Charge
    used_in: Nodes
    envelope: Charge
    envelope_in: Nodes
    unknown: bool
    """Some template's cost cannot be told."""
    pod: Amounts | None = None
    """What each replica costs, where nothing but the count of the head may change."""

    def with_count(self, replicas: int) -> Position:
        """Where it would be with one more write of the head's count alone. Only where ``pod`` is known."""
        assert self.pod is not None, "other writes are under way"
        used, used_in, (top, before, per_object), envelope_in, unknown, pod = self
        amounts = dict(before)
        for key, each in self.pod.items():
            amount = replicas * each + per_object.get(key, 0)
            if amount > amounts.get(key, 0):
                amounts[key] = amount
        return Position(used, used_in, Charge(max(top, replicas), amounts, per_object), envelope_in, unknown, pod)


def position(entry: Entry, scope: Scope) -> Position:
    """Add up ``entry``, which must be a head."""
    observed = entry.observed
    if observed is not None and _only_its_count_may_change(entry):
        return _plain_position(entry, observed, scope)
    used_in = scope.nodes(entry.ref.namespace, observed.labels) if observed is not None else ()
    prices = Prices(entry.ref.namespace, scope)
    used = NOTHING
    if observed is not None:
        used = charge(_observed_products(entry, observed, prices), _per_object(entry, pending=False))
    envelope = charge(_reachable(entry, prices), _per_object(entry, pending=True))
    return Position(used, used_in, envelope, _envelope_nodes(entry, scope, used_in), prices.unknown)


def _only_its_count_may_change(entry: Entry) -> bool:
    if entry.intents and not all(intent.counts_alone for intent in entry.intents.values()):
        return False
    return not entry.children or not any(child.intents for child in entry.children.values())


def _plain_position(entry: Entry, observed: Observed, scope: Scope) -> Position:
    """What ``_reachable`` comes to for nearly every entry, the short way: one pod, at the highest count."""
    nodes = scope.nodes(entry.ref.namespace, observed.labels)
    prices = Prices(entry.ref.namespace, scope)
    products = _observed_products(entry, observed, prices)
    per_object = _per_object(entry, pending=False)
    used = envelope = charge(products, per_object)
    top = entry.top_replicas()
    if top > observed.replicas:
        envelope = charge([*products, Product(top, products[0].per_pod)], per_object)
    return Position(used, nodes, envelope, nodes, prices.unknown, products[0].per_pod)


_COUNTS: dict[tuple[str, str], Amounts] = {}


def _count_one(ref: WorkloadRef) -> Amounts:
    """``count/<resource>`` = 1, shared: there are few kinds."""
    found = _COUNTS.get(ref[:2])
    if found is None:
        found = _COUNTS[ref[:2]] = {f"count/{ref.group_resource}": 10**9}
    return found


def _per_object(entry: Entry, *, pending: bool) -> Amounts:
    if not entry.children and entry.observed is not None:
        return _count_one(entry.ref)

    def exists(one: Entry) -> bool:
        return one.observed is not None or (pending and any(i.creates for i in one.live_intents()))

    counts: dict[str, int] = {}
    for one in (entry, *(entry.children or {}).values()):
        if exists(one):
            for key, amount in _count_one(one.ref).items():
                counts[key] = counts.get(key, 0) + amount
    return counts


def _observed_products(entry: Entry, observed: Observed, prices: Prices) -> list[Product]:
    if not entry.children:
        return [Product(observed.replicas, prices.one(observed.template))]
    running = [c.observed for c in entry.children.values() if c.observed is not None and c.observed.replicas]
    own = Product(observed.replicas, prices.highest([observed.template, *[one.template for one in running]]))
    if sum([one.replicas for one in running]) <= observed.replicas:
        return [own]  # no revision has a pod that is not in it already, at the dearest
    return [own, *_of_revisions(entry, prices, pending=False)]


def _of_revisions(entry: Entry, prices: Prices, *, pending: bool) -> Iterator[Product]:
    """What the revisions have by themselves, each count with its own template, less what a surge leaves uncharged.

    Not the sum of counts by the dearest template: that would rise as a dearer one lands, and no grant has room for it.
    """
    total, count = _sum_of_revisions(entry, prices, pending=pending)
    running = [c.observed.template for c in _children(entry) if c.observed is not None and c.observed.replicas]
    free = surge(entry.observed)
    dearest = prices.highest(running) if free else {}
    yield Product(1, {key: max(amount - free * dearest.get(key, 0), 0) for key, amount in total.items()})
    yield Product(count, {})  # keeps the count, for pods whose cost is not known


def _sum_of_revisions(entry: Entry, prices: Prices, *, pending: bool) -> tuple[dict[str, int], int]:
    total: dict[str, int] = {}
    count = 0
    for child in _children(entry):
        seen = [child.observed] if child.observed is not None else []
        replicas = child.top_replicas() if pending else sum(one.replicas for one in seen)
        templates: list[Template | None] = [one.template for one in seen if replicas]
        if pending:
            templates += [template for intent in child.live_intents() for template in intent.templates]
        count += replicas
        for key, each in prices.highest(templates).items():
            total[key] = total.get(key, 0) + replicas * each
    return total, count


def _reachable(entry: Entry, prices: Prices) -> Iterator[Product]:
    """Every count and pod that may come together, whichever intents land, and in whatever order.

    A write of the count alone may land on any template, and a write of the template alone under any count. A write of
    both brings them together: its template never meets the observed count, nor the count of another such write.
    """
    intents = entry.live_intents()
    children = list(_children(entry))
    alone: list[Template | None] = [t for intent in intents if _is_alone(intent) for t in intent.templates]
    alone += _children_templates(children)
    observed = [entry.shown.template] if entry.shown is not None else []
    own = entry.observed.replicas if entry.observed is not None else 0
    beside = sum(child.top_replicas() for child in children if child.may_leave())
    yield Product(own + beside, prices.highest([*observed, *alone]))
    if children:
        yield from _of_revisions(entry, prices, pending=True)
    both = [intent for intent in intents if intent.replicas is not None and intent.templates]
    for intent in both:
        yield Product((intent.replicas or 0) + beside, prices.highest([*intent.templates, *alone]))
    counts = [intent.replicas for intent in intents if intent.replicas is not None and not intent.templates]
    if counts:
        meets = [t for intent in both for t in intent.templates]
        yield Product(max(counts) + beside, prices.highest([*observed, *alone, *meets]))


def _is_alone(intent: Intent) -> bool:
    """It may leave the count as it is: its template meets every count."""
    return intent.replicas is None or intent.keeps_count


def pods_of(entry: Entry, intent: Intent, scope: Scope) -> Amounts:
    """The dearest pod that the count of ``intent`` may multiply, were it on ``entry``; for one on it too."""
    joint = not _is_alone(intent) and bool(intent.templates)
    others = [one for one in entry.live_intents() if one is not intent]
    templates = [*intent.templates, *_children_templates(list(_children(entry)))]
    templates += [t for one in others if not joint or _is_alone(one) for t in one.templates]
    if not joint and entry.shown is not None:
        templates.append(entry.shown.template)
    return Prices(entry.ref.namespace, scope).highest(templates)


def _children(entry: Entry) -> Iterable[Entry]:
    return entry.children.values() if entry.children else ()


def _children_templates(children: Iterable[Entry]) -> list[Template | None]:
    """Of revisions that run pods or may come to."""
    templates: list[Template | None] = []
    for child in children:
        if child.observed is not None and child.top_replicas():
            templates.append(child.observed.template)
        templates += [template for intent in child.live_intents() for template in intent.templates]
    return templates


class Prices:
    """What templates cost in one namespace, and whether some cannot be told."""

    __slots__ = ("_namespace", "_scope", "unknown")

    def __init__(self, namespace: str, scope: Scope) -> None:
        self._namespace = namespace
        self._scope = scope
        self.unknown = False

    def highest(self, templates: Iterable[Template | None]) -> Amounts:
        """The dearest, key by key, of those whose cost can be told."""
        return highest([self.one(template) for template in templates])

    def one(self, template: Template | None) -> Amounts:
        """The cost of one pod; nothing where it cannot be told."""
        if template is not None:
            try:
                return self._scope.per_pod(self._namespace, template)
            except FootprintError:
                pass
        self.unknown = True
        return {}


MAX_SURGE_PERCENT = 25
"""Of the replicas: the default of ``maxSurge``. A Deployment's author sets it, so that what is more is charged."""


def surge(observed: Observed | None) -> int:
    """Pods that a rollout may add for a while, which are not charged: ``maxSurge``, percentages rounded up, bounded.

    By the observed count alone: by a higher one that only pends, the envelope would fall below what is there.
    Source: k8s.io/kubernetes/pkg/controller/deployment/util, ``ResolveFenceposts``.
    """
    allowed = observed.max_surge if observed is not None else None
    if observed is None or allowed is None:
        return 0
    bound = _percent_of(MAX_SURGE_PERCENT, observed.replicas)
    if isinstance(allowed, int):
        return min(max(allowed, 0), bound)
    digits = allowed.removesuffix("%")
    return min(_percent_of(int(digits), observed.replicas), bound) if digits.isdecimal() else 0


def _percent_of(percent: int, count: int) -> int:
    return -(-percent * count // 100)


def _envelope_nodes(entry: Entry, scope: Scope, used_in: Nodes) -> Nodes:
    result = used_in
    leaving = [labels for child in _children(entry) if child.may_leave() for labels in child.all_labels()]
    for labels in (*entry.all_labels(), *leaving):
        nodes = scope.nodes(entry.ref.namespace, labels)
        if nodes != result:
            result += tuple(node for node in nodes if node not in result)
    return result
