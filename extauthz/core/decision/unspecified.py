"""What is not asked for is not free (design.md rule 12).

A pod that does not say what it needs of CPU or memory costs none of it, however many there are. So where a quota limits
it, every container has to say it, as ResourceQuota demands (``Constraints`` in
``pkg/quota/v1/evaluator/core/pods.go``). Only more of such pods are refused: those that are there stay, and may shrink.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extauthz.core import texts
from extauthz.core.decision import sentences
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.footprint import FootprintError
from extauthz.core.model import Decision, Template, Unknown, Unspecified, Verdict
from extauthz.core.quota.tree import QuotaNode

REASON = "must-specify"

MAX_CONTAINERS = 8
"""Names in a sentence, for each resource."""


def refused(asked: Evaluation) -> Decision | None:
    """Step: there would be more pods that do not say what they need of what a quota limits."""
    found = asked.proposal.growth.unspecified
    if not found:
        return None
    named = _containers(asked)
    rows = [
        Unspecified(node.quota.name, node.path, key, named[key], node.audits)
        for node, key in found
        if key in named and (node.audits or _denies(asked, node))
    ]
    refusing = [row for row in rows if not row.audits]
    if not refusing:
        asked.unspecified = tuple(rows)
        return None
    sentence = sentences.must_specify(asked.write.ref, refusing)
    answer = asked.answer(
        Verdict.DENY, REASON, sentence, asked.pending_write.replicas, audit=asked.proposal.growth.audit
    )
    return answer._replace(unspecified=tuple(rows))


def _denies(asked: Evaluation, node: QuotaNode) -> bool:
    return asked.policy.on(Unknown.UNSPECIFIED, (node,), asked.requester) == "deny"


def _containers(asked: Evaluation) -> Mapping[str, tuple[str, ...]]:
    """By resource, the names of containers that say nothing of it: the first few."""
    found: dict[str, set[str]] = {}
    for template in _templates(asked):
        try:
            silent = asked.state.ledger.pod_costs.unspecified(asked.ref.namespace, template)
        except FootprintError:
            continue
        for key, names in silent.items():
            found.setdefault(key, set()).update(names)
    return {key: tuple(map(_short, sorted(names)[:MAX_CONTAINERS])) for key, names in found.items()}


def _short(name: str) -> str:
    return texts.cut(name, texts.MAX_NAME)


def _templates(asked: Evaluation) -> Iterable[Template]:
    """The one that it brings; of a count those that it may multiply.

    Of each write the first: server-side apply may also leave less, as its manager owned what it leaves out, and nobody
    can tell. Were that enough, every apply of something else would be refused. What it does leave is seen afterwards.
    """
    if asked.pending_write.templates:
        return asked.pending_write.templates[:1]
    entry = asked.proposal.entry
    shown = [entry.shown.template] if entry.shown is not None and entry.shown.template is not None else []
    return [
        *shown,
        *(pending_write.templates[0] for pending_write in entry.live_pending_writes() if pending_write.templates),
    ]
