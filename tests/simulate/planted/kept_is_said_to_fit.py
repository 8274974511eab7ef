"""The largest count that is named takes what guarantees keep for others."""

from extauthz.core.ledger.accounts import Accounts

from .planting import replaced

CAUGHT_BY = "what is named fits"
LEDGER = "memory"
FAULTS = "guarantees"


def planted():
    return replaced(Accounts, _lends=lambda self, step, per_pod, count, free: False)
