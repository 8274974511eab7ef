"""What a real API server took each spelling for must be what the gate reads (recorded by tests/controlplane)."""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extauthz.core.model import Apply, NotAWrite, Observed, Outcome, Request, Unreadable, Write
from tests.controlplane import judging
from tests.controlplane.judging import (
    Read,
    State,
    after,
    as_a_door_hands_it_over,
    base_of,
    covers,
    packed_body,
    read_as,
    ref_of,
    same_object,
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
        ("text-*-duplicate*", "json-patch-text-*duplicate*", "yaml-*-duplicate*"),
        "Go merges or replaces by the type it decodes into, and no client library writes a key twice",
    ),
    Allowed(
        "invalid-utf8",
        ("text-*-invalid-utf8-*", "text-*-surrogate-bytes", "json-patch-text-invalid-utf8", "yaml-text-utf16*"),
        "Go puts U+FFFD where the bytes are not UTF-8, and YAML alone may be UTF-16; no encoder of any client does it",
    ),
    Allowed("lone-surrogate", ("text-*-surrogate-lone",), "Go puts U+FFFD there, and Python cannot encode it again"),
    Allowed(
        "too-deep",
        ("text-*-deep-*", "cbor-*-deep-more"),
        "no object that counts is as deep; the gate's depth is bounded",
    ),
    Allowed(
        "too-complex",
        ("limit-values", "text-*-deep-*"),
        "150,000 objects in one body, or thousands within another; the gate's work is bounded",
    ),
    Allowed(
        "body-too-large",
        ("limit-merge-most", "limit-put-most", "limit-yaml-most", "json-patch-scale-many"),
        "more than 64 KiB for a scale, which has a few hundred bytes",
    ),
    Allowed(
        "unsupported-media-type", ("media-doubled-*",), "Go takes the first of two headers, which reach the gate joined"
    ),
    Allowed("not-an-array", ("json-patch-text-null",), "does nothing, and no client sends it"),
    Allowed("not-an-object", ("text-strategic-null",), "does nothing, and no client sends it"),
    Allowed("cbor-tag", ("cbor-*-tagged",), "a tag that the server ignores, here a time that is a count"),
    Allowed("protobuf-syntax", ("protobuf-scale-unknown-group",), "groups were never in Kubernetes' messages"),
    Allowed(
        "patch-from-unseen-field",
        ("json-patch-*-copy-*", "json-patch-object-move-unseen"),
        "counts on what the gate does not keep of an object",
    ),
    Allowed(
        "replicas-too-large",
        ("value-*-int64-over", "yaml-apply-int64-over", "yaml-apply-uint64"),
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


def seen(row: Tree) -> Callable[[str], Observed | None]:
    """The objects before the request, as an informer would have them."""

    def base(ref: str) -> Observed | None:
        observed = base_of(ref, FIXTURES.get(ref))
        if observed is not None and ref == row["before"]:
            observed.resource_version = row.get("resourceVersion", observed.resource_version)
            observed.uid = row.get("uid", observed.uid)
        return observed

    return base


def reading_of(row: Tree) -> Read | str:
    """The write, what it leads to, and from what; or in one word why there is none."""
    reading = judging.reading_of(request_of(row), seen(row))
    if isinstance(reading, NotAWrite):
        return "not-a-write"
    return reading.code if isinstance(reading, Unreadable) else reading


def excused(row: Tree, found: str) -> bool:
    """Whether the tables above let the gate not read this."""
    if found == "not-a-write":
        return any(fnmatchcase(row["id"], pattern) for pattern in OUT_OF_SIGHT)
    return any(found == entry.code and matches(row["id"], entry.ids) for entry in UNREADABLE)


def matches(row_id: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(row_id, pattern) for pattern in patterns)


def holds(write: Write, base: Observed | None) -> bool:
    """Whether the precondition that was read is true of the object, as it was for the server."""
    wanted = write.precondition
    if base is None:
        return True
    return wanted.resource_version in (None, base.resource_version) and wanted.uid in (None, base.uid)


def rows(keep: Callable[[Tree], bool]) -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in ROWS.values() if keep(row)]


def check_result(write: Write, outcome: Outcome, before: State, change: Tree) -> None:
    """Exact, but for server-side apply: it goes by ``managedFields``, which the gate does not keep."""
    got, want = read_as(before, outcome), after(before, change)
    assert covers(got, want)
    if not isinstance(write.change, Apply):
        assert got == want


@pytest.mark.parametrize("row", rows(lambda row: row["changed"]))
def test_what_the_server_stored_is_what_the_gate_reads(row):
    found = reading_of(row)
    if isinstance(found, str):
        assert excused(row, found), found
        assert not row.get("ordinary")
        return
    write, outcome, base = found
    ((ref, change),) = row["changed"].items()
    assert same_object(write.ref, ref_of(ref))
    assert not write.dry_run
    assert holds(write, base)
    check_result(write, outcome, state_of(base), change)


@pytest.mark.parametrize("row", rows(lambda row: "answered" in row))
def test_what_the_server_took_for_a_dry_run_is_one(row):
    found = reading_of(row)
    if isinstance(found, str):
        assert excused(row, found), found
        assert not row.get("ordinary")
        return
    write, outcome, base = found
    assert write.dry_run
    check_result(write, outcome, state_of(base), row["answered"])


def idle(row: Tree) -> bool:
    return row["status"] in (200, 201) and not row["changed"] and "answered" not in row


@pytest.mark.parametrize("row", rows(idle))
def test_what_changed_nothing_is_not_read_as_growth(row):
    found = reading_of(row)
    if isinstance(found, str):
        assert found == "not-a-write" or excused(row, found), found
        assert not row.get("ordinary")
        return
    write, outcome, base = found
    check_result(write, outcome, state_of(base), {})


def test_what_the_server_refuses_is_read_without_an_exception():
    refused = [row for row in ROWS.values() if row["status"] not in (200, 201)]
    assert len(refused) > 1500
    for row in refused:
        reading_of(row)


def test_every_exception_is_needed():
    accepted = [row for row in ROWS.values() if row["status"] in (200, 201)]
    found = {(row["id"], result) for row in accepted if isinstance(result := reading_of(row), str)}
    for entry in UNREADABLE:
        for pattern in entry.ids:
            assert any(code == entry.code and fnmatchcase(row_id, pattern) for row_id, code in found), (entry, pattern)
    for pattern in OUT_OF_SIGHT:
        assert any(code == "not-a-write" and fnmatchcase(row_id, pattern) for row_id, code in found), pattern


def test_the_corpus_has_growth_by_every_kind_of_request():
    """A recording that went wrong would pass everything above."""
    grown = [row for row in ROWS.values() if row["changed"]]
    types = {value.partition(";")[0] for row in grown for _, value in row["request"]["headers"]}
    kinds = {ref.split(" ")[0] for row in grown for ref in row["changed"]}
    assert len(grown) > 1400
    assert sum("answered" in row for row in ROWS.values()) > 60
    assert {row["request"]["method"] for row in grown} == {"PUT", "PATCH", "POST"}
    assert kinds == {ref.split(" ")[0] for ref in FIXTURES}
    assert types >= {
        "", "application/json", "application/yaml", "application/cbor", "application/vnd.kubernetes.protobuf",
        "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
        "application/apply-patch+yaml", "application/apply-patch+cbor",
    }  # fmt: skip
