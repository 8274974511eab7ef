"""What the gate knows, and how fresh it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from extauthz.servers.api.rights import ALL, Kind, Rights
from extauthz.servers.page import rendering


class Knowledge(NamedTuple):
    """What the gate says of itself. ``service`` fills it in."""

    version: str
    stale: str = ""
    """Why growth cannot rely on what is known; empty: it can."""
    notes: Sequence[str] = ()
    """As ``/readyz`` has them. They may name quotas."""
    quotas: int = 0
    workloads: int = 0
    pending: int = 0
    watches: Sequence[tuple[str, float]] = ()
    """Resources that are watched, and for how many seconds nothing came of them. Empty: all is read from files."""


class Shown(NamedTuple):
    """Lines for people."""

    version: str
    is_stale: bool
    lines: Sequence[str]


async def shown(known: Knowledge, rights: Rights) -> Shown:
    """What of it may be shown. Who may not see all quotas is told no names and no numbers of others."""
    is_all = await rights.visible(Kind.QUOTA, ()) is ALL
    return Shown(known.version, bool(known.stale), _lines(known) if is_all else _for_some(known))


def _for_some(known: Knowledge) -> list[str]:
    return ["What the gate knows is out of date, and growth may be refused." if known.stale else "All is known."]


def _lines(known: Knowledge) -> list[str]:
    counted = (
        rendering.count(known.quotas, "quota"),
        rendering.count(known.workloads, "object"),
        rendering.count(known.pending, "pending write"),
    )
    return [
        f"It knows {counted[0]} and {counted[1]}, and has {counted[2]}.",
        _freshness(known),
        *([f"Stale: {known.stale}."] if known.stale else []),
        *known.notes,
    ]


def _freshness(known: Knowledge) -> str:
    if not known.watches:
        return "It reads files, and reads them again when they change."
    resource, age_s = max(known.watches, key=lambda watch: watch[1])
    watched = rendering.count(len(known.watches), "resource")
    return f"It watches {watched}. The quietest, {resource}, was last heard of {rendering.lasting(age_s)} ago."
