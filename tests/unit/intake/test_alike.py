"""Templates that say the same in other amounts are alike; any other difference counts."""

from __future__ import annotations

import pytest

from extauthz.core.objects.alike import alike
from extauthz.core.objects.workloads import intern


def template(cpu: str = "1", side: str = "limits", *more: dict, **pod: object) -> object:
    containers = [{"name": "main", "resources": {side: {"cpu": cpu}}}, *more]
    return intern({"template": {"spec": {"containers": containers} | pod}})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (template("1"), template("1")),
        (template("1"), template("1000m")),
        (template("1", "requests"), template("1.0", "requests")),
        (template(overhead={"memory": "1Gi"}), template(overhead={"memory": "1024Mi"})),
        (template("what"), template("what")),
    ],
)
def test_alike(one, other):
    assert alike(one, other)
    assert alike(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (template("1"), template("2")),
        (template("1", "requests"), template("1", "limits")),
        (template("1"), template("1", "limits", {"name": "side"})),
        (template("what"), template("1")),
        (template(overhead={"memory": "1"}), template()),
        (template(overhead={"memory": "1"}), template(overhead={"cpu": "1"})),
        (template(runtimeClassName="1"), template(runtimeClassName="1000m")),
        (template("1", "limits", {"name": "1"}), template("1", "limits", {"name": "1000m"})),
    ],
)
def test_not_alike(one, other):
    assert not alike(one, other)
    assert not alike(other, one)
