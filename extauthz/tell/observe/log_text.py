"""A line of the log as a sentence, for people: where standard error is a terminal.

What a client sends is escaped as in JSON, so that no value can forge a line. Values in pairs are quoted where they hold
spaces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

DECISIONS = frozenset({"decision", "clamp"})

VERBS: Mapping[str, str] = {"allow": "allowed", "deny": "denied", "unavailable": "not decided"}

SAID = ("problems", "problem", "why", "error", "message")
"""Fields of an event that say in words what happened. The first that is there ends the line."""

_SHOWN = frozenset({"time", "level", "event", "verdict", "would", "workload", "from", "to", "clamped_to", "sentence"})
"""What the beginning of a line shows in words."""


def line(fields: Mapping[str, Any]) -> str:
    """One line, of the fields that the JSON would have."""
    words = _decision(fields) if fields["event"] in DECISIONS else _event(fields)
    return f"{fields['time']} {fields['level'].upper():<7} {words}"


def _decision(fields: Mapping[str, Any]) -> str:
    evidence = " ".join(_evidence(fields))
    return f"{' '.join(_beginning(fields))}: {_plain(fields['sentence'])} ({evidence})"


def _beginning(fields: Mapping[str, Any]) -> Iterator[str]:
    """Such as ``denied deployments.apps/shop/web 3 → 9``."""
    yield "clamped" if fields["event"] == "clamp" else VERBS[fields["verdict"]]
    if "would" in fields:
        yield f"(else {VERBS[fields['would']]})"
    if "workload" in fields:
        yield _quoted(fields["workload"])
    if "from" in fields:
        yield str(fields["from"])
    if "to" in fields:
        yield f"→ {fields['to']}"
    if "clamped_to" in fields:
        yield f"to {fields['clamped_to']}"


def _evidence(fields: Mapping[str, Any]) -> Iterator[str]:
    """The other fields as pairs. Of shortages the sentence has the amounts."""
    for key, value in fields.items():
        if key == "shortages":
            quotas = dict.fromkeys(row["quota"] for row in value)
            yield f"quota={_quoted(','.join(quotas))}"
        elif key not in _SHOWN:
            yield f"{key}={_quoted(value)}"


def _event(fields: Mapping[str, Any]) -> str:
    said = next((key for key in SAID if key in fields), None)
    rest = (key for key in fields if key not in ("time", "level", "event", said))
    words = " ".join((fields["event"], *(f"{key}={_quoted(fields[key])}" for key in rest)))
    return f"{words}: {_plain(fields[said])}" if said is not None else words


def _plain(value: object) -> str:
    """Words, with characters escaped that a terminal or a reader of lines may obey."""
    text = "; ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return json.dumps(text)[1:-1].replace('\\"', '"')


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "=')
    return text if plain else json.dumps(text)
