"""Policies that look at something of their own beside the gate, such as the memory of nodes (docs/policies.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from extauthz.core.model import Tree
from extauthz.core.policies import GrowthPolicy


class Lists(Protocol):
    """The API server, as the gate's own account may read it."""

    async def items(self, path: str, take: Callable[[Tree], object], *, query: Sequence[tuple[str, str]] = ()) -> Tree:
        """Hand the items of the list at ``path`` to ``take`` one by one.

        Raises:
            ApiError: it refuses; and Unreachable: it does not answer (``extauthz.kube.connection``).
        """


class Event(Protocol):
    """Writes a line to the gate's log."""

    def __call__(self, level: str, event: str, **fields: object) -> None: ...


class Host(NamedTuple):
    """What a policy that runs is given of the gate."""

    lists: Lists | None
    """``None``: neither quotas nor state come from a cluster."""
    clock: Callable[[], float]
    """Seconds, as ``Growth.now_s``."""
    wall: Callable[[], float]
    """Seconds since 1970."""
    event: Event


class LivePolicy(GrowthPolicy):
    """A policy that runs beside the gate, in its loop. Write of these what it needs, beside the steps."""

    async def run(self, host: Host) -> None:
        """Run until it is cancelled, at the end of the gate. If it fails, that is logged, and it begins anew."""
        return

    def notes(self) -> Iterable[str]:
        """What an operator should know at ``/readyz``. The gate is ready all the same."""
        return ()

    def levels(self) -> Mapping[tuple[str, str], float]:
        """Numbers for ``extauthz_policy_level``: what is measured, and of what → how much. Keep them few."""
        return {}
