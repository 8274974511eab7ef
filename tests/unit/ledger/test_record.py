"""Intents as records: whatever an intent says comes back, and what cannot be carried is left out, never changed."""

from __future__ import annotations

import json

import pytest

from extauthz.core.intake.gojson import DECODER, Number
from extauthz.core.ledger.intents import Intent, State
from extauthz.core.ledger.record import MAX_PATCH_CHARS, RecordError, dump, load
from extauthz.core.model import (
    NO_PRECONDITION,
    Apply,
    Change,
    JsonPatch,
    MergePatch,
    Operation,
    OwnerRef,
    Precondition,
    Put,
    StrategicMergePatch,
    Template,
    WorkloadRef,
    Write,
)

REF = WorkloadRef("apps", "deployments", "team-a", "web")
OWNER = OwnerRef("apps", "Deployment", "web", "u1")


def an_intent(patch: Write | None = None) -> Intent:
    return Intent(
        id="d1",
        replicas=3,
        templates=(Template(b'{"template":{}}'),),
        labels=("a=1", "b=2"),
        creates=True,
        precondition=Precondition("7", "u0"),
        expires_s=50.0,
        source="10.0.0.9",
        owner=OWNER,
        frees=True,
        keeps_count=True,
        is_patch=patch is not None,
        patch=patch,
    )


def a_patch(change: Change) -> Write:
    return Write(REF, Operation.PATCH, scale=False, dry_run=False, change=change, precondition=Precondition("7", "u0"))


def carried(intent: Intent) -> Intent:
    ref, other = load(json.loads(json.dumps(dump(REF, intent))), 50.0, 9.0)
    assert ref == REF
    return other


def test_what_an_intent_says_comes_back():
    assert carried(an_intent()) == an_intent()


def test_one_that_names_nothing_comes_back():
    bare = Intent("d2", None, (), (), creates=False, precondition=NO_PRECONDITION, expires_s=50.0)
    assert carried(bare) == bare


def test_an_answered_write_counts_as_answered_now():
    intent = an_intent()
    intent.state = State.SUCCEEDED
    intent.answered_s = 3.0
    other = carried(intent)
    assert (other.state, other.answered_s) == (State.SUCCEEDED, 9.0)


BODY = {"spec": {"replicas": 3, "template": {"x": [1, None, True, "0.1", {"y": -0.0}]}}}


@pytest.mark.parametrize(
    "change",
    [
        JsonPatch(({"op": "add", "path": "/spec/replicas", "value": 3},)),
        MergePatch(BODY),
        StrategicMergePatch(BODY),
        Apply(BODY),
    ],
    ids=lambda change: type(change).__name__,
)
def test_a_patch_comes_back(change: Change):
    assert carried(an_intent(a_patch(change))).patch == a_patch(change)


@pytest.mark.parametrize("text", ["0.10000000000000000555", "1e2", "3.0"])
def test_a_fraction_keeps_its_text(text: str):
    """A quantity is read from it, and rounded up below the nano."""
    body = DECODER.decode(f'{{"cpu": {text}}}')
    back = carried(an_intent(a_patch(MergePatch(body)))).patch
    assert back is not None
    (number,) = back.change.patch.values()
    assert isinstance(number, Number)
    assert number.text == text


@pytest.mark.parametrize(
    "change",
    [
        MergePatch({"x": "y" * MAX_PATCH_CHARS}),
        MergePatch({"x": b"bytes"}),
        MergePatch({"x": float("nan")}),
        MergePatch({"x": {"$fraction": "1.0"}}),
        Put({}),
    ],
    ids=["long", "bytes", "nan", "looks like a mark", "no patch"],
)
def test_a_patch_that_can_not_be_carried_is_left_out(change: Change):
    other = carried(an_intent(a_patch(change)))
    assert (other.is_patch, other.patch) == (True, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workload", "x"),
        ("replicas", "3"),
        ("state", "odd"),
        ("templates", 1),
        ("precondition", []),
        ("owner", ["apps"]),
        ("patch", "x"),
        ("patch", {"form": "Put", "operation": "patch", "body": {}}),
        ("patch", {"form": "MergePatch", "operation": "odd", "body": {}}),
        ("patch", {"form": "MergePatch", "operation": "patch", "body": {"$fraction": "x"}}),
    ],
)
def test_a_record_that_is_none_is_an_error(field: str, value: object):
    with pytest.raises(RecordError):
        load({**dump(REF, an_intent()), field: value}, 50.0, 9.0)


def test_a_record_that_lacks_a_field_is_an_error():
    with pytest.raises(RecordError, match="frees"):
        load({key: value for key, value in dump(REF, an_intent()).items() if key != "frees"}, 50.0, 9.0)
