"""What all pages have in common: a question becomes a view, and a view becomes HTML."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from extauthz.core import quantities
from extauthz.core.model import Verdict
from extauthz.servers.api.history import Filter
from extauthz.servers.api.rights import Kind
from extauthz.servers.api.routes import Asked
from extauthz.servers.api.shown import Json
from extauthz.servers.page import rendering

MOST_LACKS = 4
"""Of one workload. The decisions on its own page have all."""


class View(NamedTuple):
    """One page, ready to be written."""

    title: str
    template: str
    """``templates/NAME.html`` is the page, ``templates/NAME.live.html`` the part of it that lives."""
    context: Mapping[str, Any]


Found = TypeVar("Found")

Look: TypeAlias = Callable[[Asked, float], Awaitable[View]]
"""A question, and the time in seconds since the epoch → a view. Raises Problem."""


async def in_turns(found: Iterable[Found], step: int) -> list[Found]:
    """All of them. Other work comes in between after each ``step``: a decision must not wait for a page."""
    taken = []
    for number, one in enumerate(found, 1):
        taken.append(one)
        if number % step == 0:
            await asyncio.sleep(0)
    return taken


class Lack(NamedTuple):
    """What one quota lacks for it. Amounts are empty where that quota may not be seen."""

    resource: str
    quota: str
    url: str
    requested: str
    free: str


class Refused(NamedTuple):
    """A workload that is refused and goes on asking."""

    name: str
    namespace: str
    url: str
    lasting: str
    times: str
    """How often it has asked, and when last."""
    wanted: int | None
    observed: int | None
    fits: int | None
    lacks: list[Lack]
    sentence: str
    """Said where nothing is lacking, but something else is wrong."""


class Decided(NamedTuple):
    """A decision."""

    at: str
    """RFC 3339."""
    clock: str
    verdict: str
    """``allow``, ``deny``, ``unavailable``, or ``audit``: allowed, and would have been refused."""
    before: int | None
    to: int | None
    dry_run: bool
    who: str
    sentence: str


async def refused(asked: Asked, now_s: float, limit: int, quota: str | None = None) -> tuple[list[Refused], int]:
    """Workloads that are refused now, those first that have waited longest; and how many there are."""
    visible = await namespaces(asked, quota)
    page = await asked.all_veiled(asked.answers.history.episodes(Filter(quota=quota), limit, visible))
    return [_refused(one, now_s) for one in page["items"]], page["total"]


async def namespaces(asked: Asked, quota: str | None = None) -> Container[str]:
    """Those that the past tells of and who asks may see; or those of one quota and all below it."""
    answers = asked.answers
    return await asked.rights.visible(
        Kind.NAMESPACE, answers.history.namespaces() if quota is None else answers.namespaces(quota)
    )


def _refused(one: Json, now_s: float) -> Refused:
    return Refused(
        one["name"],
        one["namespace"],
        rendering.of_workload(one),
        rendering.since(one["since"], now_s),
        _asked(one["times"], rendering.since(one["lastAsked"], now_s)),
        one["wanted"],
        one["observedReplicas"],
        one["fits"],
        [_lack(row) for row in one["shortages"][:MOST_LACKS]],
        "" if one["shortages"] else one["sentence"],
    )


def _asked(times: int, last: str) -> str:
    return f"asked once, {last} ago" if times == 1 else f"asked {times:,} times, last {last} ago"


def _lack(row: Json) -> Lack:
    if row["quota"] is None:
        return Lack(row["resource"], "", "", row["requested"], "")
    used, reserved, kept, hard = (quantities.parse(row[name]) for name in ("used", "reserved", "kept", "hard"))
    free = quantities.format(max(0, hard - used - reserved - kept), row["resource"])
    return Lack(row["resource"], row["quota"], rendering.of_quota(row["quota"]), row["requested"], free)


def decided(one: Json) -> Decided:
    """A decision of the API."""
    would = Verdict.DENY.value
    return Decided(
        one["time"],
        rendering.clock(rendering.seconds(one["time"])),
        "audit" if one["verdict"] == Verdict.ALLOW.value and one["would"] == would else one["verdict"],
        one["from"],
        one["to"],
        one["dryRun"],
        one["user"] or one["userAgent"] or "",
        one["sentence"],
    )
