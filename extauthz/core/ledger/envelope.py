"""What a workload and all that it covers may come to cost, and the quotas in which that counts.

The plain bound: the highest count that may be, times the dearest template that may run, key by key, plus what pods that
are there hold beyond that. It is finer in one place, for an everyday write: a write of a count *and* a template (an
object at the webhook) is a pair of its own beside what is observed. Else "fewer and larger pods" would need room for
the old count of the larger pods. What a user does where the bound is too coarse: first the template, and the count once
the rollout is done (docs/counting.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from extauthz.core.kinds import DEPLOYMENTS, JOBS, REVISIONS, SHARE_TEMPLATES, STATEFUL_SETS
from extauthz.core.ledger.accounts import NOTHING, NOWHERE, Position, Product, charge, charge_of
from extauthz.core.ledger.claims import stems
from extauthz.core.ledger.coverage import Coverage, Nodes
from extauthz.core.ledger.entry import Entry, Part
from extauthz.core.ledger.pod_costs import NamespaceCosts, PodCosts, count_each, is_paused, of_revision, ordinals
from extauthz.core.model import Amounts, Observed, Template

_UNBOUNDED: Final = 2**31
"""More than any workload has pods."""

Templates = list[Template | None]
Groups = list[tuple[Entry, Observed]]


def position(entry: Entry, coverage: Coverage, pod_costs: PodCosts) -> Position:
    """Add up ``entry``, which must be a head."""
    observed = entry.observed
    if observed is None and not (entry.pending_writes or entry.children):
        return NOWHERE  # nothing is known of it
    if entry.ref[:2] == REVISIONS:
        return NOWHERE  # a revision by itself runs nothing
    counts_alone = observed is not None and _only_its_count_may_change(entry)
    if observed is not None and counts_alone and _has_equal_pods(entry, observed, pod_costs):
        return _of_equal_pods(entry, observed, coverage, pod_costs)  # nearly always
    if observed is None and entry.claims:
        entry = _with_claims_of_others(entry, coverage)
    costs = NamespaceCosts(entry.ref.namespace, pod_costs)
    used, pod = NOTHING, None
    used_in: Nodes = ()
    if observed is not None:
        used_in = coverage.nodes(entry.ref.namespace, observed.labels)
        products = _observed_products(entry, observed, costs)
        used = charge(products, _per_object(entry, costs, pending=False))
        pod = _pod_of_each_count(entry, observed, products, costs) if counts_alone else None
    envelope = used
    is_settled = counts_alone and observed is not None and entry.top_replicas() == observed.replicas
    if not is_settled or pod_costs.charge_surge:
        envelope = charge(_reachable(entry, costs), _per_object(entry, costs, pending=True))
    nodes, may_leave = _places(entry, coverage, used_in)
    return Position(used, used_in, envelope, nodes, costs.unknown, pod, may_leave)


def _with_claims_of_others(entry: Entry, coverage: Coverage) -> Entry:
    """Of the claims that a StatefulSet finds where it is made, with those that count elsewhere till then. The others
    count by themselves in all of its quotas, and it has not made them."""
    nodes = {*_places(entry, coverage, ())[0]}
    return entry.with_claims(lambda labels: not nodes <= {*coverage.nodes(entry.ref.namespace, labels)})


def _only_its_count_may_change(entry: Entry) -> bool:
    if entry.pending_writes and not all(pending_write.counts_alone for pending_write in entry.pending_writes.values()):
        return False
    return not entry.children or not any(child.pends(but=entry) for child in _children(entry))


# The short way.


def _has_equal_pods(entry: Entry, observed: Observed, pod_costs: PodCosts) -> bool:
    """Whether its family has no more pods than it asks for, each at the cost of its template."""
    if entry.claims or entry.left or entry.adoptable or entry.outside:
        return False  # something is added to the product
    if pod_costs.charge_surge or entry.ref[:2] == JOBS:
        return False  # something is added to the product
    if not entry.children and not entry.pods:
        return True
    if entry.children and (entry.ref[:2] not in SHARE_TEMPLATES or _may_be_paused(entry)):
        return False  # members with templates of their own, or that may be taken up again
    costs = NamespaceCosts(entry.ref.namespace, pod_costs)
    each, count = costs.one(observed.template), 0
    for child in _children(entry):
        seen = child.observed
        if seen is None or child.children or child.claims or child.left or child.ref[:2] == REVISIONS:
            return False
        count += seen.replicas
        if seen.replicas and costs.one(seen.template) is not each:
            return False
    groups = _pods((entry, *_children(entry)))
    if count > observed.replicas or sum(seen.replicas for _, seen in groups) > observed.replicas:
        return False
    is_equal = all(costs.one(seen.template) is each and not group.claims for group, seen in groups)
    return is_equal and not costs.unknown


def _of_equal_pods(entry: Entry, observed: Observed, coverage: Coverage, pod_costs: PodCosts) -> Position:
    top, nodes = entry.top_replicas(), coverage.nodes(entry.ref.namespace, observed.labels)
    costs = NamespaceCosts(entry.ref.namespace, pod_costs)
    each, is_known = costs.one(observed.template), not costs.unknown
    used = charge_of(observed.replicas, each, count_each(entry.ref, *(entry.children or ())))
    envelope = used.with_count(top, each) if top > observed.replicas else used
    is_unknown = top > 0 and not is_known  # zero times an unknown cost is nothing
    return Position(used, nodes, envelope, nodes, is_unknown, each if is_known else None)


def _pod_of_each_count(
    entry: Entry, observed: Observed, products: Sequence[Product], costs: NamespaceCosts
) -> Amounts | None:
    """What each replica adds at any count; ``None``: that depends on the count, or is not known."""
    own, *of_members = products
    if of_members:
        return None  # more may be there than it asks for
    if entry.claims or own.extra or own.replicas != observed.replicas or entry.ref[:2] == JOBS:
        return None
    if costs.pod_costs.charge_surge and entry.ref[:2] == DEPLOYMENTS:
        return None
    if _dearer_pods(_UNBOUNDED, own.per_pod, _groups(entry), costs):
        return None  # pods that are there would come to be among those asked for
    templates = [observed.template, *_running(entry, pending=False)]
    if entry.ref[:2] == STATEFUL_SETS and ordinals(1, templates) > 1:
        return None  # its range moves, and each replica may be there twice
    return own.per_pod if _each(0, templates, costs)[1] else None


# What no count changes.


def _per_object(entry: Entry, costs: NamespaceCosts, *, pending: bool) -> Amounts:
    if not entry.children and not entry.pods and entry.observed is not None:
        return count_each(entry.ref)
    amounts = _excess(entry, costs)
    for one in _family(entry):
        if one.observed is not None or (pending and any(i.creates for i in one.live_pending_writes())):
            _add(amounts, count_each(one.ref))
    if pending:
        _add(amounts, _leaving(entry, costs)[0])
    return amounts


def _excess(entry: Entry, costs: NamespaceCosts) -> dict[str, int]:
    """What pods hold beyond the count that their owners ask for, at all levels.

    It stays beside whatever else the owner is granted: pods that are there already leave no room for new ones.
    """
    members = _members(entry)
    if members and entry.ref[:2] not in SHARE_TEMPLATES:
        excess: dict[str, int] = {}
        for member in members:
            _add(excess, _part(member, costs).excess if _has_only_pods(member) else _excess(member, costs))
        return excess  # its own pods are summed up with its members
    groups = _groups(entry)
    if not groups or entry.observed is None:
        return {}  # nothing is there, or nobody asks for it: then it is no part of a family
    asked, count = _asked_of_pods(entry, entry.observed, costs)
    free = costs.pod_costs.surge(entry.ref, entry.observed)
    dearest = costs.highest(_running(entry, pending=False)) if free else {}
    there = _sum_of_claims(groups, costs)
    outside = entry.outside - (count - entry.observed.replicas)  # a range that was left is asked for so far
    if outside > 0:
        _add(there, costs.highest([seen.template for _, seen in groups]), outside)
    above = {
        key: max(amount - asked.get(key, 0) - free * dearest.get(key, 0), there.get(key, 0))
        for key, amount in _sum_of_pods(groups, costs).items()
    }
    return {key: amount for key, amount in above.items() if amount > 0}


def _asked_of_pods(entry: Entry, observed: Observed, costs: NamespaceCosts) -> tuple[dict[str, int], int]:
    """What ``entry`` asks for, without the claims of its ordinals, which are no part of its pods; and of how many."""
    products = _observed_products(entry, observed, costs)
    asked = dict(charge(products, {}).amounts)
    templates = [observed.template, *_running(entry, pending=False)]
    for key, amount in _of_claims(entry, observed.replicas, templates, costs).items():
        asked[key] -= amount
    if stems(entry.ref, observed):
        for claim in costs.claims(observed.template).values():
            _add(asked, claim, -products[0].replicas)
    return asked, products[0].replicas


def _sum_of_pods(groups: Groups, costs: NamespaceCosts) -> dict[str, int]:
    total: dict[str, int] = {}
    for _, seen in groups:
        _add(total, costs.one(seen.template), seen.replicas)
    _add(total, _sum_of_claims(groups, costs))
    return total


def _sum_of_claims(groups: Groups, costs: NamespaceCosts) -> dict[str, int]:
    """What claims of pods have beyond what the pods' templates say: whatever is free for a surge, they are there."""
    total: dict[str, int] = {}
    for group, seen in groups:
        _add(total, _of_claims(group, seen.replicas, (seen.template,), costs))
    return total


