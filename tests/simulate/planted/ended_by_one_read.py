"""An intent ends by any consistent read of its workload, though nobody has heard an answer and W has not passed."""

from extauthz.core.ledger.intents import Event, Intent, State

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "late,unheard"
WORDS = ("deploy",)


def on_read(self, started_s):
    if not original(self, started_s):
        self.on(Event.ANSWERED_OK)
        self.on(Event.SEEN)
    return self.state is State.ENDED


original = Intent.on_read


def planted():
    return replaced(Intent, on_read=on_read)
