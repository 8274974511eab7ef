"""The policies that one gate asks about all growth, as the settings name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extauthz.core.policies import Enlisted, Policies
from extauthz.observe.log import Log
from extauthz.observe.metrics import Metrics
from extauthz.policies.plugins import Missing, Patience, enlisted
from extauthz.service.settings import Settings


def policies(
    settings: Settings, log: Log, metrics: Metrics, clock: Callable[[], float], more: Iterable[Enlisted] = ()
) -> Policies:
    """Those that ``settings`` name, and ``more``. Each that is missing is logged."""
    found = (*more, *enlisted(settings.policies))
    for one in found:
        if isinstance(one.policy, Missing):
            log.event("error", "policy-missing", policy=one.name, why=one.policy.why, growth=settings.on_unknown_policy)
    return Policies(found, metrics.policy_failed, Patience(settings.policy_timeout_s, clock).ask)


def notes(found: Policies) -> list[str]:
    """A note for ``/readyz`` about each that is missing."""
    return [f"policy {one.name}: {one.policy.why}" for one in found.all if isinstance(one.policy, Missing)]
