"""No body costs more than its share: the steps that it takes are counted, never the time.

The cases are what ``make fuzz`` and the authors of bodies found worst. Each is a line that makes the body.
"""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Callable

import cbor2
import pytest

from extauthz.core.budget import (
    AT_ONCE,
    BASE,
    MEANING,
    MOST,
    REST,
    SCALE,
    Work,
    at_once,
    of_body,
    of_meaning,
    of_rest,
)
from extauthz.core.effects.resolve import resolve
from extauthz.core.errors import BodyError, ObjectError
from extauthz.core.intake.aside import read_aside
from extauthz.core.intake.read import MAX_KEPT, Reader, read
from extauthz.core.model import Outcome, Put, Request, Unreadable, Write
from extauthz.core.objects.fields import mapping
from tests.fuzz.measure import OBJECT, Case, observed, run

STEPS, STEPS_PER_BYTE = 120_000, 2
"""Calls of functions that reading and resolving a body may take, and per byte of it."""


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


@pytest.mark.parametrize(
    ("case", "result"),
    [
        pytest.param(Case("json-patch", "move", 30_000), "too-complex", id="moves"),
        pytest.param(Case("json-patch", "copy", 60), "too-complex", id="copies-that-double"),
        pytest.param(Case("json-patch", "shift", 9_000), "too-complex", id="insertions"),
        pytest.param(Case("json-patch", "pointers", 9_000), "too-complex", id="long-pointers"),
        pytest.param(Case("json-patch", "test", 9_000), "too-complex", id="tests"),
        pytest.param(Case("json-patch", "move-template", 4_000), "too-complex", id="moves-of-the-template"),
        pytest.param(Case("json-patch", "empty", 9_000), "too-complex", id="empty-operations"),
        pytest.param(Case("apply-yaml", "replicas-only", 1, 4_000), "too-complex", id="apply-to-4000-containers"),
        pytest.param(Case("apply-yaml", "replicas-only", 1, 700), "too-complex", id="apply-to-700-containers"),
        pytest.param(Case("apply-yaml", "replicas-only", 1, 500), "too-complex", id="apply-to-500-containers"),
        pytest.param(Case("apply-yaml", "replicas-only", 1, 250), "too-complex", id="apply-to-250-containers"),
        pytest.param(Case("merge-patch", "overhead", 1, 4_000), "too-complex", id="merge-into-4000-containers"),
        pytest.param(Case("merge-patch", "strings", 1, 4_000), "too-complex", id="template-of-4000-containers"),
        pytest.param(Case("apply-yaml", "keys", 415, 700), "too-complex", id="keys-and-700-containers"),
        pytest.param(Case("apply-yaml", "quotes", 415_569, 500), "too-complex", id="quotes-and-500-containers"),
        pytest.param(Case("json", "empty-containers", 20_000), "too-complex", id="empty-containers"),
        pytest.param(Case("json", "claims", 20_000), "too-complex", id="claims"),
        pytest.param(Case("json", "amounts", 20_000), "too-complex", id="amounts"),
        pytest.param(Case("json", "labels", 20_000), "too-complex", id="labels"),
        pytest.param(Case("json", "numbers", 1_000_000), "too-complex", id="numbers"),
        pytest.param(Case("merge-patch", "empty-lists", 90_000), "too-complex", id="empty-lists"),
        pytest.param(Case("merge-patch", "strings", 300_000), "too-complex", id="strings"),
        pytest.param(Case("strategic-merge-patch", "volumes", 30_000), "too-complex", id="volumes"),
        pytest.param(Case("strategic-merge-patch", "deletions", 10_000), "too-complex", id="deletions"),
        pytest.param(Case("yaml", "items", 100_000), "too-complex", id="yaml-items"),
        pytest.param(Case("yaml", "aliases", 100_000), "too-complex", id="yaml-aliases"),
        pytest.param(Case("yaml", "merge-list", 100_000), "too-complex", id="yaml-merges"),
        pytest.param(Case("yaml", "deep-flow", 1_000_000), "too-complex", id="yaml-deep"),
        pytest.param(Case("yaml", "deep-flow", 3_000, scale=True), "too-complex", id="yaml-deep-scale"),
        pytest.param(Case("strategic-merge-patch", "order", 412, 1_000), "too-complex", id="order-of-1000-containers"),
        pytest.param(Case("cbor", "numbers", 1_000_000), "too-complex", id="cbor-numbers"),
        pytest.param(Case("cbor", "chunks", 1_000_000), "too-complex", id="cbor-chunks"),
        pytest.param(Case("protobuf", "unknown", 1_000_000), "too-complex", id="protobuf-fields"),
        pytest.param(Case("protobuf", "amounts", 100_000), "too-complex", id="protobuf-amounts"),
    ],
)
def test_a_costly_body_is_refused_before_it_costs_more_than_its_share(case, result):
    body, _ = case.body(), observed(case.containers)
    most = STEPS + STEPS_PER_BYTE * len(body)
    steps, found = steps_of(lambda: run(case, body), most)
    assert (found, steps <= most) == (result, True)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case("yaml", "tag-directives", 60_000), id="many-tag-directives"),
        pytest.param(Case("yaml", "long-prefix", 60_000), id="a-long-prefix-used-often"),
    ],
)
def test_yaml_directives_take_no_time_in_the_parser(case):
    """libyaml is written in C: no steps can be counted, so that another process with a limit of its own reads them."""
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (5, 5));"
        f"from tests.fuzz.measure import Case, run; case = {case!r}; print(run(case, case.body()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "too-complex\n"), done.stderr


