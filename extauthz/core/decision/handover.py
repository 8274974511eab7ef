"""Intents as JSON-ready records: a clean stop hands them to the next start (DESIGN §6.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extauthz.core.ledger.intents import Intent, State
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.model import OwnerRef, Precondition, Template, WorkloadRef


class HandoverError(ValueError):
    """A record of a handover cannot be read. The gate then holds for W, as after a crash."""


def dump(ledger: Ledger, now_s: float) -> list[dict[str, object]]:
    """Every live intent; times as seconds left, since the next start has another clock."""
    return [
        {
            "id": intent.id,
            "workload": list(ref),
            "replicas": intent.replicas,
            "templates": [template.text.decode() for template in intent.templates],
            "labels": list(intent.labels),
            "creates": intent.creates,
            "precondition": list(intent.precondition),
            "left_s": intent.expires_s - now_s,
            "state": intent.state.value,
            "source": intent.source,
            "owner": list(intent.owner) if intent.owner is not None else None,
            "frees": intent.frees,
            "keeps_count": intent.keeps_count,
            "is_patch": intent.is_patch,
        }
        for ref, intent in ledger.live_intents()
    ]


def load(ledger: Ledger, records: Iterable[Mapping[str, object]], now_s: float) -> float:
    """Record every intent again. Returns until when a patch among them may land; ``now_s`` if there is none.

    Raises:
        HandoverError: a record is not one that ``dump`` wrote; the ledger then holds those before it.
    """
    until_s = now_s
    for number, record in enumerate(records):
        try:
            ref, intent = _one(record, now_s)
            if ledger.follows(intent.id):
                raise ValueError(f"there is another intent {intent.id}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise HandoverError(f"intent {number}: {error!r}") from error
        ledger.record(ledger.propose(ref, intent), intent)
        if intent.is_patch:
            until_s = max(until_s, intent.expires_s)
    return until_s


def _one(record: Mapping[str, object], now_s: float) -> tuple[WorkloadRef, Intent]:
    group, resource, namespace, name = map(str, _list(record["workload"]))
    replicas = record["replicas"]
    if not isinstance(replicas, int | None):
        raise TypeError("replicas must be an integer or null")
    left_s = record["left_s"]
    if not isinstance(left_s, int | float):
        raise TypeError("left_s must be a number of seconds")
    version, uid = _list(record["precondition"])
    state = State(str(record["state"]))
    intent = Intent(
        id=str(record["id"]),
        replicas=replicas,
        templates=tuple(Template(str(text).encode()) for text in _list(record["templates"])),
        labels=tuple(map(str, _list(record["labels"]))),
        creates=bool(record["creates"]),
        precondition=Precondition(_optional(version), _optional(uid)),
        expires_s=now_s + left_s,
        state=state,
        source=str(record["source"]),
        answered_s=now_s if state is State.SUCCEEDED else None,
        owner=None if record["owner"] is None else OwnerRef(*map(str, _list(record["owner"]))),
        frees=bool(record["frees"]),
        keeps_count=bool(record["keeps_count"]),
        is_patch=bool(record["is_patch"]),
    )
    return WorkloadRef(group, resource, namespace, name), intent


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else str(value)
