"""The sentences that owners read. They follow ResourceQuota's wording, which administrators already know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from math import ceil

from extauthz.core import quantities
from extauthz.core.kinds import JOBS
from extauthz.core.model import Evidence, PolicyAnswer, Shortage, Turn, Unspecified, WorkloadRef


def subject(ref: WorkloadRef) -> str:
    """``deployments.apps "web"``, as the API server begins its refusals (``apierrors.NewForbidden``)."""
    return f'{ref.group_resource} "{ref.name}"'


def exceeded(
    ref: WorkloadRef, shortages: Iterable[Shortage], fits: int | None, surge: int, *, is_kept: bool = False
) -> str:
    """A denial, with every quota that refused and the numbers of each.

    Args:
        fits: the largest count that fits, if one can be named.
        surge: pods of a rollout that it is charged with.
        is_kept: there is room for more, which is kept for those who come first.

    >>> web = WorkloadRef("apps", "deployments", "team-a", "web")
    >>> print(exceeded(web, [Shortage("acme", ("acme",), "pods", 2 * 10**9, 3 * 10**9, 0, 4 * 10**9)], 4, 0))
    ... # doctest: +NORMALIZE_WHITESPACE
    deployments.apps "web" is forbidden: exceeded workspace quota: acme, requested: pods=2, used: pods=3,
    limited: pods=4; largest allowed replicas: 4
    """
    room = _largest_allowed(ref, fits) + (", as others come first" if is_kept else "")
    pods = "1 pod" if surge == 1 else f"{surge} pods"
    counted = f"; counted with {pods} more for a rollout (maxSurge)" if surge else ""
    return f"{subject(ref)} is forbidden: {_quotas(shortages)}{counted}{room}"


def _largest_allowed(ref: WorkloadRef, fits: int | None) -> str:
    """``; largest allowed replicas: 4``; empty: no count can be named."""
    count = "parallelism" if ref[:2] == JOBS else "replicas"
    return f"; largest allowed {count}: {fits}" if fits is not None else ""


def clamped(ref: WorkloadRef, asked: int, granted: int, refused: Evidence) -> str:
    """What an owner reads of a count that was lowered.

    >>> web = WorkloadRef("apps", "deployments", "team-a", "web")
    >>> full = Shortage("acme", ("acme",), "pods", 6 * 10**9, 3 * 10**9, 0, 4 * 10**9)
    >>> print(clamped(web, 9, 4, Evidence((full,))))
    ... # doctest: +NORMALIZE_WHITESPACE
    deployments.apps "web" asked for 9 replicas and may have 4: exceeded workspace quota: acme, requested: pods=6,
    used: pods=3, limited: pods=4
    >>> print(clamped(web, 9, 4, Evidence(turn=Turn("acme", 2, 15.0))))
    deployments.apps "web" asked for 9 replicas and may have 4: 2nd in line for workspace quota acme
    """
    why = in_line(refused.turn) if refused.turn is not None else _quotas(refused.shortages)
    return f"{subject(ref)} asked for {asked} replicas and may have {granted}: {why}"


def not_its_turn(ref: WorkloadRef, turn: Turn, fits: int | None) -> str:
    """A denial where others come first.

    >>> print(not_its_turn(WorkloadRef("apps", "deployments", "team-a", "web"), Turn("acme", 2, 15.0), 3))
    ... # doctest: +NORMALIZE_WHITESPACE
    deployments.apps "web" is forbidden: 2nd in line for workspace quota acme; largest allowed replicas: 3; ask again
    in about 15 s
    """
    again = f"ask again in about {turn.again_s:.0f} s"
    return f"{subject(ref)} is forbidden: {in_line(turn)}{_largest_allowed(ref, fits)}; {again}"


def in_line(turn: Turn) -> str:
    """Where it stands."""
    return f"{ordinal(turn.place)} in line for workspace quota {turn.quota}"


def ordinal(number: int) -> str:
    """A place, in words.

    >>> [ordinal(one) for one in (1, 2, 3, 4, 11, 21, 112)]
    ['1st', '2nd', '3rd', '4th', '11th', '21st', '112th']
    """
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number // 10 % 10 == 1 else endings.get(number % 10, 'th')}"


def must_specify(ref: WorkloadRef, rows: Iterable[Unspecified]) -> str:
    """A denial of pods that do not say what they need.

    >>> web = WorkloadRef("apps", "deployments", "team-a", "web")
    >>> print(must_specify(web, [Unspecified("acme", ("acme",), "requests.cpu", ("c",))]))
    deployments.apps "web" is forbidden: failed workspace quota: acme: must specify requests.cpu for: c
    """
    rows = list(rows)
    quotas = ", ".join(dict.fromkeys(row.quota for row in rows))
    wanted = {row.resource: ",".join(row.containers) for row in rows}
    what = "; ".join(f"{resource} for: {wanted[resource]}" for resource in sorted(wanted))
    return f"{subject(ref)} is forbidden: failed workspace quota: {quotas}: must specify {what}"


def _quotas(shortages: Iterable[Shortage]) -> str:
    parts = [_one_quota(quota, list(group)) for quota, group in groupby(shortages, key=lambda short: short.quota)]
    return "; ".join(parts)


def _one_quota(quota: str, shortages: list[Shortage]) -> str:
    def amounts(of: Callable[[Shortage], int], rows: Iterable[Shortage]) -> str:
        return ",".join(f"{row.resource}={quantities.format(of(row), row.resource)}" for row in rows)

    reserved = [short for short in shortages if short.reserved]
    pending = f", reserved: {amounts(lambda row: row.reserved, reserved)}" if reserved else ""
    kept = [short for short in shortages if short.kept]
    others = f", kept for guarantees: {amounts(lambda row: row.kept, kept)}" if kept else ""
    return (
        f"exceeded workspace quota: {quota}, requested: {amounts(lambda row: row.requested, shortages)}, "
        f"used: {amounts(lambda row: row.used, shortages)}{pending}{others}, "
        f"limited: {amounts(lambda row: row.hard, shortages)}"
    )


def unavailable(ref: WorkloadRef | None, why: str) -> str:
    """A refusal because the gate does not know something: never worded as a quota denial (design.md rule 6)."""
    what = subject(ref) if ref is not None else "this write"
    return f"{what} was not decided: the quota gate {why}"


def by_policies(ref: WorkloadRef, rows: Iterable[PolicyAnswer]) -> str:
    """A denial by policies, with what each says.

    >>> web = WorkloadRef("apps", "deployments", "team-a", "web")
    >>> print(by_policies(web, [PolicyAnswer("hours", "filter", "refused", "grow from 9 to 17")]))
    deployments.apps "web" is forbidden: policy hours: grow from 9 to 17
    """
    return f"{subject(ref)} is forbidden: {_said(rows)}"


def policies_unknown(ref: WorkloadRef, rows: Iterable[PolicyAnswer]) -> str:
    """A refusal because policies fail."""
    return unavailable(ref, f"cannot tell what its policies say: {_said(rows)}")


def _said(rows: Iterable[PolicyAnswer]) -> str:
    return "; ".join(f"policy {row.policy}: {row.message}" for row in rows)


def about(seconds: float) -> str:
    """A time for people: seconds, or minutes if there are more than 90 s of it.

    >>> about(60), about(0.2), about(135)
    ('about 60 s', 'about 1 s', 'about 2 minutes')
    """
    return f"about {max(ceil(seconds), 1)} s" if seconds <= 90 else f"about {round(seconds / 60)} minutes"
