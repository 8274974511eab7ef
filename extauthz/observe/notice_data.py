"""What a notice says: pure functions of decisions, episodes and usage. docs/notices.md has the schema of the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from extauthz.core import quantities, texts
from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.model import Decision, Observed, Shortage, Tree, WorkloadRef
from extauthz.core.quota.spec import GROUP
from extauthz.notify.notice import Kind, Notice, stamp
from extauthz.observe.episodes import Ended, Episode

MOST_ROWS: Final = 20
"""Of shortages or amounts in one notice. The sentence names them, too."""

MAX_USER_AGENT: Final = 200

_IDS: Final[UUID] = uuid5(NAMESPACE_URL, "https://extauthz.dev/notices")

_HOUR_S: Final = 3600


def begun(episode: Episode[None], observed: Observed | None, workspaces: Sequence[str]) -> Notice:
    """An episode that begins: a refusal, one that mode Audit only reports, or a count that was lowered."""
    latest = episode.latest
    kind = Kind.CLAMPED if episode.lowered else Kind.REFUSED if latest.refusal is not None else Kind.WOULD_REFUSE
    replicas = {"from": latest.replicas_before, "asked": latest.replicas, "fits": latest.fits}
    if episode.lowered:
        replicas = {"from": latest.replicas_before, "asked": latest.replicas, "to": latest.clamped_to}
    data = _of_workload(episode.ref, episode.sentence, workspaces) | {
        "reason": latest.reason,
        "replicas": replicas,
        "shortages": [_shortage(row) for row in (*latest.shortages, *latest.audit)[:MOST_ROWS]],
    }
    if latest.refusal is not None:
        data["refusal"] = latest.refusal.value
    said = _looked_at(observed, episode.began_s)
    return Notice(_id(kind, _subject(episode.ref), *said), kind, _subject(episode.ref), episode.began_s, data)


def ended(
    end: Ended[None], observed: Observed | None, fits: int | None, workspaces: Sequence[str], now_s: float
) -> Notice:
    """There is room again.

    Args:
        fits: the most replicas that fit now; ``None``: no quota sets a bound.
    """
    episode = end.episode
    most = f"up to {fits} replicas fit now" if fits is not None else "no quota sets a bound now"
    data = _of_workload(episode.ref, f"{end.good_news}; {most}", workspaces) | {
        "replicas": {"from": observed.replicas if observed is not None else None, "asked": episode.asked, "fits": fits},
        "since": stamp(episode.began_s),
        "times": episode.count,
    }
    subject = _subject(episode.ref)
    which = _id(Kind.ROOM, subject, observed.uid if observed is not None else "", stamp(episode.began_s))
    return Notice(which, Kind.ROOM, subject, now_s, data)


def granted(
    decision: Decision,
    observed: Observed | None,
    user: str,
    user_agent: str,
    workspaces: Sequence[str],
    now_s: float,
) -> Notice:
    """A workload grows: who asked, from where, to where."""
    ref = decision.ref
    assert ref is not None, "it grows"
    who = {"user": texts.cut(user, texts.MAX_NAME), "userAgent": texts.cut(user_agent, MAX_USER_AGENT)}
    by = who["user"] or who["userAgent"] or "somebody"
    sentence = f"{_name(ref)} may grow from {decision.replicas_before} to {decision.replicas} replicas, as {by} asked"
    data = _of_workload(ref, sentence, workspaces) | {
        "replicas": {"from": decision.replicas_before, "to": decision.replicas},
        "by": {key: value for key, value in who.items() if value},
    }
    which = _id(Kind.GRANTED, *grant_key(decision, observed))
    return Notice(which, Kind.GRANTED, _subject(ref), now_s, data)


def grant_key(decision: Decision, observed: Observed | None) -> tuple[str, ...]:
    """The same for the same growth, if Envoy and the API server both ask about it, or somebody asks twice."""
    assert decision.ref is not None, "it grows"
    if observed is None or not observed.uid or not observed.resource_version:
        return (decision.id,)
    counts = f"{decision.replicas_before} {decision.replicas}"
    return *decision.ref, counts, observed.uid, observed.resource_version


def over(name: str, path: str, rows: Iterable[UsageRow], anchor: str, now_s: float) -> Notice:
    """A quota that has more in use than a limit.

    Args:
        path: from the root of its tree down to it.
        anchor: tells this episode from others of the same quota.
    """
    found = [row for row in rows if row.used > row.hard]
    amounts = [{"resource": row.resource} | _texts(row, used=row.used, hard=row.hard) for row in found[:MOST_ROWS]]
    said = ", ".join(f"{one['resource']}: used {one['used']}, hard {one['hard']}" for one in amounts)
    sentence = f"workspace quota {path} has more in use than its limits: {said}"
    data: Tree = {
        "sentence": texts.cut(sentence, texts.MAX_SENTENCE),
        "workspaces": [texts.cut(name, texts.MAX_NAME)],
        "amounts": amounts,
    }
    subject = f"workspacequotas.{GROUP}/{name}"
    return Notice(_id(Kind.OVER, subject, anchor), Kind.OVER, subject, now_s, data)


def _of_workload(ref: WorkloadRef, sentence: str, workspaces: Sequence[str]) -> Tree:
    named = {"resource": ref.group_resource, "namespace": ref.namespace, "name": ref.name}
    return {
        "sentence": texts.cut(sentence, texts.MAX_SENTENCE),
        "workspaces": [texts.cut(name, texts.MAX_NAME) for name in workspaces[:MOST_ROWS]],
        "workload": {key: texts.cut(value, texts.MAX_NAME) for key, value in named.items()},
    }


def _looked_at(observed: Observed | None, began_s: float) -> tuple[str, ...]:
    """What several gates know alike of a workload that does not change while it is refused, and the hour."""
    if observed is None or not observed.uid or not observed.resource_version:
        return (stamp(began_s),)
    return observed.uid, observed.resource_version, str(int(began_s) // _HOUR_S)


def _id(kind: Kind, *parts: str) -> str:
    return str(uuid5(_IDS, "\n".join((kind, *parts))))


def _subject(ref: WorkloadRef) -> str:
    return "/".join(texts.cut(part, texts.MAX_NAME) for part in (ref.group_resource, ref.namespace, ref.name))


def _name(ref: WorkloadRef) -> str:
    return f'{ref.group_resource} "{ref.name}" in {ref.namespace}'


def _shortage(row: Shortage) -> Tree:
    amounts = {"requested": row.requested, "used": row.used, "reserved": row.reserved, "hard": row.hard}
    printed = {name: quantities.format(amount, row.resource) for name, amount in amounts.items()}
    return {"quota": "/".join(row.path), "resource": row.resource} | printed


def _texts(row: UsageRow, **amounts: int) -> dict[str, str]:
    return {name: quantities.format(amount, row.resource) for name, amount in amounts.items()}
