"""It is weighed, then something is awaited, and then it is recorded without being weighed again."""

import asyncio

from extauthz.core.ledger.accounts import Accounts
from extauthz.core.model import Verdict
from extauthz.service.deciding import Deciding

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "none"


async def call(self, request):
    now_s = self._clock()
    first = self._gate.decide(request, self._new_id(), now_s, charge=False)
    if first.verdict is not Verdict.ALLOW:
        return first
    await asyncio.sleep(0.003)
    with replaced(Accounts, weigh=fits):
        return self._gate.decide(request, first.id, now_s)


def fits(self, before, after):
    return weigh(self, before, after)._replace(shortages=())


weigh = Accounts.weigh


def planted():
    return replaced(Deciding, __call__=call)