def _leaving(entry: Entry, costs: NamespaceCosts) -> tuple[dict[str, int], int]:
    """The cost and the pods of members, and of theirs, that may leave. Their controller then creates others in their
    place."""
    total: dict[str, int] = {}
    count = 0
    for member in _members(entry):
        amounts, pods = _leaving(member, costs)
        if member.may_leave():
            part = charge(_reachable(member, costs), {})
            pods = part.replicas  # with those of its own members that may leave
            _add(total, part.amounts)
        count += pods
        _add(total, amounts)
    return total, count


def _add(total: dict[str, int], amounts: Amounts, times: int = 1) -> None:
    for key, amount in amounts.items():
        total[key] = total.get(key, 0) + times * amount


# What is observed, and what may come.


def _observed_products(entry: Entry, observed: Observed, costs: NamespaceCosts) -> list[Product]:
    own = _own(entry, observed.replicas, [observed.template, *_running(entry, pending=False)], costs)
    if not entry.children:
        return [own]
    shown = [member.observed.replicas for member in _members(entry) if member.observed is not None]
    if entry.ref[:2] in SHARE_TEMPLATES and sum(shown) <= observed.replicas:
        return [own]  # no revision has a pod that is not in it already
    return [own, *_of_members(entry, costs, pending=False)]


