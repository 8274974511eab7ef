"""A pod's footprint is what ResourceQuota would charge for it, and what cannot be read has a code and a path."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extauthz.core import footprint, quantities, resources, texts
from extauthz.core.errors import ObjectError
from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.quantities import CEILING, NANO, QuantityError
from tests.waiting import not_hanging

RECORDED = Path(__file__).parents[1] / "data" / "footprints.jsonl"
CASES = [json.loads(line) for line in RECORDED.read_text().splitlines()]
REFUSED_BY_VALUE = ("greater than or equal to 0", "must be an integer", "must be greater than zero")


def must_raise(case: dict) -> bool:
    return "error" in case or any(why in line for line in case.get("refused", ()) for why in REFUSED_BY_VALUE)


def cost(case: dict) -> dict[str, int]:
    ranges = [footprint.parse_limit_range(tree) for tree in case.get("limitRanges", ())]
    return footprint.per_pod(case["tree"], ranges, terms=footprint.DeviceTerms(extended={"gpu": ""}))


def pod(*containers: dict, **spec: object) -> dict:
    return {"template": {"spec": {"containers": list(containers), **spec}}}


def wants(**requests: object) -> dict:
    return {"name": "c", "resources": {"requests": requests}}


@pytest.mark.parametrize("case", [c for c in CASES if not must_raise(c)], ids=lambda c: c["name"])
def test_a_pod_costs_what_resource_quota_charges_for_it(case):
    charged = {resources.canonical(key): min(nanos, CEILING) for key, nanos in case["costs"].items()}
    of_its_own = {key: amount for key, amount in cost(case).items() if not key.endswith(resources.DEVICES)}
    assert of_its_own == charged  # devices it charges for the claim that the scheduler makes


@pytest.mark.parametrize("case", [c for c in CASES if must_raise(c)], ids=lambda c: c["name"])
def test_what_the_api_server_refuses_for_its_type_or_value_is_refused(case):
    with pytest.raises(ObjectError):
        cost(case)


def test_the_recording_asks_about_hundreds_of_pods():
    assert len(CASES) > 200
    assert sum(map(must_raise, CASES)) > 15


BAD_SPECS = [
    pytest.param(
        pod(wants(cpu="1Gb")), "bad-quantity", "template.spec.containers[0].resources.requests[cpu]", id="unit"
    ),
    pytest.param(
        pod(wants(cpu="-1")), "negative-quantity", "template.spec.containers[0].resources.requests[cpu]", id="negative"
    ),
    pytest.param(
        pod({"resources": {"limits": {"nvidia.com/gpu": "500m"}}}),
        "fractional-quantity",
        "template.spec.containers[0].resources.limits[nvidia.com/gpu]",
        id="half-a-gpu",
    ),
    pytest.param(
        pod(resources={"requests": {"cpu": "-1"}}),
        "negative-quantity",
        "template.spec.resources.requests[cpu]",
        id="pod-level",
    ),
    pytest.param(pod(overhead={"cpu": True}), "bad-quantity", "template.spec.overhead[cpu]", id="overhead"),
    pytest.param(pod(initContainers="x"), "malformed-object", "template.spec.initContainers", id="no-list"),
    pytest.param(pod([]), "malformed-object", "template.spec.containers[0]", id="no-object"),
    pytest.param(
        pod(initContainers=[{"restartPolicy": 1}]),
        "malformed-object",
        "template.spec.initContainers[0].restartPolicy",
        id="policy",
    ),
    pytest.param(pod(runtimeClassName=[]), "malformed-object", "template.spec.runtimeClassName", id="runtime-class"),
    pytest.param(
        pod(volumes=[{}, {"ephemeral": {"volumeClaimTemplate": {"spec": 5}}}]),
        "malformed-object",
        "template.spec.volumes[1].ephemeral.volumeClaimTemplate.spec",
        id="ephemeral-volume",
    ),
    pytest.param(
        {**pod(), "volumeClaimTemplates": [{"spec": {"storageClassName": 1}}]},
        "malformed-object",
        "volumeClaimTemplates[0].spec.storageClassName",
        id="class",
    ),
    pytest.param({}, "no-template", "template", id="no-template"),
    pytest.param({"template": None}, "no-template", "template", id="null-template"),
    pytest.param([], "malformed-object", "(root)", id="no-tree"),
]


@pytest.mark.parametrize(("tree", "code", "path"), BAD_SPECS)
def test_an_error_has_a_code_and_names_the_field(tree, code, path):
    with pytest.raises(ObjectError) as caught:
        footprint.per_pod(tree)
    assert (caught.value.code, caught.value.path) == (code, path)
    assert caught.value.detail.startswith(f"{path}: ")


def test_an_integer_of_thousands_of_digits_is_refused_without_being_printed():
    with pytest.raises(ObjectError, match="must not be below zero"):
        footprint.per_pod(pod(wants(cpu=-(10**5000))))


MANY = 10_000


def test_the_longest_lists_are_counted():
    tree = pod(*[wants(cpu="1m", memory="1Ki")] * MANY, initContainers=[wants(cpu="1")] * MANY)
    with not_hanging():
        assert footprint.per_pod(tree)["requests.cpu"] == 10 * NANO


def test_many_resources_beside_many_init_containers_do_not_multiply():
    sidecar = {**wants(**{f"example.com/r{i}": 1 for i in range(MANY)}), "restartPolicy": "Always"}
    with not_hanging():
        footprint.per_pod(pod(initContainers=[sidecar, *[wants(cpu="1")] * (MANY - 1)]))


def test_a_pruned_tree_costs_what_the_full_one_costs():
    full = {
        "metadata": {"name": "web"},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"nodeSelector": {"a": "b"}, "containers": [{**wants(cpu="1"), "image": "i", "ports": [{}]}]},
        },
    }
    assert footprint.per_pod(full) == footprint.per_pod(pod(wants(cpu="1")))


def test_a_runtime_class_adds_its_overhead():
    kata = footprint.parse_runtime_class({"overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}}})
    amounts = footprint.per_pod(pod(wants(cpu="1"), runtimeClassName="kata"), overheads={"kata": kata})
    assert amounts["requests.cpu"] == 1_250_000_000
    assert amounts["requests.memory"] == 120 * 2**20 * NANO


@pytest.mark.parametrize("tree", [{}, {"overhead": None}, {"overhead": {}}], ids=["none", "null", "empty"])
def test_a_runtime_class_without_overhead_adds_nothing(tree):
    assert footprint.parse_runtime_class(tree) == {}


def test_overhead_of_the_template_itself_goes_before_its_runtime_class():
    tree = pod(wants(cpu="1"), runtimeClassName="kata", overhead={"cpu": "100m"})
    assert footprint.per_pod(tree, overheads={"kata": {"cpu": NANO}})["requests.cpu"] == 1_100_000_000


def test_a_runtime_class_that_was_not_seen_is_told():
    tree = pod(wants(cpu="1"), runtimeClassName="nvidia")
    assert footprint.per_pod(tree, overheads={"kata": {}})[footprint.UNSEEN_CLASS] == NANO
    assert footprint.UNSEEN_CLASS not in footprint.per_pod(tree, overheads={"nvidia": {}})


@pytest.mark.parametrize(
    ("claim", "storage_class"),
    [
        pytest.param({}, "standard", id="none-named-takes-the-default"),
        pytest.param({"spec": {"storageClassName": None}}, "standard", id="null-takes-the-default"),
        pytest.param({"spec": {"storageClassName": "gold"}}, "gold", id="named"),
        pytest.param({"spec": {"storageClassName": ""}}, None, id="empty-is-no-class"),
    ],
)
def test_a_claim_is_charged_to_its_class(claim, storage_class):
    amounts = footprint.per_pod({**pod(), "volumeClaimTemplates": [claim]}, default_storage_class="standard")
    keys = [key for key in amounts if ".storageclass." in key]
    expected = [f"{storage_class}.storageclass.storage.k8s.io/persistentvolumeclaims"] if storage_class else []
    assert keys == expected


def test_a_limit_range_is_hashable_and_equal_ones_are_equal():
    tree = {"spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi", "cpu": 1}}]}}
    turned = {"spec": {"limits": [{"default": {"cpu": "1", "memory": "1024Mi"}, "type": "Container"}]}}
    assert footprint.parse_limit_range(tree) == footprint.parse_limit_range(turned)
    assert len({footprint.parse_limit_range(tree), footprint.parse_limit_range(turned)}) == 1


def test_a_limit_range_that_the_api_server_stores_with_a_negative_default_is_read_as_zero():
    item = {"type": "Container", "default": {"cpu": "-1", "nvidia.com/gpu": "500m"}}
    defaults = footprint.parse_limit_range({"spec": {"limits": [item]}})
    assert dict(defaults.limits) == {"cpu": 0, "nvidia.com/gpu": NANO // 2}


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        pytest.param({"spec": {"limits": {}}}, "spec.limits", id="no-list"),
        pytest.param(
            {"spec": {"limits": [{"type": "Container", "max": {"cpu": "x"}}]}}, "spec.limits[0].max[cpu]", id="unit"
        ),
    ],
)
def test_a_limit_range_that_cannot_exist_is_refused(tree, path):
    with pytest.raises(ObjectError) as caught:
        footprint.parse_limit_range(tree)
    assert caught.value.path == path


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 9), max_size=3)
CONTAINERS = st.builds(
    lambda requests, limits, sidecar: {
        "resources": {"requests": requests, "limits": limits},
        **({"restartPolicy": "Always"} if sidecar else {}),
    },
    AMOUNTS,
    AMOUNTS,
    st.booleans(),
)


def slow_requests(containers: list[dict], inits: list[dict]) -> dict[str, int]:
    """KEP-753's definition as it is written: the most that runs at any one time."""

    def asked(container: dict, name: str) -> int:
        given_resources = container["resources"]
        return given_resources["requests"].get(name, given_resources["limits"].get(name, 0))

    def at_once(name: str) -> int:
        moments = [
            asked(init, name) + sum(asked(i, name) for i in inits[:index] if "restartPolicy" in i)
            for index, init in enumerate(inits)
        ]
        running = sum(asked(c, name) for c in itertools.chain(containers, (i for i in inits if "restartPolicy" in i)))
        return max([running, *moments])

    return {name: at_once(name) for name in ("cpu", "memory", "nvidia.com/gpu")}


