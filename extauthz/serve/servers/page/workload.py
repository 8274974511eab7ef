"""A workload's page: what it uses, what it may have, and its history of asked, granted and refused."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from extauthz.core.model import WorkloadRef
from extauthz.serve.servers.api import shown
from extauthz.serve.servers.api.rights import Scope
from extauthz.serve.servers.api.routes import Asked
from extauthz.serve.servers.api.shown import Json
from extauthz.serve.servers.page import rendering
from extauthz.serve.servers.page.chart import chart
from extauthz.serve.servers.page.rendering import View

MOST_DECISIONS = 200
"""Those of the chart."""

MOST_ROWS = 25
"""Decisions with their sentences."""

SHORT = {"deployments": "deploy", "statefulsets": "sts", "replicasets": "rs"}
"""As kubectl takes them."""


class Room(NamedTuple):
    """What a workload may have."""

    sentence: str
    is_certain: bool
    bound: Json | None
    """The quota that stands in the way of one more, with amounts; those may be missing."""
    more: str = ""
    """``One more replica does not fit``; empty: no quota stands in the way."""
    why: str = ""
    """What one more would be answered, where that is not for want of room."""

    @property
    def kept(self) -> bool:
        """Guarantees of others stand in the way."""
        return self.bound is not None and self.bound["kept"] not in (None, "0")


async def look(asked: Asked, now_s: float) -> View:
    ref = await asked.workload()
    use = asked.answers.workload(ref)
    room = await asked.veiled(asked.answers.headroom(ref))
    past = await asked.all_veiled(asked.answers.history.decisions_of(ref, MOST_DECISIONS))
    decisions = past["items"]
    mine = await _quotas(asked, ref)
    context = {
        "ref": ref,
        "use": use,
        "amounts": _amounts(asked, use, [name for name, _ in mine]),
        "room": _room(room),
        "quotas": mine,
        "chart": chart(decisions),
        "decisions": decisions[:MOST_ROWS],
        "decisions_more": past["continue"] is not None or len(decisions) > MOST_ROWS,
        "command": explaining(ref),
    }
    return View(f"{ref.namespace}/{ref.name}", "workload", context)


async def _quotas(asked: Asked, ref: WorkloadRef) -> list[tuple[str, str]]:
    """Those that it counts in and that who asks may see."""
    names = asked.answers.quotas_of(ref)
    seen = await asked.rights.visible(Scope.QUOTA, names)
    return [(name, rendering.of_quota(name)) for name in names if name in seen]


def _amounts(asked: Asked, use: Json, quotas: list[str]) -> list[tuple[str, str, str]]:
    """What it uses of each resource that those quotas limit, and what is reserved for it."""
    limited = {key for name in quotas for key in asked.answers.quota(name)["resources"]}
    return [(key, use["used"].get(key, "0"), use["reserved"].get(key, "")) for key in sorted(limited)]


def _room(room: Json) -> Room:
    most, there = room["replicas"], room["observedReplicas"]
    has = f"It {shown.has(room)}"
    if most is None:
        sentence = f"{has}, and no quota bounds it.{_audited(room)}"
        return Room(sentence, room["certain"], None, why=room["sentence"] or "")
    is_full = most <= there and room["counts"] != shown.OBJECTS
    may = "and may have no more" if is_full else f"and {shown.may(room)}"
    asks = room["mayAskFor"]
    if asks is not None and asks > most:
        may += f"; its autoscaler may ask for {asks:,}"
    more = shown.one_more(room) if room["bound"] is not None else ""
    is_told = room["bound"] is not None and room["certain"]
    why = "" if is_told else room["sentence"] or ""
    return Room(f"{has} {may}.{_audited(room)}", room["certain"], room["bound"], more, why)


def _audited(room: Json) -> str:
    if room["auditReplicas"] is None:
        return ""
    quota = room["auditBound"]["quota"] or "a quota that you may not get"
    return f" In mode Audit, {quota} refuses nothing and would allow {room['auditReplicas']}."


def explaining(ref: WorkloadRef) -> str:
    """The command for its autoscaler's own reasons."""
    what = shlex.quote(f"{SHORT.get(ref.resource, ref.group_resource)}/{ref.name}")
    return f"kubectl wsq explain {what} -n {shlex.quote(ref.namespace)}"
