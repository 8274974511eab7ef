"""All problems of an object that a person wrote: where, what, and the cure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from extauthz.core.model import Tree

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the root of the object down to the field."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Problem(NamedTuple):
    """One thing to repair."""

    path: Path
    detail: str
    """What is wrong, with the value that is wrong."""
    cure: str
    """What to write instead."""

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.detail}; {self.cure}"


def dotted(path: Path) -> str:
    """Spell a path as the API server does in its own errors: ``spec.hard[requests.cpu]``, ``values[0]``.

    Source: ``k8s.io/apimachinery/pkg/util/validation/field/path.go``.
    """
    text = ""
    for step in path:
        plain = isinstance(step, str) and _PLAIN_KEY.fullmatch(step)
        text += f".{step}" if plain else f"[{step}]"
    return text.removeprefix(".") or "the object"


def shown(value: Tree) -> str:
    """Quote a value for a sentence, in YAML's own spelling, cut to a readable length."""
    words: Mapping[object, str] = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Problems:
    """Collects problems while an object is read; the reader goes on after each."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, path: Path, detail: str, cure: str) -> None:
        """Note one problem."""
        self._found.append(Problem(path, detail, cure))

    def mapping(self, value: Tree, path: Path) -> Mapping[str, Tree]:
        """Return ``value`` if it is a mapping with text keys; ``null`` is an empty one, as in Kubernetes."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.add(path, f"{shown(value)} is not a mapping", "write `key: value` pairs")
            return {}
        return {key: value[key] for key in value if self._text_key(key, path)}

    def items(self, value: Tree, path: Path) -> list[Tree]:
        """Return ``value`` if it is a list; ``null`` is an empty one."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.add(path, f"{shown(value)} is not a list", "write `- item` lines")
            return []
        return value

    def text(self, value: Tree, path: Path) -> str | None:
        """Return ``value`` if it is a string. In YAML a bare ``1`` or ``yes`` is no string; the cure says so."""
        if isinstance(value, str):
            return value
        self.add(
            path,
            f"{shown(value)} is not a string",
            "put it in quotes" if value is not None else "give it a value",
        )
        return None

    def unknown_fields(self, given: Iterable[str], known: Iterable[str], path: Path) -> None:
        """Note each field that is not known, with the nearest known one."""
        names = list(known)
        for field in given:
            if field not in names:
                near = difflib.get_close_matches(field, names, n=1)
                cure = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(names)}"
                self.add((*path, field), f'unknown field "{field}"', cure)

    def _text_key(self, key: object, path: Path) -> bool:
        if isinstance(key, str):
            return True
        self.add(path, f"the key {shown(key)} is not a string", "put the key in quotes")
        return False


# The state of one WorkspaceQuota object beside its spec, for its status.


class Fault(StrEnum):
    """Why the limits of an object are not in force as they are written. Also the reason of its condition Ready."""

    INVALID = "Invalid"
    """The spec is invalid: ``QuotaSpecError``."""
    PARENT_MISSING = "ParentMissing"
    """No quota has the name of its parent."""
    PARENT_CYCLE = "ParentCycle"
    """It is its own ancestor, or below one that is."""
    NO_EFFECT = "NoEffect"
    """It has a weight where nothing is shared by weight."""


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
