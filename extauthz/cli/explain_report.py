"""An explanation as ``explain`` prints it: a text for people, or JSON whose fields are in ``docs/explain.md``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from extauthz.cli import report
from extauthz.cli.report import wrapped
from extauthz.core.decision.gate import CLAMPED
from extauthz.core.decision.sentences import ordinal
from extauthz.core.model import Tree
from extauthz.explain.answer import Answer, Change, Step
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
        "sentence": sentence(scene, answer, would) + of_quota(quota, wants_more=wants_more),
        "outcome": answer.outcome,
        "held": answer.outcome in HOLDS or (wants_more and is_denied(quota)),
        "confidence": confidence(certain=answer.certain),
        "currentReplicas": answer.current,
        "desiredReplicas": answer.desired,
        "tolerance": {"up": scene.band.up, "down": scene.band.down},
        "status": {name: status.get(name) for name in ("currentReplicas", "desiredReplicas")},
        "steps": steps(answer.steps),
        "oneMore": [one._asdict() for one in would],
        "quota": quota,
    }


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
        "steps": steps(told),
        "oneMore": [],
        "quota": None,
    }


def steps(found: Sequence[Step]) -> list[Json]:
    """In order."""
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
    lines = [*wrapped(found["sentence"]), "", "step by step:"]
    for number, step in enumerate(found["steps"], 1):
        lines += _indented(f"{number}. {step['confidence']}: {step['text']}")
    if found["oneMore"]:
        by_quota = found["oneMore"][0]["kind"] == "quota"
        lines += ["", "for what it asks for:" if by_quota else "for one more replica, any of these:"]
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


def is_denied(quota: Json | None) -> bool:
    """Whether the gate was asked, and does not allow all of it."""
    return quota is not None and (quota["decision"]["verdict"] != "allow" or quota["decision"].get("reason") == CLAMPED)


def of_quota(quota: Json | None, *, wants_more: bool) -> str:
    """A sentence of its own, where more is wanted, or where not all fits that it may ask for."""
    if quota is None:
        return ""
    most, asks = quota["headroom"]["replicas"], quota["mayAskFor"]
    is_short = None not in (most, asks) and most < asks
    share = f"{most} of the {asks} replicas that it may ask for would fit." if is_short else ""
    if not wants_more:
        return share and f" {share}"
    if not is_denied(quota):
        return f" The quota allows it.{share and ' '}{share}"
    line = quota["line"]
    if quota["decision"].get("reason") == CLAMPED and quota["decision"]["fits"] is not None:
        return f" The quota grants {quota['decision']['fits']} of the {quota['asked']} (mode Clamp)."
    if quota["decision"].get("turn") is not None:
        return f" The quota does not allow it yet: {_in_line(line)}."
    why = "." if most is None else f": {share or f'{replicas(most)} at most.'}"
    return f" The quota does not allow it{why}" + (f" It stands {_in_line(line)}." if line is not None else "")


def _in_line(line: Json) -> str:
    """A place in line. Whose quota may not be seen has no name, and the place there no number."""
    where = "others come first"
    if line["place"] is not None:
        where = f"{ordinal(line['place'])} in line for workspace quota {line['quota']}"
    return f"{where}; asks again in {line['againSeconds']} s"


def replicas(count: int) -> str:
    """With its noun."""
    return f"{count} replica{'s' * (count != 1)}"


def confidence(*, certain: bool) -> str:
    """In one word."""
    return "certain" if certain else "likely"


def _indented(text: str) -> list[str]:
    first, *more = wrapped(report.printable(text), indent=5)
    return [f"  {first}", *(f"     {line}" for line in more)]
