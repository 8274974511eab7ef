"""The cost of a workload and all that it covers, and the quotas in which it counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extauthz.core.kinds import DEPLOYMENTS, JOBS, REVISIONS, SHARE_TEMPLATES, STATEFUL_SETS
from extauthz.core.ledger.accounts import NOTHING, NOWHERE, Position, Product, charge, charge_one
from extauthz.core.ledger.coverage import Coverage, Nodes
from extauthz.core.ledger.entry import UNBOUNDED, Entry, Others, PendingWrite, beyond, is_newer
from extauthz.core.ledger.pod_costs import NamespaceCosts, PodCosts, count_each, stems
from extauthz.core.model import Amounts, Observed, Template, WorkloadRef


def position(entry: Entry, coverage: Coverage, pod_costs: PodCosts) -> Position:
    """Add up ``entry``, which must be a head."""
    observed = entry.observed
    if observed is None and not (entry.pending_writes or entry.children):
        return NOWHERE
    if entry.ref[:2] == REVISIONS:
        return NOWHERE  # a revision by itself runs nothing
    if observed is not None and _only_its_count_may_change(entry):
        return _plain_position(entry, observed, coverage, pod_costs)
    if observed is None and entry.claims:
        entry = _with_claims_of_others(entry, coverage)
    used_in = coverage.nodes(entry.ref.namespace, observed.labels) if observed is not None else ()
    costs = NamespaceCosts(entry.ref.namespace, pod_costs)
    used = NOTHING
    if observed is not None:
        products = _observed_products(entry, observed, costs)
        used = charge(products, _per_object(entry, costs, pending=False))
    envelope = charge(_reachable(entry, costs), _per_object(entry, costs, pending=True))
    nodes, strays = _places(entry, coverage, used_in)
    return Position(used, used_in, envelope, nodes, costs.unknown, strays=strays)


def _with_claims_of_others(entry: Entry, coverage: Coverage) -> Entry:
    """Of the claims that a StatefulSet finds where it is made, with those alone that count elsewhere till then."""
    nodes = {*_places(entry, coverage, ())[0]}
    return entry.with_claims(lambda labels: not nodes <= {*coverage.nodes(entry.ref.namespace, labels)})


def _only_its_count_may_change(entry: Entry) -> bool:
    if entry.pending_writes and not all(pending_write.counts_alone for pending_write in entry.pending_writes.values()):
        return False
    return not entry.children or not _some_child_has_pending_writes(entry)


def _some_child_has_pending_writes(entry: Entry) -> bool:
    return any(
        child.pending_writes or (child.children and _some_child_has_pending_writes(child)) for child in _children(entry)
    )


def _plain_position(entry: Entry, observed: Observed, coverage: Coverage, pod_costs: PodCosts) -> Position:
    """The result of ``_reachable`` for nearly every entry, in a short way: one pod, at the highest count."""
    top = entry.top_replicas()
    nodes = coverage.nodes(entry.ref.namespace, observed.labels)
    costs = NamespaceCosts(entry.ref.namespace, pod_costs)
    has_others = entry.claims or entry.left or entry.strays or pod_costs.charge_surge or entry.ref[:2] == JOBS
    is_alone = not (entry.children or (entry.pods and entry.ref[:2] in SHARE_TEMPLATES))
    if not has_others and (is_alone or _is_uniform(entry, observed, pod_costs)):
        if is_alone and entry.pods:
            per_object = _per_object(entry, costs, pending=False)
        else:
            per_object = count_each(entry.ref, *(entry.children or ()))
        pod = costs.of_each(top, observed.template)
        each = pod if pod is not None else {}
        used = charge_one(observed.replicas, each, per_object)
        envelope = used.with_count(top, each) if top > observed.replicas else used
        return Position(used, nodes, envelope, nodes, costs.unknown, pod)
    products, per_object = _observed_products(entry, observed, costs), _per_object(entry, costs, pending=False)
    used = envelope = charge(products, per_object)
    per_pod, by_count = products[0].per_pod, not entry.claims and not products[0].beside
    by_count = by_count and not beyond(UNBOUNDED, per_pod, _others(entry, costs, pending=False))
    is_priced = costs.of_each(observed.replicas, observed.template) is not None
    if pod_costs.charge_surge:
        top = pod_costs.with_surge(entry.ref, top, (observed.template,))
        by_count = by_count and entry.ref[:2] != DEPLOYMENTS
    if top > observed.replicas:
        envelope = charge([*products, _own(entry, observed, top, costs)], per_object)
    return Position(used, nodes, envelope, nodes, costs.unknown, per_pod if by_count and is_priced else None)


def _is_uniform(owner: Entry, observed: Observed, pod_costs: PodCosts) -> bool:
    """Whether its family has no more pods than it asks for, each at the cost of its template. Nearly always."""
    if owner.ref[:2] not in SHARE_TEMPLATES:
        return False
    costs = NamespaceCosts(owner.ref.namespace, pod_costs)
    each, count = costs.one(observed.template), 0
    for child in _children(owner):
        seen = child.observed
        if seen is None or child.children or child.claims or child.ref[:2] == REVISIONS:
            return False
        count += seen.replicas
        if seen.replicas and costs.one(seen.template) is not each:
            return False
    groups = _pods((owner, *_children(owner)))
    is_within = count <= observed.replicas and (not groups or _are_within(groups, owner, observed, costs))
    return is_within and not costs.unknown


# What no count changes.


def _per_object(entry: Entry, costs: NamespaceCosts, *, pending: bool) -> Amounts:
    if not entry.children and not entry.pods and entry.observed is not None:
        return count_each(entry.ref)
    amounts = _excess(entry, costs)
    for one in _family(entry):
        if one.observed is not None or (pending and any(i.creates for i in one.live_pending_writes())):
            _add(amounts, count_each(one.ref))
    return amounts


def _excess(entry: Entry, costs: NamespaceCosts) -> dict[str, int]:
    """What pods hold beyond the count that their owners ask for, at all levels.

    It stays beside whatever else the owner is granted: pods that are there already leave no room for new ones.
    """
    excess: dict[str, int] = {}
    members = _members(entry)
    if entry.ref[:2] not in SHARE_TEMPLATES:
        for member in members:
            _add(excess, _excess(member, costs))
        if members:
            return excess  # its own pods are summed up with them
    groups = _pods((entry, *members))
    if groups and entry.observed is not None and not _are_within(groups, entry, entry.observed, costs):
        asked = _asked_of_pods(entry, entry.observed, costs)
        free = costs.pod_costs.surge(entry.ref, entry.observed)
        dearest = costs.highest(_running(entry)) if free else {}
        dearer = _dearer(entry, costs) if entry.ref[:2] not in SHARE_TEMPLATES else _sum_of_claims(groups, costs)
        for key, amount in _sum_of_pods(groups, costs).items():
            above = max(amount - asked.get(key, 0) - free * dearest.get(key, 0), dearer.get(key, 0))
            if above > 0:
                excess[key] = above
    return excess


def _dearer(owner: Entry, costs: NamespaceCosts) -> dict[str, int]:
    """What its pods hold beyond its template, as a sidecar or a resize."""
    template = owner.observed.template if owner.observed is not None else None
    if template is None:
        return {}
    groups = _of_groups(owner, costs)
    return beyond(sum(one.most for one in groups), costs.one(template), groups)


def _asked_of_pods(entry: Entry, observed: Observed, costs: NamespaceCosts) -> dict[str, int]:
    """What ``entry`` asks for, without the claims of its ordinals: these are no part of its pods."""
    products = _observed_products(entry, observed, costs)
    asked = dict(charge(products, {}).amounts)
    for key, amount in _of_claims(entry, observed.replicas, (observed.template,), costs).items():
        asked[key] -= amount
    if stems(entry.ref, observed):
        for claim in costs.claims(observed.template)[1].values():
            _add(asked, claim, -observed.replicas)
    return asked


def _pods(owners: Iterable[Entry]) -> list[tuple[Entry, Observed]]:
    groups = [group for owner in owners if owner.pods for group in owner.pods.values()]
    return [(group, group.observed) for group in groups if group.observed is not None]


def _are_within(groups: list[tuple[Entry, Observed]], owner: Entry, observed: Observed, costs: NamespaceCosts) -> bool:
    """Whether there are no more pods than replicas, each at the cost of the template, which is that of its own owner.

    Nearly always.
    """
    if sum([seen.replicas for _, seen in groups]) > observed.replicas or stems(owner.ref, observed):
        return False
    each = costs.one(observed.template)
    return all(
        costs.one(seen.template) is each and not group.claims and _is_as_its_owner_says(group, each, costs)
        for group, seen in groups
    )


def _is_as_its_owner_says(group: Entry, each: Amounts, costs: NamespaceCosts) -> bool:
    owner = group.head.observed if group.head is not None else None
    assert owner is not None, "only a live owner covers"
    return costs.one(owner.template) is each


def _sum_of_pods(groups: list[tuple[Entry, Observed]], costs: NamespaceCosts) -> dict[str, int]:
    total: dict[str, int] = {}
    for _, seen in groups:
        _add(total, costs.one(seen.template), seen.replicas)
    _add(total, _sum_of_claims(groups, costs))
    return total


def _sum_of_claims(groups: list[tuple[Entry, Observed]], costs: NamespaceCosts) -> dict[str, int]:
    """What claims of pods have beyond what the pods' templates say: whatever is free for a surge, they are there."""
    total: dict[str, int] = {}
    for group, seen in groups:
        _add(total, _of_claims(group, seen.replicas, (seen.template,), costs))
    return total


