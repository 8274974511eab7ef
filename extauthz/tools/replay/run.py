"""Brings the events of a record to a run under quotas and to a sum of what was wanted, measures both, and suggests
quotas that would have held that."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, NamedTuple

from extauthz.core import quantities
from extauthz.core.model import WorkloadRef
from extauthz.core.quota.amounts import spelled
from extauthz.core.quota.spec import GROUP, Mode, QuotaSpecError, WorkspaceQuota, parse, salvage, written
from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.record.lines import Ask, Gap, Gone, Labelled, Load, Quota, ref_of
from extauthz.tell.record.reading import Begun, Record, RecordError
from extauthz.tools.replay.measures import Clock, Course, Found, Row, rounded_up
from extauthz.tools.replay.play import Play
from extauthz.tools.replay.wanted import Waiting

_ENDLESS: Final = 10**40
"""More than anybody asks for, nano-units."""

EVERY: Final = 10_000
"""Events between two tellings of how far it is."""


class Courses(NamedTuple):
    """Of one quota and key over time, nano-units."""

    wanted: Course
    granted: Course
    hard: Course


class Peaks(NamedTuple):
    """What replays with the peak as the limit, and with one pod less, have shown."""

    refused: int
    """Questions that the peak refuses: none, or there is a bug."""
    less: dict[Row, str]
    """What one pod less does: ``refuses``; ``guaranteed``, as it would be below its guarantee; ``stood``, as nobody has
    asked for more; ``refuses nothing``: there is a bug."""


@dataclass
class Result:
    """What a replay has found."""

    follows: bool
    """The quotas are those of the record, with their changes."""
    tree: QuotaTree
    """Those that were in force last."""
    under: Found
    """What was measured under them."""
    free: Found
    """The same had nothing been refused: what was wanted."""
    given: QuotaTree | None = None
    """Those that were given in place of the recorded ones."""
    asks: int = 0
    same: int = 0
    refused_now: int = 0
    """The record has granted them."""
    granted_now: int = 0
    """The record has refused them."""
    taken: int = 0
    """Answers that were taken as recorded, as something else than quotas gave them."""
    exceptions: Counter[str] = field(default_factory=Counter)
    """Answers under the recorded quotas that differ, by why."""
    gaps: int = 0
    gap_s: float = 0.0
    counted_s: float = 0.0
    begins_s: float = 0.0
    """When the record begins, and when its last line was written."""
    ends_s: float = 0.0
    courses: dict[Row, Courses] = field(default_factory=dict)
    hard: dict[Row, int] = field(default_factory=dict)
    """Limits by quota and key, as they were last; of quotas that are gone too."""
    guaranteed: dict[Row, int] = field(default_factory=dict)
    """A limit is no less than that."""
    least: dict[Row, int] = field(default_factory=dict)
    """What one pod of the cheapest workload takes, nano-units."""
    dearest: dict[Row, int] = field(default_factory=dict)
    """What one pod of the dearest workload takes, nano-units."""
    peaks: Peaks | None = None
    """What replays with the peak have shown; ``None``: there were none."""
    warnings: list[str] = field(default_factory=list)

    @property
    def denied_minutes(self) -> float:
        """Replica-minutes."""
        return self.under.missed / 60.0

    @property
    def most_missed(self) -> list[Waiting]:
        """Refused wants, most missed first."""
        return [want for _, _, want in sorted(self.under.wants, reverse=True)]

    def peak(self, row: Row) -> int:
        """The smallest limit that refuses nothing; where nobody has asked for more: the most that stood there."""
        level = self.free.levels.get(row)
        stood = level.peak if level is not None else 0
        return max(self.free.needed.get(row, stood), self.guaranteed.get(row, 0))


class Replay:
    """One replay.

    Args:
        record: of one gate or several.
        quotas: in place of those of the record; ``None``: those.
        since_s: what is measured begins then, in seconds since 1970, and ends before ``until_s``.
        limits: in place of those of the quotas, by quota and key: nothing but denials is measured then.
        draws: the course of each quota is kept.
        tell: told every now and then of how far it is: seconds since 1970.
    """

    def __init__(
        self,
        record: Record,
        quotas: QuotaTree | None,
        *,
        since_s: float = -inf,
        until_s: float = inf,
        limits: Mapping[Row, int] | None = None,
        draws: bool = False,
        tell: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._record = record
        self._quotas = quotas
        self._tell = tell
        self._clock = Clock(max(since_s, record.begins_s), until_s)
        self._limits = limits
        follows = quotas is None and limits is None
        self._play = Play(self._clock, follows=follows, draws=draws)
        self._free = Play(self._clock, follows=False, is_free=True, draws=draws)
        """The same without limits. So what it comes to is what is wanted, and a limit of that refuses nothing."""
        self._plays = [self._play, self._free] if limits is None else [self._play]
        self._specs: dict[str, Quota] = {}
        self._is_new_tree = quotas is not None
        self._gates: set[str] = set()
        self._ends_s = self._last_s = 0.0
        tree = self._play.gate.ledger.coverage.tree
        self._result = Result(follows, tree, self._play.found, self._free.found, quotas)

    def run(self) -> Result:
        """Replay all of it.

        Raises:
            RecordError: a line cannot be read.
            NeverOverError: a grant has taken a quota above its limit.
        """
        take = {
            Begun: self._begin,
            Quota: lambda quota: self._limit(quota.name, quota),
            Labelled: lambda labelled: self._label(labelled.name, labelled.labels),
            Load: self._load,
            Gone: self._gone,
            Ask: self._ask,
            Gap: self._gap,
        }
        for number, event in enumerate(self._record.events()):
            if number % EVERY == 0:
                self._tell(event.at_s)
            if self._is_new_tree and not isinstance(event, Quota | Begun | Gap):
                self._put_in_force()
            self._reach(event.at_s)
            self._last_s = max(self._last_s, event.at_s)
            take[type(event)](event)  # type: ignore[operator]
        return self._finished()

    def _reach(self, at_s: float) -> None:
        """What is due happens before; time passes up to each of it."""
        if at_s > self._play.now_s:
            for play in self._plays:
                play.settle()
        while (due_s := min(play.next_s() for play in self._plays)) <= at_s:
            self._pass(due_s)
        self._pass(at_s)

    def _pass(self, at_s: float) -> None:
        self._clock.advance(at_s)
        for play in self._plays:
            play.until(at_s)

    def _finished(self) -> Result:
        if self._is_new_tree:
            self._put_in_force()
        self._reach(self._ends_s)
        self._play.end()
        result, clock = self._result, self._clock
        result.tree = self._play.gate.ledger.coverage.tree
        result.begins_s, result.ends_s = self._record.begins_s, self._last_s
        result.counted_s, result.gap_s = clock.counted_s, clock.gap_s
        for play in self._plays:
            play.found.end(self._play.now_s)
        for row, (wanted, _) in result.free.courses.items():
            result.courses[row] = Courses(wanted, *result.under.courses[row])
        result.same -= result.under.regranted_asks
        result.granted_now += result.under.regranted_asks
        result.warnings = self._record.warnings
        return result

    # Events.

    def _begin(self, begun: Begun) -> None:
        self._play.charges = not (self._result.follows and begun.settings.get("mode") == "audit")
        is_known = bool(self._gates)
        self._gates.add(begun.gate)
        if not (begun.is_new and is_known):
            return
        for ref in [ref for ref in self._play.workloads if ref not in begun.listed]:
            self._end(ref)
        for name in [name for name in self._specs if name not in begun.listed]:
            self._limit(name, None)
        for name in [name for name in self._play.gate.ledger.coverage.namespaces if name not in begun.listed]:
            self._label(name, None)

    def _gone(self, gone: Gone) -> None:
        if gone.quota:
            self._limit(gone.quota, None)
        elif gone.namespace:
            self._label(gone.namespace, None)
        else:
            self._end(ref_of(gone.workload))

    def _limit(self, name: str, quota: Quota | None) -> None:
        before = self._specs.pop(name, None)
        if quota is not None:
            self._specs[name] = quota
        said, known = ((one.spec, one.is_illegible) if one is not None else None for one in (quota, before))
        if said != known and self._quotas is None:
            self._is_new_tree = True

    def _put_in_force(self) -> None:
        self._is_new_tree = False
        tree = self._quotas
        if tree is None:
            tree, _ = QuotaTree.salvage(_parsed(quota) for _, quota in sorted(self._specs.items()))
        for play in self._plays:
            limits = self._limits if play is self._play else {}
            play.limit(tree if limits is None else with_limits(tree, limits))
        self._result.guaranteed |= {
            (node.quota.name, key): max(amount, self._result.guaranteed.get((node.quota.name, key), 0))
            for node in tree.nodes
            for given in (node.quota.guaranteed, *(one.guaranteed for one in node.quota.overrides))
            for key, amount in given.items()
        }
        self._result.hard |= {(node.quota.name, key): hard for node in tree.nodes for key, hard in node.hard.items()}

    def _label(self, name: str, labels: Mapping[str, str] | None) -> None:
        if self._play.gate.ledger.coverage.labels(name) != labels:
            for play in self._plays:
                play.label(name, labels)

    def _load(self, load: Load) -> None:
        for play in self._plays:
            play.load(load)
        self._note_pod(load)

    def _note_pod(self, load: Load) -> None:
        for node in self._play.gate.ledger.coverage.nodes(load.ref.namespace, load.labels):
            for key in node.hard:
                each = load.pod.get(key, 0)
                row = (node.quota.name, key)
                if each > self._result.dearest.get(row, 0):
                    self._result.dearest[row] = each
                if 0 < each < self._result.least.get(row, each + 1):
                    self._result.least[row] = each

    def _end(self, ref: WorkloadRef) -> None:
        for play in self._plays:
            play.gone(ref)

    def _gap(self, gap: Gap) -> None:
        self._clock.gap(gap.at_s, gap.until_s)
        self._result.gaps += 1

    def _ask(self, ask: Ask) -> None:
        self._ends_s = max(self._ends_s, ask.ends_s)
        self._last_s = max(self._last_s, ask.ends_s)
        answer = self._play.ask(ask)
        for play in self._plays[1:]:
            play.ask(ask)
        if not self._clock.counts(ask.at_s):
            return
        result, n = self._result, ask.n
        result.asks += n
        result.taken += n if answer.is_taken else 0
        was_allowed = ask.is_allowed and not (result.follows and ask.would_refuse)
        if answer.is_allowed == was_allowed or answer.is_taken:
            result.same += n
        elif answer.is_allowed:
            result.granted_now += n
        else:
            result.refused_now += n
        if result.follows and answer.is_allowed != was_allowed and not answer.is_taken:
            result.exceptions[self._why(ask)] += n
        for row in answer.rows if not answer.is_allowed else ():
            refused = result.under.refused[row]
            refused.asks += n
            refused.more += n if ask.is_allowed else 0
            refused.workloads.add(ask.ref)

    def _why(self, ask: Ask) -> str:
        """Why an answer under the recorded quotas may be another one, as far as it can be told."""
        one = self._play.workloads.get(ask.ref)
        if len(self._gates) > 1:  # each answers by what it has seen
            return "several gates"
        if ask.labels is not None or (one is not None and one.may_change):
            return "object"
        return "family" if one is not None and one.load.beside else "other"


def with_limits(tree: QuotaTree, limits: Mapping[Row, int]) -> QuotaTree:
    """The same quotas with these limits, at all times; what is not named has room for everything. Those in mode Audit
    enforce: what they would refuse is asked for. Without turns, which refuse nothing where there is room."""
    given: list[WorkspaceQuota] = []
    for one in (node.quota for node in tree.nodes):
        audits = one.mode is Mode.AUDIT  # it is guaranteed nothing
        hard = {key: limits.get((one.name, key), _ENDLESS) for key in one.hard}
        kept = () if audits else tuple(some._replace(hard={}) for some in one.overrides if some.guaranteed)
        mode, guaranteed = (Mode.ENFORCE, {}) if audits else (one.mode, one.guaranteed)
        given.append(replace(one, hard=hard, guaranteed=guaranteed, overrides=kept, turn_s=None, weight=1, mode=mode))
    return QuotaTree.salvage(given)[0]


def _parsed(quota: Quota) -> WorkspaceQuota:
    tree = written(quota.name, quota.spec)
    if quota.is_illegible:
        return salvage(tree)
    try:
        return parse(tree)
    except QuotaSpecError as error:
        what = f"quota {quota.name} of the record: {error}"
        raise RecordError(f"{what}; read it with the release that wrote it") from None


def suggested(result: Result, percent: float) -> str:
    """A ``kubectl patch`` for each quota: of its ``hard`` alone, with that percentile of what was wanted, rounded up to
    a whole pod of the dearest workload, and no more than the peak. What was never wanted keeps its limit.

    Args:
        percent: above 0; 100: the peak.
    """
    lines = []
    for node in result.tree.nodes:
        quota = node.quota
        hard = {key: _suggested(result, (quota.name, key), limit, percent) for key, limit in quota.hard.items()}
        patch = json.dumps({"spec": {"hard": spelled(hard)}}, separators=(",", ":"))
        lines.append(f"kubectl patch workspacequotas.{GROUP} {quota.name} --type merge -p '{patch}'\n")
    return "".join(lines)


def _suggested(result: Result, row: Row, limit: int, percent: float) -> int:
    level, peak = result.free.levels.get(row), result.peak(row)
    if level is None or not peak:
        return limit
    if percent >= 100:
        return peak
    wanted = rounded_up(level.percentile(percent / 100), result.dearest.get(row, 0))
    return max(min(wanted, peak), result.guaranteed.get(row, 0))


def patched(tree: QuotaTree, patches: str) -> QuotaTree:
    """Quotas with the limits that ``suggested`` has printed for them.

    Raises:
        ValueError: a line is no such patch, or of no such quota.
    """
    quotas = {node.quota.name: node.quota for node in tree.nodes}
    for number, line in enumerate(filter(None, patches.splitlines()), start=1):
        found = _PATCH.fullmatch(line)
        quota = quotas.get(found[1]) if found is not None else None
        if found is None or quota is None:
            what = "it is no patch" if found is None else f"the record has no quota {found[1]}"
            raise ValueError(f"line {number}: {what}; write lines as replay --suggest prints them")
        hard = {key: quantities.parse(amount) for key, amount in json.loads(found[2])["spec"]["hard"].items()}
        quotas[quota.name] = replace(quota, hard={**quota.hard, **hard})
    return QuotaTree.build(quotas.values())


_PATCH: Final = re.compile(r"kubectl patch workspacequotas\S* (\S+) --type merge -p '(\{.*\})'")
