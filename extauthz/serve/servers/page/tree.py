"""``/``: the tree of quotas with bars, a page at a time, and who is refused now."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from extauthz.serve.servers.api.rights import Scope
from extauthz.serve.servers.api.routes import Asked
from extauthz.serve.servers.api.shown import Json
from extauthz.serve.servers.page import rendering
from extauthz.serve.servers.page.chart import bars
from extauthz.serve.servers.page.rendering import View, namespaces, refused
from extauthz.tell.observe.quota_facts import in_slices

PER_PAGE = 50
"""Quotas of one page."""

MOST_REFUSED = 8
"""Refused workloads that are told of beside the tree."""

MOST_BARS = 4
"""Of one quota. The fullest are shown where it has more."""

DEEPEST = 6
"""Steps of indentation."""

STEP = 5
"""Quotas that are looked at before other work comes in between. Names are a hundred times as cheap."""

ALL, REFUSING, OVER = "", "refusing", "over"


class Asking(NamedTuple):
    """What the form of the page says."""

    q: str
    only: str
    below: str
    page: int

    def url(self, page: int) -> str:
        """Another page of the same."""
        query = {"q": self.q, "only": self.only, "below": self.below, "page": str(page) if page > 1 else ""}
        return rendering.of_tree(**query)


async def look(asked: Asked, now_s: float) -> View:
    """The tree, or the part of it that is asked for."""
    asking = _asking(asked.request.query)
    if asking.below:
        await asked.must_see(Scope.QUOTA, asking.below)
        asked.answers.quota(asking.below)
    below = asking.below or None
    every = await in_slices(asked.answers.names(below), 100 * STEP)
    seen = await asked.rights.visible(Scope.QUOTA, every)
    refusing = asked.answers.history.refusing(await namespaces(asked, below))
    names = await _matching(asked, asking, (name for name in every if name in seen), refusing)
    pages = max(1, -(-len(names) // PER_PAGE))
    page = min(asking.page, pages)
    here = names[(page - 1) * PER_PAGE : page * PER_PAGE]
    top = len(asked.answers.quota(asking.below)["path"]) if asking.below else 1
    context = {
        "asking": asking,
        "quotas": await in_slices(
            (_quota(asked.answers.quota(name), refusing[name], top, seen) for name in here), STEP
        ),
        "found": rendering.count(len(names), "quota"),
        "page": page,
        "pages": pages,
        "previous": asking.url(page - 1) if page > 1 else "",
        "next": asking.url(page + 1) if page < pages else "",
        "refused": await refused(asked, MOST_REFUSED, below),
    }
    return View(f"Below {asking.below}" if asking.below else "Quotas", "tree", context)


def _asking(query: Mapping[str, str]) -> Asking:
    only, page = query.get("only", ALL), query.get("page", "")
    number = int(page[:6]) if page.isascii() and page.isdigit() else 1
    known = only if only in (REFUSING, OVER) else ALL
    return Asking(query.get("q", "").strip(), known, query.get("below", ""), max(1, number))


async def _matching(asked: Asked, asking: Asking, names: Iterable[str], refusing: Mapping[str, int]) -> list[str]:
    wanted = asking.q.casefold()
    found = await in_slices((name for name in names if wanted in name.casefold()), 100 * STEP)
    if asking.only == REFUSING:
        return [name for name in found if name in refusing]
    if asking.only == OVER:
        judged = await in_slices(((name, _is_over(asked, name)) for name in found), STEP)
        return [name for name, is_over in judged if is_over]
    return found


def _is_over(asked: Asked, name: str) -> bool:
    return any(row["over"] for row in asked.answers.quota(name)["resources"].values())


def _quota(one: Json, refusing: int, top: int, seen: Container[str]) -> Json:
    """A line of the tree."""
    drawn = bars(one["resources"])
    fullest = sorted(drawn, key=lambda bar: -bar.percent)[:MOST_BARS]
    return one | {
        "depth": min(len(one["path"]) - top, DEEPEST),
        "above": one["parent"] if one["parent"] is not None and one["parent"] in seen else "",
        "bars": [bar for bar in drawn if bar in fullest],
        "more": len(drawn) - len(fullest),
        "refusing": refusing,
        "faults": faults(one),
    }


def faults(one: Json) -> list[str]:
    """What is wrong with a quota, a few words each."""
    unpriced = one["unpricedWorkloads"]
    found = [] if one["readable"] else ["cannot be read: the last good limits hold"]
    found += [f"{rendering.count(unpriced, 'workload')} of unknown cost"] if unpriced else []
    return found + ([f"override {now['name']} until {now['until']}"] if (now := one["override"]) is not None else [])
