"""What the gate keeps of a whole object: every field that counts, in little memory, and nothing that is not there."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core import footprint
from extauthz.core.errors import ObjectError
from extauthz.core.intake.admission import Review, read
from extauthz.core.model import (
    NotAWrite,
    Observed,
    Operation,
    OwnerRef,
    Precondition,
    Reading,
    Verdict,
    WorkloadRef,
    Write,
)
from extauthz.core.objects.fields import controller, labels_dict, labels_text, mapping
from extauthz.core.objects.workloads import claim_template, intern, observe, pod_template, prune
from extauthz.core.wire.gojson import Number
from extauthz.testing import admission, gate, pod, quota

CONTAINER = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": 1}}}


def obj(kind="Deployment", api_version="apps/v1", metadata=None, **spec):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "7"} | (metadata or {}),
        "spec": {"template": template} | spec,
    }


def pruned(pod, **spec):
    return prune({"template": {"spec": pod}} | spec)


def test_a_deployment_is_kept_with_all_that_counts():
    owner = {"apiVersion": "acme.dev/v1", "kind": "App", "name": "shop", "uid": "u-0", "controller": True}
    ref, seen = observe(
        obj(
            metadata={"labels": {"tier": "b", "app": "web"}, "ownerReferences": [owner]},
            replicas=3,
            selector={"matchLabels": {"app": "web"}},
            strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}},
        )
    )
    assert ref == WorkloadRef("apps", "deployments", "shop", "web")
    assert seen == Observed(
        replicas=3,
        template=intern(pruned({"containers": [CONTAINER]}) | {"maxSurge": 2}),
        labels="app=web,tier=b",
        uid="u-1",
        resource_version="7",
        owner=OwnerRef("acme.dev", "App", "shop", "u-0"),
        selector="app=web",
    )


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("apps/v1", "Deployment", ("apps", "deployments")),
        ("apps/v1beta2", "StatefulSet", ("apps", "statefulsets")),
        ("apps/v1", "ReplicaSet", ("apps", "replicasets")),
        ("extensions/v1beta1", "Deployment", ("apps", "deployments")),
        ("v1", "ReplicationController", ("", "replicationcontrollers")),
    ],
)
def test_the_kind_names_the_resource_whatever_the_version(api_version, kind, expected):
    ref, _ = observe(obj(kind, api_version))
    assert (ref.group, ref.resource) == expected


@pytest.mark.parametrize(
    ("kind", "strategy", "expected"),
    [
        pytest.param("Deployment", None, None, id="defaulted"),
        pytest.param("Deployment", {"type": "RollingUpdate"}, None, id="defaulted-in-a-strategy"),
        pytest.param("Deployment", {"rollingUpdate": {"maxSurge": "50%"}}, "50%", id="percentage"),
        pytest.param("Deployment", {"rollingUpdate": {"maxSurge": 0}}, 0, id="none-at-all"),
        pytest.param("Deployment", {"type": "Recreate"}, 0, id="recreate"),
        pytest.param("StatefulSet", {"rollingUpdate": {"maxSurge": "50%"}}, None, id="no-deployment"),
    ],
)
def test_a_deployment_s_template_has_its_surge_unless_it_is_the_default(kind, strategy, expected):
    _, seen = observe(obj(kind, strategy=strategy))
    assert json.loads(seen.template.text).get("maxSurge") == expected
    resource = {"group": "apps", "version": "v1", "resource": f"{kind.lower()}s"}
    shown = read(json.dumps(admission(obj(kind, strategy=strategy), resource=resource)).encode())
    assert isinstance(shown.question.reading, Write)
    assert shown.question.reading.object.template is seen.template, "the webhook is shown the same"


@pytest.mark.parametrize(
    ("kind", "selector", "expected"),
    [
        pytest.param("Deployment", {"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2", id="labels"),
        pytest.param("Deployment", {"matchLabels": {"a": "1"}, "matchExpressions": []}, "a=1", id="empty-expressions"),
        pytest.param("Deployment", {"matchLabels": {"a": "1"}, "matchExpressions": [{}]}, None, id="expressions"),
        pytest.param("Deployment", None, None, id="none"),
        pytest.param("ReplicationController", {"a": "1"}, "a=1", id="plain-map"),
    ],
)
def test_a_selector_is_kept_only_where_labels_say_all_of_it(kind, selector, expected):
    _, seen = observe(obj(kind, "v1" if kind == "ReplicationController" else "apps/v1", selector=selector))
    assert seen.selector == expected


def test_absent_and_null_fields_are_defaulted_as_the_api_server_does():
    _, seen = observe(obj(metadata={"labels": None, "uid": None, "ownerReferences": None}, replicas=None))
    assert (seen.replicas, seen.labels, seen.uid, seen.owner) == (1, "", "", None)


def test_only_a_replication_controller_without_labels_takes_those_of_its_pods():
    assert observe(obj("ReplicationController", "v1"))[1].labels == "app=web"
    assert observe(obj("ReplicationController", "v1", metadata={"labels": {"a": "1"}}))[1].labels == "a=1"
    assert observe(obj())[1].labels == ""


def test_the_controller_is_the_owner_that_says_so():
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"},
        {"apiVersion": "v1", "kind": "Other", "name": "b", "uid": "2", "controller": False},
        {"apiVersion": "v1", "kind": "Owner", "name": "c", "uid": "3", "controller": True},
    ]
    assert controller(owners) == OwnerRef("", "Owner", "c", "3")
    assert controller(owners[:2]) is None


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        pytest.param(None, "kind", id="nothing"),
        pytest.param("text", "(root)", id="no-object"),
        pytest.param(obj("DaemonSet"), "kind", id="another-kind"),
        pytest.param(obj(api_version="v1"), "kind", id="another-group"),
        pytest.param(obj(metadata={"name": ""}), "metadata.name", id="no-name"),
        pytest.param(obj(metadata={"namespace": None}), "metadata.namespace", id="no-namespace"),
        pytest.param(obj(metadata={"uid": 5}), "metadata.uid", id="uid-a-number"),
        pytest.param(obj(metadata={"labels": ["a"]}), "metadata.labels", id="labels-a-list"),
        pytest.param(obj(metadata={"labels": {"a": 1}}), "labels", id="label-a-number"),
        pytest.param(obj(metadata={"labels": {"a": "1,b"}}), "labels", id="label-with-a-comma"),
        pytest.param(obj(metadata={"ownerReferences": {}}), "metadata.ownerReferences", id="owners-no-list"),
        pytest.param(
            obj(metadata={"ownerReferences": [{"controller": "yes"}]}),
            "metadata.ownerReferences[0].controller",
            id="controller-a-string",
        ),
        pytest.param(obj(template=None), "spec.template", id="no-template"),
        pytest.param(
            obj(strategy={"rollingUpdate": {"maxSurge": True}}), "spec.strategy.rollingUpdate.maxSurge", id="surge"
        ),
    ],
)
def test_what_no_api_server_prints_is_refused_with_its_place(broken, path):
    with pytest.raises(ObjectError) as caught:
        observe(broken)
    assert caught.value.path == path
    assert caught.value.code == "malformed-object"
    assert str(caught.value).startswith(f"malformed-object: {path}: ")


@pytest.mark.parametrize(
    ("count", "code"),
    [
        (-1, "replicas-negative"),
        (2**31, "replicas-too-large"),
        (2**70, "replicas-too-large"),
        (3.0, "replicas-not-an-integer"),
        (Number("3e0"), "replicas-not-an-integer"),
        ("3", "replicas-not-an-integer"),
        (True, "replicas-not-an-integer"),
        ([3], "replicas-not-an-integer"),
        ({"a": 3}, "replicas-not-an-integer"),
        ("9" * 99, "replicas-not-an-integer"),
    ],
    ids=str,
)
def test_what_is_no_int32_is_no_replica_count(count, code):
    with pytest.raises(ObjectError) as caught:
        observe(obj(replicas=count))
    assert caught.value.code == code
    assert len(caught.value.detail) < 120


def test_pruning_keeps_what_costs_and_the_names_of_who_asks_for_it():
    claim = {
        "metadata": {"name": "data", "annotations": {"note": "x"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {},
    }
    beta = {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}, "spec": claim["spec"]}
    pod = {
        "containers": [CONTAINER | {"env": [], "restartPolicy": "Never"}],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "seed", "restartPolicy": None}],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "work", "ephemeral": {"volumeClaimTemplate": beta}}],
        "overhead": {"cpu": "10m"},
        "runtimeClassName": "kata",
        "resources": {"requests": {"memory": "1Gi"}, "limits": None},
        "nodeSelector": {"disk": "ssd"},
    }
    assert pruned(pod, volumeClaimTemplates=[claim]) == {
        "template": {
            "spec": {
                "containers": [{"name": "app", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}}],
                "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "seed"}],
                "volumes": [
                    {"name": "tmp"},
                    {
                        "name": "work",
                        "ephemeral": {
                            "volumeClaimTemplate": {
                                "spec": {"storageClassName": "old", "resources": {"requests": {"storage": "1Gi"}}}
                            }
                        },
                    },
                ],
                "overhead": {"cpu": "10m"},
                "runtimeClassName": "kata",
                "resources": {"requests": {"memory": "1Gi"}},
            }
        },
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
            }
        ],
    }


@pytest.mark.parametrize(
    ("amount", "expected"),
    [("1Gi", "1Gi"), (2, "2"), (None, "0"), (0.5, "0.5"), (Number("1.50"), "1.50"), (Number("1e3"), "1e3")],
    ids=str,
)
def test_amounts_are_kept_as_the_text_that_the_server_reads(amount, expected):
    tree = pruned({"containers": [{"name": "a", "resources": {"requests": {"cpu": amount}}}]})
    assert tree["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": expected}}


@pytest.mark.parametrize("amount", [True, [], {}], ids=str)
def test_what_is_no_amount_is_refused(amount):
    with pytest.raises(ObjectError) as caught:
        pruned({"containers": [{"name": "a", "resources": {"limits": {"cpu": amount}}}]})
    assert caught.value.path == "spec.template.spec.containers[0].resources.limits[cpu]"


def test_an_empty_storage_class_is_not_the_same_as_none():
    def storage_class(spec):
        return pruned({}, volumeClaimTemplates=[{"spec": spec}])["volumeClaimTemplates"][0]["spec"].get(
            "storageClassName"
        )

    assert storage_class({"storageClassName": ""}) == ""
    assert storage_class({"storageClassName": None}) is None


quantity = st.sampled_from(["1", "100m", "2Gi", 3, 0.5, None])
amounts = st.none() | st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from([1, "2", None])
)
resources = st.none() | st.fixed_dictionaries(
    {}, optional={"requests": amounts, "limits": amounts, "claims": st.just([])}
)
container = st.fixed_dictionaries(
    {"name": st.sampled_from("abc")},
    optional={
        "resources": resources,
        "restartPolicy": st.sampled_from(["Always", "Never", None]),
        "image": st.just("x"),
    },
)
claim = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {}, optional={"resources": resources, "storageClassName": st.sampled_from(["", "a", None])}
        )
    },
    optional={"metadata": st.just({"name": "c", "labels": {}})},
)
volume = st.fixed_dictionaries(
    {"name": st.sampled_from("xyz")},
    optional={"ephemeral": st.none() | claim.map(lambda tree: {"volumeClaimTemplate": tree}), "emptyDir": st.just({})},
)
pod_specs = st.fixed_dictionaries(
    {"containers": st.lists(container, max_size=3)},
    optional={
        "initContainers": st.none() | st.lists(container, max_size=3),
        "volumes": st.lists(volume, max_size=2),
        "overhead": amounts,
        "resources": resources,
        "runtimeClassName": st.sampled_from([None, "", "kata"]),
        "hostNetwork": st.booleans(),
    },
)
specs = st.builds(
    lambda pod, claims: {"template": {"spec": pod}, "volumeClaimTemplates": claims},
    pod_specs,
    st.none() | st.lists(claim, max_size=2),
)


@settings(deadline=None)
@given(specs)
def test_pruning_changes_no_footprint_and_pruning_twice_changes_nothing(spec):
    tree = prune(spec)
    assert footprint.per_pod(tree) == footprint.per_pod(spec)
    assert prune(tree) == tree
    assert json.loads(intern(tree).text) == tree


label = st.text(st.characters(exclude_characters=",="), max_size=8)


@given(st.dictionaries(label.filter(bool), label))
def test_labels_survive_their_compact_form(labels):
    assert labels_dict(labels_text(labels)) == labels


def test_equal_templates_and_labels_are_one_object():
    first, second = (observe(json.loads(json.dumps(obj(metadata={"labels": {"a": "1"}}))))[1] for _ in range(2))
    assert first.template is second.template
    assert first.labels is second.labels


def test_a_template_goes_with_the_last_who_holds_it():
    seen = observe(obj(template={"spec": {"containers": [{"name": "of-nobody-else"}]}}))[1]
    held = weakref.ref(seen.template)
    del seen
    gc.collect()
    assert held() is None


def test_long_labels_are_not_kept_for_sharing():
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for n in range(20):
            observe(obj(metadata={"labels": {f"{n}{'x' * 50_000}": ""}}))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()


def test_a_text_of_megabytes_where_an_object_belongs_is_not_spelled_out_whole():
    """Found by the fuzzer: that took longer than all else that is done with it."""
    text = "x\n" * 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(ObjectError, match=re.escape("spec: must be an object, not 'x")):
            mapping(text, "spec")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_workload_whose_template_is_shared_takes_less_than_600_bytes():
    labels = {"app": "web", "team": "a"}

    def texts():
        for n in range(2_000):
            metadata = {"name": f"web-{n}", "uid": f"{n:036}", "resourceVersion": str(10**6 + n), "labels": labels}
            yield json.dumps(obj(metadata=metadata, selector={"matchLabels": {"app": "web"}}))

    dict(observe(json.loads(text)) for text in texts())  # so that nothing shared is counted
    tracemalloc.start()
    kept = dict(observe(json.loads(text)) for text in texts())
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(size / len(kept))
    assert size / len(kept) < 600


# Pods and claims.


def test_pods_that_differ_in_names_alone_have_one_template():
    """A token's volume has a name of its own in each pod (``kube-api-access-x7k2p``)."""

    def one(at: str) -> dict:
        init = {"name": f"i{at}", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
        return {
            "containers": [CONTAINER | {"name": at}],
            "initContainers": [init],
            "volumes": [{"name": f"kube-api-access-{at}", "projected": {}}],
            "overhead": {"cpu": "1"},
        }

    assert pod_template(one("a")) is pod_template(one("b"))
    assert footprint.per_pod(json.loads(pod_template(one("a")).text))["requests.cpu"] == 3_100_000_000


def test_ephemeral_volumes_of_a_pod_are_kept():
    claim = {"spec": {"resources": {"requests": {"storage": "5"}}}}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}, {"name": "token"}]
    template = pod_template({"containers": [CONTAINER], "volumes": volumes})
    assert footprint.per_pod(json.loads(template.text))["requests.storage"] == 5 * 10**9


