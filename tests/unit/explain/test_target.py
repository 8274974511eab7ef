"""Selectors of a target, and what an HPA needs of it."""

from __future__ import annotations

import pytest

from extauthz.explain import target
from extauthz.explain.objects import ExplainError, Objects
from tests.unit.explain.building import alike, cpu, deployment, explained, hpa


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("app=web", {"app": "web"}, True),
        ("app=web,tier!=old", {"app": "web", "tier": "old"}, False),
        ("app=web,tier!=old", {"app": "web"}, True),
        ("tier in (a, b)", {"tier": "b"}, True),
        ("tier in (a, b)", {"tier": "c"}, False),
        ("tier notin (a,b)", {"tier": "a"}, False),
        ("tier", {"tier": ""}, True),
        ("tier", {}, False),
        ("!tier", {}, True),
        ("!tier", {"tier": ""}, False),
    ],
)
def test_a_selector_as_a_text_and_its_text_again(selector, labels, matches):
    found = target.parsed(selector)
    assert target.selects(found, labels) is matches
    assert target.selects(target.parsed(target.text(found)), labels) is matches


def test_a_selector_as_an_object():
    expressions = [{"key": "tier", "operator": "NotIn", "values": ["old"]}, {"key": "app", "operator": "Exists"}]
    found = target.labelled({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert target.selects(found, {"app": "web"})
    assert not target.selects(found, {"app": "web", "tier": "old"})
    assert target.selects(target.labelled({"app": "web"}), {"app": "web"}), "of a ReplicationController"


def test_a_scale_tells_what_its_object_does():
    scale = {
        "kind": "Scale",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 4},
        "status": {"replicas": 4, "selector": "app=web"},
    }
    assert explained(hpa(cpu(50)), scale, *alike(4, "75m")).desired == 6


def test_without_a_selector_or_a_target_there_is_nothing_to_do():
    bare = deployment(4)
    del bare["spec"]["selector"]
    assert explained(hpa(cpu(50)), bare, *alike(4, "75m")).outcome == "failed"
    with pytest.raises(ExplainError, match="Deployment shop/web"):
        target.of_hpa(Objects([]), hpa(cpu(50)))