@pytest.mark.parametrize("separator", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_a_directive_may_follow_any_line_break(separator):
    body = f"%X{separator}" * 9 + "--- {spec: {}}"
    assert code(Request("PUT", OBJECT, {"content-type": "application/yaml"}, body.encode())) == "too-complex"


@pytest.mark.parametrize(("lines", "expected"), [(8, "yaml-syntax"), (9, "too-complex")])
def test_a_handful_of_directives_is_left_to_the_parser(lines, expected):
    body = "%YAML 1.1\n" * lines + "--- {spec: {}}"
    assert code(Request("PUT", OBJECT, {"content-type": "application/yaml"}, body.encode())) == expected


def code(request: Request) -> str:
    found = read(request)
    return found.code if isinstance(found, Unreadable) else "read"


@pytest.mark.parametrize("kind", ["json-patch", "merge-patch", "apply-cbor", "protobuf"])
def test_a_scale_has_a_fifth_of_the_work_whatever_its_length(kind):
    shape = {"json-patch": "test", "protobuf": "unknown"}.get(kind, "numbers")
    case = Case(kind, shape, 1_300, scale=True)
    body = case.body()
    assert len(body) < 64 * 1024 or kind == "json-patch"
    steps, found = steps_of(lambda: run(case, body), STEPS // 5)
    assert found in ("too-complex", "body-too-large"), steps
    assert run(case._replace(scale=False), body) != "body-too-large"


def test_the_error_names_the_place_and_the_cure():
    with pytest.raises(BodyError, match=r"too-complex: the lists: more than 10 units of work; send less"):
        Work(10).spend(11, "the lists", "send less")


def test_work_is_used_up_exactly():
    work = Work(10)
    work.spend(4, "here")
    work.spend(6, "here")
    assert (work.used, work.left) == (10, 0)


def test_what_there_is_grows_with_the_body_up_to_a_bound_and_not_for_a_scale():
    assert of_body(MAX_KEPT, scale=False).limit == SCALE
    assert of_body(100_000, scale=True).limit == SCALE
    assert of_body(100_000, scale=False).limit == BASE + 50_000
    assert of_body(3 << 20, scale=False).limit == MOST
    assert (of_meaning(scale=True).limit, of_meaning(scale=False).limit) == (SCALE, MEANING)


def test_where_others_wait_there_is_little_however_long_the_body_is():
    assert [at_once(size, scale=False).limit for size in (MAX_KEPT, 10_000, 3 << 20)] == [SCALE, AT_ONCE, AT_ONCE]
    assert at_once(10_000, scale=True).limit == SCALE
    assert of_rest().limit == REST


# What real objects need.

CONTAINERS = [
    {
        "name": f"c{n}",
        "image": "registry.example/shop/app:1.2.3",
        "env": [{"name": f"SETTING_{m}", "value": "x" * 20} for m in range(50)],
        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": f"{n + 1}", "memory": "2Gi"}},
    }
    for n in range(200)
]


def deployment() -> dict[str, object]:
    """200 containers, and the whole once more in the annotation that ``kubectl apply`` writes: about 1 MiB."""
    spec = {"replicas": 3, "template": {"spec": {"containers": CONTAINERS}}}
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"spec": spec})}
    return {"metadata": {"name": "web", "annotations": annotation}, "spec": spec}


