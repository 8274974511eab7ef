"""Plug-ins: policies of a platform's own (docs/policies.md). What one is written with is here, by its public name.

In: the names of plug-ins. Out: policies that the core asks.
"""

from extauthz.core.model import Growth
from extauthz.core.policies import Fate, GrowthPolicy, Limit, NotYet, Refused, UnknownError
from extauthz.inputs.policies.plugins import Host, LivePolicy

__all__ = [
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
