"""A decision as ``check`` prints it: a table for people, or JSON whose schema is in ``docs/check.md``."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from extauthz.serve.servers.api.shown import AMOUNTS, Json

# Tables of text for people: columns as wide as their widest cell.


def lines(rows: Iterable[Sequence[str]], indent: str = "") -> list[str]:
    """One line a row; the first row may be the names of the columns."""
    table = [tuple(printable(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [indent + "  ".join(map(str.ljust, row, widths)).rstrip() for row in table]


def printable(text: str) -> str:
    """Without what could move a terminal's cursor: parts of it may come from a tenant."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


MAX_WIDTH = 110
"""Columns that a sentence is wrapped at, even where the terminal is wider: longer lines are hard to read."""


def as_json(found: object) -> str:
    """For programs: every field is always there."""
    return json.dumps(found, indent=2) + "\n"


def as_table(decision: Json) -> str:
    """A text: what was asked, the answer, the sentence, and a line of evidence for each quota and resource that
    refused."""
    facts = [("verdict", f"{decision['verdict']} ({decision['reason']})"), *_what(decision)]
    lines = [f"{name:<10} {value}" for name, value in facts]
    lines += ["", *wrapped(decision["sentence"])]
    for title, rows in (
        ("refused by", decision["shortages"]),
        ("would be refused, but only audited, by", decision["audit"]),
    ):
        if rows:
            lines += ["", f"{title}:", *_evidence(rows)]
    silent = [f"{one['resource']} for {one['quota']}" for one in decision["unspecified"] if one["audits"]]
    if silent:
        lines += ["", f"would be refused, but only audited: pods must specify {', '.join(silent)}"]
    for title, audits in (("policies against it", False), ("policies against it, but only audited", True)):
        rows = [one for one in decision["policies"] if one["audits"] is audits]
        if rows:
            lines += ["", f"{title}:", *_policies(rows)]
    return "\n".join(lines) + "\n"


def _policies(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    table: list[Sequence[str]] = [("policy", "step", "message")]
    for row in rows:
        message = row["message"] if row["result"] == "refused" else f"not known: {row['message']}"
        table.append((row["policy"], row["step"], message))
    return lines(table, "  ")


def _what(decision: Json) -> list[tuple[str, str]]:
    facts = []
    ref, operation, replicas = decision["workload"], decision["operation"], decision["replicas"]
    if ref is not None:
        group = f".{ref['group']}" if ref["group"] else ""
        facts.append(("workload", f"{ref['resource']}{group} {ref['namespace']}/{ref['name']}"))
    if operation is not None:
        kind = f"{operation} of its scale" if decision["scale"] else operation
        facts.append(("operation", f"{kind}, dry run" if decision["dryRun"] else kind))
    if replicas["to"] is not None:
        before = "none" if replicas["from"] is None else str(replicas["from"])
        fits = "" if decision["fits"] is None else f" (largest that fits: {decision['fits']})"
        facts.append(("replicas", f"{before} → {replicas['to']}{fits}"))
    return facts


def wrapped(sentence: str, indent: int = 0) -> list[str]:
    """Its lines, each to be shown so many columns to the right."""
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH) - indent
    return textwrap.wrap(printable(sentence), width, break_long_words=False, break_on_hyphens=False)


def _evidence(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    names = amounts(any(row["kept"]["nanos"] for row in rows))
    table: list[Sequence[str]] = [("quota", "resource", *names)]
    table += [("/".join(row["path"]), row["resource"], *(row[name]["text"] for name in names)) for row in rows]
    return lines(table, "  ")


def amounts(kept: bool) -> Sequence[str]:
    """The amounts of a shortage that a table shows: what guarantees keep, only where some is ``kept``."""
    return [name for name in AMOUNTS if kept or name != "kept"]
