"""What an AdmissionReview asks, whatever is in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core import budget
from extauthz.core.budget import AT_ONCE_BYTES
from extauthz.core.intake.admission import MAX_REVIEW_BYTES, Review, read, read_aside, read_at_once
from extauthz.core.model import (
    NotAWrite,
    Operation,
    Precondition,
    Put,
    Reading,
    Requester,
    Unreadable,
    WorkloadRef,
    Write,
)
from extauthz.testing.builders import admission, scale_object, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")


def encoded(review: Any) -> bytes:
    return json.dumps(review).encode()


def reading(new: Any, old: Any = None, **request: Any) -> Reading:
    review = read(encoded(admission(new, old, **request)))
    assert isinstance(review, Review)
    return review.question.reading


def test_an_update_of_a_scale_is_a_write_on_the_version_that_it_found():
    review = read(encoded(admission(scale_object(replicas=9), scale_object(version="7"), subresource="scale")))
    assert isinstance(review, Review)
    assert review.uid == "705ab4f5-6393-11e8-b7cc-42010a800002"
    assert review.question.user == "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
    assert review.question.reading == Write(
        WEB, Operation.UPDATE, True, False, Put(scale_object(replicas=9)), Precondition("7", "uid-web")
    )


def test_an_update_of_the_object_is_bound_to_the_old_ones_version_and_not_to_what_the_new_one_says():
    write = reading(workload(version="8"), workload(version="7"))
    assert isinstance(write, Write)
    assert (write.scale, write.precondition) == (False, Precondition("7", "uid-web"))


@pytest.mark.parametrize("old", [None, {}, {"metadata": {"resourceVersion": ""}}, {"metadata": {"resourceVersion": 7}}])
def test_an_update_of_which_no_old_version_is_known_has_no_precondition(old):
    write = reading(workload(), old, operation="UPDATE")
    assert isinstance(write, Write)
    assert write.precondition == Precondition()


def test_a_create_has_no_precondition_and_the_name_that_the_object_has():
    write = reading(workload(), name="")
    assert write == Write(WEB, Operation.CREATE, False, False, Put(workload()), Precondition(None, "uid-web"))


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
    write = reading(workload(), workload(), resource={"group": group, "version": "v1beta1", "resource": resource})
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
        ({"oldObject": []}, "malformed-object", WEB),
        ({"operation": "CREATE", "object": {"metadata": {"name": 1}}}, "name-not-a-string", WEB),
        ({"operation": "CREATE", "object": {"metadata": {"name": "x" * 254}}}, "name-too-long", WEB),
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
    assert isinstance(review, Review)
    assert review.question.requester == Requester(
        "system:serviceaccount:keda:keda-operator",
        ("system:serviceaccounts", "system:authenticated"),
        ("keda-operator-7",),
    )


@pytest.mark.parametrize("info", [None, {}, {"username": ""}])
def test_whom_nobody_names_is_not_known(info):
    review = read(encoded(admission(workload(), userInfo=info)))
    assert isinstance(review, Review)
    assert review.question.requester is None


@pytest.mark.parametrize("info", [{"groups": "a"}, {"groups": [1]}, {"extra": []}])
def test_who_asks_in_no_known_form_is_no_review(info):
    assert isinstance(read(encoded(admission(workload(), userInfo={"username": "a"} | info))), Unreadable)


def test_a_long_name_is_cut_for_logs_and_whole_for_quotas():
    review = read(encoded(admission(workload(), user="u" * 1_000)))
    assert isinstance(review, Review)
    assert review.question.requester == Requester("u" * 1_000)
    assert len(review.question.user) < 300


def test_a_user_name_is_bounded():
    review = read(encoded(admission(workload(), user="x" * 5000)))
    assert isinstance(review, Review)
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


def test_aside_only_what_counts_is_kept():
    found = read_aside(encoded(many_values(1000)))
    assert isinstance(found, Review)
    write = found.question.reading
    assert isinstance(write, Write)
    assert isinstance(write.change, Put)
    assert write.change.document["spec"] == {
        "replicas": 1,
        "template": {
            "metadata": {},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
        },
    }
    assert "annotations" not in write.change.document["metadata"]
    assert read_aside(b"{") == read(b"{")


def test_reading_costs_as_much_as_any_other_body_of_its_size():
    spent = []

    def counted(size: int, *, scale: bool) -> budget.Work:
        spent.append(budget.of_body(size, scale=scale))
        return spent[-1]

    body = encoded(many_values(100))
    read(body, counted)
    assert 0 < spent[0].used < spent[0].limit == budget.of_body(len(body), scale=False).limit


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
