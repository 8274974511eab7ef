"""The state of one WorkspaceQuota object beside its spec, for its status."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from extauthz.core.model import Tree
from extauthz.core.quota.problems import Problem


class Fault(StrEnum):
    """Why the limits of an object are not in force as they are written. Also the reason of its condition Ready."""

    INVALID = "Invalid"
    """The spec is invalid: ``QuotaSpecError``."""
    PARENT_MISSING = "ParentMissing"
    """No quota has the name of its parent."""
    PARENT_CYCLE = "ParentCycle"
    """It is its own ancestor, or below one that is."""
    POLICIES_UNREAD = "PoliciesUnread"
    """The gate cannot evaluate expressions."""


class Standing(NamedTuple):
    """One object as its source last saw it. Compact: a source holds one for each quota."""

    name: str
    uid: str
    generation: int
    version: str
    """``metadata.resourceVersion``."""
    status: bytes
    """The object's ``.status``, as ``compact`` returns it."""
    in_force: int | None
    """The generation whose spec the gate enforces; ``None``: no spec of this object."""
    fault: Fault | None = None
    why: str = ""
    """A sentence about the fault."""


def standing(obj: Tree, in_force: int | None, fault: Fault | None = None, problems: Iterable[Problem] = ()) -> Standing:
    """Take what a status needs from an object as the API server prints it."""
    metadata = obj["metadata"]
    return Standing(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 0),
        version=metadata.get("resourceVersion", ""),
        status=compact(obj.get("status")),
        in_force=in_force,
        fault=fault,
        why="; ".join(map(str, problems)),
    )


def compact(status: Tree) -> bytes:
    """A status as canonical JSON: equal ones are equal bytes."""
    return json.dumps(status or {}, sort_keys=True, separators=(",", ":")).encode()
