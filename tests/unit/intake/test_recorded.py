"""What real autoscalers, controllers and kubectl sent through a real Envoy, and what each request is read as."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.intake import read
from extauthz.core.model import Apply, Change, JsonPatch, NotAWrite, Put, Reading, Request, Write

DATA = Path(__file__).parents[2] / "data"
RECORDED = [json.loads(line) for line in (DATA / "recorded.jsonl").read_text().splitlines()]
EXPECTED = [json.loads(line) for line in (DATA / "recorded.expected.jsonl").read_text().splitlines()]


def request_of(row: dict[str, Any]) -> Request:
    body = base64.b64decode(row["body_base64"]) if "body_base64" in row else row.get("body", "").encode()
    return Request(row["method"], row["path"], row["headers"], body)


def replicas_of(change: Change) -> int | None:
    """The count that the body itself names."""
    if isinstance(change, JsonPatch):
        return next((step["value"] for step in change.operations if step["path"] == "/spec/replicas"), None)
    if isinstance(change, Put):
        return change.document["spec"].get("replicas")
    tree = change.configuration if isinstance(change, Apply) else change.patch
    return tree["spec"].get("replicas")


def described(reading: Reading) -> dict[str, Any]:
    if not isinstance(reading, Write):
        return {"reading": type(reading).__name__, "code": reading.code}
    return {
        "reading": "Write",
        "ref": str(reading.ref),
        "operation": reading.operation,
        "scale": reading.scale,
        "dry_run": reading.dry_run,
        "change": type(reading.change).__name__,
        "replicas": replicas_of(reading.change),
        "precondition": list(reading.precondition) if any(reading.precondition) else None,
    }


def test_every_recorded_request_has_its_expected_reading():
    named = [(row["client"], f"{row['method']} {row['path']}") for row in RECORDED]
    assert named == [(row["client"], row["request"]) for row in EXPECTED]
    assert len(named) == 67
    assert all(row["why"] for row in EXPECTED)


@pytest.mark.parametrize("line", range(1, 68))
def test_a_recorded_request_is_read_as_what_it_is(line):
    row, expected = RECORDED[line - 1], EXPECTED[line - 1]
    assert expected["line"] == line
    stated = {key: value for key, value in expected.items() if key not in ("line", "client", "request", "why")}
    assert described(read(request_of(row))) == stated


def test_the_pods_of_a_recorded_protobuf_replica_set_are_read_with_their_cost():
    created = read(request_of(RECORDED[10]))
    assert isinstance(created, Write)
    assert isinstance(created.change, Put)
    document = created.change.document
    assert document["kind"] == "ReplicaSet"
    assert document["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
    assert document["spec"]["selector"]["matchLabels"]["app"] == "web"
    assert document["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] == {
        "cpu": "100m",
        "memory": "64Mi",
    }


def test_no_recorded_request_holds_a_credential():
    secret = {"authorization", "cookie", "proxy-authorization"}
    assert not any(secret & set(row["headers"]) for row in RECORDED)


def test_what_controllers_write_all_day_passes_unread():
    kinds = {row["code"] for row in EXPECTED if row["reading"] == NotAWrite.__name__}
    assert kinds == {"other-resource", "status", "delete"}
