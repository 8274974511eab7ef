"""Types of flags, as argparse wants them: a text that is wrong is told, with what to write in its place."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeVar

from extauthz.core import texts
from extauthz.core.quota import overrides

Found = TypeVar("Found")
Choice = TypeVar("Choice", bound=StrEnum)


def reading(read: Callable[[str], Found | None], wrong: str) -> Callable[[str], Found]:
    """What ``read`` makes of a text. Where that is nothing, or a ValueError, the text ``wrong``: ``is no number``."""

    def made(text: str) -> Found:
        try:
            found = read(text)
        except ValueError:
            found = None
        if found is None:
            raise argparse.ArgumentTypeError(f"{text!r} {wrong}")
        return found

    return made


def matching(pattern: str, wrong: str) -> Callable[[str], str]:
    """A text that a pattern matches, all of it."""
    return reading(lambda text: text if re.fullmatch(pattern, text) else None, wrong)


def whole(least: int, most: int, wrong: str) -> Callable[[str], int]:
    return reading(lambda text: int(text) if least <= int(text) <= most else None, wrong)


def number(fits: Callable[[float], bool], wrong: str) -> Callable[[str], float]:
    """A number that ``fits``."""
    return reading(lambda text: float(text) if fits(float(text)) else None, wrong)


def one_of(kind: type[Choice]) -> Callable[[str], Choice]:
    """A member of an enumeration. An error lists the members."""

    def made(text: str) -> Choice:
        try:
            return kind(text)
        except ValueError:
            choices = ", ".join(kind)
            raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {choices})") from None

    return made


moment: Final = reading(texts.seconds, f"is no time of RFC 3339; {overrides.TIME_CURE}")
"""Seconds since 1970."""

namespace: Final = matching(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "is no name of a namespace")
"""A label of RFC 1123."""