def _add(total: dict[str, int], amounts: Amounts, times: int = 1) -> None:
    for key, amount in amounts.items():
        total[key] = total.get(key, 0) + times * amount


# What is observed.


def _observed_products(entry: Entry, observed: Observed, costs: NamespaceCosts) -> list[Product]:
    count = observed.replicas
    own = _own(entry, observed, count, costs)
    if not entry.children:
        return [own]
    members = _members(entry)
    shown = [member.observed.replicas for member in members if member.observed is not None]
    if entry.ref[:2] in SHARE_TEMPLATES and sum(shown) <= count:
        return [own]  # no revision has a pod that is not in it already
    return [own, *_of_members(entry, costs, pending=False)]


def _own(entry: Entry, observed: Observed, count: int, costs: NamespaceCosts) -> Product:
    """So many pods of the observed template, and what those beside it cost more that its family has."""
    each = costs.of_each(count, observed.template) or {}
    beside = _of_claims(entry, count, (observed.template,), costs) or costs.finished(count, (observed.template,))
    return Product(count, each, _and(beside, beyond(count, each, _others(entry, costs, pending=False))))


def _and(beside: Amounts, extra: dict[str, int]) -> Amounts:
    if not extra:
        return beside
    _add(extra, beside)
    return extra


def _others(entry: Entry, costs: NamespaceCosts, *, pending: bool) -> list[Others]:
    """Pods of its family by what they are: what each pod says, revisions that have pods, what may still run of
    templates that were left, and what it may take up.

    Args:
        pending: with what pending writes may make of members.
    """
    if entry.ref[:2] not in SHARE_TEMPLATES:
        return []
    found = _of_groups(entry, costs)
    for child in _children(entry):
        seen = child.observed
        count = child.top_replicas() if pending else seen.replicas if seen is not None else 0
        found += _of_groups(child, costs)
        if seen is not None and count:
            found.append(Others(costs.one(seen.template), UNBOUNDED))
        if pending:
            templates = [template for one in child.live_pending_writes() for template in one.templates]
            found += [Others(costs.one(template), UNBOUNDED) for template in templates]
    return found + [Others(costs.one(template), UNBOUNDED) for template in (*entry.left, *entry.strays)]


