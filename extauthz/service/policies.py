"""The policies that one gate asks about all growth, as the settings name them, and those of them that run beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator

from extauthz.core.policies import Enlisted, Policies
from extauthz.core.quota.tree import QuotaTree
from extauthz.observe.log import Log
from extauthz.observe.metrics import Metrics
from extauthz.policies.live import Host, LivePolicy
from extauthz.policies.plugins import AGAIN_S, Missing, Patience, enlisted
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


def running(found: Policies, host: Host) -> list[Coroutine[None, None, None]]:
    """What those that run beside the gate do, until they are cancelled."""
    return [_running(name, policy, host) for name, policy in _live(found)]


async def _running(name: str, policy: LivePolicy, host: Host) -> None:
    """A policy that fails does not take the gate with it: it begins anew after a while."""
    while True:
        try:
            await policy.run(host)
            return
        except Exception as error:  # noqa: BLE001 (code of others)
            host.event("error", "policy-failed", policy=name, why=f"{type(error).__name__}: {error}")
        await asyncio.sleep(AGAIN_S)


def notes(found: Policies) -> list[str]:
    """Notes for ``/readyz``: of each that is missing, and what those that run have to say."""
    return [f"policy {name}: {note}" for name, policy in _live(found) for note in _notes(policy)]


def _notes(policy: LivePolicy) -> list[str]:
    try:
        return list(policy.notes())
    except Exception as error:  # noqa: BLE001 (code of others)
        return [f"its notes fail: {type(error).__name__}: {error}"]


def names(found: Policies, tree: QuotaTree) -> frozenset[str]:
    """Names of all policies that there are: plug-ins, and those of quotas."""
    of_quotas = (policy.name for node in tree.nodes for policy in node.quota.policies) if tree.has_policies else ()
    return frozenset((*(one.name for one in found.all), *of_quotas))


def levels(found: Policies) -> dict[tuple[str, ...], float]:
    """Numbers of those that run: policy, what is measured, and of what → how much."""
    return {(name, what, of): value for name, policy in _live(found) for (what, of), value in _levels(policy)}


def _levels(policy: LivePolicy) -> list[tuple[tuple[str, str], float]]:
    try:
        return list(policy.levels().items())
    except Exception:  # noqa: BLE001 (code of others: a scrape goes on without it)
        return []


def _live(found: Policies) -> Iterator[tuple[str, LivePolicy]]:
    return ((one.name, one.policy) for one in found.all if isinstance(one.policy, LivePolicy))