@given(st.lists(CONTAINERS, max_size=4), st.lists(CONTAINERS, max_size=5))
def test_requests_are_the_most_that_runs_at_any_one_time(containers, inits):
    amounts = footprint.per_pod(pod(*containers, initContainers=inits))
    expected = slow_requests(containers, inits)
    assert {name: amounts.get(f"requests.{name}", 0) for name in expected} == {k: v * NANO for k, v in expected.items()}


@given(st.lists(CONTAINERS, max_size=3), st.lists(AMOUNTS, min_size=1, max_size=3))
def test_more_limit_ranges_never_make_a_pod_cheaper(containers, defaults):
    ranges = [LimitRangeDefaults(tuple((k, v * NANO) for k, v in d.items())) for d in defaults]
    all_of_them = footprint.per_pod(pod(*containers), ranges)
    for fewer in (ranges[:-1], ranges[1:], []):
        for key, amount in footprint.per_pod(pod(*containers), fewer).items():
            assert all_of_them[key] >= amount


FIELDS = [
    *("template", "spec", "containers", "initContainers", "restartPolicy", "overhead", "metadata"),
    *("resources", "requests", "limits", "cpu", "type", "max", "default"),
    *("volumes", "ephemeral", "volumeClaimTemplate", "volumeClaimTemplates"),
]
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["Always", "Container", "1", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=30,
)
CODES = {"bad-quantity", "negative-quantity", "fractional-quantity", "malformed-object", "no-template"}


