"""Label selectors in text: as they go into a query, and as a scale's status has them."""

from __future__ import annotations

import pytest

from extauthz.cluster.selectors import parsed, spelled
from extauthz.core.errors import ObjectError


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
    assert spelled(selector) == text


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
