"""The services that quotas may come from: the scheme of the URL in ``--quotas`` says which. A new one is a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from extauthz.inputs.sources.gathering import Quotas
from extauthz.inputs.sources.http import Endpoint, HttpQuotas


class QuotaService(Protocol):
    """Follows the quotas of one service."""

    good_s: float | None
    """When it last gave a good answer, on the clock; ``None``: never."""
    error: str
    """Why it gives none now; empty: it does."""

    async def run(self) -> None:
        """Follow for ever. Ends by cancellation."""


class Follow(Protocol):
    """Makes one."""

    def __call__(
        self,
        endpoint: Endpoint,
        every_s: float,
        accept: Callable[[Quotas], None],
        tell: Callable[[str, str], None],
        clock: Callable[[], float],
        /,
    ) -> QuotaService:
        """Make it; nothing is asked yet.

        Args:
            every_s: how often it is asked, if it cannot be watched.
            accept: called with all quotas whenever there is news.
            tell: called after every request with its result (``ok`` or a code of ``SourceError``) and why it failed.
        """


SERVICES: Final[Mapping[str, Follow]] = {"https": HttpQuotas, "http": HttpQuotas}
