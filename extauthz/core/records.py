"""A pending write as a JSON-ready record, for another gate.

A record holds no time: each gate counts on a clock of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

from extauthz.core.errors import ObjectError
from extauthz.core.kinds import DEPLOYMENTS, PODS, STATEFUL_SETS
from extauthz.core.ledger.claims import ephemeral, stems
from extauthz.core.ledger.entry import PendingWrite, State
from extauthz.core.ledger.pod_costs import PodCosts
from extauthz.core.model import Labels, Observed, OwnerRef, Precondition, Template, Tree, WorkloadRef
from extauthz.core.numbers import INT32
from extauthz.core.objects.fields import labels_dict
from extauthz.core.quantities import CEILING

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
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
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
        templates=tuple(map(_template, _list(record.get("templates", [])))),
        labels=tuple(map(_labels, _list(record.get("labels", [])))),
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
    if not isinstance(value, int) or not 0 <= value <= INT32:
        raise TypeError("a count is not one")
    return int(value)  # ``renewed`` was true or false in an earlier release


def _labels(value: object) -> Labels:
    labels = str(value)
    labels_dict(labels)  # without labels that can be read, its quotas are not known
    return labels


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else str(value)


def _template(text: Tree) -> Template:
    """The template of a text, whoever has written it. An amount that cannot be read is no fault here: the cost is
    unknown then.

    Raises:
        ValueError, TypeError, LookupError, AttributeError, RecursionError: no gate has written it.
    """
    found, tree = Template(text.encode()), json.loads(text)
    for each in tree.get("groups", (tree,)):
        _check_numbers(each)
    costs, observed = PodCosts(), Observed(1, found)
    with suppress(ObjectError):
        costs.per_pod("", found)
        costs.claims("", found)
    if "template" in tree:
        stems(WorkloadRef(*STATEFUL_SETS, "", ""), observed)
        ephemeral(WorkloadRef(*PODS, "", ""), observed)
        costs.surge(WorkloadRef(*DEPLOYMENTS, "", ""), observed)
    return found


def _check_numbers(tree: Tree) -> None:
    """Those that are no quantities: they are multiplied as they are."""
    known = {"template", "claim", "devices", "finished", "resize"} & tree.keys()
    if len(known) != 1:
        raise ValueError(f"a template of the members {sorted(tree)[:5]}")
    amounts = [*tree.get("resize", {}).values(), *tree.get("devices", {}).values(), *tree.get("admin", {}).values()]
    amounts += [tree.get("count", 0), tree.get("ordinals", {}).get("start", 0)]
    if not all(type(amount) is int and 0 <= amount <= CEILING * INT32 for amount in amounts):
        raise ValueError("a number is none, or out of range")
