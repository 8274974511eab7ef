"""A quota's page: its bars, who is refused, who uses what and may have more, and what pends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from extauthz.core import quantities
from extauthz.core.model import WorkloadRef
from extauthz.serve.servers.api import shown
from extauthz.serve.servers.api.questions import reference
from extauthz.serve.servers.api.rights import Scope
from extauthz.serve.servers.api.routes import Asked
from extauthz.serve.servers.api.shown import Json
from extauthz.serve.servers.page import rendering
from extauthz.serve.servers.page.chart import Bar, bars, share
from extauthz.serve.servers.page.rendering import View, refused
from extauthz.serve.servers.page.tree import faults

MOST_WORKLOADS = 50
"""Those that use most, unless all are asked for."""

MOST_ALL = 500
"""How many ``all`` is. The API has more."""

MOST_CHILDREN = 24
LOOKED_AT = 200
"""Quotas below it, to find some that may be seen."""

MOST_REFUSED = 50
MOST_PENDING = 50


async def look(asked: Asked, now_s: float) -> View:
    name = asked.request.match_info["quota"]
    await asked.must_see(Scope.QUOTA, name)
    one = asked.answers.quota(name)
    seen = await asked.rights.visible(Scope.QUOTA, one["path"])
    drawn = bars(one["resources"])
    sort = _sort(one, asked.request.query.get("sort", ""))
    limit = MOST_ALL if "all" in asked.request.query else MOST_WORKLOADS
    users, rooms = await _users(asked, name, sort, limit)
    context = {
        "quota": one,
        "above": [(above, rendering.of_quota(above) if above in seen else "") for above in one["path"][:-1]],
        "bars": drawn,
        "free": _free(asked, drawn, [above for above in one["path"][:-1] if above in seen]),
        "faults": faults(one),
        "override": shown.override(one),
        "sort": sort,
        "sorts": [(key, rendering.of_quota(name, sort=key)) for key in sorted(one["resources"])],
        "users": users,
        "rooms": rooms,
        "share": share,
        "hard": one["resources"].get(sort, {"hard": "0"})["hard"],
        "kinds": [row for row in users["byKind"] if row["device"]],
        "all_users": rendering.of_quota(name, sort=sort, all="yes")
        if len(rooms) < min(users["total"], MOST_ALL)
        else "",
        "refused": await refused(asked, MOST_REFUSED, name),
        "children": await _children(asked, name),
        "below": rendering.of_tree(below=name),
        "line": await _line(asked, name) if one["waiting"] else [],
        "pending": await _pending(asked, name),
    }
    return View(name, "quota", context)


def _free(asked: Asked, own: Sequence[Bar], seen_above: Sequence[str]) -> dict[str, str]:
    """What is free of each of its resources: no more than a quota above it has, of those that may be seen."""
    least = {bar.resource: (bar.free, "") for bar in own}
    for above in seen_above:
        for bar in bars(asked.answers.quota(above)["resources"]):
            if bar.resource in least and quantities.parse(bar.free) < quantities.parse(least[bar.resource][0]):
                least[bar.resource] = bar.free, f", as {above} has no more"
    return {resource: f"{free} free{why}" for resource, (free, why) in least.items()}


def _sort(one: Json, asked: str) -> str:
    """The resource that workloads are sorted by: that which is asked for, or the fullest."""
    if asked in one["resources"]:
        return asked
    drawn = bars(one["resources"])
    return max(drawn, key=lambda bar: bar.percent).resource if drawn else ""


async def _users(asked: Asked, name: str, sort: str, limit: int) -> tuple[Json, list[str]]:
    """A page of those that use it, and what each may have."""
    visible = await asked.rights.visible(Scope.NAMESPACE, asked.answers.namespaces(name))
    page = await asked.answers.workloads(name, sort or None, limit, visible)
    refs: list[WorkloadRef] = [reference(item) for item in page["items"]]
    rooms = await asked.answers.headrooms(refs, visible)
    return page, [_room(room) for room in rooms["items"]]


def _room(room: Json) -> str:
    if "error" in room:
        return "not known"
    if room["replicas"] is None:
        return "no bound" if room["auditReplicas"] is None else f"{room['auditReplicas']} by Audit"
    more = room["replicas"] - room["observedReplicas"]
    text = f"{more:,} more" if more > 0 else "no more"
    return text if room["certain"] else f"{text}, not certain"


async def _children(asked: Asked, name: str) -> list[tuple[str, str]]:
    """Some of those below it. The tree has all."""
    below = list(islice(asked.answers.names(name), 1, LOOKED_AT))
    seen = await asked.rights.visible(Scope.QUOTA, below)
    return [(child, rendering.of_quota(child)) for child in below if child in seen][:MOST_CHILDREN]


async def _line(asked: Asked, name: str) -> list[Json]:
    visible = await asked.rights.visible(Scope.NAMESPACE, asked.answers.namespaces(name))
    found: list[Json] = asked.answers.line(name, MOST_PENDING, visible)["items"]
    return found


async def _pending(asked: Asked, name: str) -> Json:
    visible = await asked.rights.visible(Scope.NAMESPACE, asked.answers.namespaces_of_pending(name))
    return asked.answers.pending(name, MOST_PENDING, visible)
