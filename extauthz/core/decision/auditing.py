"""Mode audit: a write is decided in full, and the answer is reported and not given."""

from __future__ import annotations

from extauthz.core.model import Decision, Verdict


def audited(decision: Decision) -> Decision:
    """The answer in place of ``decision``: allowed, with what it would have been."""
    if decision.verdict is Verdict.ALLOW:
        return decision
    sentence = f"allowed, as the gate only audits; else: {decision.sentence}"
    return decision._replace(verdict=Verdict.ALLOW, would=decision.verdict, sentence=sentence)
