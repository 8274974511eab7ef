"""What the quota says to the count that an autoscaler wants, beside what its controller does: one answer for the
command line and the page.

``quota`` is a decision and a headroom as the HTTP API shows them (docs/explain.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from extauthz.core.decision.gate import CLAMPED
from extauthz.core.decision.sentences import ordinal

from . import remedies
from .answer import Change, replicas

Json = dict[str, Any]


def is_denied(quota: Json | None) -> bool:
    """Whether the gate was asked, and does not allow all of it."""
    return quota is not None and (quota["decision"]["verdict"] != "allow" or quota["decision"].get("reason") == CLAMPED)


def sentence(quota: Json | None, *, wants_more: bool, was_refused: bool = False) -> str:
    """A sentence of its own, where more is wanted, or where not all fits that it may ask for.

    Args:
        was_refused: the controller says that its last write was refused.
    """
    if quota is None:
        return ""
    most, asks = quota["headroom"]["replicas"], quota["mayAskFor"]
    is_short = None not in (most, asks) and most < asks
    share = f"{most} of the {asks} replicas that it may ask for would fit." if is_short else ""
    if not wants_more:
        return share and f" {share}"
    if not is_denied(quota):
        return f" The quota {'would allow it now' if was_refused else 'allows it'}.{share and ' '}{share}"
    line = quota["line"]
    if quota["decision"].get("reason") == CLAMPED and quota["decision"]["fits"] is not None:
        return f" The quota grants {quota['decision']['fits']} of the {quota['asked']} (mode Clamp)."
    if quota["decision"].get("turn") is not None:
        return f" The quota does not allow it yet: {_in_line(line)}."
    why = "." if most is None else f": {share or f'{replicas(most)} at most.'}"
    return f" The quota does not allow it{why}" + (f" It stands {_in_line(line)}." if line is not None else "")


def changes(quota: Json | None, would: Sequence[Change], *, wants_more: bool) -> list[Change]:
    """What would do for one more replica. Where the quota refuses that, its room comes first: alone if the autoscaler
    asks for it already; else it is needed besides any of the others."""
    if quota is None:
        return list(would)
    if not is_denied(quota):
        return [one for one in would if one.kind != "quota"]
    room = remedies.of_quota(quota["decision"]["sentence"], quota["asked"])
    if wants_more:
        return room
    return [*room, *(one for one in would if one.kind != "quota")] if would else []


def line(decision: Json, named: Json, waiting: Callable[[str], Sequence[Json]]) -> Json | None:
    """Where a workload stands in line, as the ``turn`` of a decision has it; ``None``: in none that may be seen.

    Args:
        named: the workload.
        waiting: who waits in line for a quota; nobody where that may not be seen.
    """
    if (turn := decision.get("turn")) is not None:
        return dict(turn)
    for root in dict.fromkeys(row["path"][0] for row in decision["shortages"] if row["path"]):
        for one in waiting(root):
            if named.items() <= one.items():
                return {"quota": root, "place": one["place"], "againSeconds": one["asksEverySeconds"]}
    return None


def _in_line(line: Json) -> str:
    """A place in line. Whose quota may not be seen has no name, and the place there no number."""
    where = "others come first"
    if line["place"] is not None:
        where = f"{ordinal(line['place'])} in line for workspace quota {line['quota']}"
    return f"{where}; asks again in {line['againSeconds']} s"


def heading(kinds: Sequence[str]) -> str:
    """What stands above the changes, by their kinds."""
    if kinds[:1] != ["quota"]:
        return "for one more replica, any of these:"
    return "for what it asks for:" if len(kinds) == 1 else "for one more replica, the first of these and any other:"
