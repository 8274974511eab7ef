"""The result of a check: one row of a table."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """It works, but somebody should know something."""
    FAIL = "fail"
    SKIPPED = "skipped"
    """Not checked. The cure names the missing option."""


class Row(NamedTuple):
    """One check."""

    name: str
    verdict: Verdict
    found: str
    """What was seen, in a sentence."""
    cure: str = ""
    """What to do about it; empty if nothing."""


def ok(name: str, found: str) -> Row:
    return Row(name, Verdict.OK, found)


def warn(name: str, found: str, cure: str) -> Row:
    return Row(name, Verdict.WARN, found, cure)


def fail(name: str, found: str, cure: str) -> Row:
    return Row(name, Verdict.FAIL, found, cure)


def skipped(name: str, why: str, option: str) -> Row:
    """``option``: what to give so that it is looked at."""
    return Row(name, Verdict.SKIPPED, why, option)


def all_skipped(names: Iterable[str], why: str, option: str) -> list[Row]:
    return [skipped(name, why, option) for name in names]


def judged(name: str, found: str, problems: list[str], cure: str) -> Row:
    """Fails with all ``problems`` if there are any, and else says what was ``found``."""
    return fail(name, "; ".join(problems), cure) if problems else ok(name, found)
