"""Brings the events of a record to a run under quotas and to a sum of what was wanted, measures both, and suggests
quotas that would have held that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final, NamedTuple

import yaml

from extauthz.core import quantities
from extauthz.core.model import WorkloadRef
from extauthz.core.quota.spec import QuotaSpecError, WorkspaceQuota, dumped, parse, salvage, written
from extauthz.core.quota.tree import QuotaNode, QuotaTree
from extauthz.tell.record.reading import Ask, Gap, Gone, Labelled, Load, Quota, Record, RecordError, Start
from extauthz.tools.replay.measures import Clock, Course, Hours, Level, Row, rounded_up
from extauthz.tools.replay.play import Play, Waiting, Workload

_ENDLESS: Final = 10**40
"""More than anybody asks for, nano-units."""

EVERY: Final = 10_000
"""Events between two tellings of how far it is."""


@dataclass
class Refused:
    """Of one quota and key."""

    asks: int = 0
    """Of the record, retries among them, that are refused here."""
    more: int = 0
    """Those of them that the record has granted."""
    workloads: set[WorkloadRef] = field(default_factory=set)
    missed: float = 0.0
    """Replicas that were wanted and not there, times seconds."""
    longest_s: float = 0.0
    """How long one workload has waited, at most."""


class Courses(NamedTuple):
    """Of one quota and key over time, nano-units."""

    wanted: Course
    granted: Course
    hard: Course


@dataclass
class Result:
    """What a replay has found."""

    follows: bool
    """The quotas are those of the record, with their changes."""
    tree: QuotaTree
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
    missed: float = 0.0
    """Replicas that were wanted and not there, times seconds; each once, however many quotas refused it."""
    refused: dict[Row, Refused] = field(default_factory=dict)
    wanted: dict[Row, Level] = field(default_factory=dict)
    """Used and reserved of what would be there had nothing been refused."""
    courses: dict[Row, Courses] = field(default_factory=dict)
    hard: dict[Row, int] = field(default_factory=dict)
    """Limits by quota and key, as they were last; of quotas that are gone too."""
    dearest: dict[Row, int] = field(default_factory=dict)
    """What one pod of the dearest workload takes, nano-units."""
    hours: Hours | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def denied_minutes(self) -> float:
        """Replica-minutes."""
        return self.missed / 60.0


class Replay:
    """One replay.

    Args:
        record: of one gate or several.
        quotas: in place of those of the record; ``None``: those.
        since_s: what is measured begins then, in seconds since 1970, and ends before ``until_s``.
        draws: the course of each quota is kept.
        hours: what is used is summed, by quota and workload.
        tell: told every now and then of how far it is: seconds since 1970.
    """

    def __init__(
        self,
        record: Record,
        quotas: QuotaTree | None,
        *,
        since_s: float = -inf,
        until_s: float = inf,
        draws: bool = False,
        hours: bool = False,
        tell: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._record = record
        self._quotas = quotas
        self._draws = draws
        self._tell = tell
        self._clock = Clock(max(since_s, record.begins_s), until_s)
        self._play = Play(self._clock, follows=quotas is None)
        self._free = Play(self._clock, follows=False, is_free=True)
        """The same without limits. So what it comes to is what is wanted, and a limit of that refuses nothing."""
        self._specs: dict[str, tuple[Any, bool]] = {}
        self._is_new_tree = quotas is not None
        self._namespaces: set[str] = set()
        self._gates: set[str] = set()
        self._ends_s = 0.0
        self._result = Result(quotas is None, self._play.gate.ledger.coverage.tree)
        self._result.hours = Hours(self._play.gate.ledger.coverage) if hours else None
        self._play.denied, self._play.regranted, self._play.moved = self._denied, self._regranted, self._granted
        self._free.moved = self._wanted

    def run(self) -> Result:
        """Replay all of it.

        Raises:
            RecordError: a line cannot be read.
            NeverOverError: a grant has taken a quota above its limit.
        """
        take = {
            Start: self._start,
            Quota: self._limit,
            Labelled: self._label,
            Load: self._load,
            Gone: self._gone,
            Ask: self._ask,
            Gap: self._gap,
        }
        for number, event in enumerate(self._record.events()):
            if number % EVERY == 0:
                self._tell(event.at_s)
            if self._is_new_tree and not isinstance(event, Quota | Start | Gap):
                self._put_in_force()
            self._reach(event.at_s)
            take[type(event)](event)  # type: ignore[operator]
        return self._finished()

    def _reach(self, at_s: float) -> None:
        """What is due happens before; time passes up to each of it."""
        if at_s > self._play.now_s:
            self._play.settle()
            self._free.settle()
        while (due_s := min(self._play.next_s(), self._free.next_s())) <= at_s:
            self._pass(due_s)
        self._pass(at_s)

    def _pass(self, at_s: float) -> None:
        self._clock.advance(at_s)
        self._play.until(at_s)
        self._free.until(at_s)

    def _finished(self) -> Result:
        if self._is_new_tree:
            self._put_in_force()
        self._reach(self._ends_s)
        self._play.end()
        result, clock = self._result, self._clock
        result.tree = self._play.gate.ledger.coverage.tree
        result.counted_s, result.gap_s = clock.counted_s, clock.gap_s
        for level in result.wanted.values():
            level.end(clock.counted_s)
        for courses in result.courses.values():
            for course in courses:
                course.reach(self._play.now_s)
        if result.hours is not None:
            result.hours.end(clock.counted_s)
        result.warnings = self._record.warnings
        return result

    # Events.

    def _start(self, start: Start) -> None:
        self._play.charges = not (self._result.follows and start.settings.get("mode") == "audit")
        is_known = bool(self._gates)
        self._gates.add(start.gate)
        if not (start.is_new and is_known):
            return
        for ref in [ref for ref in self._play.workloads if ref not in start.listed]:
            self._gone(Gone(start.at_s, ref))
        for name in self._specs.keys() - start.listed:
            self._limit(Quota(start.at_s, str(name), None, False))
        for name in self._namespaces - start.listed:
            self._label(Labelled(start.at_s, str(name), None))

    def _limit(self, quota: Quota) -> None:
        said = (quota.spec, quota.is_illegible)
        if self._specs.get(quota.name) == said:
            return
        if quota.spec is None:
            self._specs.pop(quota.name, None)
        else:
            self._specs[quota.name] = said
        self._is_new_tree = self._is_new_tree or self._quotas is None

    def _put_in_force(self) -> None:
        self._is_new_tree = False
        tree = self._quotas
        if tree is None:
            tree, _ = QuotaTree.salvage(_parsed(name, *said) for name, said in sorted(self._specs.items()))
        self._play.limit(tree)
        self._free.limit(without_limits(tree))
        self._result.hard |= {(node.quota.name, key): hard for node in tree.nodes for key, hard in node.hard.items()}
        self._recount()

    def _label(self, labelled: Labelled) -> None:
        name = labelled.namespace
        if labelled.labels is None:
            self._namespaces.discard(name)
        else:
            self._namespaces.add(name)
        if self._play.gate.ledger.coverage.labels(name) == labelled.labels:
            return
        self._play.label(name, labelled.labels)
        self._free.label(name, labelled.labels)
        self._recount()

    def _recount(self) -> None:
        """Quotas or labels of namespaces are others."""
        if self._result.hours is not None:
            self._result.hours.recount(self._clock.counted_s)

    def _load(self, load: Load) -> None:
        self._play.load(load)
        self._free.load(load)
        if self._result.hours is not None:
            self._result.hours.load(load, self._clock.counted_s)
        self._note_dearest(load)

    def _note_dearest(self, load: Load) -> None:
        for node in self._play.gate.ledger.coverage.nodes(load.ref.namespace, load.labels):
            for key in node.hard:
                each = load.pod.get(key, 0)
                row = (node.quota.name, key)
                if each > self._result.dearest.get(row, 0):
                    self._result.dearest[row] = each

    def _gone(self, gone: Gone) -> None:
        self._play.gone(gone.ref)
        self._free.gone(gone.ref)
        if self._result.hours is not None:
            self._result.hours.gone(gone.ref, self._clock.counted_s)

    def _gap(self, gap: Gap) -> None:
        self._clock.gap(gap.at_s, gap.until_s)
        self._result.gaps += 1

    def _ask(self, ask: Ask) -> None:
        self._ends_s = max(self._ends_s, ask.last_s)
        answer = self._play.ask(ask)
        self._free.ask(ask)
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
            refused = result.refused.setdefault(row, Refused())
            refused.asks += n
            refused.more += n if ask.is_allowed else 0
            refused.workloads.add(ask.ref)

    def _why(self, ask: Ask) -> str:
        """Why an answer under the recorded quotas may be another one, as far as it can be told."""
        one = self._play.workloads.get(ask.ref)
        if len(self._gates) > 1:  # each answers by what it has seen
            return "several gates"
        if ask.labels is not None or (one is not None and (one.may is not None or one.brought)):
            return "object"
        if one is not None and one.beside:
            return "family"
        return "other"

    # What is measured.

    def _wanted(self, node: QuotaNode, key: str, amount: int) -> None:
        row = (node.quota.name, key)
        level = self._result.wanted.get(row)
        if level is None:
            level = self._result.wanted[row] = Level(since_s=self._clock.counted_s)
        level.set(amount, self._clock.counted_s, counts=self._clock.counts(self._play.now_s))
        if self._draws:
            self._courses(node, key).wanted.set(self._play.now_s, amount)

    def _granted(self, node: QuotaNode, key: str, amount: int) -> None:
        if self._draws:
            courses = self._courses(node, key)
            courses.granted.set(self._play.now_s, amount)
            courses.hard.set(self._play.now_s, node.hard[key])

    def _courses(self, node: QuotaNode, key: str) -> Courses:
        row = (node.quota.name, key)
        found = self._result.courses.get(row)
        if found is None:
            begins_s = self._play.now_s
            found = self._result.courses[row] = Courses(Course(begins_s), Course(begins_s), Course(begins_s))
        return found

    def _denied(self, one: Workload, waiting: Waiting) -> None:
        self._result.missed += waiting.missed
        seconds = self._clock.counted_s - waiting.counted_s
        for row in waiting.rows:
            refused = self._result.refused.setdefault(row, Refused())
            refused.missed += waiting.missed
            refused.longest_s = max(refused.longest_s, seconds)

    def _regranted(self, one: Workload, asks: int) -> None:
        if one.waiting is None or not self._clock.counts(self._play.now_s):
            return
        self._result.same -= asks
        self._result.granted_now += asks
        for row in one.waiting.rows:
            self._result.refused[row].asks -= asks


def without_limits(tree: QuotaTree) -> QuotaTree:
    """The same quotas, of which each has room for everything."""
    free = [
        replace(node.quota, hard=dict.fromkeys(node.hard, _ENDLESS), guaranteed={}, overrides=(), turn_s=None)
        for node in tree.nodes
    ]
    return QuotaTree.salvage(free)[0]


def _parsed(name: str, spec: Any, is_illegible: bool) -> WorkspaceQuota:  # noqa: ANN401 (JSON)
    tree = written(name, spec)
    if is_illegible:
        return salvage(tree)
    try:
        return parse(tree)
    except QuotaSpecError as error:
        raise RecordError(f"quota {name} of the record: {error}; read it with the release that wrote it") from None


def suggested(result: Result, percent: float) -> str:
    """All quotas in YAML, each with that percentile of what was wanted as ``hard``, rounded up to a whole pod of its
    dearest workload. What was never wanted keeps its limit.

    Args:
        percent: above 0; 100: the peak.
    """
    return yaml.safe_dump_all(
        [_suggested(result, at, percent) for at in range(len(result.tree.nodes))], sort_keys=False
    )


def _suggested(result: Result, at: int, percent: float) -> object:
    quota = result.tree.nodes[at].quota
    spec = dumped(quota)
    for key, hard in quota.hard.items():
        row = (quota.name, key)
        level = result.wanted.get(row)
        wanted = 0 if level is None else level.peak if percent >= 100 else level.percentile(percent / 100)
        amount = rounded_up(wanted, result.dearest.get(row, 0)) if wanted else hard
        spec["hard"][key] = quantities.format(amount, key)
    spec.pop("overrides", None)
    guaranteed = {key: min(amount, quantities.parse(spec["hard"][key])) for key, amount in quota.guaranteed.items()}
    if guaranteed:
        spec["guaranteed"] = {key: quantities.format(amount, key) for key, amount in guaranteed.items()}
    return written(quota.name, spec)
