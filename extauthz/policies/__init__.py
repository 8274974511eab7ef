"""Policies from outside the gate: expressions in CEL, and plug-ins of a platform's own (docs/policies.md).

What a plug-in is written with is here, by its public name.
"""

from extauthz.core.policies import Fate, Growth, GrowthPolicy, Limit, NotYet, Refused

__all__ = ["Fate", "Growth", "GrowthPolicy", "Limit", "NotYet", "Refused"]
