"""A quota gate between Kubernetes autoscalers and the API server. Start with ARCHITECTURE.md.

In: the writes that Envoy asks about, quotas, and what the cluster runs. Out: allow or refuse, with a reason; status,
events, metrics and a log.
"""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """That of the installed package, as ``pyproject.toml`` has it."""
    from importlib import metadata  # to look it up takes as long as Python takes to start

    return metadata.version("extauthz")
