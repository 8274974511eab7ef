"""Custom resources with a scale subresource: what is read of one, and what it costs where it declares no template."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.errors import ObjectError
from extauthz.core.footprint import per_pod
from extauthz.core.model import WorkloadRef
from extauthz.core.objects import workloads
from extauthz.core.objects.custom import TEMPLATE
from extauthz.core.objects.workloads import observe
from extauthz.core.policies import Enlisted, GrowthPolicy, Policies
from extauthz.core.queries import Queries
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster import live
from extauthz.inputs.cluster.event_handlers import InvalidObjects
from extauthz.inputs.cluster.live import PODS, Listed, LiveCluster
from extauthz.inputs.cluster.object_readers import read
from extauthz.inputs.cluster.scaled import PodPrices, Pods, ScaledObjects, dearest
from extauthz.inputs.kube.connection import ApiError, Connection
from extauthz.inputs.kube.reflector import Reflector
from extauthz.inputs.kube.resource import Resource, ScaledKind
from extauthz.testing import Asker, patch, pod, quota, scale, workload
from tests.contract.test_discovery import SCALE, definition, version

Tree = Any
RESOURCE = Resource("example.dev", "v1", "gadgets", "Gadget")
KIND = ScaledKind(RESOURCE, ("spec", "size"), ("status", "selector"), (("v1", ("spec", "size")),))
GIZMO = WorkloadRef("example.dev", "gadgets", "team-a", "gizmo")
CPU = 10**9


def gadget(
    size: Tree = 2, *, template: Tree = None, selector: Tree = "app=gizmo", version: str = "5", **spec: Tree
) -> Tree:
    metadata = {"name": "gizmo", "namespace": "team-a", "uid": "u1", "resourceVersion": version, "labels": {"a": "b"}}
    spec |= {"size": size} | ({"template": template} if template is not None else {})
    return {
        "apiVersion": "example.dev/v1",
        "kind": "Gadget",
        "metadata": metadata,
        "spec": spec,
        "status": {"selector": selector},
    }


@pytest.mark.parametrize(("size", "replicas"), [(3, 3), (0, 0), (None, 1)], ids=["given", "zero", "left-out"])
def test_the_count_is_where_the_definition_says(size, replicas):
    ref, observed = read(KIND, TEMPLATE, gadget(size))
    assert (ref, observed.replicas, observed.uid, observed.labels) == (GIZMO, replicas, "u1", "a=b")


@pytest.mark.parametrize(
    ("selector", "plain"),
    [("app=x,tier=y", "app=x,tier=y"), ("app in (x)", None), ("", None), (None, None)],
    ids=["labels", "expressions", "empty", "none"],
)
def test_its_selector_is_kept_if_it_is_plain(selector, plain):
    assert read(KIND, TEMPLATE, gadget(selector=selector))[1].selector == plain


@pytest.mark.parametrize(
    ("tree", "keys", "has_one"),
    [
        pytest.param(gadget(template=pod({"cpu": "1"})), TEMPLATE, True, id="usual-place"),
        pytest.param(gadget(worker={"pod": pod({"cpu": "1"})}), ("spec", "worker", "pod"), True, id="declared-place"),
        pytest.param(gadget(template={"spec": {"image": "x"}}), TEMPLATE, False, id="something-else"),
        pytest.param(gadget(template="x"), TEMPLATE, False, id="text"),
        pytest.param(gadget(), TEMPLATE, False, id="none"),
    ],
)
def test_a_template_is_one_by_its_containers(tree, keys, has_one):
    assert (read(KIND, keys, tree)[1].template is not None) is has_one


@pytest.mark.parametrize(
    "tree", [gadget("many"), gadget(-1), gadget(selector="a b")], ids=["text", "negative", "selector"]
)
def test_what_cannot_be_read_is_refused(tree):
    with pytest.raises(ObjectError):
        read(KIND, TEMPLATE, tree)


def priced(*requests: Tree) -> Tree:
    return [workloads.pod_template(pod(one)["spec"]) for one in requests]


def cost(template: Tree) -> dict[str, int]:
    import json

    return per_pod(json.loads(template.text))


def test_the_dearest_of_several_is_so_resource_by_resource():
    cpu, memory, gpu = priced({"cpu": "2", "memory": "1Gi"}, {"cpu": "500m", "memory": "64Gi"}, {"nvidia.com/gpu": "1"})
    found = cost(dearest([cpu, memory, gpu]))
    assert {key: found[key] for key in ("requests.cpu", "requests.memory", "requests.nvidia.com/gpu", "pods")} == {
        "requests.cpu": 2 * CPU,
        "requests.memory": 64 * 2**30 * CPU,
        "requests.nvidia.com/gpu": CPU,
        "pods": CPU,
    }


def test_the_dearest_of_one_is_that_one():
    (one,) = priced({"cpu": "1"})
    assert dearest([one]) is one


def test_the_dearest_has_the_claims_of_all():
    claim = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    with_claim = pod({"cpu": "1"})["spec"] | {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}]}
    (plain,) = priced({"cpu": "2"})
    found = cost(dearest([plain, workloads.pod_template(with_claim)]))
    assert (found["requests.storage"], found["requests.cpu"]) == (2**30 * CPU, 2 * CPU)


def test_a_pod_whose_cost_cannot_be_told_leaves_that_of_all_unknown():
    good, bad = priced({"cpu": "1"}, {"cpu": "?"})
    assert dearest([good, bad]) is None


class Feeds:
    """A gate with feeds of gadgets and pods."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "99"})]), 0.0)
        self.gate.observe_namespace("team-a", {"workspace": "acme"})
        self.gate.observe_kind("example.dev", "Gadget", "gadgets")
        self.invalid: list[str] = []
        invalid = InvalidObjects(lambda resource, name, why: self.invalid.append(f"{name}: {why}"))
        prices = PodPrices(self.gate, lambda ref: self.gadgets.repriced(ref))
        self.gadgets = ScaledObjects(KIND, TEMPLATE, self.gate, invalid, prices)
        self.pods = Pods(PODS, self.gate, invalid, prices)

    def gadget(self, tree: Tree) -> None:
        self.gadgets.changed("MODIFIED", self.gadgets.convert(tree))

    def pod(
        self,
        name: str,
        cpu: str = "1",
        *,
        app: str = "gizmo",
        version: str = "1",
        event: str = "ADDED",
        phase: str = "Running",
    ) -> None:
        self.pods.changed(event, self.pods.convert(self.a_pod(name, cpu, app=app, version=version, phase=phase)))

    def a_pod(
        self, name: str, cpu: str = "1", *, app: str = "gizmo", version: str = "1", phase: str = "Running"
    ) -> Tree:
        owner = {"apiVersion": "example.dev/v1", "kind": "Gadget", "name": "gizmo", "uid": "u1", "controller": True}
        metadata = {
            "name": name,
            "namespace": "team-a",
            "uid": name,
            "resourceVersion": version,
            "labels": {"app": app},
        }
        status = {"phase": phase}
        return {
            "metadata": metadata | {"ownerReferences": [owner]},
            "spec": pod({"cpu": cpu})["spec"],
            "status": status,
        }

    def cpus(self) -> int:
        return next(row.used // CPU for row in self.gate.usage())

    def is_unknown(self) -> bool:
        return next(one.unpriced for one in Queries(self.gate.ledger).quotas()) > 0


@pytest.fixture
def fed() -> Feeds:
    return Feeds()


def test_without_template_and_pods_its_cost_is_unknown(fed):
    fed.gadget(gadget(3))
    assert (fed.cpus(), fed.is_unknown()) == (0, True)


def test_it_costs_what_the_dearest_of_its_pods_does_as_they_come_and_go(fed):
    fed.gadget(gadget(3))
    fed.pod("a", "1")
    assert (fed.cpus(), fed.is_unknown()) == (3, False)
    fed.pod("b", "2")
    fed.pod("c", "9", app="other")
    assert fed.cpus() == 6 + 9, "one that it does not select counts by itself"
    fed.pod("c", "9", app="other", event="DELETED")
    fed.pod("b", "2", event="DELETED")
    assert fed.cpus() == 3


@pytest.mark.parametrize("how", ["finished", "deleted"])
def test_while_it_has_no_pods_it_costs_what_the_last_ones_did(fed, how):
    fed.gadget(gadget(3))
    fed.pod("a", "2")
    fed.pod("a", "2", phase="Succeeded") if how == "finished" else fed.pod("a", "2", event="DELETED")
    assert (fed.cpus(), fed.is_unknown()) == (6, False)
    fed.gadget(gadget(0, version="6"))
    assert (fed.cpus(), fed.is_unknown()) == (0, False)
    fed.gadget(gadget(4, version="7"))
    assert (fed.cpus(), fed.is_unknown()) == (8, False)
    fed.gadgets.changed("DELETED", fed.gadgets.convert(gadget(4, version="8")))
    made_anew = gadget(4, version="9")
    fed.gadget({**made_anew, "metadata": {**made_anew["metadata"], "uid": "u2"}})
    assert fed.is_unknown(), "another one"


def test_none_of_what_has_no_known_cost_is_nothing_and_more_of_it_is_refused(fed):
    """One that was scaled to zero stands in the way of nobody."""
    fed.gadget(gadget(0))
    assert (fed.cpus(), fed.is_unknown()) == (0, False)
    fed.gate.observe(*observe(workload("web", 1)))
    fed.gate.state_synced(True)
    ask = Asker(fed.gate)
    assert ask(scale("web", 9)).reason == "fits"
    up = patch("/apis/example.dev/v1/namespaces/team-a/gadgets/gizmo/scale", {"spec": {"replicas": 1}})
    assert ask(up, charge=False).reason == "unknown-footprint"
    assert fed.gate.ledger.drift() == {}


def test_a_pod_that_is_gone_prices_nothing_though_another_namespace_has_one_of_its_name(fed):
    fed.gadget(gadget(2))
    fed.pod("a", "9")
    elsewhere = fed.a_pod("a", "9")
    elsewhere["metadata"]["namespace"] = "team-b"
    asyncio.run(fed.pods.replaced([fed.pods.convert(elsewhere), fed.pods.convert(fed.a_pod("b", "1"))], "9"))
    assert fed.cpus() == 2


def test_a_pod_without_a_controller_is_none_of_its_own_and_prices_nothing(fed):
    fed.gadget(gadget(2))
    alone = fed.a_pod("a", "3")
    del alone["metadata"]["ownerReferences"]
    fed.pods.changed("ADDED", fed.pods.convert(alone))
    assert fed.cpus() == 3
    fed.pods.gone(("team-a", "a"), "9")
    assert fed.cpus() == 0


def owned(name: str, kind: str, by: Tree, **more: Tree) -> Tree:
    """A workload whose controller is ``by``: kind, name and UID."""
    api = "example.dev/v1" if by[0] == "Gadget" else "apps/v1"
    owner = {"apiVersion": api, "kind": by[0], "name": by[1], "uid": by[2], "controller": True}
    return workload(name, 0, kind=kind, ownerReferences=[owner], **more)


@pytest.mark.parametrize(
    ("top", "cpus"),
    [
        pytest.param(("Gadget", "gizmo", "u1"), 2 * 3, id="its own"),
        pytest.param(("Deployment", "other", "u-other"), 2 * 3, id="of an owner that is not known"),
        pytest.param(("ReplicaSet", "web-1", "uid-web-1"), 0, id="a circle"),
    ],
)
def test_pods_that_others_have_made_for_it_price_it(fed, top: Tree, cpus: int):
    """A Deployment whose ReplicaSet has a pod. No useful object is its own owner."""
    fed.gadget(gadget(2))
    for tree in (owned("web", "Deployment", top), owned("web-1", "ReplicaSet", ("Deployment", "web", "uid-web"))):
        fed.gate.observe(*observe(tree))
    made = fed.a_pod("a", "3")
    by = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "uid-web-1", "controller": True}
    made["metadata"]["ownerReferences"] = [by]
    fed.pods.changed("ADDED", fed.pods.convert(made))
    gizmo = fed.gate.ledger.get(GIZMO)
    assert (gizmo.observed.template is not None) == bool(cpus)
    position = fed.gate.ledger.usage.position(gizmo)
    assert position.used.amounts.get("requests.cpu", 0) == cpus * CPU


