"""What reading one body may cost. The work is counted here.

Whoever reaches Envoy can send any body, before the API server authenticates it. So everything that takes more than a
few steps for each byte is counted here, in units of about a quarter of a microsecond. limits.md is the table.
"""

from __future__ import annotations

from typing import Final

from extauthz.core.errors import BodyError

VALUE: Final = 4
"""A value that is decoded from JSON or protobuf, and walked a few times later."""

COUNT: Final = 1_200
"""Units of the body of a count: about 0.3 ms."""

REVIEW: Final = 24_000
"""Units of any AdmissionReview, and half a unit more for each byte."""

MOST: Final = 400_000
"""Units of the longest AdmissionReview."""

SMALL_BYTES: Final = 256
"""Targets and bodies of so many bytes are remembered."""

AT_ONCE: Final = 2_500
"""Units of decoding an AdmissionReview before it is known to take long: about 0.6 ms."""

AT_ONCE_BYTES: Final = 16 * 1024
"""A longer one takes long, whatever is in it."""

TOO_COMPLEX: Final = "too-complex"

CURE: Final = "write less at once"


class Work:
    """Counts the units that one body has used."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit

    def spend(self, units: int, place: str, cure: str = CURE) -> None:
        """Use units for a place of the body. If none are left, raise BodyError with the code ``TOO_COMPLEX``."""
        self.left -= units
        if self.left < 0:
            raise BodyError(TOO_COMPLEX, f"{place}: more than {self.limit} units of work; {cure}")


def of_count() -> Work:
    """What decoding a Scale, or a patch of a count, may cost."""
    return Work(COUNT)


def of_review(size: int) -> Work:
    """What decoding an AdmissionReview of ``size`` bytes may cost: a fixed part and a share for each byte."""
    return Work(min(REVIEW + size // 2, MOST))


def of_review_at_once(size: int) -> Work:
    """What of it may be spent where others wait meanwhile."""
    return Work(min(of_review(size).limit, AT_ONCE))
