"""What one request may cost. All work of reading it is counted here.

Whoever reaches Envoy can send any body, before the API server authenticates it. So everything that takes more than a
few steps for each byte is counted here, in units of about a quarter of a microsecond. docs/limits.md is the table.
"""

from __future__ import annotations

from typing import Final

from extauthz.core.errors import BodyError, MeaningError

VALUE: Final = 4
"""A value that is decoded from JSON, CBOR or protobuf, and walked a few times later."""

YAML_NODE: Final = 8
"""A node of a YAML document, an alias counted with all that it stands for."""

OPERATION: Final = 8
"""An operation of a JSON Patch."""

TOKEN: Final = 3
"""A token of one of its pointers."""

WALKED: Final = 6
"""A value that a JSON Patch moves or copies, each time."""

CONTAINER: Final = 24
"""An item of a list in a pod template: a container, a volume, a claim."""

AMOUNT: Final = 4
"""An entry of a map of resources, a label, an owner reference."""

TEXT_BYTES: Final = 16
"""Characters of YAML that libyaml scans for one unit."""

TEMPLATE_BYTES: Final = 16
"""Bytes of the pod template in the cluster that are decoded for one unit."""

MERGED_BYTES: Final = 4
"""The same where a strategic merge patch also compares its lists, item by item."""

FLOW: Final = 1
"""A bracket or brace of YAML: libyaml looks at all open ones for each character that follows."""

OPEN: Final = 10
"""A container that an apply is compared with, or brings: the owners of its fields are not known."""

LEFT_OUT: Final = 20
"""A resource of a container that an apply leaves out."""

CHOICE: Final = 8
"""A container of one of the templates that an apply may leave."""

SHIFTED: Final = 512
"""How many items of a list are moved for one unit, if another is inserted or removed."""

BASE: Final = 24_000
"""Units that decoding any body has, where it holds nobody up: about 6 ms."""

MEANING: Final = 16_000
"""Units that working out what a write leaves has: about 4 ms."""

SCALE: Final = 1_200
"""Units of each of the two for a scale, and of decoding a body that the reader may remember: about 0.3 ms."""

MOST: Final = 400_000
"""Units that the longest body has."""

SMALL_BYTES: Final = 256
"""A body of that many bytes has no more units than a scale."""

AT_ONCE: Final = 2_500
"""Units of decoding any other body before it is known to take long: about 0.6 ms."""

AT_ONCE_BYTES: Final = 16 * 1024
"""A longer body takes long, whatever is in it."""

REST: Final = 3_000
"""Values of a long body that count. Of real objects with 200 containers some 2,000 do."""

TOO_COMPLEX: Final = "too-complex"

CURE: Final = "write less at once"


class Work:
    """Counts the units that one request has used."""

    __slots__ = ("_error", "left", "limit")

    def __init__(self, limit: int, error: type[BodyError] | type[MeaningError] = BodyError) -> None:
        self.limit = self.left = limit
        self._error = error

    def spend(self, units: int, place: str, cure: str = CURE) -> None:
        """Use units for a place of the request. If none are left, raise the error with the code ``TOO_COMPLEX``."""
        self.left -= units
        if self.left < 0:
            raise self._error(TOO_COMPLEX, f"{place}: more than {self.limit} units of work; {cure}")

    @property
    def used(self) -> int:
        """The units used so far."""
        return self.limit - self.left


def of_body(size: int, *, scale: bool) -> Work:
    """What decoding a body of ``size`` bytes may cost: a fixed part and a share for each byte."""
    return Work(SCALE if scale or size <= SMALL_BYTES else min(BASE + size // 2, MOST))


def at_once(size: int, *, scale: bool) -> Work:
    """What of it may be spent where others wait meanwhile."""
    return Work(min(of_body(size, scale=scale).limit, AT_ONCE))


def of_meaning(*, scale: bool) -> Work:
    """What working out the effect of a decoded body may cost, beyond a few steps for each of its values."""
    return Work(SCALE if scale else MEANING, MeaningError)


def of_rest() -> Work:
    """What a long body may hold that counts, in values."""
    return Work(REST)
