"""What is noticed of a live cluster's watches: which fails, which stalls, and what is still waited for."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from extauthz.core.ledger.coverage import Coverage
from extauthz.core.quota.spec import WorkspaceQuota, parse, written
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster.live import NAMESPACES
from extauthz.inputs.kube.resource import Resource
from extauthz.inputs.sources.kubernetes import WORKSPACE_QUOTAS
from extauthz.serve.service import sources
from extauthz.serve.service.live import Watchdog, waiting
from extauthz.tell.observe.log import Log


def watch(plural: str, age_s: float = 1.0, error: str = "", *, synced: bool = True) -> Any:
    """What is looked at of a reflector."""
    known = {"namespaces": NAMESPACES, "workspacequotas": WORKSPACE_QUOTAS}
    resource = known.get(plural) or Resource("", "v1", plural, "Any")
    return SimpleNamespace(resource=resource, synced=synced, age_s=age_s, last_error=error)


class Guarded:
    """A watchdog, and what it logs."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self._log = Log(self._stream)
        self.dog = Watchdog(self._log, stale_after_s=60.0)

    def told(self) -> list[tuple[str, str]]:
        self._log.close()
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [(line["resource"], line["error"]) for line in lines if line["event"] == "watch-failed"]


@pytest.mark.parametrize(
    ("watches", "why"),
    [
        pytest.param([], None, id="none"),
        pytest.param([watch("pods", 59.0)], None, id="fresh"),
        pytest.param([watch("pods", 61.0)], ("nothing was heard of pods for 61 s", False), id="silent"),
        pytest.param(
            [watch("pods", 70.0), watch("jobs", 90.0)], ("nothing was heard of jobs for 90 s", False), id="the-longest"
        ),
        pytest.param(
            [watch("namespaces", 70.0), watch("jobs", 90.0)],
            ("nothing was heard of namespaces for 70 s", True),
            id="what-says-who-is-covered-goes-first",
        ),
        pytest.param(
            [watch("workspacequotas", 70.0)],
            ("nothing was heard of workspacequotas.extauthz.dev for 70 s", True),
            id="quotas",
        ),
        pytest.param(
            [watch("pods", 61.0, "reset")], ("nothing was heard of pods for 61 s (reset)", False), id="with-its-error"
        ),
        pytest.param([watch("gadgets", 900.0, synced=False)], None, id="never-listed"),
    ],
)
def test_a_watch_is_stalled_when_it_was_silent_for_too_long(watches, why):
    assert Guarded().dog.stale(watches) == why


def test_each_error_is_told_once_and_again_after_it_was_over():
    guarded = Guarded()
    for error in ("reset", "reset", "refused", "", "refused"):
        guarded.dog.look([watch("pods", error=error), watch("jobs")])
    assert guarded.told() == [("pods", "reset"), ("pods", "refused"), ("pods", "refused")]


def test_what_is_waited_for_is_named_with_what_is_wrong():
    assert waiting([watch("pods"), watch("jobs", synced=False), watch("gadgets", error="403", synced=False)]) == [
        "jobs has not been listed yet",
        "gadgets has not been listed yet: 403",
    ]


FILE = Path("quotas.yaml")


def over(*quotas: WorkspaceQuota, **namespaces: dict[str, str]) -> Coverage:
    made = Coverage()
    made.set_tree(QuotaTree.build(quotas))
    for name, labels in namespaces.items():
        made.set_labels(name, labels)
    return made


def quota(name: str, *, parent: str | None = None, **labels: str) -> WorkspaceQuota:
    selector = {"namespaceSelector": {"matchLabels": labels}} if labels else {}
    return parse(written(name, {"parent": parent, **selector}))


def test_a_selector_that_fits_no_namespace_is_told_by_name():
    found = sources.unmatched(over(quota("acme", team="acme"), quota("typo", tem="b"), shop={"team": "acme"}), FILE)
    assert [str(each) for each in found] == [
        "quotas.yaml: WorkspaceQuota typo: it covers no namespace; "
        "compare spec.namespaceSelector with the labels of the namespaces in the state (none: workspace=<its name>)"
    ]


def test_one_without_a_selector_is_told_where_no_namespace_has_its_name_and_it_is_nobodys_parent():
    found = sources.unmatched(over(quota("acme"), quota("typo"), shop={"workspace": "acme"}), FILE)
    assert [each.field for each in found] == ["WorkspaceQuota typo"]


def test_a_parent_without_a_selector_is_meant_so():
    assert not sources.unmatched(over(quota("big"), quota("a", parent="big", team="a"), shop={"team": "a"}), FILE)


def test_a_parent_whose_own_selector_fits_nothing_is_told_though_its_child_covers_something():
    tree = quota("big", team="b"), quota("a", parent="big", team="a")
    (told,) = sources.unmatched(over(*tree, shop={"team": "a"}), FILE)
    assert told.field == "WorkspaceQuota big"


def test_before_a_state_is_known_nothing_is_told():
    assert not sources.unmatched(over(quota("acme", team="acme")), FILE)


def test_many_are_counted():
    quotas = [quota(f"q{number:03}", team=str(number)) for number in range(100)]
    found = sources.unmatched(over(*quotas, shop={"team": "x"}), FILE)
    assert len(found) == sources.MOST_TOLD + 1
    assert found[-1].field == "80 WorkspaceQuotas more"
