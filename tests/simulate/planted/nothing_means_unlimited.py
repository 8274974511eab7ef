"""A limit of zero is a sentinel for no limit."""

from extauthz.core.ledger.accounts import Accounts

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "cut"


def weigh(self, step):
    growth = original(self, step)
    return growth._replace(shortages=tuple(one for one in growth.shortages if one.hard))


original = Accounts.weigh


def planted():
    return replaced(Accounts, weigh=weigh)
