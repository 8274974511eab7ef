"""What an AdmissionReview asks, whatever is in it."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core.intake.admission import (
    LEDGERS,
    MAX_COUNTS_BYTES,
    MAX_REVIEW_BYTES,
    TRIAL,
    Review,
    kept,
    manifest,
    read,
    read_at_once,
)
from extauthz.core.kinds import POD_MAKERS
from extauthz.core.model import (
    NotAWrite,
    Observed,
    Operation,
    Precondition,
    Reading,
    Requester,
    Resize,
    Unreadable,
    WorkloadRef,
    Write,
)
from extauthz.core.objects.custom import Shape
from extauthz.core.objects.workloads import intern, prune
from extauthz.core.wire import gojson
from extauthz.core.wire.gojson import AT_ONCE_BYTES
from extauthz.testing import admission, owned_by, pod, scale_object, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")
TEMPLATE = intern(prune({"template": pod({"cpu": "1"})}))
MADE = Observed(1, TEMPLATE, "app=web", selector="app=web")


def encoded(review: Any) -> bytes:
    return json.dumps(review).encode()


def reading(new: Any, old: Any = None, **request: Any) -> Reading:
    review = read(encoded(admission(new, old, **request)))
    return review.question.reading


def test_an_update_of_a_scale_is_a_write_on_the_version_that_it_found():
    review = read(encoded(admission(scale_object(replicas=9), scale_object(version="7"), subresource="scale")))
    assert review.uid == "705ab4f5-6393-11e8-b7cc-42010a800002"
    assert review.question.user == "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
    assert review.question.reading == Write(WEB, Operation.UPDATE, True, False, 9, None, Precondition("7", "uid-web"))


def test_an_update_of_the_object_is_bound_to_the_old_ones_version_and_not_to_what_the_new_one_says():
    write = reading(workload(replicas=2, version="8"), workload(version="7"))
    assert isinstance(write, Write)
    assert (write.scale, write.precondition) == (False, Precondition("7", "uid-web"))


@pytest.mark.parametrize("version", [{"resourceVersion": ""}, {"resourceVersion": 7}, {}])
def test_an_update_of_which_no_old_version_is_known_has_no_precondition(version):
    write = reading(workload(replicas=2), workload() | {"metadata": version})
    assert isinstance(write, Write)
    assert write.precondition == Precondition()


CPU_2 = {"cpu": "2"}


@pytest.mark.parametrize(
    ("new", "differs"),
    [
        pytest.param(workload(replicas=2), {"replicas": 2}, id="count"),
        pytest.param(workload(requests=CPU_2), {"template": intern(prune({"template": pod(CPU_2)}))}, id="template"),
        pytest.param(workload(labels={"a": "b"}), {"labels": "a=b"}, id="labels"),
        pytest.param(
            workload(ownerReferences=owned_by("x")), {"owner": ("apps", "Deployment", "x", "uid-x")}, id="owner"
        ),
        pytest.param(workload(replicas=2, labels={"a": "b"}), {"replicas": 2, "labels": "a=b"}, id="count-and-labels"),
    ],
)
def test_an_update_is_a_count_if_nothing_else_that_costs_differs_and_else_the_whole_object(new, differs):
    write = reading(new, workload(version="7"))
    wanted = replace(MADE, **differs)
    assert isinstance(write, Write)
    assert write.object == (None if differs == {"replicas": 2} else wanted)
    assert (write.replicas, write.precondition) == (wanted.replicas, Precondition("7", "uid-web"))


@pytest.mark.parametrize(
    "new",
    [
        workload(version="8"),
        workload(annotations={"a": "b"}),
        workload() | {"status": {"replicas": 9}},
        workload() | {"spec": workload()["spec"] | {"minReadySeconds": 9}},
    ],
    ids=["version", "annotations", "status", "another-field"],
)
def test_an_update_of_nothing_that_costs_is_no_write(new):
    found = reading(new, workload())
    assert isinstance(found, NotAWrite)
    assert found.code == "no-count"


def test_a_create_is_the_whole_object_with_the_name_that_it_has_and_no_version():
    write = reading(workload(), name="")
    assert write == Write(WEB, Operation.CREATE, False, False, 1, MADE, Precondition(None, "uid-web"))


def test_a_manifest_is_the_create_that_it_would_become():
    assert manifest(WEB, workload(replicas=3)) == Write(
        WEB, Operation.CREATE, False, False, 3, replace(MADE, replicas=3)
    )
    assert manifest(WEB, {"spec": 1}) == Unreadable("malformed-object", "spec: must be an object, not 1", WEB)


@pytest.mark.parametrize("part", ["labels", "template"])
def test_so_much_of_an_object_may_count(part):
    def of(size: int) -> Any:
        if part == "labels":
            return workload(labels={"a": "x" * size})
        return workload(requests={"cpu": "1", "x" * size: "1"})

    spare = MAX_COUNTS_BYTES - len(TEMPLATE.text) - 2 * len("app=web")
    most = spare + len("app=web") - len("a=") if part == "labels" else spare - len(',"":"1"')
    assert isinstance(reading(of(most)), Write)
    for found in (reading(of(most + 1)), reading(of(most + 1), workload()), manifest(WEB, of(most + 1))):
        assert isinstance(found, Unreadable)
        assert (found.code, found.ref) == ("too-complex", WEB)
        assert "have fewer containers" in found.detail


@pytest.mark.parametrize("uid", [None, "", 7, "x" * 254])
def test_a_create_whose_object_has_no_uid_has_nothing_to_be_known_by(uid):
    write = reading(workload(uid=uid))
    assert isinstance(write, Write)
    assert write.precondition == Precondition()


@pytest.mark.parametrize(("name", "known"), [("", ""), ("web", "web")])
def test_a_create_whose_object_has_no_name_is_its_own_workload_unless_the_request_names_it(name, known):
    made = workload()
    del made["metadata"]["name"]
    write = reading(made, name=name)
    assert isinstance(write, Write)
    assert write.ref == WEB._replace(name=known)


@pytest.mark.parametrize(
    ("group", "resource", "ref"),
    [
        ("apps", "statefulsets", ("apps", "statefulsets")),
        ("apps", "replicasets", ("apps", "replicasets")),
        ("extensions", "deployments", ("apps", "deployments")),
        ("", "replicationcontrollers", ("", "replicationcontrollers")),
    ],
)
def test_each_kind_is_known_by_its_resource_whatever_its_version(group, resource, ref):
    write = reading(
        workload(replicas=2), workload(), resource={"group": group, "version": "v1beta1", "resource": resource}
    )
    assert isinstance(write, Write)
    assert write.ref[:2] == ref


def test_the_scale_of_a_custom_resource_is_a_write_and_the_resource_itself_is_none():
    rollouts = {"group": "argoproj.io", "version": "v1alpha1", "resource": "rollouts"}
    write = reading(scale_object(replicas=9), scale_object(), subresource="scale", resource=rollouts)
    assert isinstance(write, Write)
    assert write.ref == WorkloadRef("argoproj.io", "rollouts", "team-a", "web")
    assert reading(workload(), resource=rollouts) == NotAWrite(
        "other-resource", "not a resource with replicas, and not a scale subresource"
    )


def test_the_trial_of_a_gate_is_no_write():
    ledgers = {"group": LEDGERS[0], "version": "v1alpha1", "resource": LEDGERS[1]}
    assert reading(workload(), resource=ledgers, dryRun=True) == TRIAL
    assert reading(workload(), resource=ledgers) != TRIAL, "a real one passes"


@pytest.mark.parametrize(
    ("request_fields", "code"),
    [
        ({"operation": "DELETE"}, "delete"),
        ({"operation": "CONNECT"}, "connect"),
        ({"subResource": "status"}, "status"),
        ({"subResource": "ephemeralcontainers"}, "other-subresource"),
        ({"resource": {"group": "", "version": "v1", "resource": "pods"}}, "other-resource"),
    ],
)
def test_what_cannot_grow_a_workload_is_no_write(request_fields, code):
    found = reading(workload(), workload(), **request_fields)
    assert isinstance(found, NotAWrite)
    assert found.code == code


@pytest.mark.parametrize(
    ("group", "resource"), [("apps", "statefulsets"), ("apps", "replicasets"), ("", "replicationcontrollers")]
)
def test_a_status_that_moves_a_workload_is_a_write_and_another_one_is_none(group: str, resource: str):
    status = {"resource": {"group": group, "version": "v1", "resource": resource}, "subresource": "status"}
    moved = reading(workload(labels={"tier": "free"}), workload(labels={"tier": "paid"}), **status)
    assert isinstance(moved, Write)
    assert moved.ref == WorkloadRef(group, resource, "team-a", "web")
    assert moved.object.labels == "tier=free"
    assert isinstance(reading(workload(annotations={"seen": "1"}), workload(), **status), NotAWrite)


@pytest.mark.parametrize(("given_value", "dry_run"), [(True, True), (False, False), (None, False)])
def test_a_dry_run_is_what_the_api_server_says_is_one(given_value, dry_run):
    write = reading(workload(), dryRun=given_value)
    assert isinstance(write, Write)
    assert write.dry_run is dry_run


@pytest.mark.parametrize(
    ("request_fields", "code", "ref"),
    [
        ({"operation": "PATCH"}, "operation-not-known", WEB),
        ({"operation": ""}, "operation-not-known", WEB),
        ({"operation": 1}, "malformed-object", None),
        ({"operation": "CREATE", "subResource": "scale"}, "operation-not-known", WEB),
        ({"name": ""}, "name-missing", WEB._replace(name="")),
        ({"name": "x" * 254}, "target-too-long", None),
        ({"namespace": "x" * 254}, "target-too-long", None),
        ({"subResource": 1}, "malformed-object", None),
        ({"resource": None}, "resource-missing", None),
        ({"resource": "deployments"}, "malformed-object", None),
        ({"dryRun": "true"}, "malformed-object", WEB),
        ({"object": None}, "not-an-object", WEB),
        ({"object": []}, "malformed-object", WEB),
        ({"object": {"spec": {"replicas": -1, "template": {}}}}, "replicas-negative", WEB),
        ({"oldObject": []}, "malformed-object", WEB),
        ({"operation": "CREATE", "object": workload() | {"metadata": {"name": 1}}}, "name-not-a-string", WEB),
        ({"operation": "CREATE", "object": workload(name="x" * 254)}, "name-too-long", WEB),
    ],
)
def test_what_cannot_be_read_of_a_review_is_refused_by_name(request_fields, code, ref):
    found = reading(workload(), workload(), **request_fields)
    assert isinstance(found, Unreadable)
    assert (found.code, found.ref) == (code, ref)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"", "json-syntax", id="empty"),
        pytest.param(b"[]", "malformed-object", id="list"),
        pytest.param(b"null", "not-an-admission-review", id="null"),
        pytest.param(
            b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}', "not-an-admission-review", id="old"
        ),
        pytest.param(b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "uid-missing", id="no-request"),
        pytest.param(encoded(admission(workload(), uid="")), "uid-missing", id="no-uid"),
        pytest.param(encoded(admission(workload(), uid="x" * 254)), "uid-missing", id="long-uid"),
        pytest.param(encoded(admission(workload(), request=1) | {"request": 1}), "malformed-object", id="no-object"),
        pytest.param(encoded(admission(workload(), userInfo=[])), "malformed-object", id="user"),
        pytest.param(b'{"a":1,"a":2}', "duplicate-key", id="twice"),
        pytest.param(b" " * (MAX_REVIEW_BYTES + 1), "body-too-large", id="too-large"),
        pytest.param(b"[" + b"{}," * 1_000_000 + b"{}]", "too-complex", id="too-complex"),
    ],
)
def test_what_is_no_review_is_refused_by_name(body, code):
    found = read(body)
    assert isinstance(found, Unreadable)
    assert found.code == code


def test_who_asks_is_all_that_the_api_server_says():
    info = {
        "username": "system:serviceaccount:keda:keda-operator",
        "groups": ["system:serviceaccounts", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/pod-name": ["keda-operator-7"], "other": ["x"]},
    }
    review = read(encoded(admission(workload(), userInfo=info)))
    assert review.question.requester == Requester(
        "system:serviceaccount:keda:keda-operator",
        ("system:serviceaccounts", "system:authenticated"),
        ("keda-operator-7",),
    )


@pytest.mark.parametrize("info", [None, {}, {"username": ""}])
def test_whom_nobody_names_is_not_known(info):
    review = read(encoded(admission(workload(), userInfo=info)))
    assert review.question.requester is None


@pytest.mark.parametrize("info", [{"groups": "a"}, {"groups": [1]}, {"extra": []}])
def test_who_asks_in_no_known_form_is_no_review(info):
    assert isinstance(read(encoded(admission(workload(), userInfo={"username": "a"} | info))), Unreadable)


def test_a_long_name_is_cut_for_logs_and_whole_for_quotas():
    review = read(encoded(admission(workload(), user="u" * 1_000)))
    assert review.question.requester == Requester("u" * 1_000)
    assert len(review.question.user) == 256


def many_values(count: int) -> Any:
    return admission(workload(annotations={f"a{number}": "x" for number in range(count)}))


def test_what_takes_long_is_read_aside():
    assert read_at_once(encoded(many_values(10))) == read(encoded(many_values(10)))
    assert read_at_once(encoded(many_values(1000))) is None
    long = admission(workload(annotations={"a": "x" * AT_ONCE_BYTES}))
    assert read_at_once(encoded(long)) is None
    assert read_at_once(b"{") == read(b"{")
    assert isinstance(read_at_once(b" " * (MAX_REVIEW_BYTES + 1)), Unreadable)


POD = {
    "metadata": {"name": "p", "namespace": "team-a", "resourceVersion": "7", "generation": 2},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(admission(workload()), id="an-object"),
        pytest.param(admission(workload(replicas=2), workload()), id="a-count"),
        pytest.param(admission(workload(), operation="DELETE"), id="no-write"),
        pytest.param(
            admission(POD, POD, subresource="resize", resource={"group": "", "resource": "pods"}), id="a-resize"
        ),
        pytest.param({}, id="no-review"),
    ],
)
def test_what_another_process_has_read_is_the_same_here_and_shares_its_templates(asked):
    here = read(encoded(asked))
    there = kept(pickle.loads(pickle.dumps(here)))
    assert there == here
    if isinstance(here, Review):
        for ours, theirs in zip(templates(here), templates(there), strict=True):
            assert ours is theirs


def templates(review: Review) -> list[object]:
    found = review.question.reading
    if isinstance(found, Resize):
        return [found.before, found.after]
    return [found.object.template] if isinstance(found, Write) and found.object else []


@pytest.mark.parametrize(("user", "is_write"), [(POD_MAKERS[0], False), ("system:serviceaccount:shop:default", True)])
def test_a_pod_is_no_write_of_a_controller_that_makes_pods(user: str, is_write: bool):
    """What its workload asks for is charged there."""
    found = reading(POD, operation="CREATE", user=user, resource={"group": "", "version": "v1", "resource": "pods"})
    assert isinstance(found, Write) == is_write


def test_a_name_of_a_resize_is_that_of_the_stored_pod():
    for old in (
        POD | {"metadata": POD["metadata"] | {"name": "q"}},
        POD | {"metadata": {**POD["metadata"], "resourceVersion": ""}},
    ):
        found = reading(POD, old, subresource="resize", resource={"group": "", "resource": "pods"})
        assert isinstance(found, Unreadable)
        assert found.code == "not-an-object"


def test_reading_costs_a_fixed_part_and_a_share_for_each_byte():
    spent = []

    def counted(size: int) -> gojson.Work:
        spent.append(gojson.of_review(size))
        return spent[-1]

    body = encoded(many_values(100))
    read(body, counted)
    assert 0 < spent[0].left < spent[0].limit == gojson.REVIEW + len(body) // 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    "uid",
    "resource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "object",
    "oldObject",
    "dryRun",
    "subResource",
)


@settings(max_examples=300)
@given(st.sampled_from(FIELDS), JSON)
def test_whatever_a_field_holds_it_is_read_or_refused_by_name(field, value):
    found = read(encoded(admission(workload(), workload(), **{field: value})))
    assert isinstance(found, Review | Unreadable)


# Objects of custom resources.

SHAPES = {
    ("example.dev", "gadgets"): {"v1": Shape(("spec", "size", "count"), ("spec", "job", "pod")), "v2": Shape(("n",))}
}
GIZMO = WorkloadRef("example.dev", "gadgets", "team-a", "web")


def gizmo(count: Any = 2, cpu: str = "1", **more: Any) -> Any:
    metadata = {"name": "web", "namespace": "team-a", "resourceVersion": "7", "uid": "u"}
    return {"metadata": metadata | more, "spec": {"size": {"count": count}, "job": {"pod": pod({"cpu": cpu})}}}


def of_gadget(new: Any, old: Any = None, version: str = "v1", **request: Any) -> Review:
    asked = admission(new, old, **request)
    asked["request"]["resource"] = {"group": "example.dev", "version": version, "resource": "gadgets"}
    review = read(encoded(asked), shapes=SHAPES)
    assert isinstance(review, Review)
    return review


def test_a_custom_resource_has_its_count_and_template_where_its_shape_says():
    review = of_gadget(gizmo(3))
    assert review.question.reading == Write(
        GIZMO, Operation.CREATE, False, False, 3, Observed(3, TEMPLATE), Precondition(uid="u")
    )
    assert review.count_path == "/spec/size/count"


def test_a_custom_resource_without_a_count_has_one_and_without_a_template_has_none():
    review = of_gadget({"metadata": {"name": "web"}}, version="v2")
    write = review.question.reading
    assert isinstance(write, Write)
    assert (write.replicas, write.object, review.count_path) == (1, Observed(1, None), "/n")


def test_of_a_custom_resource_a_changed_count_is_a_count_and_more_is_an_object():
    count = of_gadget(gizmo(5), gizmo(2)).question.reading
    assert count == Write(GIZMO, Operation.UPDATE, False, False, 5, None, Precondition("7", "u"))
    dearer = of_gadget(gizmo(5, "2"), gizmo(2)).question.reading
    assert isinstance(dearer, Write)
    assert dearer.object is not None
    assert isinstance(of_gadget(gizmo(2, annotations={"a": "b"}), gizmo(2)).question.reading, NotAWrite)


def test_the_scale_of_a_custom_resource_is_read_like_any_other():
    review = of_gadget(scale_object(replicas=3), scale_object(version="7"), subresource="scale")
    assert isinstance(review.question.reading, Write)
    assert (review.question.reading.replicas, review.count_path) == (3, "/spec/replicas")


@pytest.mark.parametrize(
    ("new", "version", "code", "detail"),
    [
        (gizmo("many"), "v1", "replicas-not-an-integer", "spec.size.count: must be a whole number, not 'many'"),
        (
            gizmo(),
            "v0",
            "version-without-scale",
            "its version 'v0' has no scale subresource; write it in version v1 or v2",
        ),
    ],
)
def test_a_custom_resource_that_cannot_be_read_is_refused_by_name(new, version, code, detail):
    assert of_gadget(new, version=version).question.reading == Unreadable(code, detail, GIZMO)


def test_an_object_of_a_kind_that_has_no_scale_is_no_write():
    asked = admission(gizmo())
    asked["request"]["resource"] = {"group": "example.dev", "version": "v1", "resource": "gadgets"}
    review = read(encoded(asked))
    assert isinstance(review.question.reading, NotAWrite)
