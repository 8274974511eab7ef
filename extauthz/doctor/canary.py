"""Does a scale write really come to the gate? Two that can change nothing are sent the way an autoscaler's go.

The gate puts its decision's id into a header of each refusal; what it allows has none. So the first asks, as a dry run,
for more than any quota holds; the second has a body that nobody can read, which the gate refuses unless it is set not
to (``--on-unreadable``), and the API server too. What was allowed, only Envoy's own counters tell. Neither needs a
token: the gate is asked before the API server looks at one.
"""

from __future__ import annotations

from typing import NamedTuple

from . import names
from .rows import Row, fail, ok, skipped, warn

NAME = "canary"
MOST = 2**31 - 1
"""The largest ``spec.replicas`` (an int32)."""

MEDIA = "application/merge-patch+json"
BODIES: tuple[bytes, ...] = (b'{"spec":{"replicas":%d}}' % MOST, b"{")
"""More than any quota holds, and what nobody can read."""

NOT_IN_THE_WAY = (
    "the gate is not in the way: see the rows above with --admin or --config-dump; where everything is only audited, or"
    " what cannot be read is let pass, only --admin can tell"
)


class Answer(NamedTuple):
    """What came back. ``status`` 0: nothing did, ``message`` says why."""

    status: int
    decision_id: str = ""
    """Of the gate's header; empty without it."""
    message: str = ""
    took_s: float = 0.0


def target(namespace: str, name: str) -> str:
    """Path and query. Nothing of it is ever kept: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run"""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale?dryRun=All"


def row(workload: str, answers: list[Answer], counted: int | None) -> Row:
    """The verdict.

    Args:
        workload: which was asked about.
        answers: to ``BODIES``, in order, up to the first that has a decision; empty: not asked.
        counted: by how many decisions Envoy's ``ext_authz`` counters (ok, denied) grew meanwhile; ``None``: not known.
    """
    if not answers:
        return skipped(NAME, "no scale write was tried", "--url and --ca")
    last = answers[-1]
    if last.decision_id:
        return ok(NAME, f"a dry run on {workload} was decided ({last.status}, decision {last.decision_id})")
    if last.status == 0:
        return fail(NAME, f"a dry run on {workload} got no answer: {last.message}", "see the row trust")
    if any(names.OUTAGE in each.message for each in answers):
        return fail(NAME, f"Envoy asks, but the gate gives no answer ({last.status})", "see the row gate reachable")
    came = ", ".join(str(each.status) for each in answers)
    if counted is not None and counted >= len(answers):
        found = f"dry runs on {workload} all passed ({came}); Envoy counted {counted} decisions meanwhile"
        return warn(
            NAME,
            found,
            "set the gate or the quota from audit to enforce, and --on-unreadable to deny; until then no quota holds",
        )
    return fail(NAME, f"dry runs on {workload} came back with no decision header ({came}): not gated", NOT_IN_THE_WAY)
