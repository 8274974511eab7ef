"""What a real API server took each spelling for must be what the gate reads (recorded by tests/controlplane)."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extauthz.core import footprint
from extauthz.core.intake import read
from extauthz.core.intake.objects import labels_text, observe
from extauthz.core.intake.resolve import resolve
from extauthz.core.model import Apply, NotAWrite, Observed, Outcome, Request, Template, Unreadable, WorkloadRef, Write

Tree = Any
DATA = Path(__file__).parents[2] / "data"
ROWS: dict[str, Tree] = {row["id"]: row for row in map(json.loads, (DATA / "spellings.jsonl").read_text().splitlines())}
FIXTURES: dict[str, Tree] = json.loads((DATA / "spellings-before.json").read_text())
COUNT_OF_CUSTOM = {"gadgets": ("size", "count"), "widgets": ("replicas",)}


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
    Allowed("too-many-values", ("limit-values",), "150,000 objects in one body; the gate's memory is bounded"),
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


class State(NamedTuple):
    """What a quota sees of an object: its count, the cost of a pod, its labels (each set that it may have)."""

    replicas: int
    cost: Mapping[str, int]
    labels: frozenset[str]


def request_of(row: Tree) -> Request:
    """The request as a door hands it over: doubled headers joined by a comma, as Envoy does it."""
    headers: dict[str, str] = {}
    for name, value in row["request"]["headers"]:
        headers[name.lower()] = f"{headers[name.lower()]},{value}" if name.lower() in headers else value
    return Request(row["request"]["method"], row["request"]["target"], headers, body_of(row))


def body_of(row: Tree) -> bytes:
    packed = row["request"].get("body_zlib_b64")
    return zlib.decompress(base64.b64decode(packed)) if packed else base64.b64decode(row["request"]["body_b64"])


def ref_of(text: str) -> WorkloadRef:
    group_resource, _, place = text.partition(" ")
    resource, _, group = group_resource.partition(".")
    return WorkloadRef(group, resource, *place.split("/"))


def base_of(ref: WorkloadRef, row: Tree) -> Observed | None:
    """The object before the request, as an informer would have it."""
    tree = FIXTURES.get(str(ref))
    if tree is None:
        return None
    if ref.resource not in COUNT_OF_CUSTOM:
        observed = observe(tree)[1]
    else:
        count = tree["spec"]
        for step in COUNT_OF_CUSTOM[ref.resource]:
            count = count[step]
        observed = Observed(count, None)
    if str(ref) == row["before"]:
        observed.resource_version = row.get("resourceVersion", observed.resource_version)
        observed.uid = row.get("uid", observed.uid)
    return observed


def cost(*templates: Template | None) -> dict[str, int]:
    """The highest of the templates' footprints, resource by resource."""
    highest: dict[str, int] = {}
    for template in templates:
        if template is not None:
            for key, amount in footprint.per_pod(json.loads(template.text)).items():
                highest[key] = max(amount, highest.get(key, 0))
    return highest


def state_of(observed: Observed | None) -> State:
    if observed is None:
        return State(0, {}, frozenset({""}))
    return State(observed.replicas, cost(observed.template), frozenset({observed.labels}))


def after(before: State, change: Tree) -> State:
    """What the server made of ``before``, from a row's record of the difference."""
    return State(
        change.get("replicas", before.replicas) or 0,
        footprint.per_pod(change["template"]) if "template" in change else before.cost,
        frozenset({labels_text(change["labels"])}) if "labels" in change else before.labels,
    )


def read_as(before: State, outcome: Outcome) -> State:
    return State(
        before.replicas if outcome.replicas is None else outcome.replicas,
        cost(*outcome.templates) if outcome.templates else before.cost,
        frozenset(outcome.label_sets) or before.labels,
    )


def covers(wide: State, narrow: State) -> bool:
    return (
        wide.replicas >= narrow.replicas
        and wide.labels >= narrow.labels
        and all(wide.cost.get(key, 0) >= amount for key, amount in narrow.cost.items())
    )


def reading_of(row: Tree) -> tuple[Write, Outcome, Observed | None] | str:
    """The write, what it leads to, and from what; or in one word why there is none."""
    reading = read(request_of(row))
    if isinstance(reading, NotAWrite):
        return "not-a-write"
    if isinstance(reading, Unreadable):
        return reading.code
    base = base_of(reading.ref, row)
    outcome = resolve(reading, base)
    return outcome.code if isinstance(outcome, Unreadable) else (reading, outcome, base)


def excused(row: Tree, found: str) -> bool:
    """Whether the tables above let the gate not read this."""
    if found == "not-a-write":
        return any(fnmatchcase(row["id"], pattern) for pattern in OUT_OF_SIGHT)
    return any(found == entry.code and matches(row["id"], entry.ids) for entry in UNREADABLE)


def matches(row_id: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(row_id, pattern) for pattern in patterns)


def same_object(written: WorkloadRef, ref: WorkloadRef) -> bool:
    """A generated name is not known before."""
    return written == ref or (written == ref._replace(name="") and ref.name.startswith("fresh-"))


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
