"""Feeds: what cannot be read is told and never lost, and what a read has overtaken takes nothing back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.model import WorkloadRef
from extauthz.core.policies import Enlisted, GrowthPolicy, Policies
from extauthz.core.queries import Queries
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster.event_handlers import InvalidObjects
from extauthz.inputs.cluster.live import feeds
from extauthz.inputs.cluster.scaled import PodPrices
from extauthz.testing import owned_by, pod, quota, workload

Tree = Any
CPU = 10**9


class Fed:
    """A gate with all feeds, in a namespace of workspace acme."""

    def __init__(self) -> None:
        self.invalid: list[str] = []
        self.gate = Gate()
        self.gate.load_quotas(
            QuotaTree.build([quota("acme", {"requests.cpu": "99", "persistentvolumeclaims": "9"})]), 0.0
        )
        invalid = InvalidObjects(
            lambda resource, name, why: self.invalid.append(f"{resource.group_resource} {name}: {why}")
        )
        self.feeds = feeds(self.gate, invalid, PodPrices(self.gate, print))
        self.tell("namespaces", namespace())

    def feed(self, plural: str) -> Any:
        (found,) = (feed for (_, resource), feed in self.feeds.items() if resource == plural)
        return found

    def tell(self, plural: str, tree: Tree, event: str = "MODIFIED") -> None:
        feed = self.feed(plural)
        feed.changed(event, feed.convert(tree))

    def list(self, plural: str, *trees: Tree, version: str = "50") -> None:
        feed = self.feed(plural)
        asyncio.run(feed.replaced([feed.convert(tree) for tree in trees], version))
        feed.reached("51")

    def cpus(self) -> int:
        return next(row.used // CPU for row in self.gate.usage())

    def is_unknown(self) -> bool:
        return next(one.unpriced for one in Queries(self.gate.ledger).quotas()) > 0


@pytest.fixture
def fed() -> Fed:
    return Fed()


def namespace(version: str = "1", workspace: Tree = "acme") -> Tree:
    return {"metadata": {"name": "team-a", "resourceVersion": version, "labels": {"workspace": workspace}}}


def limits(cpu: str, version: str = "1", name: str = "l") -> Tree:
    spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": cpu}}]}
    return {"metadata": {"name": name, "namespace": "team-a", "resourceVersion": version}, "spec": spec}


def spoilt(version: str = "2") -> Tree:
    tree = workload("web", 3, version=version)
    tree["spec"]["replicas"] = "three"
    return tree


def test_a_workload_that_cannot_be_read_is_told_once_by_name_and_its_cost_unknown(fed):
    fed.tell("deployments", workload("web", 3))
    fed.tell("deployments", spoilt())
    fed.tell("deployments", spoilt("3"))
    (trouble,) = fed.invalid
    assert trouble.startswith("deployments.apps team-a/web: ")
    assert "spec.replicas" in trouble
    assert fed.is_unknown()
    assert fed.gate.ledger.get(WorkloadRef("apps", "deployments", "team-a", "web")).observed.labels == "app=web"
    fed.tell("deployments", workload("web", 3, version="4"))
    assert (fed.cpus(), fed.is_unknown()) == (3, False)
    fed.tell("deployments", spoilt("5"))
    assert len(fed.invalid) == 2


def test_a_workload_that_is_gone_is_no_trouble_any_more(fed):
    fed.tell("deployments", spoilt())
    fed.tell("deployments", spoilt("3"), "DELETED")
    assert not fed.is_unknown()
    fed.tell("deployments", spoilt("4"))
    assert len(fed.invalid) == 2


def test_a_list_with_one_bad_object_brings_all_others(fed):
    fed.list("deployments", spoilt(), workload("api", 2))
    assert fed.cpus() == 2
    assert len(fed.invalid) == 1


@pytest.mark.parametrize("plural", ["namespaces", "limitranges"])
def test_of_what_bears_on_others_the_last_that_could_be_read_stays_in_force(fed, plural):
    fed.tell("limitranges", limits("2"))
    fed.tell("deployments", workload("web", 3, {}))
    assert fed.cpus() == 6
    fed.tell(plural, {"namespaces": namespace("2", 7), "limitranges": limits("lots", "2")}[plural])
    assert fed.cpus() == 6
    assert len(fed.invalid) == 1


def test_a_bad_revision_of_a_rollout_leaves_its_cost_unknown(fed):
    status = {"observedGeneration": 1, "currentRevision": "db-1", "updateRevision": "db-2"}
    fed.tell("statefulsets", workload("db", 3, kind="StatefulSet", generation=1) | {"status": status})
    metadata = {"name": "db-1", "namespace": "team-a", "resourceVersion": "3"}
    metadata["ownerReferences"] = owned_by("db", kind="StatefulSet")
    fed.tell("controllerrevisions", {"metadata": metadata, "data": {"spec": {"template": pod({"cpu": "4"})}}})
    assert (fed.cpus(), fed.is_unknown()) == (12, False)
    bad = {"metadata": metadata | {"resourceVersion": "4"}, "data": "?"}
    for event, told, is_unknown in (("MODIFIED", 1, True), ("DELETED", 1, False), ("ADDED", 2, True)):
        fed.tell("controllerrevisions", bad, event)
        assert (len(fed.invalid), fed.is_unknown()) == (told, is_unknown)
    fed.tell("controllerrevisions", {"metadata": metadata, "data": {"spec": {"template": pod({"cpu": "4"})}}})
    fed.tell("controllerrevisions", bad)
    assert len(fed.invalid) == 3, "it could be read meanwhile"


def test_a_stateful_set_whose_status_cannot_be_read_is_told_and_counted(fed):
    fed.tell("statefulsets", workload("db", 3, kind="StatefulSet") | {"status": {"currentRevision": 7}})
    assert (fed.cpus(), len(fed.invalid)) == (3, 1)


def test_a_revision_that_is_run_and_then_no_more_counts_and_then_no_more(fed):
    metadata = {"namespace": "team-a", "resourceVersion": "3", "ownerReferences": owned_by("db", kind="StatefulSet")}
    for name, cpu in (("db-1", "4"), ("db-2", "2")):
        fed.tell(
            "controllerrevisions",
            {"metadata": metadata | {"name": name}, "data": {"spec": {"template": pod({"cpu": cpu})}}},
        )

    def run(current: str, version: str) -> Tree:
        status = {"observedGeneration": 1, "currentRevision": current, "updateRevision": "db-3"}
        return workload("db", 3, kind="StatefulSet", generation=1, version=version) | {"status": status}

    for version, (current, cpus) in enumerate([("db-1", 12), ("db-2", 6), ("db-3", 3), ("db-1", 12)], 10):
        fed.tell("statefulsets", run(current, str(version)))
        assert fed.cpus() == cpus
    fed.list("statefulsets", run("db-2", "20"))
    assert fed.cpus() == 6
    fed.list("statefulsets")
    assert (fed.cpus(), len(fed.gate.ledger), fed.feed("controllerrevisions").owners()) == (0, 0, [])
    fed.tell("statefulsets", run("db-1", "55"))
    assert (fed.cpus(), len(fed.gate.ledger)) == (12, 2)
    fed.tell("statefulsets", run("db-1", "56"), "DELETED")
    assert (fed.cpus(), len(fed.gate.ledger), fed.feed("controllerrevisions").owners()) == (0, 0, [])
    fed.list("controllerrevisions")
    fed.tell("statefulsets", run("db-1", "60"))
    assert fed.cpus() == 3, "it is not there"


async def test_a_long_list_leaves_others_their_turn(fed):
    feed = fed.feed("deployments")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    working = asyncio.create_task(others())
    await feed.replaced([feed.convert(workload(f"w{n}", 1)) for n in range(1000)], "50")
    working.cancel()
    assert turns >= 1000 / 50
    assert fed.cpus() == 1000


def test_a_list_takes_back_nothing_that_a_watch_has_told_of_revisions(fed):
    """Lists are also taken beside the watches, and come late then."""
    metadata = {"namespace": "team-a", "resourceVersion": "3", "ownerReferences": owned_by("db", kind="StatefulSet")}
    revision = {"metadata": metadata | {"name": "db-1"}, "data": {"spec": {"template": pod({"cpu": "4"})}}}
    fed.tell("controllerrevisions", revision)

    def db(current: str, version: str) -> Tree:
        status = {"observedGeneration": 1, "currentRevision": current, "updateRevision": "db-2"}
        return workload("db", 3, kind="StatefulSet", generation=1, version=version) | {"status": status}

    fed.tell("statefulsets", db("db-1", "60"))
    fed.list("statefulsets", db("db-2", "40"))
    assert fed.cpus() == 12
    fed.list("statefulsets", version="50")
    assert fed.cpus() == 12


def test_a_late_watch_takes_nothing_back_of_what_was_read(fed):
    fed.tell("limitranges", limits("2", "9"))
    fed.tell("deployments", workload("web", 3, {}, version="9"))
    fed.tell("limitranges", limits("5", "8"))
    fed.tell("limitranges", limits("5", "8"), "DELETED")
    fed.tell("deployments", workload("web", 7, {}, version="8"))
    fed.tell("deployments", workload("web", 7, {}, version="8"), "DELETED")
    assert fed.cpus() == 6


def test_limit_ranges_of_a_namespace_count_together_and_go_one_by_one(fed):
    fed.tell("deployments", workload("web", 1, {}))
    fed.list("limitranges", limits("2", name="a"), limits("5", name="b"))
    assert fed.cpus() == 5
    fed.list("limitranges", limits("2", name="a"))
    assert fed.cpus() == 2
    fed.tell("limitranges", limits("2", "3", "a"), "DELETED")
    assert fed.cpus() == 0


def test_runtime_classes_and_storage_classes_bear_on_what_is_there(fed):
    kata = workload("web", 2)
    kata["spec"]["template"]["spec"]["runtimeClassName"] = "kata"
    fed.tell("deployments", kata)
    fed.tell(
        "runtimeclasses", {"metadata": {"name": "kata", "resourceVersion": "1"}, "overhead": {"podFixed": {"cpu": "1"}}}
    )
    assert fed.cpus() == 4
    fed.list("runtimeclasses")
    assert fed.cpus() == 2
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    fed.tell("storageclasses", {"metadata": {"name": "fast", "resourceVersion": "1", "annotations": default}})
    assert fed.gate.ledger.pod_costs.default_storage_class == "fast"
    fed.list("storageclasses")
    assert fed.gate.ledger.pod_costs.default_storage_class == ""


class Keeps(GrowthPolicy):
    def keep(self, pod: Mapping[str, Any]) -> str:
        return str(pod["nodeSelector"])


@pytest.mark.parametrize(("policies", "kept"), [((), None), ((Enlisted("p", Keeps()),), {"p": "{'pool': 'a'}"})])
def test_what_a_policy_keeps_of_a_template_is_kept(fed: Fed, policies, kept):
    fed.gate.enlist(Policies(policies))
    tree = workload("web", 2)
    tree["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
    fed.tell("deployments", tree)
    entry = fed.gate.ledger.get(WorkloadRef("apps", "deployments", "team-a", "web"))
    assert entry is not None
    assert entry.observed is not None
    assert entry.observed.kept == kept


@pytest.mark.parametrize("plural", ["pods", "jobs"])
def test_of_what_nobody_asks_for_it_is_not_kept(fed: Fed, plural: str):
    fed.gate.enlist(Policies([Enlisted("p", Keeps())]))
    tree = {"metadata": {"name": "p", "namespace": "team-a"}, "spec": pod({"cpu": "1"})["spec"]}
    tree["spec"]["nodeSelector"] = {"a": "b"}
    if plural == "jobs":
        tree["spec"] = {"template": {"spec": tree["spec"]}}
    assert fed.feed(plural).convert(tree).observed.kept is None


def a_pod(cpu: str, version: str, phase: str = "Running") -> Tree:
    metadata = {"name": "a", "namespace": "team-a", "uid": "u", "resourceVersion": version}
    metadata["ownerReferences"] = owned_by("nightly", kind="Job")
    return {"metadata": metadata, "spec": pod({"cpu": cpu})["spec"], "status": {"phase": phase}}


@pytest.mark.parametrize("ended", ["deleted", "finished", "missing"])
@pytest.mark.parametrize("owned", [True, False])
def test_a_late_list_brings_no_pod_back(fed, ended, owned):
    """Neither one that was deleted, nor one that has finished."""
    there = [a_pod("2", "10"), a_pod("2", "12", "Succeeded"), a_pod("2", "11")]
    for one in there if not owned else ():
        del one["metadata"]["ownerReferences"]
    fed.tell("pods", there[0])
    if ended == "missing":
        fed.list("pods", version="12")
    else:
        fed.tell("pods", there[1], "DELETED" if ended == "deleted" else "MODIFIED")
    assert fed.cpus() == 0
    fed.list("pods", there[2], version="11")
    fed.tell("pods", there[2])
    assert fed.cpus() == 0
    fed.tell("pods", a_pod("3", "13"))
    assert fed.cpus() == 3


def test_whatever_reading_an_object_raises_it_is_unreadable_and_the_gate_goes_on(fed):
    for plural in ("deployments", "limitranges", "statefulsets"):
        feed = fed.feed(plural)
        tree = {"metadata": {"name": ["odd"], "namespace": "team-a", "resourceVersion": 3}, "spec": 5, "data": 5}
        if plural == "statefulsets":
            tree |= {"status": []}
        feed.changed("ADDED", feed.convert(tree | {"apiVersion": "apps/v1", "kind": feed._resource.kind}))
    assert len(fed.invalid) == 3
    fed.tell("deployments", workload("api", 2))
    assert fed.cpus() == 2


@pytest.mark.parametrize("as_list", [True, False], ids=["list", "event"])
def test_whatever_taking_an_object_raises_it_is_unreadable_and_all_others_count(fed, monkeypatch, as_list):
    """A defect of ours that one object brings out is no reason to stop."""
    moved, observations = fed.gate.ledger.observations._move, fed.gate.ledger.observations

    def raising(entry, observed, between=()):
        if observed is not None and observed.replicas == 7:
            raise LookupError("seven")
        moved(entry, observed, between)

    monkeypatch.setattr(observations, "_move", raising)
    if as_list:
        fed.list("deployments", workload("web", 3), workload("odd", 7), workload("api", 2))
    else:
        for name, count in (("web", 3), ("odd", 7), ("api", 2)):
            fed.tell("deployments", workload(name, count))
    (trouble,) = fed.invalid
    assert trouble.startswith("deployments.apps team-a/odd: ")
    assert "seven" in trouble
    assert (fed.cpus(), fed.is_unknown()) == (5, True)
    assert not fed.gate.ledger.drift()


def test_two_claim_templates_of_one_name_end_nothing(fed):
    """The API server takes them."""
    db = workload("db", 2, kind="StatefulSet")
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1"}}}}
    db["spec"]["volumeClaimTemplates"] = [claim, claim]
    held = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim["spec"]}
    held["metadata"] = {"name": "data-db-0", "namespace": "team-a", "resourceVersion": "1"}
    fed.tell("persistentvolumeclaims", held)
    fed.tell("statefulsets", db)
    fed.tell("statefulsets", db, "DELETED")
    fed.tell("persistentvolumeclaims", held, "DELETED")
    assert (fed.cpus(), fed.invalid) == (0, [])
    assert not fed.gate.ledger.drift()


def test_whatever_the_end_of_an_object_raises_it_is_named_and_all_others_count(fed, monkeypatch):
    fed.tell("deployments", workload("web", 3))
    fed.tell("deployments", workload("odd", 7))
    moved, observations = fed.gate.ledger.observations._move, fed.gate.ledger.observations

    def raising(entry, observed, between=()):
        moved(entry, observed, between)
        if entry.ref.name == "odd":
            raise LookupError("seven")

    monkeypatch.setattr(observations, "_move", raising)
    fed.tell("deployments", workload("odd", 7), "DELETED")
    (trouble,) = fed.invalid
    assert trouble.startswith("deployments.apps team-a/odd: ")
    assert fed.cpus() == 3
    assert not fed.gate.ledger.drift()


def test_a_workload_whose_cost_cannot_be_worked_out_is_told_and_its_cost_unknown(fed, monkeypatch):
    fed.tell("deployments", workload("web", 3))

    def costs(*_):
        raise OverflowError("too many")

    monkeypatch.setattr(fed.gate.ledger.pod_costs, "per_pod", costs)
    with pytest.raises(OverflowError):
        fed.gate.ledger.usage.count_anew()
    told = []
    fed.gate.ledger.usage.on_unreadable = lambda ref, error: told.append((ref.name, str(error)))
    fed.gate.ledger.usage.count_anew()
    assert set(told) == {("web", "too many")}
    assert fed.is_unknown()
