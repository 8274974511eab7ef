"""What the gate does if something is not known, and its bounds (design.md rule 6). Each default has its reason
here."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from extauthz.core.model import OnUnknown, Requester, Unknown

if TYPE_CHECKING:
    from extauthz.core.quota.tree import QuotaNode

GateMode: TypeAlias = Literal["enforce", "audit"]

Objects: TypeAlias = Literal["webhook", "refuse", "observe"]


@dataclass(frozen=True)
class Policy:
    """Failure is a policy: every kind of not knowing has a setting, and refuses by default.

    Allowing an unreadable write lets any client around the quota by spelling it oddly; allowing an unknown workload or
    footprint lets growth pass uncounted until it is observed; allowing while unsynced or on hold lets growth pass that
    nobody weighs at all. Allowing while a source is stale still weighs growth on what was known last: it can go over by
    what happened since. Allowed pods that do not say what they need of what a quota limits cost nothing of it, however
    many. Where a policy may fail, whoever makes it fail is free of it; quotas hold.
    """

    mode: GateMode = "enforce"
    """``audit``: decide in full, report what the answer would have been, allow everything, and charge what is
    observed."""
    objects: Objects = "refuse"
    """Writes at Envoy that may change more than a replica count (design.md rule 15). ``webhook``: they pass, as a
    webhook of the same ledger decides them; ``observe``: they pass, and count once they are observed."""
    allows: Set[Unknown] = frozenset()
    """What passes although it is not known, unless a quota says otherwise."""
    charge_surge: bool = False
    """Charge beforehand the pods that a rollout adds for a while (``maxSurge``). Off, as ResourceQuota counts no pod
    before it is there, and a full workspace could not keep what it has; on, no rollout takes a workspace above a limit.
    """
    window_s: float = 135.0
    """The landing window: how long after its decision an allowed write may still land (design.md L3).

    The sum of Envoy's ext_authz timeout (2 s), its route timeout for writes (65 s), the API server's request timeout
    (60 s, ``--request-timeout``) and 8 s for etcd and the clocks.
    """
    admitted_window_s: float | None = None
    """The same of what the webhook alone admits, which passes no Envoy: the API server's request timeout and a margin.
    ``None``: ``window_s``."""
    max_intents_per_workload: int = 256
    """Of different effects: identical retries count once. An autoscaler asks for few counts in a landing window."""
    max_intents_per_source: int = 10_000
    """A tenth of ``max_intents``, so that no client by itself can use those up. An autoscaler at 50 writes a second,
    the default limit of a controller's client, has 6,750 under way in a landing window even if no answer is ever
    learnt."""
    max_intents_per_tree: int = 10_000
    """The same for a root quota and all quotas below it: a flood in one workspace leaves room for the others."""
    max_intents: int = 100_000
    """It bounds memory: about 1 KiB each."""

    @cached_property
    def for_admitted_s(self) -> float:
        """How long after its decision an object that the webhook has admitted may still be stored."""
        return min(self.window_s, self.admitted_window_s or self.window_s)

    def on(self, unknown: Unknown, nodes: Iterable[QuotaNode] = (), requester: Requester | None = None) -> OnUnknown:
        """What to do about a write that concerns the quotas ``nodes``; empty: it is not known which quotas it concerns.

        Each of them has a say, as each must have room. It answers with its own field, else with that of its nearest
        ancestor that has one, else with the setting. A quota that only audits, or does not bind the requester, refuses
        nothing. Where all only audit, this is what they would do: the gate allows it.
        """
        default: OnUnknown = "allow" if unknown in self.allows else "deny"
        concerned = tuple(nodes)
        audits = all(node.audits for node in concerned)
        said = {(n.on_unknown(unknown) or default) if audits or n.binds(requester) else "allow" for n in concerned}
        return "deny" if "deny" in (said or {default}) else "allow"
