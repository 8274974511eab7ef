"""What is kept for a quota's children is not kept of those above it: guarantees hold at one level only."""

from extauthz.core.ledger.accounts import Account

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "guarantees"


def idle_after(self, node, key, growth, kept):
    return original(self, node, key, growth, 0)


original = Account.idle_after


def planted():
    return replaced(Account, idle_after=idle_after)
