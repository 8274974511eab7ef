"""Planted bugs of what is read, decided, handed over and told to policies."""

import asyncio

from extauthz.core.decision import gate, known, policing, turns, weighing
from extauthz.core.decision.cluster_state import ClusterState
from extauthz.core.decision.gate import Gate
from extauthz.core.intake import admission, counts
from extauthz.core.ledger.accounts import Accounts
from extauthz.core.model import NO_PRECONDITION, Decision, Lower, Question, Verdict, Write
from extauthz.core.policies import AFTER, Fate, Policies
from extauthz.serve.service.deciding import Clamping, Deciding
from tests.simulate.planted.planting import COUNTS, bug, changes, replaced


@bug("the line is right", faults="turns", entrances="webhook", often={"scale": 20.0, "turns": 0.0})
def a_question_takes_a_place():
    """A dry run stands in line, as a write does."""
    answered = turns.answered
    return replaced(
        turns, answered=lambda lines, decision, now_s: answered(lines, decision._replace(dry_run=False), now_s)
    )


@bug("no policy is passed over", faults="policies")
def a_failing_policy_lets_pass():
    """One that fails is taken for one that has nothing against the growth."""
    return replaced(policing, _refuses=lambda asked, row, nodes: row.result == "refused")


@bug("no policy is passed over", faults="policies")
def a_limit_is_not_asked():
    """A policy is asked whether a workload may grow, and not how far."""
    return replaced(policing, _limited=lambda asked, proposal, grant, growth: grant)


@bug("ended when seen", entrances="webhook")
@changes(admission, "_write")
def admitted_for_ever(original, request, ref, shape, *, scale):
    """The webhook forgets that an admitted write lands on one version only. Its room is held for a landing window."""
    found = original(request, ref, shape, scale=scale)
    return found._replace(precondition=NO_PRECONDITION) if isinstance(found, Write) else found


@bug("never in the way of less")
@changes(weighing, "exceeded")
def charged_and_refused(original, asked, proposal, grant):
    """What one quota has room for is charged before another refuses it: others are then refused for want of it."""
    found = original(asked, proposal, grant)
    if isinstance(found, Decision) and asked.question.charge:
        asked.state.ledger.record(proposal, asked.pending_write)
    return found


@bug("never in the way of less", entrances="webhook")
def dry_run_takes_room():
    """The webhook charges dry runs."""
    return replaced(admission, boolean=lambda value, where: False)


@bug("nothing leaks", faults="policies,late")
@changes(Policies, "ended")
def ends_are_not_told(ended, self, pending_id, fate):
    """A policy is not told that a grant has come to nothing."""
    if fate is not Fate.REFUSED:
        ended(self, pending_id, fate)


@bug("never over", faults="crash,late", words=("deploy",), often=COUNTS, first=80)
def forgotten_after_a_crash():
    """A gate that was killed starts again and grants at once, without the pending writes of its earlier life."""
    return replaced(ClusterState, hold=lambda self, until_s: None)


@bug("a count is lowered, to more than there is", entrances="webhook")
@changes(Clamping, "__call__")
async def lowered_below_what_is_there(original, self, question):
    """The mutating webhook lowers a count to nothing: a hidden scale-down."""
    found = await original(self, question)
    return found._replace(replicas=0) if found is not None and isinstance(question, Question) else found


@bug("never over", ledger="kubernetes", entrances="webhook")
def lowered_is_decided():
    """What the mutating webhook has lowered is taken for decided: the validating one lets it pass without a look."""
    marked = "lowered"
    clamped, decided = Gate.clamp, Gate.decide

    def clamp(self, reading, decision_id, now_s, **more):
        found = clamped(self, reading, decision_id, now_s, **more)
        if found is not None and isinstance(found.todo, Lower):
            vars(self).setdefault(marked, set()).add((reading.ref, reading.precondition, found.todo.to))
        return found

    def decide(self, reading, decision_id, now_s, **more):
        if isinstance(reading, Write):
            asked = (reading.ref, reading.precondition, reading.replicas)
            marks = vars(self).get(marked, set())
            if asked in marks:
                marks.discard(asked)
                return Decision(decision_id, Verdict.ALLOW, "fits", "", reading.ref, reading.operation)
        return decided(self, reading, decision_id, now_s, **more)

    return replaced(Gate, clamp=clamp, decide=decide)