@given(TREES)
def test_no_tree_raises_anything_but_a_footprint_error(tree):
    for read in (footprint.per_pod, footprint.parse_limit_range, footprint.parse_runtime_class):
        assert code_of(read, tree) in CODES | {None}


def code_of(read, tree) -> str | None:
    try:
        read(tree)
    except ObjectError as error:
        return error.code
    return None


def test_a_claim_of_its_own_leaves_nothing_unsaid() -> None:
    assert footprint.unspecified({"claim": {"spec": {}}}) == {}


def test_what_containers_say_nothing_of_is_listed_by_key_and_name() -> None:
    both = {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
    spec = {"containers": [{"name": "b", "resources": both}, {"name": "a"}, {"resources": both}]}
    assert footprint.unspecified({"template": {"spec": spec}}) == {
        "limits.cpu": ("", "a", "b"),
        "limits.memory": ("a",),
        "requests.cpu": ("a",),
        "requests.memory": ("a",),
    }


def test_defaults_of_limit_ranges_fill_in_what_containers_say_nothing_of() -> None:
    ranges = (footprint.LimitRangeDefaults((("cpu", 1),), (("memory", 1),)),)
    assert footprint.unspecified({"template": {"spec": {"containers": [{"name": "a"}]}}}, ranges) == {
        "limits.cpu": ("a",),
        "requests.memory": ("a",),
    }


# Quantities are read and printed exactly as Kubernetes does it, within bounds.


DATA = Path(__file__).parents[1] / "data"


def recorded(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


READ = recorded("quantities.jsonl")
PRINTED = recorded("quantities-printed.jsonl")
KEY_OF_FORMAT = {"DecimalSI": "requests.cpu", "BinarySI": "requests.memory"}


def clamped(nanos: int) -> int:
    return max(-CEILING, min(nanos, CEILING))


@pytest.mark.parametrize("case", [c for c in READ if "nanos" in c], ids=lambda c: repr(c["text"]))
def test_what_go_reads_is_read_as_the_same_amount(case):
    assert quantities.parse(case["text"]) == clamped(case["nanos"])


@pytest.mark.parametrize("case", [c for c in READ if "error" in c], ids=lambda c: repr(c["text"]))
def test_what_go_refuses_is_refused(case):
    with pytest.raises(QuantityError):
        quantities.parse(case["text"])


@pytest.mark.parametrize("case", [c for c in READ if "huge" in c], ids=lambda c: repr(c["text"]))
def test_amounts_too_large_to_write_out_are_read_as_the_ceiling(case):
    assert quantities.parse(case["text"]) == (-CEILING if case["text"].startswith("-") else CEILING)


@pytest.mark.parametrize("case", PRINTED, ids=lambda c: f"{c['nanos']}-{c['format']}")
def test_amounts_of_cpu_and_memory_are_printed_as_in_go(case):
    assert quantities.format(case["nanos"], KEY_OF_FORMAT[case["format"]]) == case["prints"]


def test_the_recording_covers_every_kind_of_answer():
    assert len(READ) > 500
    assert {key for case in READ for key in case} == {"text", "nanos", "canonical", "error", "huge"}


@pytest.mark.parametrize(
    ("value", "nanos"),
    [
        pytest.param(2, 2 * NANO, id="integer"),
        pytest.param(-2, -2 * NANO, id="negative-integer"),
        pytest.param(0.1, NANO // 10, id="fraction"),
        pytest.param(1e-10, 1, id="below-a-nano"),
        pytest.param(1e22, 10**22 * NANO, id="a-float-printed-with-an-exponent"),
        pytest.param(10**5000, CEILING, id="an-integer-that-python-does-not-print"),
        pytest.param(-(10**5000), -CEILING, id="its-negative"),
        pytest.param(1e300, CEILING, id="above-the-ceiling"),
    ],
)
def test_json_numbers_are_read_as_they_are_spelled(value, nanos):
    assert quantities.parse(value) == nanos


@pytest.mark.parametrize(
    "value",
    [True, False, None, [], {}, b"1", math.nan, math.inf, -math.inf],
    ids=["true", "false", "null", "list", "object", "bytes", "nan", "inf", "-inf"],
)
def test_what_is_neither_text_nor_a_finite_number_is_refused(value):
    with pytest.raises(QuantityError, match=r"write (text or )?a number"):
        quantities.parse(value)


def test_true_is_refused_as_what_it_is_and_not_as_a_text():
    with pytest.raises(QuantityError, match="'bool' is not a quantity: write text or a number"):
        quantities.parse(True)


@pytest.mark.parametrize("exponent", ["2147483648", "-2147483648", "-2000000000", "6442450944"])
def test_exponents_that_make_go_compute_for_ever_are_rounded_up_all_the_same(exponent):
    with not_hanging():
        assert quantities.parse(f"1e{exponent}") == 1


def test_a_long_text_is_refused_at_once_and_not_repeated_whole():
    with pytest.raises(QuantityError, match="longer than 256 characters") as caught:
        quantities.parse("1" * 3_000_000)
    assert len(str(caught.value)) < 100


def test_the_longest_text_is_still_read():
    assert quantities.parse("0." + "0" * 253 + "1") == 1
    with pytest.raises(QuantityError):
        quantities.parse("0." + "0" * 254 + "1")


def test_an_error_says_what_was_written_and_why_it_is_wrong():
    with pytest.raises(QuantityError) as caught:
        quantities.parse("-1.5Gb ")
    assert str(caught.value).startswith("'-1.5Gb' is not a quantity: ")
    assert (caught.value.text, "1.5Gi" in caught.value.why) == ("-1.5Gb", True)


def test_an_unknown_unit_is_named():
    with pytest.raises(QuantityError, match=r"'1KiKi' is not a quantity: no unit is called 'KiKi'"):
        quantities.parse("1KiKi")


@pytest.mark.parametrize(
    ("nanos", "key", "text"),
    [
        pytest.param(500_000_000, "requests.cpu", "500m", id="cpu"),
        pytest.param(10 * NANO, "limits.cpu", "10", id="whole-cpu"),
        pytest.param(1536 * 2**20 * NANO, "limits.memory", "1536Mi", id="memory"),
        pytest.param(2**31 * NANO, "requests.storage", "2Gi", id="storage"),
        pytest.param(2**31 * NANO, "requests.ephemeral-storage", "2Gi", id="ephemeral-storage"),
        pytest.param(2**22 * NANO, "requests.hugepages-2Mi", "4Mi", id="huge-pages"),
        pytest.param(2**30 * NANO, "gold.storageclass.storage.k8s.io/requests.storage", "1Gi", id="class"),
        pytest.param(1024 * NANO, "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "1024", id="claims"),
        pytest.param(2000 * NANO, "pods", "2000", id="pods"),
        pytest.param(1024 * NANO, "count/deployments.apps", "1024", id="count"),
        pytest.param(4096 * NANO, "requests.nvidia.com/gpu", "4096", id="gpu"),
        pytest.param(1024 * NANO, "requests.example.com/memory", "1024", id="an-extended-resource-named-memory"),
        pytest.param(1_500_000_000, "pods", "1500m", id="a-count-that-is-not-whole"),
        pytest.param(-3 * NANO, "pods", "-3", id="negative"),
        pytest.param(0, "requests.cpu", "0", id="zero-cpu"),
        pytest.param(0, "requests.memory", "0", id="zero-memory"),
        pytest.param(0, "pods", "0", id="zero-pods"),
        pytest.param(10**21 * NANO, "requests.cpu", "1000E", id="above-the-largest-decimal-suffix"),
        pytest.param(2**70 * NANO, "requests.memory", "1024Ei", id="above-the-largest-binary-suffix"),
    ],
)
def test_each_quota_key_is_printed_in_its_own_unit(nanos, key, text):
    assert quantities.format(nanos, key) == text


KEYS = st.sampled_from(["requests.cpu", "requests.memory", "pods", "requests.nvidia.com/gpu"])


@given(st.integers(-(2**63 - 1) * NANO, (2**63 - 1) * NANO), KEYS)
@example(10**27, "requests.cpu")
def test_what_is_printed_reads_back_as_the_same_amount(nanos, key):
    assert quantities.parse(quantities.format(nanos, key)) == nanos


@given(st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**20), max_value=10**20))
def test_decimals_are_rounded_away_from_zero_to_the_next_nano(number):
    exact = Fraction(number) * NANO
    nanos = quantities.parse(f"{number:f}")
    assert abs(nanos) == math.ceil(abs(exact))
    assert nanos * exact >= 0


@given(st.text(alphabet="0123456789.+-eEinumkKMGTPib \t_x\u0660", max_size=12))
def test_no_text_raises_anything_but_a_quantity_error(text):
    try:
        nanos = quantities.parse(text)
    except QuantityError:
        return
    assert -CEILING <= nanos <= CEILING


@pytest.mark.parametrize(
    ("text", "shown"), [("", ""), ("abcde", "abcde"), ("abcdef", "abcd…"), ("ä" * 9, "ääää…")]
)  # fmt: skip
def test_a_text_beyond_the_bound_is_cut_and_marked(text: str, shown: str):
    assert texts.cut(text, 5) == shown
