"""What the status of a WorkspaceQuota says, as a pure function of what the gate knows of it.

Conditions are as ``metav1.Condition`` wants them (``k8s.io/apimachinery/pkg/apis/meta/v1/types.go``), and of positive
polarity: where all are True, nobody needs to look.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from extauthz.core import quantities
from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.model import Amounts, Tree
from extauthz.core.quota.overrides import Override
from extauthz.core.quota.problems import Fault, Standing
from extauthz.core.quota.spec import Mode
from extauthz.tell.observe.autoscalers import NeverFits
from extauthz.tell.observe.observers import Serving, in_force, named

MAX_MESSAGE = 4096
"""Characters of a condition's message. ``metav1.Condition`` allows 32,768; a person reads a few lines."""

MAX_SUMMARY = 256
"""Characters of one cell of ``kubectl get``, as in the schema of the summary."""


READY = "Ready"
"""The condition that says whether a quota is in force as it is written."""

HEARTBEAT = "lastHeartbeatTime"
"""The field that says when a gate last wrote the status, as a Node's conditions have it."""

HAS_HEADROOM = "HasHeadroom"
"""The condition that says whether what autoscalers may ask for can ever fit."""

NEVER_FITS = "neverFits"
"""The field of a status with autoscalers whose maximum never fits."""

MOST_NEVER_FIT = 16
"""Autoscalers that a status names."""

MOST_SENTENCES = 4
"""The same of those of which it has the sentence."""

WITHIN_HARD = "WithinHard"
"""The condition that says whether a quota is over a limit."""

MODE_IN_FORCE = "ModeInForce"
"""The condition that says whether its mode is what is done."""


class Finding(NamedTuple):
    """Whether a condition holds."""

    status: str
    """``True``, ``False`` or ``Unknown``."""
    reason: str
    message: str


class Selected(Enum):
    """Whom the selectors of a quota find."""

    WORKLOADS = Finding("True", "Selecting", "there are workloads that count")
    LABELLED_WORKLOADS = Finding(
        "True",
        "Selecting",
        "workloads with the labels of spec.workloadSelector count; what has others, or none, has no limit here, and "
        "whoever may write a workload may set its labels",
    )
    BELOW = Finding("True", "Selecting", "workloads of the quotas below it count, and nothing else")
    NO_WORKLOAD = Finding("False", "NoWorkloads", "there is no workload yet in the namespaces that it selects")
    NO_LABELLED_WORKLOAD = Finding(
        "False",
        "SelectsNothing",
        "spec.workloadSelector matches no workload in the namespaces that spec.namespaceSelector selects; it looks at "
        "the labels of the workload itself, not of its pods",
    )
    NO_NAMESPACE = Finding(
        "False",
        "SelectsNothing",
        "spec.namespaceSelector matches the labels of no namespace; label one, or correct the selector",
    )
    CHILDREN = Finding("False", "NoWorkloads", "no workload counts against the quotas below it yet")
    NOBODY = Finding(
        "False",
        "SelectsNothing",
        "no namespace has the label workspace with its name as value, and it is nobody's parent, so that it limits "
        "nothing; label one, write spec.namespaceSelector, or name it as the parent of another",
    )


class Facts(NamedTuple):
    """All that the status of one quota depends on."""

    standing: Standing
    rows: Sequence[UsageRow] = ()
    """Of the spec in force."""
    mode: Mode = Mode.CLAMP
    above_parent: tuple[str, ...] = ()
    """A sentence for each limit above the parent's."""
    selected: Selected = Selected.WORKLOADS
    unpriced: int = 0
    """Workloads whose cost is not known."""
    serving: Serving = Serving()
    unasked: tuple[str, ...] = ()
    """Namespaces that it covers and that the webhook is not asked about."""
    lowers: bool = True
    """Something lowers counts in all its namespaces."""
    kept_by_nobody: tuple[str, ...] = ()
    """A sentence for each guarantee of what no quota above limits."""
    promised: Amounts = MappingProxyType({})
    """What quotas below are guaranteed together, nano-units."""
    override: Override | None = None
    """Other amounts that are in force."""
    next_override: Override | None = None
    """Those that begin next."""
    never_fit: Sequence[NeverFits] = ()
    """Autoscalers that may ask for more than it can ever give."""
    hold_s: int | None = None
    """For how long the gates grant no growth yet; ``None``: they do."""


