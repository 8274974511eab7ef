"""It is weighed, then something is awaited, and then it is recorded without being weighed again."""

import asyncio

from extauthz.core.ledger.accounts import Accounts
from extauthz.core.model import Verdict
from extauthz.service.deciding import Deciding

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "none"
WORDS = ("deploy",)
OFTEN = {"rollout": 0.0, "remake": 0.0, "patch": 0.0}


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


def fits(self, step):
    return weigh(self, step)._replace(shortages=())


weigh = Accounts.weigh


def planted():
    return replaced(Deciding, __call__=call)