def _reachable(entry: Entry, costs: NamespaceCosts) -> Iterator[Product]:
    """The plain bound, whichever pending writes land, in whatever order.

    A count may meet all that is there or may come. So there are two products: what is observed, at the highest count
    that may meet it, and what was admitted, at the highest count that may meet that. Each pod may be of any template
    that may still run when it comes (ledger.md#rollouts).
    """
    pending_writes = entry.live_pending_writes()
    objects = [one for one in pending_writes if one.replicas is not None and one.templates]
    counts = [one.replicas or 0 for one in pending_writes if not one.templates]
    others = _running(entry, pending=True)
    others += [template for one in pending_writes if one.replicas is None for template in one.templates]
    shown: Templates = [entry.shown.template] if entry.shown is not None else []

    def product(count: int, templates: Templates) -> Product:
        return _own(entry, costs.pod_costs.with_surge(entry.ref, count, templates), templates, costs)

    top = max([entry.observed.replicas if entry.observed is not None else 0, *counts])
    yield product(top, shown + others)
    if objects:
        admitted: Templates = [template for one in objects for template in one.templates]
        most = max([*counts, *(one.replicas or 0 for one in objects)])
        if ordinals(1, _replaced(entry) + admitted) > 1:
            most = max(top, most)  # the range moves, and there are as many of the old one
        yield product(most, _replaced(entry) + others + admitted)
        top = max(top, most)
    if entry.children:
        yield from _of_members(entry, costs, pending=True)
        yield Product(top + _leaving(entry, costs)[1], {})  # keeps the count, for pods whose cost is not known


