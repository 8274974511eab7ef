"""No body costs more than its share: the steps that it takes are counted, never the time.

The cases are what ``make fuzz`` and the authors of bodies found worst. Each is a line that makes the body.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable

import pytest

from extauthz.core.errors import BodyError
from extauthz.core.intake.admission import MAX_COUNTS_BYTES, MAX_WHO, read, read_at_once
from extauthz.core.model import Write
from extauthz.core.wire.gojson import AT_ONCE, COUNT, MOST, REVIEW, Work, of_count, of_review, of_review_at_once
from extauthz.testing import admission, pod, workload
from tests.fuzz.measure import Case, run

STEPS_OF_A_COUNT = 8_000
"""Calls of functions that reading the body of a count may take, however it is made."""

STEPS, STEPS_PER_BYTE = 120_000, 2
"""The same of an AdmissionReview, and per byte of it."""


class _TooManySteps(Exception):  # noqa: N818
    pass


def steps_of(act: Callable[[], str], most: int) -> tuple[int, str]:
    """How many functions are called, in Python or C, up to ``most``; and the result."""
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")
        if steps > most:
            raise _TooManySteps

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return steps, act()
    except _TooManySteps:
        return steps, "stopped"
    finally:
        sys.setprofile(before)


KIBIBYTES = 16 * 1024
"""What is read at most of a count."""


@pytest.mark.parametrize("scale", [True, False], ids=["scale", "object"])
@pytest.mark.parametrize(
    ("kind", "shape", "bytes_each"),
    [
        ("json-patch", "count", 49),
        ("json-patch", "move", 46),
        ("json-patch", "pointers", 25),
        ("json-patch", "slashes", 1),
        ("json-patch", "escapes", 2),
        ("json-patch", "value", 2),
        ("json-patch", "empty", 3),
        ("merge-patch", "numbers", 2),
        ("merge-patch", "strings", 9),
        ("strategic-merge-patch", "fractions", 4),
        ("strategic-merge-patch", "labels", 8),
        ("json", "deep", 181),
        ("json", "quotes", 2),
        ("protobuf", "unknown", 2),
        ("protobuf", "names", 3),
        ("protobuf", "specs", 2),
    ],
)
def test_the_body_of_a_count_takes_few_steps_however_it_is_made(kind, shape, bytes_each, scale):
    for size in (KIBIBYTES // bytes_each - 100, KIBIBYTES // bytes_each // 8):
        case = Case(kind, shape, size, scale)
        body = case.body()
        steps, found = steps_of(lambda case=case, body=body: run(case, body), STEPS_OF_A_COUNT)
        assert found != "stopped", (len(body), steps)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ("empty-containers", 20_000),
        ("null-containers", 20_000),
        ("containers", 4_000),
        ("volumes", 30_000),
        ("claims", 20_000),
        ("amounts", 20_000),
        ("overhead", 20_000),
        ("labels", 20_000),
        ("owners", 20_000),
        ("numbers", 1_000_000),
        ("fractions", 500_000),
        ("empty-lists", 90_000),
        ("strings", 300_000),
        ("deep", 5_000),
    ],
)
def test_a_costly_body_is_refused_before_it_costs_more_than_its_share(shape, size):
    case = Case("review", shape, size)
    body = case.body()
    most = STEPS + STEPS_PER_BYTE * len(body)
    steps, found = steps_of(lambda: run(case, body), most)
    assert (found, steps <= most) == ("too-complex", True)


def test_the_error_names_the_place_and_the_cure():
    with pytest.raises(BodyError, match=r"too-complex: the lists: more than 10 units of work; send less"):
        Work(10).spend(11, "the lists", "send less")


def test_work_is_used_up_exactly():
    work = Work(10)
    work.spend(4, "here")
    work.spend(6, "here")
    assert work.left == 0


def test_what_there_is_grows_with_a_review_up_to_a_bound_and_not_with_a_count():
    assert of_count().limit == COUNT
    assert [of_review(size).limit for size in (0, 100_000, 3 << 20)] == [REVIEW, REVIEW + 50_000, MOST]
    assert [of_review_at_once(size).limit for size in (0, 3 << 20)] == [AT_ONCE, AT_ONCE]


# What real objects need.


@pytest.mark.parametrize("old", [True, False], ids=["update", "create"])
def test_a_review_of_a_deployment_of_a_mebibyte_is_read(old):
    """200 containers, and the whole once more in the annotation that ``kubectl apply`` writes."""
    containers = [
        {
            "name": f"c{n}",
            "image": "registry.example/shop/app:1.2.3",
            "env": [{"name": f"SETTING_{m}", "value": "x" * 20} for m in range(50)],
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": f"{n + 1}", "memory": "2Gi"}},
        }
        for n in range(200)
    ]
    web = workload(replicas=3)
    web["spec"]["template"]["spec"]["containers"] = containers
    web["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(web["spec"])}
    body = json.dumps(admission(web, workload() if old else None)).encode()
    assert len(body) > 1_000_000
    assert read_at_once(body) is None
    review = read(body)
    write = review.question.reading
    assert isinstance(write, Write)
    assert write.replicas == 3
    assert b'"c199"' in write.object.template.text


# What comes back from where a review is read.

MEBIBYTES = 2 << 20


def by(**who: object) -> dict[str, object]:
    return admission(workload(), workload(replicas=2), userInfo=who)


def with_metadata(**metadata: object) -> dict[str, object]:
    new = workload()
    new["metadata"].update(metadata)
    return admission(new, workload(replicas=2))


def with_resources(resources: object) -> dict[str, object]:
    return admission(workload() | {"spec": {"template": pod(resources, {})}}, workload(replicas=2))


def with_owner(**owner: str) -> dict[str, object]:
    whole = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    return with_metadata(ownerReferences=[whole | owner])


def resized(resources: object) -> dict[str, object]:
    old = {"metadata": {"name": "p", "namespace": "team-a", "resourceVersion": "7"}, "spec": {"containers": [{}]}}
    new = old | {"spec": {"containers": [{"resources": {"requests": resources}}]}}
    of_pods = {"group": "", "version": "v1", "resource": "pods"}
    return admission(new, old, subresource="resize", resource=of_pods)


MANY = {f"example.com/r{n}": "1" for n in range(8_000)}

REVIEWS = {
    "groups": by(username="jane", groups=["g" * 70] * 30_000),
    "a-group": by(username="jane", groups=["g" * MEBIBYTES]),
    "user": by(username="j" * MEBIBYTES),
    "pods": by(username="jane", extra={"authentication.kubernetes.io/pod-name": ["p" * 70] * 30_000}),
    "name": admission(workload(), workload(), name="n" * MEBIBYTES),
    "uid": admission(workload(), workload(), uid="u" * MEBIBYTES),
    "owner": with_owner(name="n" * MEBIBYTES),
    "owner-group": with_owner(apiVersion="a/" * MEBIBYTES),
    "label": with_metadata(labels={"a": "b" * MEBIBYTES}),
    "resource": with_resources({"c" * MEBIBYTES: True}),
    "resources": with_resources(MANY),
    "amount": with_resources({"cpu": "1" * MEBIBYTES}),
    "version": with_metadata(resourceVersion="1" * MEBIBYTES, uid="u" * MEBIBYTES),
    "resized": resized(MANY),
    "resized-name": resized({"c" * MEBIBYTES: "1"}),
}


@pytest.mark.parametrize("tree", REVIEWS.values(), ids=REVIEWS)
def test_little_comes_back_of_a_long_review(tree: object):
    """The loop takes it in, and keeps it for as long as the decision is there."""
    body = json.dumps(tree).encode()
    assert read_at_once(body) is None
    assert len(pickle.dumps(read(body))) < MAX_COUNTS_BYTES + MAX_WHO


@pytest.mark.parametrize("who", [{"groups": ["g"] * 4097}, {"groups": ["g" * 65_536]}, {"username": "j" * 65_537}])
def test_somebody_who_is_too_long_to_be_told_is_refused_by_name_and_what_is_no_write_passes(who: dict):
    review = read(json.dumps(by(**{"username": "jane", **who})).encode())
    assert review.question.requester is None
    assert (review.question.reading.code, review.question.reading.ref.name) == ("requester-too-long", "web")
    same = read(json.dumps(admission(workload(), workload(), userInfo=who)).encode())
    assert same.question.reading.code == "no-count"
