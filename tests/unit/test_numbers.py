"""Numbers of foreign text are bounded, or none: nothing that the API server stores raises."""

from __future__ import annotations

import json

import pytest

from extauthz.core import numbers
from extauthz.core.ledger.entry import is_newer
from extauthz.core.objects.workloads import DEFAULT_SURGE, observe
from extauthz.explain.knative import rules
from extauthz.inputs.kube.connection import _refusal
from extauthz.testing import workload

MANY = "9" * 5_000


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), (str(2**64 - 1), 2**64 - 1), (str(2**64), None), (MANY, None), ("0" * 5_000 + "7", 7)]
    + [(text, None) for text in ("", "-1", "+1", " 1", "1_0", "1.0", "٣", "²", "1e3", "x")],
)
def test_a_number_is_plain_digits_and_bounded(text: str, number: int | None):
    assert numbers.whole(text) == number


@pytest.mark.parametrize(
    ("surge", "kept"),
    [("25%", "25%"), (f"{MANY}%", f"{2**31 - 1}%"), ("٣%", "0%"), ("%", "0%"), (3, 3), (-3, 0), (10**5_000, 2**31 - 1)],
    ids=lambda value: str(value)[:9] if not isinstance(value, int) else "number",
)
def test_a_max_surge_is_bounded_where_it_is_read(surge: object, kept: object):
    tree = workload("web", 3)
    tree["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": surge}}
    template = observe(tree)[1].template
    assert template is not None
    assert json.loads(template.text).get("maxSurge", DEFAULT_SURGE) == kept


@pytest.mark.parametrize("digits", [MANY, "x", "٣"])
def test_versions_waits_and_annotations_of_any_length_are_read(digits: str):
    assert is_newer(digits, "1") == (digits == MANY), "versions are ordered at any length (KEP-5504)"
    assert not is_newer("1", digits)
    assert rules.integer(digits) is None
    assert _refusal(503, {"Retry-After": digits}, b"{}").retry_after_s is None


def test_an_integer_of_knative_is_an_int32():
    assert [rules.integer(text) for text in ("-3", "+3", "-2147483648", "-2147483649")] == [-3, 3, -(2**31), None]