def _replaced(entry: Entry) -> Templates:
    """Of the pods that an admitted object finds, and replaces one by one. What is made anew finds none."""
    return [entry.observed.template] if entry.observed is not None else []


def _own(entry: Entry, count: int, templates: Templates, costs: NamespaceCosts) -> Product:
    """So many pods, each of the dearest of these templates; and what pods that are there hold beyond that."""
    claims = _of_claims(entry, count, templates, costs)
    count = ordinals(count, templates) if entry.ref[:2] == STATEFUL_SETS else count
    each, _ = _each(count, templates, costs)
    extra = _dearer_pods(count, each, _groups(entry), costs)
    _add(extra, claims)
    if entry.ref[:2] == JOBS:
        _add(extra, costs.finished(count, templates))
    return Product(count, each, extra)


def _each(count: int, templates: Templates, costs: NamespaceCosts) -> tuple[Amounts, bool]:
    """The dearest of these templates, and whether all are known. Zero times an unknown cost is nothing."""
    before, costs.unknown = costs.unknown, False
    each = costs.highest(templates)
    is_known = not costs.unknown
    costs.unknown = before or (count > 0 and not is_known)
    return each, is_known


def _dearer_pods(count: int, each: Amounts, groups: Groups, costs: NamespaceCosts) -> dict[str, int]:
    """What ``count`` pods cost beyond ``count`` of ``each``, as those that are there are some of them: a sidecar that a
    webhook has put in, a resize."""
    there = [(cost, seen.replicas) for _, seen in groups if (cost := costs.one(seen.template)) is not each]
    extra: dict[str, int] = {}
    for key in {key for cost, _ in there for key in cost} if count else ():
        asked = each.get(key, 0)
        above = [(amount - asked, number) for cost, number in there if (amount := cost.get(key, 0)) > asked]
        if sum([number for _, number in above]) > count:
            above.sort(reverse=True)  # nearly never: more pods than it asks for are dearer than its template
        left = count
        for more, number in above:
            taken = min(number, left)
            left -= taken
            extra[key] = extra.get(key, 0) + more * taken
    return {key: amount for key, amount in extra.items() if amount}


def _of_claims(entry: Entry, count: int, templates: Iterable[Template | None], costs: NamespaceCosts) -> Amounts:
    if not (entry.claims or entry.found):
        return {}
    several, total = list(templates), dict[str, int]()
    for claims, by_themselves in ((entry.claims, False), (entry.found, True)):
        _add(total, claims.unshared(count, several, costs, by_themselves=by_themselves) if claims else {})
    return total


def _of_members(entry: Entry, costs: NamespaceCosts, *, pending: bool) -> Iterator[Product]:
    """What members have by themselves, each count with its own template, less what a surge leaves uncharged.

    Not the sum of counts by the dearest template: that would rise as a dearer one lands, and no grant has room for it.
    """
    total: dict[str, int] = {}
    count = 0
    if entry.ref[:2] not in SHARE_TEMPLATES:
        _add(total, _sum_of_pods(_pods((entry,)), costs))
    for member in _members(entry):
        if _has_only_pods(member):
            part = _part(member, costs).charge
        else:
            part = charge(_products(member, costs, pending=pending), {})
        count += part.replicas
        _add(total, part.amounts)
    free = 0 if costs.pod_costs.charge_surge else costs.pod_costs.surge(entry.ref, entry.observed)
    dearest = costs.highest(_running(entry, pending=False)) if free else {}
    charged = {key: above for key, amount in total.items() if (above := amount - free * dearest.get(key, 0)) > 0}
    if charged:
        yield Product(1, charged)
    yield Product(count, {})  # keeps the count, for pods whose cost is not known