def test_a_list_of_pods_prices_it_too_and_drops_those_that_are_gone(fed):
    fed.gadget(gadget(2))
    asyncio.run(
        fed.pods.replaced([fed.pods.convert(fed.a_pod(name, cpu)) for name, cpu in (("a", "1"), ("b", "4"))], "9")
    )
    assert fed.cpus() == 8
    asyncio.run(fed.pods.replaced([fed.pods.convert(fed.a_pod("a", "1"))], "10"))
    assert fed.cpus() == 2


def test_pods_are_looked_at_once_however_many_they_price(fed, monkeypatch: pytest.MonkeyPatch):
    """A tenant may have hundreds of both, of no replicas."""
    looked: list[str] = []
    by_origin = fed.gate.ledger.observations.pods_by_origin
    monkeypatch.setattr(
        fed.gate.ledger.observations,
        "pods_by_origin",
        lambda namespace: looked.append(namespace) or by_origin(namespace),
    )
    for name, uid in (("gizmo", "u1"), ("other", "u2"), ("another", "u3")):
        one = gadget(1)
        one["metadata"] |= {"name": name, "uid": uid}
        fed.gadget(one)
    looked.clear()
    fed.pod("a", "2")
    assert (looked, fed.cpus()) == (["team-a"], 2), "of the one that has made it"


