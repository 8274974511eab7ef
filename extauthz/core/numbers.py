"""Numbers in texts that others wrote: each is bounded, or it is none. The one place that reads them.

Python's ``int`` raises on more than 4,300 digits, and takes spaces, underscores and the digits of every script. So a
text of somebody else's never goes to it directly.
"""

from __future__ import annotations

from typing import Final

UINT64: Final = 2**64 - 1
INT32: Final = 2**31 - 1


def whole(text: str, most: int = UINT64) -> int | None:
    """A whole number in decimal digits; ``None``: it is none, or it is above ``most``.

    >>> whole("007"), whole("7", most=6), whole("-7"), whole("9" * 5000)
    (7, None, None, None)
    """
    number = capped(text, most + 1)
    return number if number is None or number <= most else None


def capped(text: str, most: int) -> int | None:
    """The same, where what is above ``most`` is taken for that.

    >>> capped("25", 100), capped("9" * 5000, 100), capped("many", 100)
    (25, 100, None)
    """
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0")
    return most if len(digits) > len(str(most)) else min(int(digits or "0"), most)
