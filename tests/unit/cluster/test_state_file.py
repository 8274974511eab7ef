"""State files: what of a List becomes the snapshot of the cluster, and what is said of what cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.core.decision.cluster_state import Snapshot
from extauthz.core.errors import ObjectError
from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.model import OwnerRef, WorkloadRef
from extauthz.core.objects.fields import MAX_REPLICAS
from extauthz.core.quota.selector_text import labelled, parsed, spelled
from extauthz.inputs.cluster import file as state_file
from extauthz.inputs.files import content
from extauthz.inputs.files.content import FilesError
from extauthz.inputs.files.watch import Watched
from extauthz.testing import gate, quota

CPU = 10**9


def obj(api_version: str, kind: str, name: str, namespace: str | None = None, **more: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def pod_template(cpu: str = "100m") -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}}


def workload(kind: str, name: str = "web", **metadata: Any) -> dict[str, Any]:
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": pod_template()}
    return obj("apps/v1", kind, name, "shop", spec=spec, metadata=metadata)


def pod(name: str, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    return obj("v1", "Pod", name, "shop", spec=pod_template()["spec"], status={"phase": phase}, metadata=metadata)


def owner(kind: str, name: str, uid: str, api_version: str = "apps/v1") -> dict[str, Any]:
    return {
        "labels": {"app": name},
        "ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}],
    }


SHOP = obj("v1", "Namespace", "shop", metadata={"labels": {"workspace": "acme"}})


def listed(*objects: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "items": [*objects], "kind": "List", "metadata": {"resourceVersion": ""}}


def load(tmp_path: Path, *objects: Any) -> state_file.StateFile:
    (tmp_path / "state.json").write_text(json.dumps(listed(*objects), indent=4))
    return state_file.parse(content.read(tmp_path / "state.json"))


def state(tmp_path: Path, *objects: Any) -> Snapshot:
    return load(tmp_path, SHOP, *objects).state


def pods(snapshot: Snapshot, key: str = "pods") -> int:
    """How many a quota over everything has in use."""
    made = gate([quota("all", {key: "99"}, namespaces={})])
    made.load_state(replace(snapshot, namespaces={"shop": {}}), 0.0)
    return next(iter(made.usage())).used // 10**9


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_namespaces_and_workloads_become_the_snapshot(tmp_path, dump):
    sts = workload("StatefulSet", "db", uid="u1", resourceVersion="7", labels={"tier": "data"})
    (tmp_path / "s").write_text(dump(listed(SHOP, workload("Deployment"), sts)))
    found = state_file.parse(content.read(tmp_path / "s"))
    assert found.warnings == ()
    assert found.state.namespaces == {"shop": {"workspace": "acme"}}
    (web, web_seen), (db, db_seen) = found.state.workloads
    assert web == WorkloadRef("apps", "deployments", "shop", "web")
    assert (web_seen.replicas, web_seen.selector) == (3, "app=web")
    assert db == WorkloadRef("apps", "statefulsets", "shop", "db")
    assert (db_seen.uid, db_seen.resource_version, db_seen.labels) == ("u1", "7", "tier=data")


@pytest.mark.parametrize(
    ("api_version", "kind", "resource"),
    [
        ("apps/v1", "Deployment", "deployments.apps"),
        ("apps/v1beta1", "Deployment", "deployments.apps"),
        ("extensions/v1beta1", "ReplicaSet", "replicasets.apps"),
        ("apps/v1", "ReplicaSet", "replicasets.apps"),
    ],
)
def test_every_kind_with_replicas_is_a_workload(tmp_path, api_version, kind, resource):
    ((ref, _),) = state(tmp_path, workload(kind) | {"apiVersion": api_version}).workloads
    assert ref.group_resource == resource


def test_a_replication_controller_is_a_workload_of_the_core_group(tmp_path):
    spec = {"replicas": 2, "selector": {"app": "web"}, "template": pod_template()}
    ((ref, seen),) = state(tmp_path, obj("v1", "ReplicationController", "web", "shop", spec=spec)).workloads
    assert ref == WorkloadRef("", "replicationcontrollers", "shop", "web")
    assert (seen.replicas, seen.selector) == (2, "app=web")


def test_documents_and_directories_do_as_well_as_a_list(tmp_path):
    (tmp_path / "ns.yaml").write_text(yaml.safe_dump(SHOP))
    (tmp_path / "web.yaml").write_text(yaml.safe_dump_all([workload("Deployment"), workload("StatefulSet", "db")]))
    found = state_file.parse(content.read(tmp_path))
    assert (len(found.state.workloads), found.warnings) == (2, ())


def test_an_empty_namespace_list_is_a_snapshot_too(tmp_path):
    assert load(tmp_path).state == Snapshot({}, ())


def test_limit_ranges_runtime_classes_and_storage_classes_are_kept_for_pricing(tmp_path):
    default = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}
    snapshot = state(
        tmp_path,
        obj("v1", "LimitRange", "a", "shop", spec=default),
        obj("v1", "LimitRange", "b", "shop", spec={"limits": []}),
        obj("node.k8s.io/v1", "RuntimeClass", "kata", handler="kata", overhead={"podFixed": {"cpu": "250m"}}),
        obj("node.k8s.io/v1", "RuntimeClass", "runc", handler="runc"),
    )
    assert snapshot.limit_ranges == {"shop": (LimitRangeDefaults(requests=(("cpu", CPU),)), LimitRangeDefaults())}
    assert snapshot.overheads == {"kata": {"cpu": CPU // 4}, "runc": {}}


@pytest.mark.parametrize(
    ("classes", "default"),
    [
        pytest.param([], "", id="none"),
        pytest.param([("a", "2026-01-01T00:00:00Z", "false")], "", id="not-default"),
        pytest.param([("a", "2026-01-01T00:00:00Z", "true")], "a", id="one"),
        pytest.param([("a", "2026-01-01T00:00:00Z", "true"), ("b", "2026-01-02T00:00:00Z", "true")], "b", id="newest"),
        pytest.param(
            [("b", "2026-01-01T00:00:00Z", "true"), ("a", "2026-01-01T00:00:00Z", "true")], "a", id="first-by-name"
        ),
    ],
)
@pytest.mark.parametrize("key", ["storageclass", "storageclass.beta"])
def test_the_default_storage_class_is_the_one_that_kubernetes_takes(tmp_path, classes, default, key):
    objects = [
        obj(
            "storage.k8s.io/v1",
            "StorageClass",
            name,
            metadata={"creationTimestamp": created, "annotations": {f"{key}.kubernetes.io/is-default-class": value}},
        )
        for name, created, value in classes
    ]
    assert state(tmp_path, *objects).default_storage_class == default


def test_a_pod_of_its_own_is_a_workload_of_one(tmp_path):
    ((ref, seen),) = state(tmp_path, pod("bare", labels={"a": "b"}, uid="u", resourceVersion="9")).workloads
    assert ref == WorkloadRef("", "pods", "shop", "bare")
    assert (seen.replicas, seen.labels, seen.uid, seen.resource_version, seen.owner) == (1, "a=b", "u", "9", None)
    assert seen.template is not None
    assert b'"cpu":"100m"' in seen.template.text


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(owner("ReplicaSet", "web", "another"), id="other-uid"),
        pytest.param(owner("ReplicaSet", "web", "u1") | {"labels": {"app": "other"}}, id="not-selected"),
        pytest.param(owner("Job", "web", "u1", "batch/v1"), id="job"),
        pytest.param(owner("DaemonSet", "web", "u1"), id="daemon-set"),
        pytest.param(owner("ReplicaSet", "web", "u1", "example.com/v1"), id="other-group"),
        pytest.param(owner("Node", "web", "u1", "v1"), id="static-pod"),
    ],
)
def test_a_pod_that_no_listed_workload_covers_counts_by_itself(tmp_path, metadata):
    snapshot = state(tmp_path, workload("ReplicaSet", uid="u1"), pod("web-1", **metadata))
    assert pods(snapshot) == 3 + 1


def test_the_owner_of_a_replica_set_is_kept(tmp_path):
    ((_, seen),) = state(tmp_path, workload("ReplicaSet", **owner("Deployment", "web", "u"))).workloads
    assert seen.owner == OwnerRef("apps", "Deployment", "web", "u")


def test_other_kinds_are_counted_for_the_log(tmp_path):
    snapshot = state(
        tmp_path,
        obj("batch/v1", "CronJob", "a", "shop"),
        obj("batch/v1", "CronJob", "b", "shop"),
        obj("v1", "Service", "c", "shop"),
    )
    assert snapshot.not_counted == {"CronJob.batch": 2, "Service": 1}
    assert snapshot.workloads == ()


def job(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    spec = {"template": pod_template(), "selector": {"matchLabels": {"app": "sum"}}} | spec
    return obj("batch/v1", "Job", "sum", "shop", spec=spec, status=status or {}, metadata={"uid": "u9"})


def indexed(count: int) -> dict[str, Any]:
    return {"completionMode": "Indexed", "parallelism": count, "completions": count, "backoffLimitPerIndex": 0}


@pytest.mark.parametrize(
    ("spec", "status", "replicas"),
    [
        pytest.param({}, {}, 1, id="one-by-default"),
        pytest.param({"parallelism": 4}, {}, 4, id="work-queue"),
        pytest.param({"parallelism": 4}, {"succeeded": 1, "active": 2}, 2, id="work-queue-run-empty"),
        pytest.param({"parallelism": 4, "completions": 6}, {"succeeded": 1}, 4, id="as-many-as-may-run"),
        pytest.param({"parallelism": 4, "completions": 6}, {"succeeded": 4}, 2, id="as-many-as-are-left"),
        pytest.param({"parallelism": 4, "completions": 6}, {"succeeded": 7}, 0, id="none-left"),
        pytest.param({"parallelism": 4, "suspend": True}, {"active": 4}, 0, id="suspended"),
        pytest.param({}, {"conditions": [{"type": "Complete", "status": "False"}]}, 1, id="not-yet-complete"),
        pytest.param({}, {"conditions": [{"type": "FailureTarget", "status": "True"}]}, 0, id="about-to-fail"),
        pytest.param({}, {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}, 0, id="about-to-complete"),
        pytest.param({"managedBy": "kueue.x-k8s.io/multikueue"}, {}, 0, id="another-controller-s"),
        pytest.param({"managedBy": "kubernetes.io/job-controller"}, {}, 1, id="its-own-controller-s"),
        pytest.param(indexed(10), {"succeeded": 6, "completedIndexes": "3-8", "failedIndexes": "0-2"}, 1, id="failed"),
        pytest.param(
            indexed(10) | {"backoffLimitPerIndex": None},
            {"completedIndexes": "3-8", "failedIndexes": "0-2"},
            4,
            id="failed-without-a-limit-by-index",
        ),
        pytest.param(indexed(5), {"succeeded": 5, "completedIndexes": "5-9"}, 5, id="elastic-and-shrunk"),
        pytest.param(indexed(6), {"completedIndexes": "1,4-9,20"}, 3, id="some-of-those-it-has-left"),
        pytest.param(indexed(6), {"completedIndexes": "0-3", "failedIndexes": "2-4"}, 1, id="each-index-once"),
        pytest.param(indexed(6), {"completedIndexes": "0,x,5-", "failedIndexes": ""}, 5, id="what-is-no-index"),
        pytest.param(indexed(6), {"succeeded": 6}, 6, id="only-indexes-count-of-an-indexed-one"),
    ],
)
def test_a_job_counts_as_many_pods_as_may_run_at_once(tmp_path, spec, status, replicas):
    ((ref, seen),) = state(tmp_path, job(status, **spec)).workloads
    assert ref == WorkloadRef("batch", "jobs", "shop", "sum")
    assert (seen.replicas, seen.selector) == (replicas, "app=sum")


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_a_finished_job_counts_no_more(tmp_path, condition):
    finished = {"conditions": [{"type": condition, "status": "True"}]}
    assert state(tmp_path, job(finished, parallelism=3)).workloads == ()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"parallelism": 1, "completions": 1, "completionMode": "Indexed"}, id="indexed-and-shrunk"),
        pytest.param({"parallelism": 3, "suspend": True}, id="suspended"),
    ],
)
def test_a_job_that_may_have_fewer_pods_counts_those_that_are_there(tmp_path, spec):
    there = [pod(f"sum-{number}", **owner("Job", "sum", "u9", "batch/v1")) for number in range(3)]
    assert pods(state(tmp_path, job(**spec), *there)) == 3


@pytest.mark.parametrize(
    ("kind", "name", "used"),
    [
        ("ReplicaSet", "web-1", 3 + 1),
        pytest.param("StatefulSet", "web-1", 3, id="no-other-has-its-name"),
        pytest.param("StatefulSet", "web-7", 3 + 1, id="outside-of-its-ordinals"),
    ],
)
def test_a_pod_that_is_being_deleted_counts_beside_one_that_may_come_in_its_place(tmp_path, kind, name, used):
    going = pod(name, **owner(kind, "web", "u1"), deletionTimestamp="2026-01-01T00:00:00Z")
    assert pods(state(tmp_path, workload(kind, uid="u1"), going)) == used


def test_a_volume_claim_counts_by_the_larger_of_what_it_asks_for_and_what_it_is_given(tmp_path):
    claim = obj("v1", "PersistentVolumeClaim", "files", "shop", spec={"resources": {"requests": {"storage": "5"}}})
    growing = obj("v1", "PersistentVolumeClaim", "more", "shop", spec=claim["spec"])
    growing["status"] = {"allocatedResources": {"storage": "8"}}
    made = gate([quota("all", {"requests.storage": "99", "count/persistentvolumeclaims": "9"}, namespaces={})])
    made.load_state(replace(state(tmp_path, claim, growing), namespaces={"shop": {}}), 0.0)
    assert [row.used // 10**9 for row in made.usage()] == [13, 2]


def revision(name: str, kind: str = "StatefulSet", cpu: str = "2") -> dict[str, Any]:
    metadata = owner(kind, "db", "u1")
    return obj(
        "apps/v1", "ControllerRevision", name, "shop", data={"spec": {"template": pod_template(cpu)}}, metadata=metadata
    )


@pytest.mark.parametrize(
    ("generation", "observed", "current", "update", "old"),
    [
        pytest.param(2, 2, "db-1", "db-1", [], id="rolled-out"),
        pytest.param(2, 2, "db-1", "db-2", ["db-1"], id="amid"),
        pytest.param(3, 2, "db-1", "db-1", ["db-1"], id="not-seen-yet"),
        pytest.param(None, None, None, None, [], id="new"),
    ],
)
def test_the_revision_that_a_stateful_set_may_still_run_counts_with_it(
    tmp_path, generation, observed, current, update, old
):
    status = {"observedGeneration": observed, "currentRevision": current, "updateRevision": update}
    db = workload("StatefulSet", "db", uid="u1", generation=generation) | {"status": status}
    snapshot = state(tmp_path, db, revision("db-1"), revision("db-2"), revision("db-1x", "DaemonSet"))
    found = [(ref.name, seen.replicas) for ref, seen in snapshot.workloads if ref.resource == "controllerrevisions"]
    assert found == [(name, MAX_REPLICAS) for name in old]


def test_a_namespace_that_is_not_listed_is_told_once(tmp_path):
    found = load(tmp_path, workload("Deployment"), workload("StatefulSet"), pod("p"))
    (warning,) = found.warnings
    assert (warning.line, warning.field) == (9, "metadata.namespace")
    assert 'there is no Namespace "shop"' in warning.detail


def broken(kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    whole = workload(kind)
    return whole | {"spec": whole["spec"] | spec}


@pytest.mark.parametrize(
    ("thing", "field", "detail"),
    [
        (3, "", "must be"),
        (None, "kind", "is missing"),
        ({"apiVersion": "v1"}, "kind", "is missing"),
        ({"apiVersion": 1, "kind": "Pod"}, "apiVersion", "must be"),
        (obj("v1", "Namespace", ""), "metadata.name", "is missing"),
        (obj("v1", "Namespace", "x", metadata={"labels": {"a": 1}}), "metadata.labels[a]", "must be"),
        (SHOP, "metadata.name", "namespace shop is listed twice"),
        (obj("apps/v1", "Deployment", "web"), "metadata.namespace", "is missing"),
        (broken(replicas="3"), "spec.replicas", ""),
        (broken(template=None), "spec.template", "is missing"),
        (broken(template={"spec": {"containers": [3]}}), "spec.template.spec.containers[0]", "must be"),
        (obj("v1", "LimitRange", "a"), "metadata.namespace", "is missing"),
        (
            obj("v1", "LimitRange", "a", "shop", spec={"limits": [{"type": "Container", "default": {"cpu": "x"}}]}),
            "spec.limits[0].default[cpu]",
            "is not a quantity",
        ),
        (obj("node.k8s.io/v1", "RuntimeClass", "a", overhead={"podFixed": 3}), "overhead.podFixed", "must be"),
    ],
)
def test_what_no_api_server_prints_is_refused_with_the_field(tmp_path, thing, field, detail):
    with pytest.raises(FilesError) as caught:
        load(tmp_path, SHOP, thing)
    (problem,) = caught.value.problems
    assert problem.field == field
    assert detail in problem.detail
    assert problem.line is not None
    assert problem.line > 3
    assert problem.cure


@pytest.mark.parametrize("thing", [workload("Deployment"), pod("p")], ids=["deployment", "pod"])
def test_an_object_that_is_listed_twice_is_refused(tmp_path, thing):
    with pytest.raises(FilesError, match="is listed twice; keep one of them"):
        state(tmp_path, thing, thing)


def test_every_bad_object_and_the_end_of_the_text_are_told_together(tmp_path):
    text = json.dumps(listed(SHOP, broken(replicas=-1), broken("StatefulSet", replicas="x")), indent=1)
    (tmp_path / "s.json").write_text(text + '\n{"a": ')
    with pytest.raises(FilesError) as caught:
        state_file.parse(content.read(tmp_path / "s.json"))
    assert [problem.field for problem in caught.value.problems] == ["spec.replicas", "spec.replicas", ""]
    lines = text.splitlines()
    assert [lines[(problem.line or 0) - 1].strip() for problem in caught.value.problems[:2]] == [
        '"replicas": -1,',
        '"replicas": "x",',
    ]


async def test_a_watched_state_file_loads_as_one_that_is_read_once(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(listed(SHOP, workload("Deployment"))))
    assert Watched(tmp_path / "s.json", state_file.parse).load() == state_file.parse(content.read(tmp_path / "s.json"))


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        pytest.param({}, "", id="empty"),
        pytest.param({"matchLabels": {"a": "b", "c": ""}}, "a=b,c=", id="labels"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}, "a in (b,c)", id="in"
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, "a notin (b)", id="not-in"
        ),
        pytest.param({"matchExpressions": [{"key": "x/a", "operator": "Exists"}]}, "x/a", id="exists"),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!a", id="absent"),
    ],
)
def test_a_selector_is_spelled_as_a_query_takes_it(selector, text):
    assert spelled(labelled(selector)) == text


GOLD = {"app": "web", "tier": "gold"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        pytest.param("app=web", True, id="equal"),
        pytest.param("app==web", True, id="twice-equal"),
        pytest.param(" app = web , tier=gold ", True, id="spaces"),
        pytest.param("app=api", False, id="other-value"),
        pytest.param("app!=web", False, id="not-equal"),
        pytest.param("old!=yes", True, id="not-equal-absent"),
        pytest.param("tier in (silver, gold)", True, id="in"),
        pytest.param("tier notin (silver, gold)", False, id="not-in"),
        pytest.param("tier", True, id="exists"),
        pytest.param("old", False, id="not-there"),
        pytest.param("!old,app=web", True, id="absent"),
        pytest.param("! tier", False, id="absent-but-there"),
        pytest.param("app=web,tier in (gold),!old", True, id="several"),
        pytest.param("app=", False, id="empty-value"),
        pytest.param("example.com/app=web", False, id="prefix"),
    ],
)
def test_a_selector_in_text_matches_as_the_api_server_reads_it(text, matches):
    selector = parsed(text)
    assert selector is not None
    assert selector.matches(GOLD) is matches


def test_an_empty_selector_says_nothing():
    assert parsed("") is None


@pytest.mark.parametrize("text", ["=", "a b", "a in b", "a in (b", "a>1", ",", "a=b;c=d", "a=b,,"])
def test_what_is_no_selector_is_refused(text):
    with pytest.raises(ObjectError, match="is not a label selector"):
        parsed(text)