@pytest.mark.parametrize(
    ("status", "storage"),
    [
        pytest.param({}, 5, id="none"),
        pytest.param({"allocatedResources": {"storage": "8"}}, 8, id="expanding"),
        pytest.param({"allocatedResources": {"storage": "3"}}, 5, id="smaller"),
    ],
)
def test_a_claim_costs_the_larger_of_what_it_asks_for_and_what_it_is_given(status, storage):
    spec = {"resources": {"requests": {"storage": "5"}}, "storageClassName": "fast"}
    template = claim_template({"metadata": {"name": "data"}, "spec": spec, "status": status})
    cost = footprint.per_pod(json.loads(template.text))
    assert cost["fast.storageclass.storage.k8s.io/requests.storage"] == cost["requests.storage"] == storage * 10**9
    assert cost["count/persistentvolumeclaims"] == 10**9


def test_claims_of_a_stateful_set_are_priced_by_name():
    def claim(name: str, size: str) -> dict:
        return {"metadata": {"name": name}, "spec": {"resources": {"requests": {"storage": size}}}}

    tree = pruned({"containers": []}, volumeClaimTemplates=[claim("a", "1"), claim("b", "2")])
    claims = footprint.per_claim(tree, "fast")
    assert {name: cost["requests.storage"] // 10**9 for name, cost in claims.items()} == {"a": 1, "b": 2}
    assert footprint.per_claim(pruned({"containers": []})) == {}


JOBS = {"group": "batch", "version": "v1", "resource": "jobs"}
DONE = {"conditions": [{"type": "Complete", "status": "True"}]}


def job(status: dict[str, Any] | None = None, *, cpu: str = "1", labels: Any = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "train", "namespace": "team-a", "uid": "u", "resourceVersion": "7", "labels": labels or {}}
    spec = {"template": pod({"cpu": cpu})} | spec
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, "status": status or {}}


