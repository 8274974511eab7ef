"""How many replicas a workload may have, and what stands in the way of one more: ``check`` without ``--replicas``."""

from __future__ import annotations

from typing import Any

from extauthz.cli import report
from extauthz.serve.servers.api import shown


def _within(found: dict[str, Any], count: int) -> str:
    """Of what it may have more, how much nobody else can get."""
    guaranteed = found["guaranteedReplicas"]
    if guaranteed is None or found["replicas"] <= count:
        return ""
    return f": {found['replicas'] - count} more, {max(guaranteed - count, 0)} of them within its guarantee"


def _of(found: dict[str, Any]) -> str:
    """What its autoscaler may ask for, where not all of that fits."""
    asks = found["mayAskFor"]
    return f" of the {asks} that its autoscaler may ask for" if asks is not None and asks > found["replicas"] else ""


def as_text(found: dict[str, Any]) -> str:
    """A sentence or two, and the evidence."""
    return f"{sentence(found)}\n{evidence(found)}"


def sentence(found: dict[str, Any]) -> str:
    """What it has and may have."""
    has = f"{found['resource']} {found['namespace']}/{found['name']} {shown.has(found)}"
    if found["replicas"] is None:
        return f"{has}, and no quota sets a bound."
    return f"{has} and {shown.may(found)}{_of(found)}{_within(found, found['observedReplicas'])}."


def evidence(found: dict[str, Any]) -> str:
    """What stands in the way of more, in paragraphs of their own; empty: nothing does."""
    lines = _bound(found) if found["replicas"] is not None else []
    if (short := found["auditBound"]) is not None:
        limit = f"{short['resource']}: used {short['used']}, hard {short['hard']}"
        who = f"{'/'.join(short['path'])}, in mode Audit, refuses nothing and"
        lines += ["", f"{who} would allow {found['auditReplicas']} ({limit})."]
    if not found["certain"]:
        why = found["sentence"] or "Not all that this rests on is known"
        lines += ["", f"Growth may be refused all the same: {why} (docs/modes.md)."]
    return "".join(f"{line}\n" for line in lines)


def _bound(found: dict[str, Any]) -> list[str]:
    """What stands in the way of one more: a quota without room; else whatever refuses it, in its own sentence."""
    bound, said = found["bound"], found["sentence"]
    if bound is None:
        return ["", *report.wrapped(said)] if said is not None and found["certain"] else []
    names = report.amounts(bound["kept"] != "0")
    head = ("quota", "resource", *names)
    row = ("/".join(bound["path"]), bound["resource"], *(bound[name] for name in names))
    return ["", f"{shown.one_more(found)}:", *report.lines([head, row], "  ")]
