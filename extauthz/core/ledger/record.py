"""An intent as a JSON-ready record, for whoever takes it over: the next start of a gate, or another gate.

A record holds no time: each gate counts on a clock of its own (DESIGN §6.5, §6.11).
"""

from __future__ import annotations

from collections.abc import Mapping

from extauthz.core.ledger.intents import Intent, State
from extauthz.core.model import OwnerRef, Precondition, Template, WorkloadRef

Record = Mapping[str, object]


class RecordError(ValueError):
    """A record is not one that ``dump`` wrote. The text says what is wrong with it."""


def dump(ref: WorkloadRef, intent: Intent) -> dict[str, object]:
    """The record of an intent on ``ref``."""
    return {
        "id": intent.id,
        "workload": list(ref),
        "replicas": intent.replicas,
        "templates": [template.text.decode() for template in intent.templates],
        "labels": list(intent.labels),
        "creates": intent.creates,
        "precondition": list(intent.precondition),
        "state": intent.state.value,
        "source": intent.source,
        "owner": list(intent.owner) if intent.owner is not None else None,
        "frees": intent.frees,
        "keeps_count": intent.keeps_count,
        "renewed": intent.renewed,
    }


def load(record: Record, expires_s: float, now_s: float) -> tuple[WorkloadRef, Intent]:
    """The intent of a record.

    Args:
        expires_s: when its W has elapsed, and ``now_s``, on this gate's clock. A write that was answered counts as
            answered now, so that a read made from now on settles it.

    Raises:
        RecordError: ``record`` is not one that ``dump`` wrote.
    """
    try:
        return _load(record, expires_s, now_s)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(repr(error)) from error


def _load(record: Record, expires_s: float, now_s: float) -> tuple[WorkloadRef, Intent]:
    group, resource, namespace, name = map(str, _list(record["workload"]))
    ref = WorkloadRef(group, resource, namespace, name)
    replicas = record["replicas"]
    if not isinstance(replicas, int | None):
        raise TypeError("replicas must be an integer or null")
    version, uid = _list(record["precondition"])
    precondition = Precondition(_optional(version), _optional(uid))
    state = State(str(record["state"]))
    return ref, Intent(
        id=str(record["id"]),
        replicas=replicas,
        templates=tuple(Template(str(text).encode()) for text in _list(record["templates"])),
        labels=tuple(map(str, _list(record["labels"]))),
        creates=bool(record["creates"]),
        precondition=precondition,
        expires_s=expires_s,
        state=state,
        source=str(record["source"]),
        answered_s=now_s if state is State.SUCCEEDED else None,
        owner=None if record["owner"] is None else OwnerRef(*map(str, _list(record["owner"]))),
        frees=bool(record["frees"]),
        keeps_count=bool(record["keeps_count"]),
        renewed=bool(record["renewed"]),
    )


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else str(value)
