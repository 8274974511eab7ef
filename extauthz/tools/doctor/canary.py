"""Does a scale write really come to the gate? Two dry runs are sent on the autoscaler's path. They change nothing.

The gate puts the decision's id into a header of each refusal. What it allows has no such header: only Envoy's own
counters show it. So the first canary asks for more than any quota has. The second has a body that nobody can read: the
gate refuses it where a quota may cover it (setting ``allow-unknown``), and so does the API server. Neither needs a
valid token: Envoy asks the gate before the API server looks at the token.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from . import table
from .table import Row, fail, ok, skipped, warn

NAME = "canary"
MOST = 2**31 - 1
"""The largest ``spec.replicas`` (an int32)."""

MEDIA = "application/merge-patch+json"
BODIES: tuple[bytes, ...] = (b'{"spec":{"replicas":%d}}' % MOST, b"{")
"""More than any quota has, and a body that nobody can read."""

PASSED = (
    "name with --canary a Deployment that a quota covers; if there is none, or it only audits, nothing is held back"
)
NOT_IN_THE_WAY = (
    "see the rows above, with --admin or --config-dump; if no quota covers these, or it only"
    " audits, only --admin can tell"
)


class Canary(NamedTuple):
    """A write that can change nothing."""

    namespace: str
    name: str
    """Of the Deployment."""
    body: bytes

    @property
    def target(self) -> str:
        """Path and query. Nothing of it is ever kept: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run"""
        namespace, name = quote(self.namespace, safe=""), quote(self.name, safe="")
        return f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale?dryRun=All"


class CanaryReply(NamedTuple):
    """What came back. ``status`` 0: nothing did, ``message`` says why."""

    status: int
    decision_id: str = ""
    """Of the gate's header; empty without it."""
    message: str = ""
    is_lowered: bool = False
    """It would be stored with a lower count than was asked for (mode Clamp)."""


def row(asked: list[str], answers: list[CanaryReply], counted: int | None) -> Row:
    """The verdict.

    Args:
        asked: about which Deployments, the last one being the one that was decided, if one was.
        answers: to ``BODIES`` for each of them, in order, up to the first that has a decision; empty: not asked.
        counted: by how many decisions Envoy's ``ext_authz`` counters (ok, denied) grew meanwhile; ``None``: not known.
    """
    if not answers:
        return skipped(NAME, "no scale write was tried", "--url and --ca")
    last = answers[-1]
    if last.decision_id:
        return ok(NAME, f"a dry run on {asked[-1]} was decided ({last.status}, decision {last.decision_id})")
    if last.status == 0:
        return fail(NAME, f"a dry run ({asked[-1]}) got no answer: {last.message}", "see the row trust")
    if any(table.OUTAGE in each.message for each in answers):
        return fail(NAME, f"Envoy asks, but the gate gives no answer ({last.status})", "see the row gate reachable")
    came = f"dry runs on {', '.join(asked)} ({', '.join(dict.fromkeys(str(each.status) for each in answers))})"
    if counted is not None and counted >= len(answers):
        return warn(NAME, f"{came} all passed; Envoy counted {counted} decisions meanwhile", PASSED)
    return fail(NAME, f"{came} came back with no decision header: not gated", NOT_IN_THE_WAY)