@pytest.mark.parametrize(
    ("method", "content_type", "encode"),
    [
        ("PUT", "application/json", json.dumps),
        ("PUT", "application/cbor", cbor2.dumps),
        ("PATCH", "application/merge-patch+json", json.dumps),
        ("PATCH", "application/strategic-merge-patch+json", json.dumps),
        ("PATCH", "application/apply-patch+yaml", json.dumps),
        ("PATCH", "application/apply-patch+cbor", cbor2.dumps),
        (
            "PATCH",
            "application/json-patch+json",
            lambda tree: json.dumps([{"op": "replace", "path": "", "value": tree}]),
        ),
    ],
)
@pytest.mark.parametrize("containers", [1, 200])
def test_a_deployment_of_a_mebibyte_passes(method, content_type, encode, containers):
    encoded = encode(deployment())
    body = encoded if isinstance(encoded, bytes) else encoded.encode()
    assert len(body) > 1_000_000
    request = Request(method, OBJECT, {"content-type": content_type}, body)
    assert Reader().at_once(request) is None
    found = read_aside(request)
    assert isinstance(found, Write), found
    outcome = resolve(found, observed(containers))
    assert isinstance(outcome, Outcome), outcome
    assert outcome == resolve(read(request), observed(containers))
    assert outcome.replicas == 3
    assert b'"c199"' in outcome.templates[0].text


def test_patches_of_one_container_of_200_pass():
    operation = {"op": "replace", "path": "/spec/template/spec/containers/7/resources/requests/cpu", "value": "2"}
    strategic = {"spec": {"template": {"spec": {"containers": [{"name": "c7", "image": "x"}]}}}}
    for kind, body in (("json-patch", [operation] * 200), ("strategic-merge-patch", strategic)):
        found = read(Request("PATCH", OBJECT, {"content-type": f"application/{kind}+json"}, json.dumps(body).encode()))
        assert isinstance(found, Write), found
        assert isinstance(resolve(found, observed(200)), Outcome)


# What is remembered.

MERGE = {"content-type": "application/merge-patch+json"}


