"""Objects pass at Envoy though the setting refuses them there, and no webhook decides them."""

from dataclasses import replace

from extauthz.core.decision import unknowns

from .planting import replaced

CAUGHT_BY = "on Envoy a write is a count"
LEDGER = "memory"
ENTRANCES = "envoy"
FAULTS = "none"

not_a_count = unknowns.not_a_count


def planted():
    def lenient(state, found, decision_id, requester):
        policy, state.policy = state.policy, replace(state.policy, objects="observe")
        try:
            return not_a_count(state, found, decision_id, requester)
        finally:
            state.policy = policy

    return replaced(unknowns, not_a_count=lenient)