def _has_only_pods(member: Entry) -> bool:
    """Whether nothing pends on it, and it has nothing but pods without claims, as nearly all members."""
    if member.observed is None or member.pending_writes or member.children or member.claims:
        return False
    return member.ref[:2] != DEPLOYMENTS and not (member.pods and any(one.claims for one in member.pods.values()))


def _part(member: Entry, costs: NamespaceCosts) -> Part:
    """Kept, as a family of hundreds is added up each time that a pod of one of them comes or goes."""
    assert member.observed is not None, "it has only pods"
    pods = tuple([one.observed for one in member.pods.values()]) if member.pods else ()
    of = costs.pod_costs.epoch, member.observed, member.left, member.outside, pods
    if member.part is None or member.part.of != of:
        own = NamespaceCosts(member.ref.namespace, costs.pod_costs)
        charged = charge(_observed_products(member, member.observed, own), {})
        member.part = Part(of, charged, _excess(member, own), own.unknown)
    costs.unknown |= member.part.unknown
    return member.part


def _products(entry: Entry, costs: NamespaceCosts, *, pending: bool) -> Iterable[Product]:
    if pending:
        return _reachable(entry, costs)
    return _observed_products(entry, entry.observed, costs) if entry.observed is not None else ()


# The family.


def _running(entry: Entry, *, pending: bool) -> Templates:
    """Templates besides its own that its pods may have: those that were left, those of ReplicaSets that it may adopt,
    and those of revisions that have pods, or that it may take up again. A custom resource that its pods price has those
    of its members.

    Args:
        pending: with what pending writes may make of members.
    """
    made: Templates = [*entry.adoptable]
    is_priced_by_children = entry.observed is not None and entry.observed.by_pods
    takes_up_any = entry.children is not None and _may_be_paused(entry)
    for child in _children(entry) if entry.ref[:2] in SHARE_TEMPLATES or is_priced_by_children else ():
        seen = child.observed
        made += child.left
        if seen is not None and (takes_up_any or (child.top_replicas() if pending else seen.replicas)):
            made.append(seen.template)
        if pending:
            made += [template for one in child.live_pending_writes() for template in one.templates]
    return [*entry.left, *(_as_of_owner(entry, template) for template in made)]


def _may_be_paused(entry: Entry) -> bool:
    """Whether it is a Deployment that is paused, or that a pending write pauses.

    The controller of a paused Deployment makes no new ReplicaSet. Once none of those that there are has replicas, it
    brings the newest one to the Deployment's count, whatever its template (``FindActiveOrLatest`` in
    ``pkg/controller/deployment/util/deployment_util.go``). A count of zero, which nobody refuses, may come before any
    other count that is under way.
    """
    if entry.ref[:2] != DEPLOYMENTS or entry.observed is None:
        return False
    pending = (template for one in entry.live_pending_writes() for template in one.templates)
    return any(template is not None and is_paused(template) for template in (entry.observed.template, *pending))


def _as_of_owner(entry: Entry, template: Template | None) -> Template | None:
    own = entry.observed.template if entry.observed is not None else None
    if entry.ref[:2] not in SHARE_TEMPLATES or own is None or template is None:
        return template
    return of_revision(own, template)


def _children(entry: Entry) -> Iterable[Entry]:
    return entry.children.values() if entry.children else ()


def _members(entry: Entry) -> list[Entry]:
    """Children that have pods of their own."""
    return [child for child in _children(entry) if child.ref[:2] != REVISIONS]


def _family(entry: Entry) -> Iterator[Entry]:
    yield entry
    for child in _children(entry):
        yield from _family(child)


def _groups(entry: Entry) -> Groups:
    """Pods that are there of those that its count asks for."""
    return _pods((entry, *_children(entry)) if entry.ref[:2] in SHARE_TEMPLATES else (entry,))


def _pods(owners: Iterable[Entry]) -> Groups:
    groups = [group for owner in owners if owner.pods for group in owner.pods.values()]
    return [(group, group.observed) for group in groups if group.observed is not None]


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
        return result, ()  # nearly always: one place
    return result, tuple(node for node in result if any(node not in nodes for nodes in places))