def _of_groups(owner: Entry, costs: NamespaceCosts) -> list[Others]:
    return [Others(costs.one(seen.template), seen.replicas) for _, seen in _pods((owner,))]


def _old(entry: Entry, template: Template | None, most: int, costs: NamespaceCosts) -> list[Others]:
    """Pods of a template that a write replaces, of which there may be so many."""
    makes = multiplies_old(entry.ref, most)
    return [Others(costs.one(template), UNBOUNDED if makes else most)] if makes or most else []


def multiplies_old(ref: WorkloadRef, most: int) -> bool:
    """Whether a higher count may come to meet a template that a write replaces, of which there are so many pods.

    A Deployment's controller first brings the ReplicaSets that it has to a new count, and then replaces their pods
    (``syncDeployment`` in ``pkg/controller/deployment``: a scaling event goes before a rollout). A StatefulSet's makes
    new pods of the old revision below a partition, even where there are none (``newVersionedStatefulSetPod`` in
    ``pkg/controller/statefulset``). So all may have the old template, while there are others nothing makes.
    """
    return ref[:2] == STATEFUL_SETS or (ref[:2] in SHARE_TEMPLATES and most > 0)


def _of_claims(entry: Entry, count: int, templates: Iterable[Template | None], costs: NamespaceCosts) -> Amounts:
    return entry.claims.beside(count, templates, costs) if entry.claims else {}


