"""Which revisions of a Knative Service matter now: those with traffic, and the newest one."""

from __future__ import annotations

from typing import NamedTuple

from extauthz.core.model import Tree
from extauthz.core.objects.fields import at
from extauthz.explain.objects import ExplainError, condition


class Revision(NamedTuple):
    """Its PodAutoscaler has the same name."""

    name: str
    role: str
    """What it is for, in words."""


def revisions(tree: Tree) -> list[Revision]:
    """In the order of the traffic.

    Raises:
        ExplainError: it has none yet.
    """
    found: dict[str, str] = {}
    for one in at(tree, "status", "traffic") or []:
        name = one.get("revisionName")
        if not name:
            continue
        share, tag = one.get("percent") or 0, one.get("tag")
        role = f"{share} % of the traffic" if share else f"tag {tag}" if tag else "no traffic"
        found[name] = f"{found[name]}, {role}" if name in found else role
    newest = at(tree, "status", "latestCreatedRevisionName")
    if newest and newest not in found:
        ready = newest == at(tree, "status", "latestReadyRevisionName")
        found[newest] = "the newest, no traffic" if ready else "the newest, not ready"
    if not found:
        said = condition(tree, "Ready")
        note = ": ".join(str(said[key]) for key in ("reason", "message") if said.get(key))
        raise ExplainError(f"ksvc/{tree['metadata']['name']} has no revision yet" + (f" ({note})" if note else ""))
    return [Revision(name, role) for name, role in found.items()]
