"""One run of a record through the product's own gate, on virtual time.

Whatever the gate of the record granted and this one refuses does not land here, and stays wanted: until the workload
asks again, is seen with fewer replicas, or is gone. What the record has refused is wanted until nobody has asked for
two intervals of its retries. What waits is asked again at that interval, once a quota that refused it has more room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from heapq import heappop, heappush
from itertools import count
from math import ceil, inf, nextafter
from typing import Final, NamedTuple

import msgspec

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.kinds import PRICED_EACH, RESIZES, SHARE_TEMPLATES, STATEFUL_SETS
from extauthz.core.ledger.accounts import NOTHING, Accounts, Shared, Step, highest, rise
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.ledger.entry import PendingWrite, is_newer
from extauthz.core.model import (
    NO_PRECONDITION,
    Amounts,
    Decision,
    Observed,
    Operation,
    Template,
    Verdict,
    WorkloadRef,
    Write,
)
from extauthz.core.objects.workloads import intern
from extauthz.core.quota.spec import Mode
from extauthz.core.quota.tree import QuotaNode, QuotaTree
from extauthz.tell.record.lines import NO_COSTS, Ask, Load
from extauthz.tools.replay.measures import Clock, Found, Row
from extauthz.tools.replay.wanted import Pending, Waiting, Workload

DECIDED: Final = frozenset({"fits", "no-growth", "no-quota", "zero", "exceeded-quota", "would-refuse"})
"""Reasons of answers that quotas alone give. All others are taken as recorded."""


class NeverOverError(AssertionError):
    """A grant has taken a quota above its limit. That is a bug."""


class Outcome(NamedTuple):
    """What became of a question here."""

    is_allowed: bool
    is_taken: bool = False
    """It was taken as recorded."""
    rows: tuple[Row, ...] = ()
    """Quotas and keys that refused it."""
    id: str | None = None
    """Of what pends."""
    lowered: int = 0
    """The count that was granted in place of the one that was refused (mode Clamp); 0: none."""


class Play:
    """The run.

    Args:
        clock: what counts.
        follows: each answer of the record holds here too, whatever this gate says.
        is_free: its quotas have no limits, so nothing needs a decision.
        draws: the course of each quota is kept.
    """

    def __init__(self, clock: Clock, *, follows: bool, is_free: bool = False, draws: bool = False) -> None:
        self._is_free = is_free
        most = 2**62  # what pends was bounded when it was recorded
        bounds = Policy(window_s=1e12, max_intents=most, max_intents_per_tree=most, max_intents_per_workload=most)
        self.gate = Gate(bounds)
        self.charges = True
        """What is granted is reserved until it lands. A gate in mode audit reserves nothing."""
        self.gate.state_known = True
        self.found = Found(clock, draws=draws)
        self._clock = clock
        self._follows = follows
        self.workloads: dict[WorkloadRef, Workload] = {}
        self.now_s = 0.0
        self._waiting_on: dict[Row, set[Workload]] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._tree = self.gate.ledger.coverage.tree
        self._is_all_touched = False
        self._clamping: frozenset[str] = frozenset()
        """Quotas in mode Clamp."""

    # Time.

    def next_s(self) -> float:
        """When something is due next; infinity: nothing is."""
        return self._due[0][0] if self._due else inf

    def until(self, at_s: float) -> None:
        """Let happen what is due up to then."""
        while self._due and self._due[0][0] <= at_s:
            due_s, _, what = heappop(self._due)
            self._turn(due_s)
            what()
        self._turn(at_s)

    def _later(self, at_s: float, what: Callable[[], None]) -> None:
        heappush(self._due, (at_s, next(self._numbers), what))

    def _turn(self, at_s: float) -> None:
        self.now_s = max(self.now_s, at_s)
        self.gate.turn(self.now_s)
        if self.gate.ledger.coverage.tree is not self._tree:
            self._touch_all()

    def end(self) -> None:
        """The record is over: what waits has waited until now."""
        for workload in self.workloads.values():
            self._stop_waiting(workload)

    # Quotas and namespaces.

    def limit(self, tree: QuotaTree) -> None:
        self.gate.load_quotas(tree, self.now_s)
        self._clamping = frozenset(node.quota.name for node in tree.nodes if node.quota.mode is Mode.CLAMP)
        self._is_all_touched = True

    def label(self, namespace: str, labels: Mapping[str, str] | None) -> None:
        """A namespace has these labels; ``None``: it is gone."""
        self.gate.observe_namespace(namespace, labels)
        self._is_all_touched = True

    def settle(self) -> None:
        """Tell of levels that other quotas and labels have moved, before time goes on."""
        if self._is_all_touched:
            self._touch_all()

    def _touch_all(self) -> None:
        self._is_all_touched = False
        self._tree = self.gate.ledger.coverage.tree
        self._touch(self._tree.nodes)
        for workloads in list(self._waiting_on.values()):
            for workload in list(workloads):
                self._schedule(workload)

    # Workloads.

    def workload(self, ref: WorkloadRef) -> Workload:
        found = self.workloads.get(ref)
        if found is None:
            name = ref.name if ref[:2] not in PRICED_EACH else f"{ref.resource}/{ref.name}"
            kind = RESIZES if ref[:2] in PRICED_EACH else ("", ref.group_resource)
            beside = WorkloadRef(*RESIZES, ref.namespace, f"beside/{ref.group_resource}/{ref.name}")
            found = Workload(ref, WorkloadRef(*kind, ref.namespace, name), beside)
            self.workloads[ref] = found
        return found

    def load(self, load: Load) -> None:
        """The record has seen a workload so."""
        one = self.workload(load.ref)
        if one.is_there and is_newer(one.load.version, load.version):
            return  # another gate's watch is behind
        if self._repeats(one, load):
            return
        is_new, is_less = not one.is_there, one.is_there and load.replicas < one.load.replicas
        if one.asked_s is not None and load.replicas == one.asked_to:
            one.delay_s, one.asked_s = load.at_s - one.asked_s, None
        one.load, one.is_there = load, True
        if is_less:
            self._wants_less(one)
        if one.cap is not None and not one.cap < load.replicas <= one.top:
            one.cap = one.kept = None  # it is as recorded again; or it has grown past the gate, which counts
        before = self._nodes(one)
        self._show(one)
        self._settle(one, load.most or -1, also_own=is_new)
        self._adopt(one, load)
        self._show_beside(one, one.had)
        self._has_now(one)
        self._touched(one, before)

    def _repeats(self, one: Workload, load: Load) -> bool:
        """Nothing has come since the same was said: each file begins with all that is there."""
        if not one.is_there or one.pending or one.waiting is not None or one.cap is not None or one.above is not None:
            return False
        return msgspec.structs.replace(load, at_s=one.load.at_s) == one.load

    def gone(self, ref: WorkloadRef) -> None:
        one = self.workloads.pop(ref, None)
        if one is None:
            return
        self._stop_waiting(one)
        one.refused = None
        before = self._nodes(one)
        one.is_there, one.cap, one.above = False, None, None
        self._show(one)
        self._settle(one, -1, also_own=True)
        self._set_may(one, NO_COSTS)
        self._touch(before)

    def _wants_less(self, one: Workload) -> None:
        one.above = None
        if one.want is not None and one.want > one.load.replicas:
            if one.waiting is not None:
                self._add(one, one.waiting)
            one.want = one.load.replicas

    def _nodes(self, one: Workload) -> Nodes:
        labels = one.shown[2] if one.shown is not None else one.load.labels
        return self.gate.ledger.coverage.nodes(one.ref.namespace, labels)

    def _show(self, one: Workload) -> None:
        """Have the gate observe the workload as it is here."""
        said, is_unknown = one.kept or one.load, one.load.is_unknown
        is_there = one.is_there and (one.cap is None or one.cap > 0 or one.load.replicas == 0 or one.shown is not None)
        shown = (one.count, said.pod, said.labels) if is_there else None
        if (shown, is_unknown) != (one.shown, one.is_unknown):
            one.shown, one.is_unknown = shown, is_unknown
            made = None if is_unknown else template(said.pod)
            self.gate.observe(one.key, Observed(one.count, made, said.labels) if is_there else None)
        self._show_beside(one, one.had)

    def _show_beside(self, one: Workload, count: int) -> None:
        """What is beside it, if there come to be so many replicas."""
        said = one.kept or one.load
        beside: Amounts = said.beside
        if one.kept is None:
            beside = left_of(beside, said.covers, said.pod, count - said.replicas)
        besides = (beside, said.labels) if one.shown is not None and beside else None
        if besides != one.shown_beside:
            one.shown_beside = besides
            observed = Observed(1, _template(beside), said.labels) if besides is not None else None
            self.gate.observe(one.beside_key, observed)

    def _settle(self, one: Workload, most: int, *, also_own: bool) -> None:
        """End what pends, but for counts up to ``most``, and what lands by itself."""
        for name, pending in list(one.pending.items()):
            pending.is_own = pending.is_own and not also_own
            if not pending.is_own and (pending.to > most or pending.brings):
                self._forget(one, name)

    def _forget(self, one: Workload, name: str) -> None:
        del one.pending[name]
        self.gate.ledger.pending.forget(name)

    def _forget_own(self, one: Workload) -> None:
        for name in one.own:
            self._forget(one, name)

    def _adopt(self, one: Workload, load: Load) -> None:
        """Take what still pends in the record, where nothing is different here."""
        if load.most > max([load.replicas, *(pending.to for pending in one.pending.values())]) and one.cap is None:
            one.pending[self._force(one, load.most)] = Pending(load.most)
        self._set_may(one, load.may if one.cap is None else NO_COSTS)

    def _set_may(self, one: Workload, may: Shared) -> None:
        """Each replica may come to cost so much: objects may still land that this run has not seen, or not alone."""
        if one.may is not None and one.may[1] is not may:
            self.gate.ledger.pending.forget(one.may[0])
            one.may = None
        if may and one.may is None:
            one.may = self._force(one, None, template(may)), may

    def _force(self, one: Workload, to: int | None, *templates: Template, asks: Ask | None = None) -> str:
        """Follow a count, or what each replica may cost, whatever quotas say. Returns the id of what pends.

        Args:
            asks: by which somebody has asked for it, so a limit could have refused it.
        """
        name, ledger, expected = self._name(), self.gate.ledger, None
        pending = PendingWrite(name, to, templates, (), False, NO_PRECONDITION, inf)
        if asks is not None and asks.labels is not None and to is not None:
            made, creates = template(_brought(one, asks)), asks.operation == "create"
            expected = Observed(to, made, asks.labels)
            pending = replace(pending, templates=(made,), labels=(asks.labels,), creates=creates)
        proposal = ledger.propose(one.key, pending, expected)
        if asks is not None:
            for row, least in needs(ledger.usage.accounts, proposal.step):
                self.found.need(row, least, self.now_s)
        ledger.record(proposal, pending)
        return name

    def _name(self) -> str:
        return f"r{next(self._numbers)}"

    # Questions.

    def ask(self, ask: Ask) -> Outcome:
        """Decide a question of the record."""
        one = self.workload(ask.ref)
        if self._changes_nothing(one, ask):
            return _ALLOWED
        one.learn(ask)
        for name in one.own if one.is_there else ():
            self._land(one, name)  # who asks again has had the answer to what it asked before
        if ask.labels is not None and not one.is_there:
            one.load = Load(0.0, workload="", replicas=0, pod=NO_COSTS, labels=ask.labels)
        one.refused = None if ask.is_allowed else ask
        if not ask.is_allowed:
            silent_s = nextafter(ask.ends_s + one.silent_s, inf)  # who asks just then is not silent
            self._later(silent_s, partial(self._pass, one, ask))
        answer = self._answer(one, ask)
        holds, before = answer, self._nodes(one)
        if self._follows and answer.is_allowed != ask.is_allowed:
            self._correct(one, ask, answer)
            holds = Outcome(ask.is_allowed)
        if holds.is_allowed:
            self._allowed(one, ask, holds)
        else:
            self._refused(one, ask, holds)
            self._take(one, holds)
        self._touched(one, before)
        return answer

    def _take(self, one: Workload, answer: Outcome) -> None:
        """What was granted in place of what is still wanted lands."""
        if answer.lowered and answer.id is not None:
            self._land_later(one, answer.id, Pending(answer.lowered))
            self._has_now(one)

    def _changes_nothing(self, one: Workload, ask: Ask) -> bool:
        """It was allowed, grows nothing here, and nothing is different here: nearly all of them."""
        to, shown = ask.to, one.shown
        if to is None or shown is None or to > shown[0] or not ask.is_allowed or ask.labels is not None:
            return False
        if one.waiting is not None or one.above is not None or one.cap is not None or (one.pending and one.own):
            return False
        if ask.reason not in DECIDED or ask.operation == "resize":
            return False
        one.want = one.top = one.asked_to = to
        one.asked_s, one.refused = self.now_s, None
        return True

    def _answer(self, one: Workload, ask: Ask) -> Outcome:
        is_taken = ask.reason not in DECIDED or ask.to is None or ask.operation == "resize"
        if not is_taken and ask.to is not None:
            if ask.labels is None and one.shown is not None and ask.to <= one.shown[0]:
                return Outcome(is_allowed=True)  # what grows nothing always passes
            if ask.labels is None and self._is_covered(one, ask.to):
                return Outcome(is_allowed=True, id=self._force(one, ask.to) if self.charges else None)
            if self._is_free:
                self._show_beside(one, max(ask.to, one.had))
                pending = self._force(one, ask.to, asks=ask)
                self._touch(self._nodes(one))
                return Outcome(is_allowed=True, id=pending)
            decision = self._decide(one, ask, ask.to)
            if decision.verdict is not Verdict.UNAVAILABLE:
                rows = tuple((row.quota, row.resource) for row in decision.evidence.shortages)
                answer = Outcome(decision.verdict is Verdict.ALLOW, rows=rows, id=decision.pending_write)
                return answer if answer.is_allowed else self._lowered(one, ask, decision, answer)
        name = None
        if ask.is_allowed and ask.to is not None and one.shown is not None and ask.operation != "resize":
            name = self._force(one, ask.to) if self.charges else None
        return Outcome(ask.is_allowed, is_taken=True, id=name)

    def _lowered(self, one: Workload, ask: Ask | None, refused: Decision, answer: Outcome) -> Outcome:
        """As much as fits, where quotas of mode Clamp alone refuse a count (``Gate.clamp``)."""
        fits, seen = refused.evidence.fits, one.shown[0] if one.shown is not None else None
        if fits is None or seen is None or self._follows or (ask is not None and ask.labels is not None):
            return answer
        if fits <= seen or not all(quota in self._clamping for quota, _ in answer.rows):
            return answer
        if fits <= one.had:
            return answer  # it was granted already, and lands by itself
        granted = self._decide(one, None, fits)
        if granted.verdict is not Verdict.ALLOW or granted.pending_write is None:
            return answer
        return answer._replace(id=granted.pending_write, lowered=fits)

    def _is_covered(self, one: Workload, to: int) -> bool:
        """What is beside it takes all that so many replicas cost more."""
        load, more = one.load, to - one.load.replicas
        is_enough = all(more * each <= load.covers.get(key, 0) for key, each in load.pod.items())
        return bool(load.covers) and one.may is None and is_enough

    def _decide(self, one: Workload, ask: Ask | None, to: int) -> Decision:
        write = Write(one.key, Operation.PATCH, True, False, to)
        if ask is not None and ask.labels is not None:
            operation = Operation.CREATE if ask.operation == "create" else Operation.UPDATE
            brought = Observed(to, template(_brought(one, ask)), ask.labels)
            write = Write(one.key, operation, False, False, to, brought)
        if one.load.covers and to > one.had:
            self._show_beside(one, to)
        decision = self.gate.decide(write, self._name(), self.now_s, charge=self.charges)
        if one.load.covers and decision.verdict is not Verdict.ALLOW:
            self._show_beside(one, one.had)
        if decision.verdict is Verdict.ALLOW and decision.evidence.grows:
            entry, usage = self.gate.ledger.get(one.key), self.gate.ledger.usage
            nodes = usage.position(entry.root).envelope_in if entry is not None else ()
            self._check(one, nodes)
            self._touch(nodes)
        return decision

    def _check(self, one: Workload, nodes: Nodes) -> None:
        """No grant takes a quota above its limit."""
        usage = self.gate.ledger.usage
        for row in (row for node in nodes if not node.audits for row in usage.accounts.rows_of(node)):
            level = row.used + row.reserved
            if level > row.hard and level > self.found.levels[row.quota, row.resource].now:
                raise NeverOverError(f"quota {row.quota}: a grant to {one.ref} takes {row.resource} above its limit")

    def _correct(self, one: Workload, ask: Ask, answer: Outcome) -> None:
        """Go on as recorded, though this gate says something else."""
        if answer.id is not None:
            self.gate.ledger.pending.forget(answer.id)
        if ask.is_allowed and ask.to is not None and self.charges:
            one.pending[self._force(one, ask.to)] = Pending(ask.to)
        self._show_beside(one, one.had)

    def _allowed(self, one: Workload, ask: Ask, answer: Outcome) -> None:
        self._stop_waiting(one)
        self._forget_own(one)  # what was to be made, and is asked for again
        one.want, to = ask.to, ask.to if ask.to is not None else 0
        one.asked_s, one.asked_to = self.now_s, to
        if ask.labels is not None:
            one.kept = None
        if ask.is_allowed:
            one.top = max(one.top, to) if one.cap is not None else to
            one.above = None
        if answer.id is not None and self.gate.ledger.pending.follows(answer.id):
            pending = one.pending[answer.id] = Pending(to, brings=ask.labels is not None)
            if not one.is_there and not ask.is_allowed:
                pending.is_own = True  # the record does not have it: it holds its room until nobody asks for it
            elif not ask.is_allowed or one.cap is not None:
                self._land_later(one, answer.id, pending)
        elif not ask.is_allowed:
            one.above = to
        self._show(one)

    def _refused(self, one: Workload, ask: Ask, answer: Outcome) -> None:
        to = ask.to if ask.to is not None else 0
        if ask.is_allowed:
            if one.cap is None:
                one.cap, one.above, one.top = (one.shown[0] if one.shown is not None else 0), None, to
            one.top = max(one.top, to)
            if ask.labels is not None and one.kept is None and one.shown is not None:
                one.kept = one.load
        if one.waiting is not None and one.want == to and answer.rows:  # a retry, whichever quota refuses it now
            self._waits_on(one, one.waiting, answer.rows)
            one.waiting.left += ask.n
            one.waiting.last_s = ask.ends_s
            return
        self._stop_waiting(one)
        one.want = to
        if answer.rows:
            self._wait(one, ask, answer.rows)

    def _wait(self, one: Workload, ask: Ask, rows: tuple[Row, ...]) -> None:
        counted_s = self._clock.counted_s
        one.waiting = Waiting(
            ask, self.now_s, counted_s, one.had, one.had, one.interval_s, ask.ends_s, ask.n - 1, mark_s=counted_s
        )
        self._waits_on(one, one.waiting, rows)

    def _waits_on(self, one: Workload, waiting: Waiting, rows: tuple[Row, ...]) -> None:
        waiting.rows = tuple(dict.fromkeys((*waiting.rows, *rows)))
        for row in rows:
            self._waiting_on.setdefault(row, set()).add(one)

    def _stop_waiting(self, one: Workload) -> None:
        waiting, one.waiting = one.waiting, None
        if waiting is None:
            return
        for row in waiting.rows:
            self._waiting_on[row].discard(one)
            if not self._waiting_on[row]:
                del self._waiting_on[row]
        self._add(one, waiting)
        self.found.denied(waiting, self.now_s)

    def _add(self, one: Workload, waiting: Waiting) -> None:
        now_s = self._clock.counted_s
        waiting.missed += max(0, (one.want or 0) - waiting.had) * (now_s - waiting.mark_s)
        waiting.mark_s = now_s

    def _has_now(self, one: Workload) -> None:
        """It may have another count, or want another one, than when it was refused."""
        waiting = one.waiting
        if waiting is None:
            return
        if one.had >= (one.want or 0):
            self._stop_waiting(one)
        elif one.had != waiting.had:
            self._add(one, waiting)
            waiting.had = one.had

    # What this run does by itself.

    def _land_later(self, one: Workload, name: str, pending: Pending) -> None:
        one.pending[name], pending.is_own = pending, True
        self._later(self.now_s + one.delay_s, partial(self._land, one, name))

    def _land(self, one: Workload, name: str) -> None:
        if name not in one.pending:
            return  # it is gone, or was overtaken
        to, before = one.pending[name].to, self._nodes(one)
        if one.cap is not None:
            one.cap = max(one.cap, to)
            if one.cap >= one.load.replicas and one.waiting is None:  # else the record may still land more
                one.cap = one.kept = None
        elif to > one.load.replicas:
            one.above = to
        self._show(one)
        self._forget(one, name)
        self._has_now(one)
        self._touched(one, before)

    def _pass(self, one: Workload, ask: Ask) -> None:
        """Nobody has asked again: nobody wants any more what the record has refused."""
        if one.refused is not ask:
            return
        if not one.is_there:
            self.gone(one.ref)
            return
        one.refused, before = None, self._nodes(one)
        self._wants_less(one)
        if one.cap is None:
            self._forget_own(one)
        self._show(one)
        self._has_now(one)
        self._schedule(one)
        self._touched(one, before)

    def _schedule(self, one: Workload) -> None:
        """Something has become free: ask again at its next turn."""
        waiting = one.waiting
        if waiting is None or waiting.scheduled_s:
            return
        turns = max(1, ceil((self.now_s - waiting.since_s) / waiting.interval_s - 1e-9))
        waiting.scheduled_s = waiting.since_s + turns * waiting.interval_s
        self._later(waiting.scheduled_s, partial(self._ask_again, one, waiting))

    def _ask_again(self, one: Workload, waiting: Waiting) -> None:
        if one.waiting is not waiting or one.want is None:
            return
        if self._follows:
            return  # the record says when it is granted
        waiting.scheduled_s = 0.0
        before = self._nodes(one)
        decision = self._decide(one, waiting.ask, one.want)
        if decision.verdict is Verdict.ALLOW and decision.pending_write is not None:
            to_come = round((waiting.last_s - self.now_s) / waiting.interval_s) + 1
            if waiting.left and to_come > 0:
                self.found.regranted(waiting.rows, min(waiting.left, to_come), self.now_s)
            self._stop_waiting(one)
            self._land_later(one, decision.pending_write, Pending(one.want, brings=waiting.ask.labels is not None))
        elif decision.verdict is Verdict.DENY:
            rows = tuple((row.quota, row.resource) for row in decision.evidence.shortages)
            self._take(one, self._lowered(one, waiting.ask, decision, Outcome(is_allowed=False, rows=rows)))
        self._touched(one, before)

    # Levels.

    def _touched(self, one: Workload, before: Nodes) -> None:
        after = self._nodes(one)
        self._touch(before)
        if after is not before:
            self._touch(after)

    def _touch(self, nodes: Iterable[QuotaNode]) -> None:
        accounts = self.gate.ledger.usage.accounts
        for node in nodes:
            for key, hard in node.hard.items():
                row = node.quota.name, key
                if self.found.move(row, accounts.charged(node, key), hard, self.now_s):
                    for one in list(self._waiting_on.get(row, ())):
                        self._schedule(one)


_ALLOWED: Final = Outcome(is_allowed=True)


def needs(accounts: Accounts, step: Step) -> Iterator[tuple[Row, int]]:
    """The smallest limit of each quota and key that does not refuse a step, as ``Accounts.weigh`` compares it: what is
    used and reserved after it, and what is then still kept for guarantees of others."""
    before, after, observed_only, this_write_only, _ = step
    for node in after.envelope_in:
        stood = before.envelope if node in before.envelope_in else NOTHING
        seen = observed_only.envelope if node in observed_only.envelope_in else NOTHING
        risen, above = rise(stood, after.envelope), rise(seen, this_write_only.envelope)
        for key in node.hard:
            if key in risen or key in above:
                yield (node.quota.name, key), accounts.charged(node, key) + risen.get(key, 0)
    for node, key, need in accounts.needs_with_kept(step):
        if key in node.hard:
            yield (node.quota.name, key), accounts.charged(node, key) + need


@cache
def template(pod: Shared) -> Template:
    """A template whose pods cost exactly that."""
    return _template(pod)


def _template(pod: Amounts) -> Template:
    return intern({"resize": dict(pod)})


@cache
def dearer(one: Shared, other: Shared) -> Shared:
    """The highest of both by key: one object for the same two, so that it has one template."""
    return Shared(highest((one, other)))


def left_of(beside: Amounts, covers: Amounts, pod: Amounts, more: int) -> Amounts:
    """What is beside a workload that has so many more replicas, where these take up ``covers``."""
    if not covers or more <= 0:
        return beside
    return {key: amount - min(covers.get(key, 0), more * pod.get(key, 0)) for key, amount in beside.items()}


def _brought(one: Workload, ask: Ask) -> Shared:
    """What each pod of an object that is brought may cost. Pods of the template that it replaces may run for a while,
    and their controller may make more of them (envelope.py)."""
    pod = ask.pod if ask.pod is not None else one.load.pod
    is_left = ask.ref[:2] == STATEFUL_SETS or (ask.ref[:2] in SHARE_TEMPLATES and one.had)
    if one.shown is None or not is_left:
        return pod
    return dearer(pod, one.shown[1])