def test_a_price_survives_a_change_of_the_count(fed):
    fed.gadget(gadget(2))
    fed.pod("a", "3")
    fed.gadget(gadget(4, version="6"))
    assert fed.cpus() == 12
    asyncio.run(fed.gadgets.replaced([fed.gadgets.convert(gadget(1, version="7"))], "8"))
    assert fed.cpus() == 3


def test_pods_that_were_there_before_price_it_once_its_selector_is_known(fed):
    fed.pod("a", "3")
    fed.gadget(gadget(2, selector=""))
    assert fed.is_unknown()
    assert fed.gadgets.of_pods(gadget(2, selector="")) == ""
    fed.gadget(gadget(2, version="6"))
    assert fed.cpus() == 6
    assert fed.gadgets.of_pods(gadget(3)) == "app=gizmo"


def test_a_read_that_comes_late_takes_nothing_back(fed):
    """Neither the object, nor how many of its pods' prices are followed."""
    fed.gadget(gadget(2, version="5"))
    fed.pod("a", "1", version="2")
    fed.gadget(gadget(4, version="7"))
    fed.gadget(gadget(2, version="5"))
    fed.pod("b", "3", version="8")
    assert fed.cpus() == 12
    fed.gadget(gadget(2, selector="app=other", version="6"))
    fed.gadget(gadget(2, template=pod({"cpu": "9"}), version="6"))
    fed.pod("b", "4", version="9")
    assert fed.cpus() == 16
    asyncio.run(fed.gadgets.replaced([fed.gadgets.convert(gadget(2, selector="app=other", version="6"))], "8"))
    fed.pod("b", "5", version="10")
    assert fed.cpus() == 20


