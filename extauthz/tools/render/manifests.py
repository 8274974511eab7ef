"""Writes Kubernetes objects as text, with a comment about the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any as Tree
from typing import NamedTuple

import yaml

GATE = "extauthz"
"""The name of whatever the gate owns."""


class _Plain(yaml.SafeDumper):
    """No anchors: equal values are written twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _literal(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A file in a value is shown as lines."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _literal)


class Part(NamedTuple):
    """Objects that belong together, and what a reader of them must know."""

    says: str
    objects: Sequence[dict[str, Tree]]


def to_yaml(parts: Sequence[Part]) -> str:
    """One document for each object."""
    return "---\n".join(text for part in parts for text in _documents(part))


def to_json(parts: Sequence[Part]) -> str:
    objects = [tree for part in parts for tree in part.objects]
    tree = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
    return json.dumps(tree, indent=2) + "\n"


def _documents(part: Part) -> list[str]:
    comment = "".join(f"# {line}".rstrip() + "\n" for line in part.says.splitlines())
    first, *rest = (text_of(tree) for tree in part.objects)
    return [comment + first, *rest]


def text_of(tree: dict[str, Tree]) -> str:
    """One object as YAML."""
    return yaml.dump(tree, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


FORMATS: dict[str, Callable[[Sequence[Part]], str]] = {"yaml": to_yaml, "json": to_json}
"""By the words of ``--output``."""
