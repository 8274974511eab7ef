"""JSON schemas of what an API server serves, made of its own OpenAPI document, for kubeconform."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.controlplane.plane import Plane

Tree = Any

LOCATION = "{{.Group}}-{{.ResourceKind}}-{{.ResourceAPIVersion}}.json"
"""The file of a kind, as kubeconform's ``-schema-location`` has it. The group of a core kind is its version."""


_INSIDE = "#/definitions/"


def write(plane: Plane, folder: Path) -> str:
    """Write a schema for each kind, in which no field is allowed that is not known. The location for kubeconform."""
    definitions = plane.api.call("GET", "/openapi/v2")["definitions"]
    told = {name: _strict(tree) for name, tree in definitions.items()}
    for name, tree in definitions.items():
        for kind in tree.get("x-kubernetes-group-version-kind", ()):
            group = kind["group"] or kind["version"]
            file = folder / f"{group}-{kind['kind'].lower()}-{kind['version']}.json"
            needed = {each: told[each] for each in _needed(told, name)}
            file.write_text(json.dumps({"$ref": f"{_INSIDE}{name}", "definitions": needed}))
    return str(folder / LOCATION)


def _needed(told: Mapping[str, Tree], first: str) -> set[str]:
    """The definition and all that it refers to: kubeconform follows no reference to another file."""
    found, todo = set(), [first]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += re.findall(rf'"\$ref": "{_INSIDE}([^"]+)"', json.dumps(told[name]))
    return found


def _strict(tree: Tree) -> Tree:
    """The OpenAPI schema as a JSON schema."""
    if isinstance(tree, list):
        return [_strict(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("format") == "int-or-string" or tree.get("x-kubernetes-int-or-string"):
        return {"type": ["string", "integer"]}
    strict = {name: _strict(one) for name, one in tree.items() if not name.startswith("x-")}
    if tree.get("$ref", "").endswith("resource.Quantity"):
        return {"type": ["string", "number"]}
    if isinstance(tree.get("properties"), dict) and not tree.get("x-kubernetes-preserve-unknown-fields"):
        strict.setdefault("additionalProperties", False)
    return strict
