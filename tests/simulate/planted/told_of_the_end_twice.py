"""A grant that ends stays in the books of policies: what comes after it is told of it again."""

from extauthz.core.policies import UNRESERVE, Policies

from .planting import replaced

CAUGHT_BY = "no failure"
LEDGER = "memory"
FAULTS = "policies"

ended = Policies.ended


def planted():
    def twice(self, pending_id, fate):
        growth = self._reserved.get(pending_id)
        ended(self, pending_id, fate)
        if growth is not None:
            for one in self.at(UNRESERVE):
                self._tell(one, UNRESERVE, growth)

    return replaced(Policies, ended=twice)
