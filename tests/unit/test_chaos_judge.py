"""The judge of ``make chaos`` itself: what it excuses, and what it does not."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tests.chaos.history import Change, Judge

W = 10.0
Tree = Any


class Story:
    """What happens, and when. A namespace ``shop`` under the quota ``acme`` of ten pods, which is under ``corp``."""

    def __init__(self) -> None:
        self.judge = Judge(W)
        self.now_s = 0.0
        self._revisions = count(1)
        self.quota("corp", "20", None, selected=False)
        self.quota("acme", "10", "corp")
        self.happens("Namespace", "shop", {"metadata": {"name": "shop", "labels": {"team": "acme"}}})

    def happens(self, kind: str, name: str, tree: Tree) -> None:
        self.judge.take(Change(next(self._revisions), self.now_s, kind, name, tree))

    def quota(self, name: str, pods: str, parent: str | None = None, *, selected: bool = True) -> None:
        spec: Tree = {"hard": {"pods": pods}, "parent": parent}
        if selected:
            spec["namespaceSelector"] = {"matchLabels": {"team": "acme"}}
        self.happens("WorkspaceQuota", name, {"spec": spec})

    def grow(self, replicas: int, name: str = "web") -> None:
        container = {"resources": {"requests": {"cpu": "250m"}}}
        spec = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
        self.happens("Deployment", f"shop/{name}", {"metadata": {"namespace": "shop"}, "spec": spec})

    @property
    def verdict(self) -> list[str]:
        return [f"{quota} {len(one.in_excess)}" for (quota, _), one in self.judge.accounts.items() if one.in_excess]


@pytest.fixture
def story() -> Story:
    return Story()


def test_growth_up_to_the_limit_is_fine_and_one_beyond_it_is_not(story: Story):
    story.grow(10)
    assert story.verdict == []
    story.grow(1, "other")
    assert story.verdict == ["acme 1"]
    assert "shop/other took acme from 10 to 11 pods, of 10" in story.judge.in_excess[0]


def test_ancestors_are_judged_too(story: Story):
    story.quota("acme", "99", "corp")
    story.grow(21)
    assert story.verdict == ["corp 1"]


def test_what_was_granted_before_a_cut_may_land_within_w_up_to_the_limit_of_then(story: Story):
    story.grow(8)
    story.quota("acme", "5", "corp")
    story.now_s = W
    story.grow(10)
    assert story.verdict == []
    story.grow(11)
    assert story.verdict == ["acme 1"]


def test_after_w_a_cut_excuses_nothing(story: Story):
    story.grow(8)
    story.quota("acme", "5", "corp")
    story.now_s = W + 1
    story.grow(9)
    assert story.verdict == ["acme 1"]


def test_shrinking_while_over_is_fine_and_growing_again_is_not(story: Story):
    story.grow(8)
    story.quota("acme", "5", "corp")
    story.now_s = W + 1
    story.grow(7)
    assert story.verdict == []
    story.grow(8)
    assert story.verdict == [], "it may have been decided when there were eight"
    story.grow(6)
    story.now_s = 2 * W + 2
    story.grow(8)
    assert story.verdict == ["acme 1"]


def test_a_second_cut_takes_no_excuse_away_from_what_was_granted_before_the_first(story: Story):
    story.quota("acme", "6", "corp")
    story.quota("acme", "3", "corp")
    story.grow(10)
    assert story.verdict == []


def test_a_quota_that_comes_under_another_root_is_as_good_as_a_cut_there(story: Story):
    story.quota("tiny", "2", selected=False)
    story.grow(5)
    story.quota("acme", "10", "tiny")
    story.grow(6)
    assert story.verdict == []
    story.now_s = W + 1
    story.grow(7)
    assert story.verdict == ["tiny 1"]


def test_what_is_deleted_counts_no_more(story: Story):
    story.grow(10)
    story.happens("Deployment", "shop/web", None)
    story.grow(10, "other")
    assert story.verdict == []
    assert story.judge.charges()["corp", "pods"] == 10_000
    assert story.judge.charges()["acme", "requests.cpu"] == 2500


def test_the_table_shows_where_each_was_fullest_and_against_which_limit(story: Story):
    story.grow(9)
    story.quota("acme", "20", "corp")
    story.grow(12)
    row = next(line.split() for line in story.judge.table().splitlines() if line.startswith("acme"))
    assert row == ["acme", "pods", "20", "9", "10", "2", "0", "0"]