def growth(act: Callable[[], None]) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        act()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_a_reader_keeps_nothing_of_what_is_no_write_or_cannot_be_read():
    reader = Reader()

    def ask() -> None:
        for n in range(400):
            padding = "x" * 100 + str(n)
            reader(Request("PATCH", f"/apis/example.dev/v1/{padding}", MERGE, b"{}"))
            reader(Request("GET", f"{OBJECT}{padding}", {}, b""))
            reader(Request("PATCH", f"/apis/apps/v1/namespaces//{padding}/scale", MERGE, b"{}"))
            reader(Request("PATCH", OBJECT, MERGE, b'{"%s":' % padding.encode()))
            reader(Request("PATCH", OBJECT, MERGE, b"[" + padding.encode()))

    assert growth(ask) < 40_000


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/merge-patch+json", '{{"a":[{}{{}}],"n":{}}}'),
        ("application/apply-patch+yaml", "{{a: &a [[],[],[]], b: [{}{{}}], n: {}}}"),
    ],
)
def test_what_a_reader_keeps_of_one_patch_is_bounded(content_type, body):
    reader, count = Reader(), 300
    filler = "*a," * 25 if "yaml" in content_type else "{}," * 70

    def ask() -> None:
        for n in range(count):
            sent = body.format(filler, n).encode()
            assert len(sent) + len(content_type) <= MAX_KEPT
            assert isinstance(reader(Request("PATCH", OBJECT, {"content-type": content_type}, sent)), Write)

    assert growth(ask) / count < 1024


def test_a_patch_of_few_values_is_kept_and_one_of_many_is_read_anew():
    reader = Reader()
    few, many = b'{"spec":{"replicas":3}}', b'{"a":[' + b"0," * 40 + b"0]}"
    kept = [reader(Request("PATCH", OBJECT, MERGE, body)).change for body in (few, few, many, many)]
    assert kept[0] is kept[1]
    assert kept[2] is not kept[3]


def test_a_template_goes_with_the_last_who_holds_it():
    found = read(Request("PUT", OBJECT, {}, Case("json", "containers", 3).body()))
    outcome = resolve(found, None)
    again = resolve(found, None)
    assert outcome.templates[0] is again.templates[0]
    held = weakref.ref(outcome.templates[0])
    del outcome, again
    gc.collect()
    assert held() is None


def test_long_labels_are_not_kept_for_sharing():
    def ask() -> None:
        for n in range(20):
            tree = {"metadata": {"labels": {f"{n}{'x' * 50_000}": ""}}, "spec": {"template": {}}}
            resolve(written._replace(change=Put(tree)), None)

    written = read(Request("PUT", OBJECT, {}, b"{}"))
    assert growth(ask) < 200_000


# What stands in the path.


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/apis/apps/v1/namespaces/shop/deployments/" + "w" * 253, "read"),
        ("/apis/apps/v1/namespaces/shop/deployments/" + "w" * 254, "target-too-long"),
        ("/apis/apps/v1/namespaces/" + "n" * 254 + "/deployments/web", "target-too-long"),
        ("/apis/example.dev/v1/namespaces/shop/" + "w" * 254 + "/a/scale", "target-too-long"),
        (OBJECT + "?x=" + "x" * 32_766, "read"),
        (OBJECT + "?x=" + "x" * 32_767, "target-too-long"),
        (OBJECT + "/" * 8_192, "target-too-long"),
        (OBJECT + "%2F" * 3_000, "target-too-long"),
        ("/apis/example.dev/v1/%73" + "x" * 8_192, "target-too-long"),
        ("/apis/example.dev/v1/" + "x" * 8_192, "other-resource"),
    ],
)
def test_a_target_is_as_long_as_the_api_server_could_need(target, expected):
    found = read(Request("PUT", target, {}, b"{}"))
    assert getattr(found, "code", "read") == expected
    if expected == "target-too-long":
        assert found.ref is None
        assert len(found.detail) < 200


def test_a_long_method_is_cut():
    assert len(read(Request("X" * 10_000, OBJECT, {}, b"")).detail) < 200


def test_a_name_in_a_body_is_as_long_as_a_name_may_be():
    for length, expected in ((253, "read"), (254, "name-too-long")):
        body = json.dumps({"metadata": {"name": "x" * length}}).encode()
        assert code(Request("POST", "/apis/apps/v1/namespaces/shop/deployments", {}, body)) == expected


def test_a_uid_that_no_server_makes_is_not_kept():
    body = json.dumps({"metadata": {"uid": "x" * 254}}).encode()
    assert read(Request("PUT", OBJECT, {}, body)).precondition.uid is None


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
