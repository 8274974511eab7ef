"""The mutating webhook lowers a count to nothing: a hidden scale-down."""

from extauthz.service.deciding import Clamping

from .planting import replaced

CAUGHT_BY = "a count is lowered, to more than there is"
LEDGER = "memory"
ENTRANCES = "webhook"
FAULTS = "none"


async def review(self, question):
    found = await original(self, question)
    return found._replace(replicas=0) if found is not None else None


original = Clamping.review


def planted():
    return replaced(Clamping, review=review)