def review(new: Any, old: Any = None) -> Review:
    found = read(json.dumps(admission(new, old, resource=JOBS, name="train")).encode())
    assert isinstance(found, Review)
    return found


def reading(new: Any, old: Any = None) -> Reading:
    return review(new, old).question.reading


@pytest.mark.parametrize(
    ("made", "pods"),
    [
        (job(), 1),
        (job(parallelism=8), 8),
        (job(parallelism=8, completions=3), 3),
        (job(parallelism=8, suspend=True), 0),
        (job(parallelism=0), 0),
    ],
)
def test_a_new_one_counts_as_many_pods_as_may_run_at_once(made, pods):
    found = reading(made)
    assert isinstance(found, Write)
    assert (found.operation, found.replicas, found.ref.name) == (Operation.CREATE, pods, "train")
    assert found.object.template is not None


@pytest.mark.parametrize(
    ("before", "after", "pods"),
    [
        (job(parallelism=2), job(parallelism=5), 5),
        (job(parallelism=5, suspend=True), job(parallelism=5), 5),
        (job({"succeeded": 6}, parallelism=2, completions=8), job({"succeeded": 6}, parallelism=5, completions=8), 2),
        (job(parallelism=5), job(parallelism=5, suspend=True), 0),
    ],
)
def test_an_update_is_a_count_on_the_version_that_it_found(before, after, pods):
    found = review(after, before)
    write = found.question.reading
    if before["spec"] != after["spec"] and isinstance(write, Write):
        assert (write.replicas, write.object, write.precondition) == (pods, None, Precondition("7", "u"))
        assert found.count_path == "/spec/parallelism"
    else:
        assert (write, pods) == (write, 2), "as many may run as before"
        assert isinstance(write, NotAWrite)


@pytest.mark.parametrize(
    ("before", "after"), [(job(DONE, parallelism=2), job(DONE, parallelism=9)), (job(), job(ttlSecondsAfterFinished=9))]
)
def test_what_changes_no_count_is_no_write(before, after):
    assert isinstance(reading(after, before), NotAWrite)


def test_another_template_or_label_is_an_object():
    for changed in (job(cpu="3", suspend=True), job(labels={"tier": "b"})):
        found = reading(changed, job(suspend=True))
        assert isinstance(found, Write)
        assert found.object is not None


def test_jobs_are_decided_like_any_workload():
    asked = gate([quota("acme", {"requests.cpu": "4"})])
    refused = asked.decide(reading(job(parallelism=5)), "d1", 0.0)
    assert (refused.verdict, refused.reason) == (Verdict.DENY, "exceeded-quota")
    assert refused.sentence.startswith('jobs.batch "train" is forbidden: exceeded workspace quota: acme')
    assert refused.sentence.endswith("largest allowed parallelism: 4")
    waits = job(parallelism=5, suspend=True)
    assert asked.decide(reading(waits), "d2", 0.0).verdict is Verdict.ALLOW
    assert asked.ledger.pending_writes == 1
    assert next(asked.usage()).reserved == 0