def _of_members(entry: Entry, costs: NamespaceCosts, *, pending: bool) -> Iterator[Product]:
    """What members have by themselves, each count with its own template, less what a surge leaves uncharged.

    Not the sum of counts by the dearest template: that would rise as a dearer one lands, and no grant has room for it.
    """
    total, count = _sum_of_members(entry, costs, pending=pending)
    free = 0 if costs.pod_costs.charge_surge else costs.pod_costs.surge(entry.ref, entry.observed)
    dearest = costs.highest(_running(entry)) if free else {}
    charged = {key: above for key, amount in total.items() if (above := amount - free * dearest.get(key, 0)) > 0}
    if charged:
        yield Product(1, charged)
    yield Product(count, {})  # keeps the count, for pods whose cost is not known


def _sum_of_members(entry: Entry, costs: NamespaceCosts, *, pending: bool) -> tuple[dict[str, int], int]:
    total: dict[str, int] = {}
    count = 0
    if entry.ref[:2] not in SHARE_TEMPLATES:
        _add(total, _sum_of_pods(_pods((entry,)), costs))
    for member in _members(entry):
        part = charge(_products(member, costs, pending=pending), {})
        count += part.replicas
        _add(total, part.amounts)
    return total, count


def _products(entry: Entry, costs: NamespaceCosts, *, pending: bool) -> Iterable[Product]:
    if pending:
        return _reachable(entry, costs)
    return _observed_products(entry, entry.observed, costs) if entry.observed is not None else ()


# What may come.


def _reachable(entry: Entry, costs: NamespaceCosts) -> Iterator[Product]:
    """Every pair of count and pod that may come together, whichever pending writes land, in whatever order.

    What may land is a count, on any base that it can meet; or an object, on exactly one version. A base is what is
    observed, or an object that was admitted. Its pods replace those of the bases before it one by one.
    """
    pending_writes = entry.live_pending_writes()
    objects = [one for one in pending_writes if one.replicas is not None and one.templates]
    alone = [template for one in pending_writes if one.replicas is None for template in one.templates]
    others = _others(entry, costs, pending=True) + [Others(costs.one(one), UNBOUNDED) for one in alone]
    left, left_count = _leaving(entry, costs)

    def product(count: int, own: tuple[Template | None, ...], before: Iterable[Others] = ()) -> Product:
        each = costs.highest(own) if count else {}
        pods = costs.pod_costs.with_surge(entry.ref, count, own)
        claims = _of_claims(entry, count, [*own, *alone], costs) or costs.finished(count, own)
        beside = _and(claims, beyond(pods, each, [*others, *before]))
        return Product(pods, each, _and(beside, dict(left)))

    shown = (entry.shown.template,) if entry.shown is not None else ()
    count = entry.observed.replicas if entry.observed is not None else 0
    counts = [one for one in pending_writes if one.replicas is not None and not one.templates]
    top = max([count, *(one.replicas or 0 for one in counts)])
    yield product(count, shown)
    if top > count:
        yield product(top, shown)  # any count that pends may land on what is observed
    if entry.children:
        yield from _of_members(entry, costs, pending=True)
    stays: list[Others] = []
    if entry.observed is not None and any(one.replicas for one in objects):
        stays = _old(entry, entry.observed.template, top, costs)
    for one in objects:
        meeting = [count.replicas or 0 for count in counts if _may_follow(count, one)]
        before = [
            old
            for other in objects
            if may_precede(other, one)
            for template in other.templates
            for old in _old(entry, template, other.replicas or 0, costs)
        ]
        own = one.replicas or 0
        yield product(own, one.templates, [*stays, *before])  # pods of each base before it go one by one
        if meeting and max(meeting) > own:
            yield product(max(meeting), one.templates, [*stays, *before])
    yield Product(max([top, *(one.replicas or 0 for one in objects)]) + left_count, {})


