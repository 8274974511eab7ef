"""A pending write as a JSON-ready record, for the next start of a gate or for another gate.

A record holds no time: each gate counts on a clock of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from extauthz.core.ledger.entry import PendingWrite, State
from extauthz.core.model import OwnerRef, Precondition, Template, WorkloadRef

Record = Mapping[str, object]


class RecordError(ValueError):
    """A record is not one that ``dump`` wrote. The text says what is wrong with it."""


def dump(ref: WorkloadRef, pending_write: PendingWrite) -> dict[str, object]:
    """The record of a pending write on ``ref``. Members with their usual value are left out."""
    record: dict[str, object] = {
        "replicas": pending_write.replicas,
        "templates": [template.text.decode() for template in pending_write.templates],
        "labels": list(pending_write.labels),
        "creates": pending_write.creates,
        "precondition": list(pending_write.precondition) if any(pending_write.precondition) else None,
        "state": pending_write.state.value if pending_write.state is not State.OPEN else None,
        "source": pending_write.source,
        "owner": list(pending_write.owner) if pending_write.owner is not None else None,
        "frees": pending_write.frees,
        "renewed": pending_write.renewed,
    }
    named = {"id": pending_write.id, "workload": list(ref)}
    return named | {key: value for key, value in record.items() if value or (key == "replicas" and value is not None)}


def load(record: Record, expires_s: float, now_s: float) -> tuple[WorkloadRef, PendingWrite]:
    """The pending write of a record.

    Args:
        expires_s: when its landing window has elapsed, and ``now_s``, on this gate's clock. A write that was answered
            counts as answered now, so that a read made from now on settles it.

    Raises:
        RecordError: ``record`` is not one that ``dump`` wrote.
    """
    try:
        return _load(record, expires_s, now_s)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(repr(error)) from error


def _load(record: Record, expires_s: float, now_s: float) -> tuple[WorkloadRef, PendingWrite]:
    group, resource, namespace, name = map(str, _list(record["workload"]))
    replicas = record.get("replicas")
    version, uid = _list(record.get("precondition", [None, None]))
    state = State(str(record.get("state", State.OPEN)))
    owner = record.get("owner")
    return WorkloadRef(group, resource, namespace, name), PendingWrite(
        id=str(record["id"]),
        replicas=None if replicas is None else _count(replicas),
        templates=tuple(Template(str(text).encode()) for text in _list(record.get("templates", []))),
        labels=tuple(map(str, _list(record.get("labels", [])))),
        creates=bool(record.get("creates")),
        precondition=Precondition(_optional(version), _optional(uid)),
        expires_s=expires_s,
        state=state,
        source=str(record.get("source", "")),
        answered_s=now_s if state is State.SUCCEEDED else None,
        owner=None if owner is None else OwnerRef(*map(str, _list(owner))),
        frees=bool(record.get("frees")),
        renewed=_count(record.get("renewed", 0)),
    )


def _count(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a count")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else str(value)
