"""What was decided lately, and which workloads are refused now, as JSON. ``Recent`` remembers both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from extauthz.core.model import Decision, WorkloadRef
from extauthz.core.queries import Queries
from extauthz.core.texts import stamp
from extauthz.serve.servers.api import shown
from extauthz.serve.servers.api.rights import ALL
from extauthz.serve.servers.api.shown import Json

if TYPE_CHECKING:  # a command that asks files knows no past
    from extauthz.tell.observe.episodes import Episode, Noted, Recent


class Nothing:
    """Remembers nothing: there was no past."""

    def decisions(self, before: int | None = None) -> Iterator[Noted]:
        return iter(())

    def episodes(self) -> Iterable[Episode]:
        return ()


class Filter(NamedTuple):
    """Which of them are asked for. ``None``: all."""

    quota: str | None = None
    namespace: str | None = None
    verdict: str | None = None


class History:
    """Answers about the past."""

    def __init__(self, remembers: Recent | Nothing, queries: Queries) -> None:
        self._remembers = remembers
        self._queries = queries

    def namespaces(self) -> Iterator[str]:
        """Those that ``decisions`` and ``episodes`` tell of."""
        yield from (ref.namespace for one in self._remembers.decisions() if (ref := one.decision.ref) is not None)
        yield from (one.ref.namespace for one in self._remembers.episodes())

    def decisions(self, by: Filter, before: int | None, limit: int, visible: Container[str] = ALL) -> Json:
        """Decisions about workloads of namespaces that are ``visible``, newest first."""
        fits = self._fitting(by, visible)
        return _decisions((one for one in self._remembers.decisions(before) if fits(one.decision)), limit)

    def decisions_of(self, ref: WorkloadRef, limit: int) -> Json:
        """Those about one workload."""
        return _decisions((one for one in self._remembers.decisions() if one.decision.ref == ref), limit)

    def refusing(self, visible: Container[str] = ALL) -> Counter[str]:
        """Of each quota that refuses now: how many workloads of namespaces that are ``visible`` go on asking."""
        return Counter(
            quota
            for one in self._remembers.episodes()
            if one.ref.namespace in visible
            for quota in shown.refusing(one.latest)
        )

    def episodes(self, by: Filter, limit: int, visible: Container[str] = ALL) -> Json:
        """Workloads of namespaces that are ``visible`` which are refused and go on asking: longest first."""
        fits = self._fitting(by, visible)
        found = [one for one in self._remembers.episodes() if fits(one.latest)]
        items = [self._refused(one) for one in found[:limit]]
        return shown.page("EpisodeList", items, None) | {"total": len(found)}

    def _fitting(self, by: Filter, visible: Container[str]) -> Callable[[Decision], bool]:
        def fits(decision: Decision) -> bool:
            ref = decision.ref
            if ref is None or ref.namespace not in visible or by.namespace not in (None, ref.namespace):
                return False
            if by.verdict not in (None, decision.verdict.value):
                return False
            return by.quota is None or self._is_of(decision, ref, by.quota)

        return fits

    def _is_of(self, decision: Decision, ref: WorkloadRef, quota: str) -> bool:
        """Whether the quota spoke against it, or the workload counts in it now."""
        rows = (*decision.evidence.shortages, *decision.evidence.audit)
        return any(quota in row.path for row in rows) or self._queries.counts_in(ref, quota)

    def _refused(self, episode: Episode) -> Json:
        latest = episode.latest
        observed = self._queries.observed(episode.ref)
        return shown.named(episode.ref) | {
            "since": stamp(episode.began_s),
            "lastAsked": stamp(episode.last_s),
            "times": episode.count,
            "wanted": latest.replicas,
            "observedReplicas": observed.replicas if observed is not None else None,
            "fits": latest.evidence.fits,
            "reason": latest.reason,
            "refusal": shown.refusal(latest),
            "sentence": latest.sentence,
            "shortages": [shown.shortage(row) for row in latest.evidence.shortages],
            "policies": shown.policies(latest),
            "turn": shown.turn(latest),
        }


def _decisions(found: Iterator[Noted], limit: int) -> Json:
    items = list(islice(found, limit + 1))
    after = str(items[limit - 1].number) if len(items) > limit else None
    return shown.page("DecisionList", map(_decided, items[:limit]), after)


def _decided(noted: Noted) -> Json:
    decision = noted.decision
    assert decision.ref is not None
    return shown.named(decision.ref) | {
        "time": stamp(noted.time_s),
        "id": decision.id,
        "verdict": decision.verdict.value,
        "would": decision.would.value if decision.would is not None else None,
        "reason": decision.reason,
        "refusal": shown.refusal(decision),
        "sentence": decision.sentence,
        "operation": decision.operation.value if decision.operation is not None else None,
        "dryRun": decision.dry_run,
        "from": decision.replicas_before,
        "to": decision.replicas,
        "fits": decision.evidence.fits,
        "shortages": [shown.shortage(row) for row in decision.evidence.shortages],
        "audit": [shown.shortage(row) for row in decision.evidence.audit],
        "policies": shown.policies(decision),
        "turn": shown.turn(decision),
        "user": noted.user or None,
        "userAgent": noted.user_agent or None,
    }