@pytest.mark.parametrize("how", ["a-list", "a-read", "a-deletion"])
def test_pods_that_come_late_change_no_price(fed, how):
    fed.gadget(gadget(2))
    fed.pod("a", "1", version="5")
    fed.pod("a", "4", version="8")
    if how == "a-list":
        asyncio.run(fed.pods.replaced([fed.pods.convert(fed.a_pod("a", "1", version="5"))], "6"))
    elif how == "a-read":
        fed.pod("a", "1", version="5", event="MODIFIED")
    else:
        fed.pods.gone(("team-a", "a"), "7")
    assert (fed.cpus(), fed.is_unknown()) == (8, False)


def test_a_gone_one_that_a_late_read_shows_is_priced_by_nothing(fed):
    fed.gadget(gadget(2))
    fed.pod("a", "1")
    fed.gadgets.changed("DELETED", fed.gadgets.convert(gadget(2, version="6")))
    fed.gadget(gadget(2, version="5"))
    fed.pod("a", "3", version="7")
    assert fed.cpus() == 3


def test_one_that_is_gone_by_old_news_keeps_its_price(fed):
    fed.gadget(gadget(2, version="9"))
    fed.gadgets.changed("DELETED", fed.gadgets.convert(gadget(2, version="6")))
    asyncio.run(fed.gadgets.replaced([], "7"))
    fed.pod("a", "3")
    assert fed.cpus() == 6


def test_one_that_declares_a_template_later_is_priced_by_that(fed):
    fed.gadget(gadget(2))
    fed.pod("a", "1")
    fed.gadget(gadget(2, template=pod({"cpu": "2"}), version="6"))
    assert fed.cpus() == 4
    fed.pod("b", "1")
    assert fed.cpus() == 4
    assert fed.gadgets.of_pods(gadget(2)) == ""


@pytest.mark.parametrize("how", ["told", "listed"])
def test_one_that_is_gone_counts_no_more_and_its_pods_for_themselves(fed, how):
    fed.gadget(gadget(4))
    fed.pod("a", "3")
    if how == "told":
        fed.gadgets.changed("DELETED", fed.gadgets.convert(gadget(4, version="6")))
    else:
        asyncio.run(fed.gadgets.replaced([], "6"))
    assert fed.cpus() == 3
    fed.pod("b", "1")
    assert fed.cpus() == 4


