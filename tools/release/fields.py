"""The fields of WorkspaceQuota as a list, made from the definition that the API server holds: docs/quota.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Tree: TypeAlias = Any

DEFINITION = Path(__file__).parents[2] / "charts/extauthz/definitions/workspacequotas.yaml"
WHOLE = ("status.conditions", "status.override", "status.nextOverride", "status.summary")
"""Of these the fields inside are left out: docs/status.md tells of conditions."""


def markdown() -> str:
    """Of spec and status, in the order of the definition."""
    schema = yaml.safe_load(DEFINITION.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    parts = ("spec", "status")
    return "\n".join(f"- `{name}`, {kind}: {said}" for part in parts for name, kind, said in _fields(part, schema))


def _fields(path: str, tree: Tree) -> Iterator[tuple[str, str, str]]:
    """Path, type and meaning of what is below ``path`` in ``tree``: what is of one form is told once."""
    inside = tree["properties"][path.rpartition(".")[2]]
    seen: dict[tuple[str, ...], str] = {}
    for name, field in (inside.get("items") or inside).get("properties", {}).items():
        here = f"{path}{'[]' if 'items' in inside else ''}.{name}"
        below = tuple((field.get("items") or field).get("properties", {}))
        like = seen.setdefault(below, here) if below else here
        meaning = " ".join(field.get("description", "").split())
        told_before = like != here and "matchLabels" not in below
        yield here, _type(field), f"{meaning} Fields as in `{like}`." if told_before else meaning
        if like == here and here not in WHOLE and "matchLabels" not in below:
            yield from _fields(here, {"properties": {name: field}})


def _type(field: Tree) -> str:
    if "enum" in field:
        default = f" (default `{field['default']}`)" if "default" in field else ""
        return ", ".join(f"`{each}`" for each in field["enum"]) + default
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    return "label selector" if "matchLabels" in field.get("properties", {}) else str(field["type"])
