"""Policies from outside the gate: expressions in CEL, and plug-ins of a platform's own (docs/policies.md).

What a plug-in is written with is here, by its public name.

In: the text of an expression; the names of plug-ins. Out: programs and policies that the core asks.
"""

from extauthz.core.model import CycleState, Growth
from extauthz.core.policies import Fate, GrowthPolicy, Limit, NotYet, Refused, UnknownError
from extauthz.inputs.policies.plugins import Host, LivePolicy

__all__ = [
    "CycleState",
    "Fate",
    "Growth",
    "GrowthPolicy",
    "Host",
    "Limit",
    "LivePolicy",
    "NotYet",
    "Refused",
    "UnknownError",
]