def _ready(facts: Facts) -> Finding:
    standing = facts.standing
    if standing.fault is not None:
        return Finding("False", standing.fault, f"{standing.why}; {_meanwhile(standing)}")
    if (asked := _asked(facts)).status == "False":
        return Finding("False", _NOT_ASKED, asked.message)
    mode = in_force(facts.mode, facts.serving, lowers=_lowers(facts))
    if facts.hold_s is not None and mode is not Mode.AUDIT:
        left = f"{facts.hold_s} s" if facts.hold_s else "a little longer"
        return Finding("Unknown", ON_HOLD, f"no growth is granted for {left}: writes allowed before may still land")
    return Finding("True", "InForce", _IN_FORCE[mode])


_IN_FORCE: Mapping[Mode, str] = {
    Mode.ENFORCE: "the limits are in force as they are written",
    Mode.CLAMP: "the limits are in force as they are written: a count is lowered to what fits",
    Mode.AUDIT: "the limits are only audited: nothing is refused for them, and what would be is told",
}


def _meanwhile(standing: Standing) -> str:
    if standing.fault is Fault.NO_EFFECT:
        return "all else of it is in force"
    if standing.fault is not Fault.INVALID:
        return "until then it is enforced by itself, without a parent"
    if standing.in_force is None:
        return "until then nothing that it covers may grow"
    return f"until then the limits of generation {standing.in_force} stay in force"


def _within_parent(facts: Facts) -> Finding:
    if facts.above_parent:
        return Finding("False", "AboveParent", "; ".join(facts.above_parent))
    return Finding("True", "WithinParent", "no limit is above the parent's")


def _within_hard(facts: Facts) -> Finding:
    over = [row for row in facts.rows if row.used > row.hard]
    if not over:
        return Finding("True", "WithinHard", "nothing is used beyond a limit")
    amounts = ", ".join(f"{row.resource}: used {_text(row, row.used)}, hard {_text(row, row.hard)}" for row in over)
    if facts.mode is Mode.AUDIT:
        return Finding("False", "OverLimit", f"{amounts}; its mode is Audit, so that growth is not refused")
    return Finding("False", "OverLimit", f"{amounts}; nothing that needs more of it may grow, shrinking may always")


def _has_headroom(facts: Facts) -> Finding:
    if facts.never_fit:
        said = "; ".join(f"{one.name}: {one.sentence}" for one in facts.never_fit[:MOST_SENTENCES])
        more = len(facts.never_fit) - MOST_SENTENCES
        return Finding("False", "NeverFits", said + (f"; and {more} more" if more > 0 else ""))
    return Finding("True", "Headroom", "no autoscaler is known whose maximum never fits")


def _guarantees_kept(facts: Facts) -> Finding:
    if facts.kept_by_nobody:
        return Finding("False", "NothingKept", "; ".join(facts.kept_by_nobody))
    rows = facts.rows if facts.mode is not Mode.AUDIT else ()
    above = [
        f"{row.resource}: guaranteed below {_text(row, facts.promised[row.resource])}, hard {_text(row, row.hard)}"
        for row in rows
        if facts.promised.get(row.resource, 0) > row.hard
    ]
    if above:
        return Finding("False", "Overpromised", f"{', '.join(above)}; lower some of these, or raise the limit")
    short = [
        f"{row.resource}: kept {_text(row, row.kept)}, left {_text(row, max(row.hard - row.used - row.reserved, 0))}"
        for row in rows
        if row.kept and row.used + row.reserved + row.kept > row.hard
    ]
    if short:
        why = "others had it before; it comes back as they shrink, and until then they do not grow"
        return Finding("False", "NotYetKept", f"{', '.join(short)}; {why}")
    return Finding("True", "Kept", "there is room for what the quotas below are guaranteed")


def _usage_known(facts: Facts) -> Finding:
    if not facts.unpriced:
        return Finding("True", "Priced", "what each workload costs is known")
    some = "1 workload has" if facts.unpriced == 1 else f"{facts.unpriced} workloads have"
    cure = "declare where its kind has its pod template, or take it out of the selectors"
    return Finding("False", "UnknownFootprint", f"{some} no known cost, and what is used cannot be told; {cure}")


_NOT_ASKED = "NotAsked"
_NOT_REACHED = "NotReached"
NOT_KNOWN = "NotKnown"
ON_HOLD = "OnHold"
_BY_ENVOY = "somebody asks to lower counts"
"""Said for good: it is seen by the gate that is asked, and by no other."""


