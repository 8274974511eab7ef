"""Kubernetes quantities (``500m``, ``1.5Gi``, ``1e3``) as exact nano-units, read and printed as in Go.

The source is ``k8s.io/apimachinery/pkg/api/resource`` (``quantity.go``, ``suffix.go``). What Go really
answers is recorded in ``tests/data/quantities.jsonl``.
"""

from __future__ import annotations

import re
from typing import Final

NANO: Final = 10**9
"""Nano-units in one unit."""

MAX_TEXT: Final = 256
"""Longest text that is read. Go has no bound. No useful quantity is a tenth as long."""

CEILING: Final = 10**40 * NANO
"""What larger amounts are read as. Go keeps ``1e2147483647`` as it is. Here every amount stays cheap to multiply, and
no useful quantity is as large as this."""

_BINARY_CAP: Final = (2**63 - 1) * NANO
_CEILING_DIGITS: Final = 40
_BY_CLASS: Final = ".storageclass.storage.k8s.io/"
_NO_DIGITS: Final = "it has no digits"

# The scanner of parseQuantityString. Possessive, so that a bad text is refused in one pass.
_SYNTAX: Final = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[+-]?[0-9]*+)")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_UP: Final = tuple(_DECIMAL)
_BINARY_UP: Final = ("", *_BINARY)

# strings.TrimSpace, which Quantity.UnmarshalJSON applies. Python's own strip() also takes U+001C to U+001F.
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


class QuantityError(ValueError):
    """A text that Kubernetes does not take for a quantity, or that is far too long. Trying again does not help."""

    def __init__(self, text: object, why: str) -> None:
        super().__init__(f"{text!r} is not a quantity: {why}")
        self.text = text
        self.why = why


def parse(text: str | int | float) -> int:
    """Nano-units of a quantity as a JSON string or number spells it (``Quantity.UnmarshalJSON``).

    Below a nano-unit it is rounded up (away from zero); with a binary suffix it is capped at 2⁶³-1 units:
    both as ``ParseQuantity`` does. Raises QuantityError for what Kubernetes refuses.

    >>> parse("100m"), parse("1.5Gi") // 10**9, parse("1e3") // 10**9
    (100000000, 1610612736, 1000)
    """
    literal = _literal(text)
    match = _SYNTAX.fullmatch(literal)
    if match is None or not literal:
        raise QuantityError(literal, "write a number with an optional suffix, such as 500m, 2 or 1.5Gi")
    sign, whole, fraction, suffix = match.groups(default="")
    try:
        nanos = _nanos(whole + fraction, len(fraction), suffix)
    except QuantityError as error:
        raise QuantityError(literal, error.why) from None
    return -nanos if sign == "-" else nanos


def _literal(text: object) -> str:
    """The text ParseQuantity would see. A float prints as the shortest number that reads back, as in Go."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise QuantityError(type(text).__name__, "write text or a number")
    if isinstance(text, int):
        return str(max(-CEILING, min(text, CEILING)))  # Python does not print thousands of digits
    literal = str(text).strip(_SPACE)
    if len(literal) > MAX_TEXT:
        raise QuantityError(f"{literal[:16]}…", f"it is longer than {MAX_TEXT} characters")
    return literal


def _nanos(digits: str, places: int, suffix: str) -> int:
    if (exponent := _BINARY.get(suffix)) is not None:
        return _binary(digits, places, exponent)
    power = _DECIMAL.get(suffix)
    return _decimal(digits, places, _exponent(suffix) if power is None else power)


def _exponent(suffix: str) -> int:
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise QuantityError(suffix, f"no unit is called {suffix!r}")
    power = int(match[1])
    if not -(2**63) <= power < 2**63:
        raise QuantityError(suffix, "the exponent is out of range")
    return (power + 2**31) % 2**32 - 2**31  # Go converts to int32 without a check: 1e4294967296 is 1


def _decimal(digits: str, places: int, power: int) -> int:
    if not digits and power < -9:
        raise QuantityError(digits, _NO_DIGITS)  # above that Go's fast path reads a zero
    mantissa = int(digits or "0")
    if mantissa == 0:
        return 0
    if len(digits.lstrip("0")) - places + power > _CEILING_DIGITS:
        return CEILING
    shift = power - places + 9
    if shift >= 0:
        return mantissa * _ten_to_the(shift)
    divisor = _ten_to_the(min(-shift, MAX_TEXT))  # larger than any mantissa: what is left rounds up to one nano
    return -(-mantissa // divisor)


def _binary(digits: str, places: int, exponent: int) -> int:
    if not digits and exponent > _BINARY["Ti"]:
        raise QuantityError(digits, _NO_DIGITS)  # up to Ti Go's fast path reads a zero
    nanos = -(-(int(digits or "0") * NANO << exponent) // _ten_to_the(places))
    return min(nanos, _BINARY_CAP)


def _ten_to_the(power: int) -> int:
    return int(10**power)  # int(): for the type checker 10 to the power of any int is Any


def format(nanos: int, resource: str) -> str:
    """The canonical text of an amount of a quota key, as ResourceQuota prints it.

    Bytes get the largest binary suffix that divides them, CPU the largest decimal one (``1500m``), counts
    none. An amount that its own kind of suffix cannot hold exactly gets a decimal one, down to ``n``.

    >>> format(parse("1536Mi"), "requests.memory"), format(parse("1.5"), "requests.cpu"), format(parse("4"), "pods")
    ('1536Mi', '1500m', '4')
    """
    units, rest = divmod(nanos, NANO)
    kind = _kind(resource)
    if kind == "bytes" and rest == 0 and abs(units) >= 1024:
        return _scaled(units, 1024, _BINARY_UP)
    if kind == "count" and rest == 0:
        return str(units)
    return _scaled(nanos, 1000, _DECIMAL_UP)


def _kind(resource: str) -> str:
    base = resource.rpartition(_BY_CLASS)[2].removeprefix("requests.").removeprefix("limits.")
    if base in ("memory", "storage", "ephemeral-storage") or base.startswith("hugepages-"):
        return "bytes"
    return "cpu" if base == "cpu" else "count"


def _scaled(amount: int, step: int, suffixes: tuple[str, ...]) -> str:
    if amount == 0:
        return "0"
    index = 0
    while index + 1 < len(suffixes) and amount % step == 0:
        amount //= step
        index += 1
    return f"{amount}{suffixes[index]}"
