"""What a gate has written of the line counts as known to the others, though another one was faster."""

from extauthz.core.ledger.line import Turns

from .planting import replaced

CAUGHT_BY = "the line is right"
LEDGER = "kubernetes"
GATES = 3
FAULTS = "turns,lost"
OFTEN = {"scale": 40.0, "turns": 0.0}
PACE = (0.1, 0.3)
STEPS = 50


def planted():
    sent = Turns.sent

    def lost(self):
        for line in self.lines.values():
            for one in line.waiters.values():
                one.told = one.news
                one.is_here = False
        return sent(self)

    return replaced(Turns, sent=lost)
