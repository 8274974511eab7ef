"""An explanation as ``explain`` prints it: a text for people, or JSON whose fields are in ``docs/explain.md``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from extauthz.cli import tables
from extauthz.cli.report import wrapped
from extauthz.explain.answer import Answer
from extauthz.explain.changes import Change
from extauthz.explain.sentence import HOLDS, sentence
from extauthz.explain.specs import Scene


def shown(scene: Scene, answer: Answer, would: Sequence[Change], quota: dict[str, Any] | None) -> dict[str, Any]:
    """All fields; ``as_text`` prints of these."""
    status = scene.hpa.get("status") or {}
    denied = quota is not None and quota["decision"]["verdict"] != "allow"
    wants_more = answer.desired > answer.current
    return {
        "hpa": scene.hpa["metadata"]["name"],
        "namespace": scene.namespace,
        "workload": {"kind": scene.target.kind, "name": scene.target.name},
        "sentence": sentence(scene, answer, would) + _of_quota(quota, wants_more=wants_more, denied=denied),
        "outcome": answer.outcome,
        "held": answer.outcome in HOLDS or (wants_more and denied),
        "confidence": _confidence(certain=answer.certain),
        "currentReplicas": answer.current,
        "desiredReplicas": answer.desired,
        "tolerance": {"up": scene.band.up, "down": scene.band.down},
        "status": {name: status.get(name) for name in ("currentReplicas", "desiredReplicas")},
        "steps": [
            {
                "rule": step.rule,
                "text": step.text,
                "replicas": step.replicas,
                "confidence": _confidence(certain=step.certain),
            }
            for step in answer.steps
        ],
        "oneMore": [one._asdict() for one in would],
        "quota": quota,
    }


def as_text(found: dict[str, Any]) -> str:
    """The sentence, the steps, what would do, and what the quota says."""
    lines = [*wrapped(found["sentence"]), "", "step by step:"]
    for number, step in enumerate(found["steps"], 1):
        lines += _indented(f"{number}. {step['confidence']}: {step['text']}")
    if found["oneMore"]:
        lines += ["", "for one more replica, any of these:"]
        for one in found["oneMore"]:
            lines += _indented(f"- {one['text']}")
    if found["quota"] is not None:
        lines += ["", f"what the quota says to {_replicas(found['quota']['asked'])}:"]
        lines += _indented(found["quota"]["decision"]["sentence"])
    return "\n".join(lines) + "\n"


def _of_quota(quota: dict[str, Any] | None, *, wants_more: bool, denied: bool) -> str:
    if quota is None or not wants_more:
        return ""
    if not denied:
        return " The quota allows it."
    most = quota["headroom"]["replicas"]
    return " The quota does not allow it" + ("." if most is None else f": {_replicas(most)} at most.")


def _replicas(count: int) -> str:
    return f"{count} replica{'s' * (count != 1)}"


def _confidence(*, certain: bool) -> str:
    return "certain" if certain else "likely"


def _indented(text: str) -> list[str]:
    first, *more = wrapped(tables.printable(text), indent=5)
    return [f"  {first}", *(f"     {line}" for line in more)]