def test_one_that_cannot_be_read_is_told_once_and_of_unknown_cost(fed):
    fed.gadget(gadget("many"))
    fed.gadget(gadget("many", version="6"))
    assert len(fed.invalid) == 1
    assert fed.is_unknown()
    fed.gadget(gadget(1, template=pod({"cpu": "1"}), version="7"))
    assert not fed.is_unknown()
    fed.gadget(gadget("many", version="8"))
    assert len(fed.invalid) == 2


class Keeps(GrowthPolicy):
    def keep(self, pod: Mapping[str, Any]) -> str:
        return str(pod["nodeSelector"])


def test_what_a_policy_keeps_of_a_custom_resource_is_read_at_its_template():
    gate = Gate()
    gate.enlist(Policies([Enlisted("p", Keeps())]))
    nested = ("spec", "job", "template")
    feed = ScaledObjects(KIND, nested, gate, InvalidObjects(print), PodPrices(gate, print))
    template = pod({"cpu": "1"})
    template["spec"]["nodeSelector"] = {"disk": "ssd"}
    seen = feed.convert(gadget(job={"template": template}))
    assert seen.observed is not None
    assert seen.observed.kept == {"p": "{'disk': 'ssd'}"}


TINS = Resource("ops.example.com", "v1", "tins", "Tin")
KEY = TINS.group, TINS.plural


class Waited:
    """A list of tins that is waited for."""

    def __init__(self) -> None:
        self.cluster = LiveCluster(cast("Connection", None), Gate(), InvalidObjects(print))
        self.cluster.feeds[KEY] = object.__new__(ScaledObjects)
        self.listed = Listed(cast("Any", SimpleNamespace(convert=None, changed=None, reached=None)))
        self.reflector = SimpleNamespace(refusal=0)
        first = self.cluster._first(TINS, self.listed, cast("Any", self.reflector), self.cluster._clock())
        self.task = asyncio.create_task(first)

    async def is_over(self) -> bool:
        await asyncio.sleep(0.05)
        return self.task.done()


@pytest.fixture
async def waited(monkeypatch: pytest.MonkeyPatch) -> Waited:
    monkeypatch.setattr(live, "GIVE_UP_S", 0.0)
    monkeypatch.setattr(live, "LOOK_EVERY_S", 0.001)
    return Waited()


async def test_silence_and_what_passes_are_waited_out(waited: Waited):
    for refusal in (0, 429, 503):
        waited.reflector.refusal = refusal
        assert not await waited.is_over(), refusal
    waited.listed.first.set()
    assert await waited.is_over()


@pytest.mark.parametrize("refusal", [403, 404, 500])
async def test_a_refusal_is_not_waited_out(waited: Waited, refusal: int):
    waited.reflector.refusal = refusal
    assert await waited.is_over()


async def test_a_refusal_may_be_mended_for_a_while(waited: Waited, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "GIVE_UP_S", 600.0)
    waited.reflector.refusal = 403
    assert not await waited.is_over()
    waited.task.cancel()


async def test_what_has_gone_is_not_waited_for(waited: Waited):
    del waited.cluster.feeds[KEY]
    assert await waited.is_over()


async def test_a_kind_that_every_cluster_has_is_waited_for_whatever_is_said(waited: Waited):
    waited.cluster.feeds[KEY] = cast("Any", object())
    began_s, reflector = waited.cluster._clock(), cast("Any", waited.reflector)
    other = asyncio.create_task(waited.cluster._first(TINS, waited.listed, reflector, began_s))
    waited.reflector.refusal = 403
    await waited.is_over()
    assert not other.done()
    other.cancel()


async def test_kinds_that_are_refused_are_given_up_together(monkeypatch: pytest.MonkeyPatch):
    """A broken operator may have ten kinds. The gate must not start ten times later for that."""
    monkeypatch.setattr(live, "LOOK_EVERY_S", 0.001)
    now_s = 0.0
    cluster = LiveCluster(cast("Connection", None), Gate(), InvalidObjects(print), clock=lambda: now_s)
    for plural in ("tins", "cans"):
        kind = ScaledKind(TINS._replace(plural=plural), ("spec", "replicas"), (), (("v1", ("spec", "replicas")),))
        listed = Listed(cast("Any", SimpleNamespace(convert=None, changed=None, reached=None)))
        cluster.feeds[TINS.group, plural] = object.__new__(ScaledObjects)
        cluster._custom[kind] = (listed, cast("Any", None))
        refused = SimpleNamespace(refusal=500, upto=0, synced=False, absent=False)
        cluster._reflectors[kind.resource] = cast("Any", refused)
    cluster._definitions.first.set()
    waiting = asyncio.create_task(cluster._custom_listed())
    await asyncio.sleep(0.02)
    assert not waiting.done()
    assert not cluster.has_reached(TINS.group_resource, 1)
    now_s = live.GIVE_UP_S
    await asyncio.sleep(0.05)
    assert waiting.done()
    assert cluster.has_reached(TINS.group_resource, 1), "a shared ledger that knows it waits for it no more"
    refused.upto, refused.synced = 5, True
    assert cluster.has_reached("cans.ops.example.com", 5)
    assert not cluster.has_reached("cans.ops.example.com", 6), "once it is listed it counts again"


