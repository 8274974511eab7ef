"""While a quota is over its limit, a workload grows back within what an old grant allows (rule 10)."""

from extauthz.core.ledger.accounts import Accounts

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "cut,late,unheard"
WORDS = ("deploy",)


def weigh(self, step):
    return original(self, step._replace(observed_only=step.before, this_write_only=step.after))


original = Accounts.weigh


def planted():
    return replaced(Accounts, weigh=weigh)
