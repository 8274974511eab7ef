"""What a real API server took each spelling for must be what the gate reads (recorded by tests/controlplane).

At Envoy a write is a count or it is not decided there; then the webhook is shown what the server is about to store.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Objects, Policy
from extauthz.core.intake import counts, read
from extauthz.core.model import NotACount, NotAWrite, Observed, Reading, Request, Unreadable, Verdict, Write
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Snapshot, quota
from tests.controlplane.judging import (
    after,
    as_a_door_hands_it_over,
    base_of,
    grew,
    packed_body,
    ref_of,
    same_object,
    shown,
    state_of,
)

Tree = Any
DATA = Path(__file__).parents[2] / "data"
ROWS: dict[str, Tree] = {row["id"]: row for row in map(json.loads, (DATA / "spellings.jsonl").read_text().splitlines())}
FIXTURES: dict[str, Tree] = json.loads((DATA / "spellings-before.json").read_text())


class Allowed(NamedTuple):
    """Spellings that the server accepts and the gate calls unreadable, on purpose."""

    code: str
    ids: tuple[str, ...]
    reason: str


UNREADABLE = (
    Allowed(
        "duplicate-key",
        ("text-*-duplicate*", "json-patch-text-*duplicate*"),
        "Go merges or replaces by the type it decodes into, and no client library writes a key twice",
    ),
    Allowed(
        "invalid-utf8",
        ("text-*-invalid-utf8-*", "text-*-surrogate-bytes", "json-patch-text-invalid-utf8"),
        "Go puts U+FFFD where the bytes are not UTF-8; no encoder of any client does it",
    ),
    Allowed("lone-surrogate", ("text-*-surrogate-lone",), "Go puts U+FFFD there, and Python cannot encode it again"),
    Allowed("too-complex", ("text-*-deep-*",), "a scale has a handful of values; the gate's work is bounded"),
    Allowed(
        "body-too-large",
        ("text-merge-deep-*", "limit-merge-most", "limit-put-most", "limit-yaml-most", "json-patch-scale-many"),
        "more than 16 KiB for a scale, which has a few hundred bytes",
    ),
    Allowed(
        "unsupported-media-type", ("media-doubled-*",), "Go takes the first of two headers, which reach the gate joined"
    ),
    Allowed("not-an-array", ("json-patch-text-null",), "does nothing, and no client sends it"),
    Allowed("not-an-object", ("text-strategic-null",), "does nothing, and no client sends it"),
    Allowed("protobuf-syntax", ("protobuf-scale-field-over",), "no client numbers a field beyond 32 bits"),
    Allowed(
        "replicas-too-large",
        ("value-*-int64-over",),
        "the server converts a float beyond 64 bits, and what comes out depends on its processor",
    ),
)

OUT_OF_SIGHT = {
    "kind-widgets-merge": "which custom resources have replicas, and where, the gate does not know yet",
    "put-custom-*": "the same",
    "post-gadget": "the same",
    "status-*": "some kinds take labels by way of status, but rule 7 keeps status writes off the gate: it sees the "
    "labels once they are there, and charges what they bring like any growth that no gate saw",
}
"""Accepted writes that change what a quota sees and are not taken for writes, with the reason."""


def request_of(row: Tree) -> Request:
    request = row["request"]
    return as_a_door_hands_it_over(request["method"], request["target"], request["headers"], packed_body(request))


def before_of(row: Tree, ref: str) -> Tree:
    """The object before the request; ``None``: there is none."""
    tree = FIXTURES.get(ref)
    if tree is None or ref != row["before"]:
        return tree
    known = {key: row.get(key, tree["metadata"][key]) for key in ("resourceVersion", "uid")}
    return tree | {"metadata": tree["metadata"] | known}


def excused(row: Tree, found: Reading) -> bool:
    """Whether the tables above let the gate not read this."""
    if isinstance(found, NotAWrite):
        return any(fnmatchcase(row["id"], pattern) for pattern in OUT_OF_SIGHT)
    assert isinstance(found, Unreadable)
    return any(
        found.code == entry.code and any(fnmatchcase(row["id"], pattern) for pattern in entry.ids)
        for entry in UNREADABLE
    )


def holds(write: Write, base: Observed | None) -> bool:
    """Whether the precondition that was read is true of the object, as it was for the server."""
    wanted = write.precondition
    return base is None or (wanted.resource_version in (None, base.resource_version) and wanted.uid in (None, base.uid))


def accepted(row: Tree) -> bool:
    return row["status"] in (200, 201)


def rows(keep: Callable[[Tree], bool]) -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in ROWS.values() if keep(row)]


@pytest.mark.parametrize("row", rows(lambda row: row["changed"]))
def test_what_the_server_stored_is_read_as_the_count_that_it_is_or_as_the_object_that_the_webhook_is_shown(row):
    ((ref, change),) = row["changed"].items()
    found, tree = read(request_of(row)), before_of(row, ref)
    base = base_of(ref, tree)
    if not isinstance(found, Write | NotACount):
        assert excused(row, found), found
        assert not row.get("ordinary")
        return
    assert same_object(found.ref, ref_of(ref))
    if isinstance(found, Write):
        assert (found.dry_run, found.object, {"replicas": found.replicas}) == (False, None, change)
        assert holds(found, base)
        return
    write = reviewed(row)
    made = write.object or replace(base, replicas=write.replicas)
    assert holds(write, base)
    assert state_of(made) == after(state_of(base), change)


def reviewed(row: Tree) -> Write:
    """What the webhook reads of what the server stored."""
    ((ref, change),) = row["changed"].items()
    route = counts.routed(row["request"]["method"], row["request"]["target"])
    assert isinstance(route, counts.Route)
    found = shown(ref, before_of(row, ref), change, scale=route.scale)
    assert isinstance(found, Write), found
    return found


NOTHING_LEFT = quota(
    "all",
    dict.fromkeys(
        (
            *("pods", "requests.cpu", "requests.memory", "requests.storage", "requests.nvidia.com/gpu"),
            *("limits.cpu", "limits.memory"),
        ),
        "0",
    ),
    namespaces={},
    on_unknown={"unspecified": "Allow"},
)


def full_gate(objects: Objects) -> Gate:
    """A gate that has seen all objects, and whose only quota has no room."""
    gate = Gate(Policy(objects=objects))
    gate.load_quotas(QuotaTree.build([NOTHING_LEFT]), 0.0)
    seen = [(ref_of(ref), base_of(ref, tree)) for ref, tree in FIXTURES.items()]
    gate.load_state(Snapshot({"default": {}, "scale": {}}, seen), 0.0)
    return gate


def grown(row: Tree) -> bool:
    if not row["changed"]:
        return False
    ((ref, change),) = row["changed"].items()
    state = state_of(base_of(ref, before_of(row, ref)))
    return grew(state, after(state, change))


def test_no_spelling_of_growth_passes_a_full_quota_whoever_judges_objects():
    alone, behind = full_gate("refuse"), full_gate("webhook")
    refused = {Verdict.DENY, Verdict.UNAVAILABLE}
    passed, counts, objects = [], 0, 0
    for row in filter(grown, ROWS.values()):
        found = read(request_of(row))
        if isinstance(found, NotAWrite):
            assert excused(row, found), row["id"]
            continue
        at_envoy = alone.decide(found, row["id"], 0.0, charge=False)
        last = behind.decide(found, row["id"], 0.0, charge=False)
        if isinstance(found, NotACount):
            objects += 1
            assert (at_envoy.reason, last.reason) == ("not-a-count", "left-to-webhook"), row["id"]
            last = behind.decide(reviewed(row), row["id"], 0.0, charge=False)
        counts += isinstance(found, Write)
        passed += [row["id"] for decision in (at_envoy, last) if decision.verdict not in refused]
    assert not passed
    assert (counts > 500, objects > 500) == (True, True), (counts, objects)


def test_no_spelling_of_what_grows_nothing_is_denied_for_quota_by_whoever_judges_it():
    gate, decided = full_gate("webhook"), 0
    for row in ROWS.values():
        if row["changed"] and not grown(row):
            found = read(request_of(row))
            for one in (found, reviewed(row)) if isinstance(found, Write | NotACount) else ():
                decision = gate.decide(one, row["id"], 0.0, charge=False)
                assert decision.verdict is not Verdict.DENY, (row["id"], decision.sentence)
                decided += isinstance(one, Write)
    assert decided > 100


@pytest.mark.parametrize("row", rows(lambda row: "answered" in row))
def test_what_the_server_took_for_a_dry_run_is_one(row):
    found = read(request_of(row))
    if isinstance(found, Write):
        state = state_of(base_of(row["before"], before_of(row, row["before"])))
        assert found.dry_run
        assert state._replace(replicas=found.replicas) == after(state, row["answered"])
    elif not isinstance(found, NotACount):
        assert excused(row, found), found
        assert not row.get("ordinary")


@pytest.mark.parametrize("row", rows(lambda row: accepted(row) and not row["changed"] and "answered" not in row))
def test_what_changed_nothing_is_not_read_as_growth(row):
    found = read(request_of(row))
    if isinstance(found, Write):
        base = base_of(str(found.ref), before_of(row, str(found.ref)))
        assert found.replicas == base.replicas
    elif isinstance(found, Unreadable):
        assert excused(row, found), found
        assert not row.get("ordinary")


def test_what_the_server_refuses_is_read_without_an_exception():
    refused = [row for row in ROWS.values() if not accepted(row)]
    assert len(refused) > 1500
    for row in refused:
        read(request_of(row))


def test_every_exception_is_needed():
    found = [(row["id"], read(request_of(row))) for row in ROWS.values() if accepted(row)]
    for entry in UNREADABLE:
        ids = [id for id, reading in found if isinstance(reading, Unreadable) and reading.code == entry.code]
        for pattern in entry.ids:
            assert any(fnmatchcase(id, pattern) for id in ids), (entry, pattern)
    for pattern in OUT_OF_SIGHT:
        assert any(isinstance(reading, NotAWrite) and fnmatchcase(id, pattern) for id, reading in found), pattern


def test_the_corpus_has_growth_by_every_kind_of_request():
    """A recording that went wrong would pass everything above."""
    changed = [row for row in ROWS.values() if row["changed"]]
    types = {value.partition(";")[0] for row in changed for _, value in row["request"]["headers"]}
    kinds = {ref.split(" ")[0] for row in changed for ref in row["changed"]}
    assert len(changed) > 1400
    assert sum("answered" in row for row in ROWS.values()) > 60
    assert {row["request"]["method"] for row in changed} == {"PUT", "PATCH", "POST"}
    assert kinds == {ref.split(" ")[0] for ref in FIXTURES}
    assert types >= {
        "", "application/json", "application/yaml", "application/cbor", "application/vnd.kubernetes.protobuf",
        "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
        "application/apply-patch+yaml", "application/apply-patch+cbor",
    }  # fmt: skip
