"""Annotations and config maps as Knative reads them: a text that is no number counts as not there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from extauthz.explain.objects import seconds

GROUP: Final = "autoscaling.knative.dev"
INT32: Final = 2**31 - 1

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def annotation(annotations: Mapping[str, str], *names: str) -> str | None:
    """The first of these that is there, under ``autoscaling.knative.dev/``."""
    return next((annotations[f"{GROUP}/{name}"] for name in names if f"{GROUP}/{name}" in annotations), None)


def integer(text: str | None) -> int | None:
    """An int32.

    >>> integer("3"), integer("3.5"), integer("99999999999"), integer(None)
    (3, None, None, None)
    """
    if text is None or not _INTEGER.fullmatch(text) or not -INT32 - 1 <= int(text) <= INT32:
        return None
    return int(text)


def number(text: str | None) -> float | None:
    """A float.

    >>> number("0.5"), number("1e2"), number("many"), number(None)
    (0.5, 100.0, None, None)
    """
    return float(text) if text is not None and _FLOAT.fullmatch(text) else None


def duration(text: str | None) -> float | None:
    """A duration of Go, in seconds.

    >>> duration("1m30s"), duration("0"), duration("soon"), duration(None)
    (90.0, 0.0, None, None)
    """
    if text is None or text == "0":
        return None if text is None else 0.0
    try:
        return seconds(text)
    except ValueError:
        return None


def truth(text: str | None) -> bool | None:
    """A boolean: the config map says true, or something else."""
    return None if text is None else text.lower() == "true"


def first(values: Sequence[float | None]) -> float:
    """The first that is there; the last one always is."""
    return next(value for value in values if value is not None)
