"""What the mutating webhook has lowered is taken for decided: the validating one lets it pass without a look."""

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Decision, Lower, Verdict, Write

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
ENTRANCES = "webhook"
FAULTS = "none"

MARKS = "lowered"


def clamp(self, reading, decision_id, now_s, **more):
    found = clamped(self, reading, decision_id, now_s, **more)
    if found is not None and isinstance(found.todo, Lower):
        vars(self).setdefault(MARKS, set()).add((reading.ref, reading.precondition, found.todo.to))
    return found


def decide(self, reading, decision_id, now_s, **more):
    if isinstance(reading, Write):
        asked = (reading.ref, reading.precondition, reading.replicas)
        marks = vars(self).get(MARKS, set())
        if asked in marks:
            marks.discard(asked)
            return Decision(decision_id, Verdict.ALLOW, "fits", "", reading.ref, reading.operation)
    return decided(self, reading, decision_id, now_s, **more)


clamped, decided = Gate.clamp, Gate.decide


def planted():
    return replaced(Gate, clamp=clamp, decide=decide)
