"""An explanation as ``explain`` prints it: a text for people, or JSON whose fields are in ``docs/explain.md``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from extauthz.cli import report
from extauthz.cli.report import wrapped
from extauthz.core.model import Tree
from extauthz.explain import by_quota, refused, when
from extauthz.explain.answer import Answer, Change, Step, replicas
from extauthz.explain.sentence import HOLDS, sentence
from extauthz.explain.specs import Scene

Json = dict[str, Any]


def shown(scene: Scene, answer: Answer, would: Sequence[Change], quota: Json | None) -> Json:
    """All fields of an HPA; ``as_text`` prints of these."""
    status = scene.hpa.get("status") or {}
    wants_more = answer.desired > answer.current
    return {
        "hpa": scene.hpa["metadata"]["name"],
        "namespace": scene.namespace,
        "workload": {"kind": scene.target.kind, "name": scene.target.name},
        "sentence": sentence(scene, answer, would) + _by_quota(answer, quota),
        "outcome": answer.outcome,
        "held": answer.outcome in HOLDS or (wants_more and by_quota.is_denied(quota)),
        "confidence": confidence(certain=answer.certain),
        "currentReplicas": answer.current,
        "desiredReplicas": answer.desired,
        "tolerance": {"up": scene.band.up, "down": scene.band.down},
        "status": {name: status.get(name) for name in ("currentReplicas", "desiredReplicas")},
        "when": when.of_hpa(scene, answer)._asdict(),
        "steps": steps(answer.steps),
        "oneMore": [one._asdict() for one in would],
        "quota": quota,
    }


def _by_quota(answer: Answer, quota: Json | None) -> str:
    was_refused = answer.outcome == refused.OUTCOME
    return by_quota.sentence(quota, wants_more=answer.desired > answer.current, was_refused=was_refused)


def only_said(kind: str, tree: Tree, told: Sequence[Step]) -> Json:
    """Of an autoscaler whose target is not there: what its controller says."""
    ref, status = tree["spec"]["scaleTargetRef"], tree.get("status") or {}
    name, count = tree["metadata"]["name"], status.get("currentReplicas")
    target_kind = ref.get("kind") or "Deployment"
    return {
        "hpa": None,
        kind: name,
        "namespace": tree["metadata"].get("namespace", "default"),
        "workload": {"kind": target_kind, "name": ref["name"]},
        "sentence": f"{kind.lower()}/{name} scales nothing: {'; '.join(one.text for one in told)}.",
        "outcome": "failed",
        "held": True,
        "confidence": confidence(certain=all(one.certain for one in told)),
        "currentReplicas": count,
        "desiredReplicas": count,
        "tolerance": None,
        "status": {each: status.get(each) for each in ("currentReplicas", "desiredReplicas")},
        "when": None,
        "steps": steps(told),
        "oneMore": [],
        "quota": None,
    }


def steps(found: Sequence[Step]) -> list[Json]:
    return [
        {
            "rule": step.rule,
            "text": step.text,
            "replicas": step.replicas,
            "confidence": confidence(certain=step.certain),
        }
        for step in found
    ]


def as_text(found: Json) -> str:
    """The sentence, the steps, what would do, and what the quota says."""
    lines = [*wrapped(found["sentence"]), ""]
    if found.get("when") is not None:
        lines += [*wrapped(f"When: {found['when']['text']}."), ""]
    lines.append("step by step:")
    for number, step in enumerate(found["steps"], 1):
        lines += _indented(f"{number}. {step['confidence']}: {step['text']}")
    if found["oneMore"]:
        lines += ["", by_quota.heading([one["kind"] for one in found["oneMore"]])]
        for one in found["oneMore"]:
            lines += _indented(f"- {one['text']}")
    if found["quota"] is not None:
        lines += ["", f"what the quota says to {replicas(found['quota']['asked'])}:"]
        lines += _indented(found["quota"]["decision"]["sentence"])
    return "\n".join(lines) + "\n"


def not_seen(found: Json) -> str:
    """What would have been looked at too, by the rights that are missing."""
    if not found["notSeen"]:
        return ""
    lines = ["", "not seen, because you may not:"]
    for right in found["notSeen"]:
        lines += _indented(f"- {right}")
    return "\n".join(lines) + "\n"


def confidence(*, certain: bool) -> str:
    return "certain" if certain else "likely"


def _indented(text: str) -> list[str]:
    first, *more = wrapped(report.printable(text), indent=5)
    return [f"  {first}", *(f"     {line}" for line in more)]
