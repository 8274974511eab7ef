"""Quantities are read and printed exactly as Kubernetes does it, within bounds."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extauthz.core import quantities, texts
from extauthz.core.quantities import CEILING, NANO, QuantityError
from tests.waiting import not_hanging

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
