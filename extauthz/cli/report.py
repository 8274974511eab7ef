"""A decision as ``check`` prints it: a table for people, or JSON whose schema is in ``docs/check.md``."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from extauthz.core import quantities
from extauthz.core.model import Decision, Shortage

AMOUNTS = ("requested", "used", "reserved", "hard")

MAX_WIDTH = 110
"""Columns that a sentence is wrapped at, even where the terminal is wider: longer lines are hard to read."""


def as_json(decision: Decision) -> str:
    """One object; every field is always there. Amounts come as text and, exactly, as an integer of nano-units."""
    ref = decision.ref
    tree: dict[str, Any] = {
        "verdict": decision.verdict.value,
        "reason": decision.reason,
        "sentence": decision.sentence,
        "workload": None if ref is None else ref._asdict(),
        "operation": None if decision.operation is None else decision.operation.value,
        "scale": decision.scale,
        "dryRun": decision.dry_run,
        "replicas": {"from": decision.replicas_before, "to": decision.replicas},
        "fits": decision.fits,
        "shortages": [_tree(row) for row in decision.shortages],
        "audit": [_tree(row) for row in decision.audit],
        "unspecified": [row._asdict() for row in decision.unspecified],
    }
    return json.dumps(tree, indent=2) + "\n"


def _tree(row: Shortage) -> dict[str, Any]:
    def both(nanos: int) -> dict[str, Any]:
        return {"text": quantities.format(nanos, row.resource), "nanos": nanos}

    amounts = {name: both(getattr(row, name)) for name in AMOUNTS}
    return {"quota": row.quota, "path": list(row.path), "resource": row.resource, **amounts}


def as_table(decision: Decision) -> str:
    """A text: what was asked, the answer, the sentence, and a line of evidence for each quota and resource that
    refused."""
    facts = [("verdict", f"{decision.verdict} ({decision.reason})"), *_what(decision)]
    lines = [f"{name:<10} {value}" for name, value in facts]
    lines += ["", *_wrapped(decision.sentence)]
    for title, rows in (("refused by", decision.shortages), ("would be refused, but only audited, by", decision.audit)):
        if rows:
            lines += ["", f"{title}:", *_evidence(rows)]
    silent = [f"{one.resource} for {one.quota}" for one in decision.unspecified if one.audits]
    if silent:
        lines += ["", f"would be refused, but only audited: pods must specify {', '.join(silent)}"]
    return "\n".join(lines) + "\n"


def _what(decision: Decision) -> list[tuple[str, str]]:
    facts = []
    if decision.ref is not None:
        facts.append(("workload", str(decision.ref)))
    if decision.operation is not None:
        kind = f"{decision.operation} of its scale" if decision.scale else str(decision.operation)
        facts.append(("operation", f"{kind}, dry run" if decision.dry_run else kind))
    if decision.replicas is not None:
        before = "none" if decision.replicas_before is None else str(decision.replicas_before)
        fits = "" if decision.fits is None else f" (largest that fits: {decision.fits})"
        facts.append(("replicas", f"{before} → {decision.replicas}{fits}"))
    return facts


def _wrapped(sentence: str) -> list[str]:
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    # Parts of it may come from the request: nothing in it may move the terminal's cursor.
    printable = "".join(char if char.isprintable() else "\ufffd" for char in sentence)
    return textwrap.wrap(printable, width, break_long_words=False, break_on_hyphens=False)


def _evidence(rows: Sequence[Shortage]) -> list[str]:
    table: list[tuple[str, ...]] = [("quota", "resource", *AMOUNTS)]
    for row in rows:
        amounts = (quantities.format(getattr(row, name), row.resource) for name in AMOUNTS)
        table.append(("/".join(row.path), row.resource, *amounts))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in table]


OUTPUTS: Mapping[str, Callable[[Decision], str]] = {"table": as_table, "json": as_json}
