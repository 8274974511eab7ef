"""Who is told of decisions, and when: once the answer has left, in the order in which they were made. And who asks the
gates about a quota: facts that are not in the ledger."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from extauthz.core.model import Decision, Growth
from extauthz.core.queries import Queries, QuotaUse
from extauthz.core.quota.spec import Mode
from extauthz.inputs.kube.webhooks import Webhooks

SHOWN = 5
"""Names in a sentence. The others are counted."""


class Serving(NamedTuple):
    """What all gates of a cluster have in common."""

    audits: bool = False
    """The gates themselves refuse nothing (``--mode audit``)."""
    webhooks: Webhooks | None = None
    """``None``: the gates have no webhook, or what it is asked about is not known."""
    unknown: str = ""
    """Why that is not known."""
    by_envoy: bool = True
    """Envoys may ask too: the gRPC server listens."""
    asked_to_lower: bool = False
    """Somebody has asked this gate to lower a count."""
    unreached: bool = False
    """The API server reaches no gate by the webhook."""

    def unasked(self, namespaces: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
        """Which of these namespaces the webhook is not asked about. Without a webhook, Envoys alone ask."""
        if self.webhooks is None or (self.webhooks.decides is None and self.by_envoy):
            return ()
        return self.webhooks.unasked(namespaces)

    @property
    def by_nobody(self) -> bool:
        """Nobody asks the gates about anything: no webhook configuration leads to them, and no Envoy can ask."""
        return self.webhooks is not None and self.webhooks.decides is None and not self.by_envoy

    def lowers(self, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether counts are lowered in all of these. Where that is not known: yes."""
        if self.unknown or (self.asked_to_lower and (self.by_envoy or self.webhooks is None)):
            return True
        webhooks = self.webhooks or Webhooks()
        return webhooks.lowers is not None and not webhooks.unlowered(namespaces)


def in_force(mode: Mode, serving: Serving, *, lowers: bool) -> Mode:
    """What is really done at the limit."""
    if serving.audits:
        return Mode.AUDIT
    return Mode.ENFORCE if mode is Mode.CLAMP and not lowers else mode


def named(names: tuple[str, ...]) -> str:
    """For a sentence."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def notes(queries: Queries, serving: Serving) -> list[str]:
    """Sentences for ``/readyz``."""
    found = [f"what the webhook is asked about is not known: {serving.unknown}"] if serving.unknown else []
    if next(queries.quotas(), None) is None:
        found.append("no quota is in force: nothing is limited")
    if serving.by_nobody:
        found.append("no webhook configuration leads to the gates: nothing is refused")
    plain = tuple(use.node.quota.name for use in _clamping(queries) if not serving.lowers(queries.selected(use)))
    if plain and not serving.audits:
        cure = "install the mutating webhook (webhook.clamp), or render Envoy with --clamp"
        found.append(
            f"mode Clamp of {named(plain)} refuses as Enforce does, because nobody asks to lower counts: {cure}"
        )
    return found


def _clamping(queries: Queries) -> Iterator[QuotaUse]:
    return (use for use in queries.quotas() if use.node.quota.mode is Mode.CLAMP)


class Report(NamedTuple):
    """A decision, or the answer to whether a count is lowered (``Lower``), as observers are told of it."""

    decision: Decision
    user: str = ""
    """Who sent it, as whoever asked vouches for it. Empty: not known."""
    user_agent: str = ""
    seconds: float = 0.0
    """What it took."""
    held: Growth | None = None
    """What a policy does not let go yet. It may be large: only policies look at it, and nobody keeps it."""


Observer: TypeAlias = Callable[[Report], None]
"""Must not block."""


class Observers:
    """Tells them. What waits is told at the latest by ``drain``, which a stop calls.

    Args:
        observers: told of each decision, in this order.
        tell: told of an observer that fails. The others are told all the same.
    """

    def __init__(self, observers: Sequence[Observer], tell: Callable[..., None]) -> None:
        self._observers = observers
        self._tell = tell
        self._waiting: list[Report] = []

    def put(self, told: Report) -> None:
        """Tell them later. A server writes its answer in this turn of the loop, or in the next one."""
        if not self._waiting:
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self.drain)
        self._waiting.append(told)

    def drain(self) -> None:
        """Tell them now of all that waits."""
        waiting, self._waiting = self._waiting, []
        for told in waiting:
            for observer in self._observers:
                try:
                    observer(told)
                except Exception:  # noqa: BLE001 (whatever it is, the write was answered, and others are to know)
                    self._tell("error", "observer-failed", id=told.decision.id, traceback=traceback.format_exc())
