"""A quota as an object again."""

from __future__ import annotations

from extauthz.core.quota.spec import dumped, parse, written

SPEC = {
    "parent": "big",
    "namespaceSelector": {"matchLabels": {"a": "1"}},
    "workloadSelector": {
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["x", "y"]},
            {"key": "old", "operator": "DoesNotExist"},
        ]
    },
    "hard": {"requests.cpu": "1500m", "pods": "4"},
    "guaranteed": {"pods": "2"},
    "overrides": [
        {
            "name": "sale",
            "from": "2027-02-01T12:00:00.000Z",
            "until": "2027-02-02T12:00:00.000Z",
            "hard": {"pods": "9"},
        }
    ],
    "mode": "Clamp",
}


def test_what_is_written_reads_as_the_same_quota():
    quota = parse(written("acme", SPEC))
    assert dumped(quota) == SPEC
    assert parse(written("acme", dumped(quota))) == quota


def test_what_says_nothing_is_left_out():
    assert dumped(parse(written("acme", {"hard": {"pods": "4"}}))) == {"hard": {"pods": "4"}, "mode": "Enforce"}
