"""What a source hands on of a WorkspaceQuota object for its status."""

from __future__ import annotations

from extauthz.core.quota.problems import Problem
from extauthz.core.quota.standing import Fault, compact, standing

OBJECT = {
    "metadata": {"name": "acme", "uid": "u1", "generation": 3, "resourceVersion": "41"},
    "status": {"used": {"pods": "3"}, "observedGeneration": 2},
}


def test_a_standing_has_what_a_status_needs_of_the_object():
    problem = Problem(("spec", "parent"), 'there is no WorkspaceQuota "big"', "name one that exists, or remove parent")
    seen = standing(OBJECT, 2, Fault.PARENT_MISSING, [problem])
    assert (seen.name, seen.uid, seen.generation, seen.version, seen.in_force) == ("acme", "u1", 3, "41", 2)
    assert seen.fault == "ParentMissing"
    assert seen.why == 'spec.parent: there is no WorkspaceQuota "big"; name one that exists, or remove parent'


def test_equal_statuses_are_equal_bytes_in_whatever_order_they_came():
    assert standing(OBJECT, 3).status == compact({"observedGeneration": 2, "used": {"pods": "3"}})


def test_an_object_just_created_has_an_empty_status():
    assert standing({"metadata": {"name": "acme"}}, None).status == b"{}"