def _asked(facts: Facts) -> Finding:
    serving = facts.serving
    if serving.unknown:
        return Finding("Unknown", NOT_KNOWN, f"what the webhook is asked about cannot be read: {serving.unknown}")
    if serving.by_nobody:
        cure = "apply what `extauthz render webhook` prints, or set webhook.enabled of the chart"
        return Finding("False", "NoWebhook", f"no webhook configuration leads to the gates, and growth passes; {cure}")
    if facts.unasked:
        cure = "label them as namespaceSelector of the webhook selects, or change that (webhook.namespaceSelector)"
        some = (
            f"the webhook is not asked about {named(facts.unasked)}, so that growth there passes and is only observed"
        )
        return Finding("False", _NOT_ASKED, f"{some}; {cure}")
    if serving.unreached:
        return Finding(
            "False", _NOT_REACHED, "the API server reaches no gate: see why by `extauthz doctor --kubeconfig`"
        )
    said = "the gates are asked about all that it covers, as far as they can know"
    return Finding("True", "Asked", said + _unanswered(serving))


def _unanswered(serving: Serving) -> str:
    if serving.webhooks is None or serving.webhooks.decides is None:
        return ""
    policy = serving.webhooks.unanswered
    what = "passes" if policy == "Ignore" else "is refused"
    return f"; while none answers, growth there {what} (failurePolicy {policy})"


def _lowers(facts: Facts) -> bool:
    """An Envoy that asks is known to one gate. What that gate has once said, the others believe."""
    return facts.lowers or (facts.serving.by_envoy and _said_of_mode(facts) == _BY_ENVOY)


def _said_of_mode(facts: Facts) -> str:
    there = json.loads(facts.standing.status).get("conditions", ())
    return next((str(one.get("message")) for one in there if one.get("type") == MODE_IN_FORCE), "")


def _mode(facts: Facts) -> str:
    """What is done at the limit, for ``kubectl get``."""
    mode = in_force(facts.mode, facts.serving, lowers=_lowers(facts))
    return _NOT_ASKED if facts.serving.by_nobody else str(mode)


def _mode_in_force(facts: Facts) -> Finding:
    mode, serving = facts.mode, facts.serving
    if serving.by_nobody:
        return Finding("False", _NOT_ASKED, "nobody asks the gates: growth passes, and is only observed")
    if serving.audits and mode is not Mode.AUDIT:
        return Finding("False", "GateAudits", "the gates run with mode audit: nothing is refused; set mode to enforce")
    if mode is not Mode.CLAMP:
        return Finding("True", "InForce", f"it is {mode}")
    if serving.unknown:
        return Finding("Unknown", NOT_KNOWN, f"whether a webhook lowers counts cannot be read: {serving.unknown}")
    if not _lowers(facts):
        cure = "install the mutating webhook (webhook.clamp of the chart, `extauthz render webhook`)"
        more = ", or render Envoy with --clamp" if serving.by_envoy else ""
        some = "nobody asks to lower counts in all its namespaces: what does not fit is refused, as in mode Enforce"
        return Finding("False", "NothingLowers", f"{some}; {cure}{more}")
    by_webhook = serving.webhooks is not None and serving.webhooks.lowers is not None
    return Finding("True", "InForce", "a webhook lowers counts" if by_webhook else _BY_ENVOY)


CONDITIONS: Mapping[str, Callable[[Facts], Finding]] = {
    READY: _ready,
    "WithinParent": _within_parent,
    "SelectsWorkloads": lambda facts: facts.selected.value,
    WITHIN_HARD: _within_hard,
    HAS_HEADROOM: _has_headroom,
    "GuaranteesKept": _guarantees_kept,
    "UsageKnown": _usage_known,
    "Asked": _asked,
    MODE_IN_FORCE: _mode_in_force,
}
"""By the types of conditions. ``docs/status.md`` says what each reason means."""

_NOT_IN_FORCE = Finding("Unknown", "NotInForce", "no limit of it is in force")


