"""What the gate does where it does not know, and its bounds (DESIGN rule 6). Each default is argued here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

OnUnknown: TypeAlias = Literal["deny", "allow"]


@dataclass(frozen=True, slots=True)
class Policy:
    """Failure is a policy: every kind of not knowing has a setting, and refuses by default.

    Allowing an unreadable write lets any client around the quota by spelling it oddly; allowing an unknown workload or
    footprint lets growth pass uncounted until it is observed; allowing while unsynced or on hold lets growth pass that
    nobody weighs at all. Allowing while a source is stale still weighs growth on what was known last: it can go over by
    what happened since.
    """

    on_unreadable: OnUnknown = "deny"
    on_unknown_workload: OnUnknown = "deny"
    on_unknown_footprint: OnUnknown = "deny"
    on_unsynced: OnUnknown = "deny"
    on_stale: OnUnknown = "deny"
    window_s: float = 135.0
    """W: how long after its decision an allowed write may still land (DESIGN §6.3e).

    The sum of Envoy's ext_authz timeout (2 s), its route timeout for writes (65 s), the API server's request timeout
    (60 s, ``--request-timeout``) and 8 s for etcd and the clocks.
    """
    max_intents_per_workload: int = 256
    """An autoscaler that writes every 2 s, as Knative's may, stays below it for W."""
    max_intents_per_source: int = 10_000
    """A tenth of ``max_intents``, so that no client by itself can use those up. An autoscaler at 50 writes a second,
    the default limit of a controller's client, has 6,750 under way within W even if no answer is ever learnt."""
    max_intents: int = 100_000
    """A bound of memory: about 1 KiB each."""
