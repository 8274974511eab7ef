"""The part of the loop that questions may take. Decisions come first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

from extauthz.servers.api.problems import Problem
from extauthz.servers.bodies import FullError, Turns

Result = TypeVar("Result")

REST: Final = 9
"""Times as long as one turn took, all others wait: questions take a tenth of the loop at most."""

MOST: Final = 64
"""Questions that wait, in all."""

MOST_EACH: Final = 32
"""Questions of one person that wait. All that is asked from this host is one person's."""


class Share:
    """Lets questions have the loop, one after the other, each person in turn, with a rest after each turn.

    Args:
        clock: seconds of the processor.
        later: calls something after so many seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.thread_time,
        later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        self._clock = clock
        self._later = later
        self._turns = Turns(MOST, MOST_EACH)

    async def of(self, person: str | None, work: Callable[[], Result]) -> Result:
        """What comes of the work, once it is this person's turn.

        Args:
            person: ``None``: whoever is on this host.

        Raises:
            Problem: too many wait; and what the work raises.
        """
        try:
            await self._turns.enter(person)
        except FullError:
            raise Problem(503, "too many questions wait; ask again in a moment") from None
        began_s = self._clock()
        try:
            return work()
        finally:
            later = self._later or asyncio.get_running_loop().call_later
            later(REST * (self._clock() - began_s), self._turns.leave)
