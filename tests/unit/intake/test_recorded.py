"""What real autoscalers, controllers and kubectl sent through a real Envoy, and what each request is read as."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.intake import read
from extauthz.core.model import NotACount, NotAWrite, Reading, Request, Write

DATA = Path(__file__).parents[2] / "data"
RECORDED = [json.loads(line) for line in (DATA / "recorded.jsonl").read_text().splitlines()]
EXPECTED = [json.loads(line) for line in (DATA / "recorded.expected.jsonl").read_text().splitlines()]


def request_of(row: dict[str, Any]) -> Request:
    body = base64.b64decode(row["body_base64"]) if "body_base64" in row else row.get("body", "").encode()
    return Request(row["method"], row["path"], row["headers"], body)


def described(reading: Reading) -> dict[str, Any]:
    name = type(reading).__name__
    if isinstance(reading, NotACount):
        return {"reading": name, "ref": str(reading.ref), "more": reading.why}
    if not isinstance(reading, Write):
        return {"reading": name, "code": reading.code}
    return {
        "reading": name,
        "ref": str(reading.ref),
        "operation": reading.operation,
        "scale": reading.scale,
        "dry_run": reading.dry_run,
        "replicas": reading.replicas,
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


def test_autoscalers_write_counts_and_nothing_else():
    sent = [row for row in EXPECTED if any(name in row["client"] for name in ("pod-autoscaler", "knative-autoscaler"))]
    writes = [row["reading"] for row in sent if row["reading"] != NotAWrite.__name__]
    assert writes == [Write.__name__] * 9


def test_no_recorded_request_holds_a_credential():
    secret = {"authorization", "cookie", "proxy-authorization"}
    assert not any(secret & set(row["headers"]) for row in RECORDED)


def test_what_controllers_write_all_day_passes_unread():
    kinds = {row["code"] for row in EXPECTED if row["reading"] == NotAWrite.__name__}
    assert kinds == {"other-resource", "status", "delete"}