def may_precede(other: PendingWrite, one: PendingWrite) -> bool:
    """Whether an object may be stored before another one. Of two on one version, or two that are created, one is."""
    before, after = other.precondition.resource_version, one.precondition.resource_version
    return other is not one and not one.creates and before != after and not (after and is_newer(before or "", after))


def _may_follow(count: PendingWrite, one: PendingWrite) -> bool:
    """Whether a count may land on what an admitted object leaves: not if it wants the version that this replaces, or an
    earlier one."""
    wants, found = count.precondition.resource_version, one.precondition.resource_version
    return wants is None or found is None or is_newer(wants, found)


def _leaving(entry: Entry, costs: NamespaceCosts) -> tuple[dict[str, int], int]:
    """The cost of members, and of theirs, that may leave. Their controller then creates others in their place."""
    total: dict[str, int] = {}
    count = 0
    for member in _members(entry):
        if member.may_leave():
            part = charge(_reachable(member, costs), {})
            amounts, pods = part.amounts, part.replicas
        else:
            amounts, pods = _leaving(member, costs)
        count += pods
        _add(total, amounts)
    return total, count


def pod_of(entry: Entry, pending_write: PendingWrite, pod_costs: PodCosts) -> Amounts:
    """The pod that the count of ``pending_write`` multiplies, where nothing else is under way."""
    templates = pending_write.templates or ((entry.shown.template,) if entry.shown is not None else ())
    return NamespaceCosts(entry.ref.namespace, pod_costs).highest(templates)


# The family.


def _children(entry: Entry) -> Iterable[Entry]:
    return entry.children.values() if entry.children else ()


def _members(entry: Entry) -> list[Entry]:
    """Children that have pods of their own."""
    return [child for child in _children(entry) if child.ref[:2] != REVISIONS]


def _family(entry: Entry) -> Iterator[Entry]:
    yield entry
    for child in _children(entry):
        yield from _family(child)


def _running(entry: Entry) -> list[Template | None]:
    """Templates of its revisions that have pods."""
    if entry.ref[:2] not in SHARE_TEMPLATES:
        return []
    return [c.observed.template for c in _children(entry) if c.observed is not None and c.observed.replicas]


def _places(entry: Entry, coverage: Coverage, used_in: Nodes) -> tuple[Nodes, Nodes]:
    """The quotas in which it may count, and those of them in which it may come not to."""
    result = used_in
    leaving = [labels for one in _family(entry) if one.head and one.may_leave() for labels in one.all_labels()]
    places = []
    for labels in (*entry.all_labels(), *leaving):
        nodes = coverage.nodes(entry.ref.namespace, labels)
        places.append(nodes)
        if nodes != result:
            result += tuple(node for node in nodes if node not in result)
    if places.count(result) == len(places):
        return result, ()
    return result, tuple(node for node in result if any(node not in nodes for nodes in places))