def status_of(facts: Facts, now: str) -> Tree:
    """The whole status, without what is empty: of a map that had members and is applied as an empty one, the API server
    makes null, and refuses it. A condition whose status is as before keeps its ``lastTransitionTime``; else that is
    ``now``.

    Args:
        now: RFC 3339, in UTC, to the second.
    """
    before = {one["type"]: one for one in json.loads(facts.standing.status).get("conditions", ())}
    return _filled(
        {
            "observedGeneration": facts.standing.generation,
            HEARTBEAT: now,
            "mode": _mode(facts) if facts.standing.in_force is not None else "",
            "hard": {row.resource: _text(row, row.hard) for row in facts.rows},
            "used": {row.resource: _text(row, row.used) for row in facts.rows},
            "reserved": {row.resource: _text(row, row.reserved) for row in facts.rows if row.reserved},
            "guaranteed": {row.resource: _text(row, row.guaranteed) for row in facts.rows if row.guaranteed},
            "kept": {row.resource: _text(row, row.kept) for row in facts.rows if row.kept},
            "override": facts.override and facts.override.told(ends=True),
            "nextOverride": facts.next_override and facts.next_override.told(ends=False),
            NEVER_FITS: {one.name: one.share for one in facts.never_fit[:MOST_NEVER_FIT]},
            "summary": _summary(facts.rows),
            "conditions": [_condition(one, facts, before.get(one, {}), now) for one in CONDITIONS],
        }
    )


def _filled(status: Tree) -> Tree:
    return {key: value for key, value in status.items() if value not in ({}, "", None)}


def same(status: Tree, seen: bytes) -> bool:
    """Whether what is ours in the ``seen`` status (``standing.compact``) is this, but for the heartbeat. Others may
    have added conditions."""
    there = json.loads(seen)
    there["conditions"] = [one for one in there.get("conditions", ()) if one.get("type") in CONDITIONS]
    return bool(_filled({**there, HEARTBEAT: status[HEARTBEAT]}) == status)


def last_written(seen: bytes) -> str:
    """When a gate last wrote this status; empty: none has."""
    return str(json.loads(seen).get(HEARTBEAT, ""))


def _condition(kind: str, facts: Facts, before: Tree, now: str) -> Tree:
    in_force = facts.standing.in_force is not None or kind == READY
    found = CONDITIONS[kind](facts) if in_force else _NOT_IN_FORCE
    return {
        "type": kind,
        "status": found.status,
        "observedGeneration": facts.standing.generation,
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == found.status else now,
        "reason": str(found.reason),
        "message": cut(found.message, MAX_MESSAGE),
    }


def cut(text: str, most: int) -> str:
    """At most so many bytes of UTF-8, as Go counts, ending in an ellipsis where some were cut off."""
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    return encoded[: most - 3].decode(errors="ignore") + "…"


# The summary: what `kubectl get` shows in a column each.


def _summary(rows: Sequence[UsageRow]) -> dict[str, str]:
    cells = {column: cut(", ".join(find(rows)), MAX_SUMMARY) for column, find in _COLUMNS.items()}
    return {column: text for column, text in cells.items() if text}


def _first(*keys: str) -> Callable[[Sequence[UsageRow]], Iterator[str]]:
    def find(rows: Sequence[UsageRow]) -> Iterator[str]:
        by_key = {row.resource: row for row in rows}
        for key in keys:
            if key in by_key:
                yield _fraction(by_key[key])
                return

    return find


def _accelerators(rows: Sequence[UsageRow]) -> Iterator[str]:
    """Extended resources that are GPUs by their names; where there are several kinds, with their names."""
    found = [row for row in rows if row.resource.startswith("requests.") and _is_gpu(row.resource)]
    for row in found:
        name = f"{row.resource.removeprefix('requests.')}: " if len(found) > 1 else ""
        yield name + _fraction(row)


def _is_gpu(key: str) -> bool:
    """As ``nvidia.com/gpu``, ``amd.com/gpu``, ``gpu.intel.com/i915`` and ``nvidia.com/mig-1g.5gb`` are."""
    return "/" in key and ("gpu" in key or "nvidia.com/mig-" in key)


_COLUMNS: Mapping[str, Callable[[Sequence[UsageRow]], Iterator[str]]] = {
    "cpu": _first("requests.cpu", "limits.cpu"),
    "memory": _first("requests.memory", "limits.memory"),
    "gpu": _accelerators,
    "pods": _first("pods", "count/pods"),
    "storage": _first("requests.storage"),
}


def _fraction(row: UsageRow) -> str:
    return f"{_text(row, row.used)}/{_text(row, row.hard)}"


def _text(row: UsageRow, amount: int) -> str:
    return quantities.format(amount, row.resource)
