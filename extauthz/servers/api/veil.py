"""Covers what an answer about a workload tells of quotas that who asks may not see."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from extauthz.servers.api.shown import AMOUNTS, Json

LISTS: Final = ("shortages", "audit", "unspecified")
"""Fields of a decision whose rows are about quotas each."""

BOUNDS: Final = ("bound", "auditBound", "turn")
"""Fields of a headroom, and of a decision, that are such a row."""

SENTENCE: Final = "it does not fit, or is not clear to, a workspace quota that you may not get"


def named(found: Json) -> set[str]:
    """The quotas that an answer tells of."""
    return {row["quota"] for row in _rows(found) if row["quota"] is not None}


def over(found: Json, seen: Container[str]) -> Json:
    """The answer without names and amounts of other quotas than those ``seen``. ``requested`` is the asker's own."""
    if all(name in seen for name in named(found)):
        return found
    covered = dict(found)
    for field in BOUNDS:
        if found.get(field) is not None:
            covered[field] = _covered(found[field], seen)
    for field in LISTS:
        if field in found:
            covered[field] = [_covered(row, seen) for row in found[field]]
    if "policies" in found:
        covered["policies"] = [_policy(row, seen) for row in found["policies"]]
    if "sentence" in found:
        covered["sentence"] = SENTENCE
    return covered


def _rows(found: Json) -> list[Json]:
    bounds = [found[field] for field in BOUNDS if found.get(field) is not None]
    return bounds + [row for field in (*LISTS, "policies") for row in found.get(field, ())]


def _policy(row: Json, seen: Container[str]) -> Json:
    """A plug-in's is of no quota: everybody whom it refuses may read it."""
    if row["quota"] is None or row["quota"] in seen:
        return row
    return row | {"quota": None, "policy": None, "message": None}


def _covered(row: Json, seen: Container[str]) -> Json:
    if row["quota"] in seen:
        return row
    hidden = {name: None for name in (*AMOUNTS, "place") if name in row and name != "requested"}
    return row | {"quota": None} | ({"path": []} if "path" in row else {}) | hidden