async def test_custom_kinds_are_waited_for_once_their_definitions_are_listed():
    """Before that there seem to be none, and the gate would begin without them."""
    cluster = LiveCluster(cast("Connection", None), Gate(), InvalidObjects(print))
    waiting = asyncio.create_task(cluster._custom_listed())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    cluster._definitions.first.set()
    await asyncio.wait_for(waiting, 10)


@pytest.mark.parametrize("is_gone", [True, False], ids=["withdrawn", "count moved"])
async def test_objects_count_until_their_definition_is_withdrawn_and_then_nothing_is_left(fed: Feeds, is_gone: bool):
    async def items(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    cluster = LiveCluster(cast("Connection", SimpleNamespace(items=items)), fed.gate, InvalidObjects(print))
    cluster._definitions.first.set()
    key = (RESOURCE.group, RESOURCE.plural)
    async with asyncio.timeout(10), cluster._group:
        cluster._set_custom(frozenset({KIND}))
        feed = cluster.feeds[key]
        feed.changed("ADDED", feed.convert(gadget(3, template=pod({"cpu": "1"}))))
        assert (fed.cpus(), cluster.has_reached(RESOURCE.group_resource, 5)) == (3, False)
        cluster._without.add(RESOURCE)  # it was refused when the gate began
        followed = [task for _, task in cluster._custom.values()]
        cluster._set_custom(frozenset() if is_gone else frozenset({KIND._replace(spec_replicas=("spec", "count"))}))
        assert fed.cpus() == (0 if is_gone else 3)
        assert cluster.serves(key) is (not is_gone)
        assert (key in cluster.feeds, cluster.has_reached(RESOURCE.group_resource, 5)) == (not is_gone, is_gone)
        assert [watch.resource.group_resource for watch in cluster.watches()] == [RESOURCE.group_resource][is_gone:]
        await asyncio.wait(followed)
        cluster._set_custom(frozenset())
    assert cluster._custom == {}


async def test_of_a_definition_that_cannot_be_read_the_kind_stays_counted_until_it_goes():
    async def items(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    told: list[str] = []
    invalid = InvalidObjects(lambda resource, name, why: told.append(name))
    cluster = LiveCluster(cast("Connection", SimpleNamespace(items=items)), Gate(), invalid)
    tree = definition("example.com", version("v1", scale=SCALE, stored=True))
    broken = tree | {"spec": "none"}
    async with asyncio.timeout(10), cluster._group:
        for event, one, is_counted in (("ADDED", tree, True), ("MODIFIED", broken, True), ("DELETED", tree, False)):
            cluster._definitions.changed(event, cluster._definitions.convert(one))
            assert (("example.com", "crews") in cluster.feeds) is is_counted
    assert told == ["crews.example.com"]


async def test_a_kind_that_the_server_no_longer_has_is_not_waited_for():
    cluster = LiveCluster(cast("Connection", None), Gate(), InvalidObjects(print))
    gone = SimpleNamespace(upto=0, synced=False, absent=True)
    cluster._reflectors[live.DEVICE_CLASSES] = cast("Any", gone)
    assert cluster.has_reached(live.DEVICE_CLASSES.group_resource, 1)


async def test_a_refusal_counts_until_the_next_try():
    """A list that has begun and takes long is silence."""
    again = asyncio.Event()

    async def items(path: str, *_: Any, **__: Any) -> Any:
        if not again.is_set():
            raise ApiError(403, "Forbidden", "not yet")
        await asyncio.Event().wait()

    async def sleep(seconds: float) -> None:
        await again.wait()

    connection = cast("Connection", SimpleNamespace(items=items))
    reflector = Reflector(connection, TINS, cast("Any", None), sleep=sleep, streams_lists=False)
    task = asyncio.create_task(reflector.run())
    await asyncio.sleep(0.01)
    assert reflector.refusal == 403
    again.set()
    await asyncio.sleep(0.01)
    assert reflector.refusal == 0
    task.cancel()
