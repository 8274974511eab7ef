"""Custom resources: replicas, pods and cost, by their definition and their object."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from extauthz.core.decision.gate import Gate
from extauthz.core.errors import ObjectError
from extauthz.core.footprint import per_pod
from extauthz.core.model import Observed, Template, Tree, WorkloadRef
from extauthz.core.objects import workloads
from extauthz.core.objects.custom import Where
from extauthz.core.objects.fields import labels_dict, place_of
from extauthz.core.objects.groups import Groups
from extauthz.core.quota.selectors import LabelSelector
from extauthz.inputs.cluster import object_readers
from extauthz.inputs.cluster.event_handlers import DELETED, InvalidObjects, Place, Seen, Workloads
from extauthz.inputs.cluster.object_readers import read, selector_of, selector_text
from extauthz.inputs.kube.resource import Resource, ScaledKind

_Origins: TypeAlias = tuple[dict[str, list[Observed]], list[Observed]]
"""As ``Observations.pods_by_origin`` gives them."""


class PodPrices:
    """What the pods of custom resources without a template cost: the most expensive existing one of their own.

    A pod is its own by its owners, and if its scale selects it: labels alone anybody can write.

    Args:
        gate: knows which pods there are.
        changed: called with a custom resource whose price may be another now.
    """

    def __init__(self, gate: Gate, changed: Callable[[WorkloadRef], None]) -> None:
        self._gate = gate
        self._changed = changed
        self._wanted: dict[str, dict[WorkloadRef, LabelSelector]] = {}
        """By namespace."""
        self._last: dict[WorkloadRef, tuple[str, Template]] = {}
        """Custom resources to their UID and their last price."""
        self._looked_at: dict[str, _Origins] | None = None
        """Pods by their namespace, while several are priced."""

    def want(self, ref: WorkloadRef, selector: LabelSelector | None) -> None:
        """Follow the pods of ``selector``; ``None``: it selects none, or can be priced without them."""
        wanted = self._wanted.setdefault(ref.namespace, {})
        wanted.pop(ref, None)
        if selector is not None:
            wanted[ref] = selector
        if not wanted:
            del self._wanted[ref.namespace]

    def forget(self, ref: WorkloadRef) -> None:
        """It is priced by its pods no more."""
        self.want(ref, None)
        self._last.pop(ref, None)

    def price(self, ref: WorkloadRef, uid: str) -> Template | None:
        """A template with the highest cost of its pods, resource by resource. While it has none that of the last ones;
        ``None``: there were none."""
        selector = self._wanted.get(ref.namespace, {}).get(ref)
        if selector is None:
            return None
        known, unknown = self._pods(ref.namespace)
        pods = known.get(uid) or unknown  # where it has none that is known to be its own
        found = dict.fromkeys(one.template for one in pods if selector.matches(labels_dict(one.labels)))
        templates = [one for one in found if one is not None and not workloads.has_finished(one)]
        if not templates:
            last = self._last.get(ref)
            return last[1] if last is not None and last[0] == uid else None
        price = dearest(templates)
        if price is not None:
            self._last[ref] = uid, price
        return price

    def by(self, pod: WorkloadRef) -> set[WorkloadRef]:
        """The custom resources that select a pod as the gate has it now."""
        wanted = self._wanted.get(pod.namespace)
        entry = self._gate.ledger.observations.pod(pod) if wanted else None
        if not wanted or entry is None or entry.observed is None:
            return set()
        labels = labels_dict(entry.observed.labels)
        return {ref for ref, selector in wanted.items() if selector.matches(labels)}

    def change(self, refs: Iterable[WorkloadRef]) -> None:
        """Pods of these have come, gone or changed."""
        self._looked_at = {}
        try:
            for ref in refs:
                self._changed(ref)
        finally:
            self._looked_at = None

    def _pods(self, namespace: str) -> _Origins:
        """As they are; looked at once for all custom resources that some pod bears on."""
        by_origin = self._gate.ledger.observations.pods_by_origin
        if self._looked_at is None:
            return by_origin(namespace)
        if namespace not in self._looked_at:
            self._looked_at[namespace] = by_origin(namespace)
        return self._looked_at[namespace]

    def all(self) -> list[WorkloadRef]:
        """All that are priced by their pods."""
        return [ref for wanted in self._wanted.values() for ref in wanted]


def dearest(templates: Iterable[Template]) -> Template | None:
    """One template that costs what the dearest of several does, resource by resource; ``None`` if that cannot be told.

    Claims, of generic ephemeral volumes and of devices, are those of all together.
    """
    several = list(templates)
    if len(several) == 1:
        return several[0]
    highest: dict[str, int] = {}
    claims: dict[str, list[Tree]] = {"volumes": [], "resourceClaims": []}
    for template in several:
        tree = json.loads(template.text)
        try:
            cost = per_pod(tree)
        except ObjectError:
            return None
        highest |= {key: max(amount, highest.get(key, 0)) for key, amount in cost.items()}
        for key, listed in claims.items():
            listed += [one for one in tree["template"]["spec"].get(key, ()) if one not in listed]
    resources = {kind: _of_kind(highest, f"{kind}.") for kind in ("requests", "limits")}
    pod = {"containers": [{"name": "dearest", "resources": resources}]} | claims
    return workloads.intern({"template": {"spec": pod}})


def _of_kind(amounts: Mapping[str, int], prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): f"{amount}n"
        for key, amount in amounts.items()
        if key.startswith(prefix) and key != "requests.storage"  # of claims, and no container's
    }


class ScaledObjects(Workloads):
    """Feeds one kind of custom resource. One that declares no template is priced by its pods.

    Args:
        template: where objects of this kind have what their pods are made of.
    """

    def __init__(
        self, kind: ScaledKind, template: Where, gate: Gate, invalid: InvalidObjects, prices: PodPrices
    ) -> None:
        super().__init__(kind.resource, lambda tree: read(kind, template, tree), gate, invalid)
        self.template = () if isinstance(template, Groups) else template
        self._kind = kind
        self._prices = prices
        self._without: set[WorkloadRef] = set()
        """Custom resources without a template, as the gate has them."""

    def convert(self, tree: Tree) -> Seen:
        seen = super().convert(tree)
        if seen.observed is None or seen.observed.template is not None:
            return seen
        with suppress(Exception):  # told already, as the object could not be read
            return seen._replace(selector=selector_of(self._kind, tree))
        return seen

    def of_pods(self, tree: Tree) -> str:
        """The selector of the pods that it is priced by; empty: it is priced without, or does not say."""
        ref = WorkloadRef(self._kind.resource.group, self._kind.resource.plural, *place_of(tree))
        return selector_text(self._kind, tree) if ref in self._without else ""

    async def replaced(self, objects: Iterable[Seen], version: str) -> None:
        listed = [self._priced(one) for one in objects]
        await super().replaced(listed, version)
        for ref in self._without - {one.ref for one in listed}:
            self._forget_gone(ref)

    def withdrawn(self) -> None:
        """The cluster does not have this kind any more."""
        self._gate.observe_all((self._resource.group, self._resource.plural), (), "")
        for ref in list(self._without):
            self._forget(ref)

    def changed(self, event: str, obj: Seen) -> None:
        super().changed(event, obj if event == DELETED else self._priced(obj))

    def gone(self, place: Place, version: str) -> None:
        super().gone(place, version)
        self._forget_gone(WorkloadRef(self._kind.resource.group, self._kind.resource.plural, *place))

    def repriced(self, ref: WorkloadRef) -> None:
        """Its pods may have another cost now."""
        held = self.held(ref)
        if held is not None and ref in self._without:
            self._gate.observe(
                ref, replace(held, template=self._prices.price(ref, held.uid)), version=held.resource_version
            )

    def _priced(self, seen: Seen) -> Seen:
        """As it is priced by its pods. What comes late stays as it is: the gate does not take it."""
        observed = seen.observed
        if self._gate.ledger.observations.is_late(seen.ref, seen.version):
            return seen
        if observed is None or observed.template is not None:
            self._forget(seen.ref)
            return seen
        self._without.add(seen.ref)
        self._prices.want(seen.ref, seen.selector)
        return seen._replace(
            observed=replace(observed, template=self._prices.price(seen.ref, observed.uid), by_pods=True)
        )

    def _forget_gone(self, ref: WorkloadRef) -> None:
        if self.held(ref) is None:  # else what told that it has gone came late
            self._forget(ref)

    def _forget(self, ref: WorkloadRef) -> None:
        if ref in self._without:
            self._without.remove(ref)
            self._prices.forget(ref)


class Pods(Workloads):
    """Feeds pods, and tells those that are priced by them."""

    def __init__(self, resource: Resource, gate: Gate, invalid: InvalidObjects, prices: PodPrices) -> None:
        super().__init__(resource, object_readers.pod, gate, invalid)
        self._prices = prices

    async def replaced(self, objects: Iterable[Seen], version: str) -> None:
        await super().replaced(objects, version)
        for ref in self._prices.all():
            self._prices.change((ref,))
            await asyncio.sleep(0)

    def changed(self, event: str, obj: Seen) -> None:
        before = self._prices.by(obj.ref)
        super().changed(event, obj)
        self._prices.change(before | self._prices.by(obj.ref))

    def gone(self, place: Place, version: str) -> None:
        ref = WorkloadRef(self._resource.group, self._resource.plural, *place)
        before = self._prices.by(ref)
        super().gone(place, version)
        self._prices.change(before)
