"""On which nodes pods may land: what is kept of a template, and which nodes that allows."""

from __future__ import annotations

from typing import Any

import pytest
from memory_pressure.placement import ANY, allows, placement

SSD, DISK, BARE = {"disk": "ssd", "cores": "8"}, {"disk": "hdd", "cores": "2"}, {}


def obj(selector: Any = None, terms: Any = None) -> dict[str, Any]:
    pod: dict[str, Any] = {"containers": []}
    if selector is not None:
        pod["nodeSelector"] = selector
    if terms is not None:
        required = {"nodeSelectorTerms": terms}
        pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def allowed(tree: Any) -> list[str]:
    kept = placement(tree)
    return [name for name, labels in (("ssd", SSD), ("disk", DISK), ("bare", BARE)) if allows(kept, labels)]


@pytest.mark.parametrize(
    ("tree", "nodes"),
    [
        (obj(), ["ssd", "disk", "bare"]),
        (obj({}), ["ssd", "disk", "bare"]),
        (obj({"disk": "ssd"}), ["ssd"]),
        (obj({"disk": "ssd", "cores": "2"}), []),
        (obj(terms=[term("disk", "In", "ssd", "hdd")]), ["ssd", "disk"]),
        (obj(terms=[term("disk", "NotIn", "ssd")]), ["disk", "bare"]),
        (obj(terms=[term("disk", "Exists")]), ["ssd", "disk"]),
        (obj(terms=[term("disk", "DoesNotExist")]), ["bare"]),
        (obj(terms=[term("disk", "In", "ssd"), term("disk", "DoesNotExist")]), ["ssd", "bare"]),
        (obj({"disk": "ssd"}, [term("cores", "In", "2")]), []),
        (obj({"disk": "ssd"}, [term("cores", "In", "2"), term("cores", "Exists")]), ["ssd"]),
        (obj(terms=[{}]), []),
        (obj({"disk": "ssd"}, [{}]), []),
        (obj(terms=[]), []),
    ],
)
def test_the_nodes_that_selector_and_required_affinity_allow(tree, nodes):
    assert allowed(tree) == nodes


MANY = 65


@pytest.mark.parametrize(
    "tree",
    [
        obj("ssd"),
        obj({"disk": 5}),
        obj({f"k{number}": "v" * 63 for number in range(MANY)}),
        obj(terms="disk"),
        obj(terms=[term("disk", "Near", "ssd")]),
        obj(terms=["disk"]),
        obj(terms=[term("cores", "Gt", "4")]),
        obj(terms=[term("cores", "Gt")]),
        obj(terms=[{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["bare"]}]}]),
        obj(terms=[{"matchExpressions": [{"operator": "Exists"}]}]),
        obj(terms=[{"matchExpressions": [{"key": "disk", "operator": "In", "values": [5]}]}]),
        obj(terms=[{"matchExpressions": "disk"}]),
        obj(terms=[term("disk", "Exists")] * MANY),
        obj(terms=[term("disk", "In", *["x" * 63] * 64), term("disk", "In", *["y" * 63] * 64)]),
    ],
)
def test_what_cannot_be_told_allows_every_node(tree):
    assert placement(tree) is None
    assert allowed(tree) == ["ssd", "disk", "bare"]


def test_equal_ones_are_one_text():
    assert placement(obj({"disk": "ssd"})) is placement(obj({"disk": "ssd"}))
    assert placement(obj()) == ANY