@bug("on Envoy a write is a count", entrances="both")
def object_taken_for_a_count():
    """Of a patch at Envoy the count is read, and a template that it brings beside it is overlooked."""
    return replaced(counts, _refuse_more=lambda patch: None)


@bug("never over", ledger="kubernetes", faults="late", entrances="webhook")
@changes(known, "is_newer")
def one_version_is_as_another(original, version, than):
    """A write that is admitted on the version that is observed is not charged, as if a newer one were observed."""
    return version == than or original(version, than)


@bug("never in the way of less", faults="policies")
def policies_are_asked_about_less():
    """Every write under a quota is growth to policies, also one that leaves fewer replicas."""
    return replaced(policing, _rises=lambda step: step.after.envelope.amounts)


@bug("never over", words=("rs", "deploy"))
@changes(known, "of_write")
def replica_sets_are_not_asked(original, state, write, question):
    """Every ReplicaSet is taken for a Deployment's, whose controller asks nobody: a lone one grows free."""
    counted = question.charge and write.ref.resource != "replicasets"
    return original(state, write, question._replace(charge=counted))


@bug(
    "never over",
    ledger="kubernetes",
    faults="cut,late,unheard",
    gates=2,
    words=("deploy",),
    often={"cut": 4.0, **COUNTS},
)
@changes(weighing, "exceeded")
def retried_after_a_cut(original, asked, proposal, grant):
    """A retry passes because the same write was granted before, though its quota was cut since (rule 10)."""
    granted = asked.entry.live_pending_writes() if asked.entry is not None else ()
    if any(one.effect == asked.pending_write.effect for one in granted):
        return grant
    return original(asked, proposal, grant)


@bug(
    "never over",
    faults="partition,drop,relabel,comes",
    steps=100,
    words=("deploy",),
    often={"partition": 8.0, "drop-watch": 4.0, "relabel": 3.0, "quota-goes": 2.0, **COUNTS},
    pace=(0.7,),
    first=275,
)
def stale_coverage_is_trusted():
    """A gate that has long heard nothing of quotas and namespaces allows what no quota covered when it last heard."""
    return replaced(known, _outdated=lambda asked: None)


@bug("no failure", faults="policies")
@changes(Policies, "ended")
def told_of_the_end_twice(ended, self, pending_id, fate):
    """A grant that ends stays in the books of policies: what comes after it is told of it again."""
    growth = self._reserved.get(pending_id)
    ended(self, pending_id, fate)
    if growth is not None:
        for one in self.at(AFTER):
            self._tell(one, AFTER, growth, fate)


@bug("never over", faults="comes,late", steps=60, often={"quota-goes": 4.0, **COUNTS}, first=95)
@changes(gate, "_uncovered")
def uncovered_is_forgotten(original, asked):
    """A write that no quota covers is not followed: a quota that is made anew meanwhile gives its room to others."""
    return original(asked._replace(question=asked.question._replace(charge=False)))


@bug("never over", words=("deploy",), often=COUNTS)
def usage_read_twice():
    """It is weighed, then something is awaited, and then it is recorded without being weighed again."""
    weigh = Accounts.weigh

    async def call(self, request):
        now_s = self.clock()
        asked = self.asked(request)
        reading = self.reading(asked)
        first = self._gate.decide(reading, asked.id, now_s, charge=False)
        if first.verdict is not Verdict.ALLOW:
            return self.tell(first, asked)
        await asyncio.sleep(0.003)
        with replaced(Accounts, weigh=fits):
            return self.tell(self._gate.decide(reading, first.id, now_s), asked)

    def fits(self, *steps):
        return weigh(self, *steps)._replace(shortages=())

    return replaced(Deciding, __call__=call)
