"""An explanation as ``explain`` prints it: a text for people, or JSON whose fields are in ``docs/explain.md``."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from extauthz.cli import explain_quota, report
from extauthz.cli.explain_quota import Asked
from extauthz.cli.report import wrapped
from extauthz.core.model import Tree
from extauthz.explain import refused, target
from extauthz.explain.answer import Answer, Change, Step, replicas
from extauthz.explain.objects import namespace_of
from extauthz.explain.when import When

Json = dict[str, Any]


def found(
    asked: Asked,
    names: Json,
    tree: Tree,
    answer: Answer,
    sentence: str,
    *,
    would: Sequence[Change],
    when: When,
    most: int | None,
    holds: Container[str],
) -> Json:
    """The fields that an answer for any autoscaler has, with what the quota says; ``as_text`` prints of these.

    Args:
        names: its own, by the word for its kind.
        most: replicas that it may ask for; ``None``: any number.
        holds: outcomes in which something holds it back.
    """
    quota = explain_quota.said(asked, tree, max(answer.desired, answer.current + 1), most)
    wants_more, was_refused = answer.desired > answer.current, answer.outcome == refused.OUTCOME
    sentence += explain_quota.sentence(quota, wants_more=wants_more, was_refused=was_refused)
    held = answer.outcome in holds or (wants_more and explain_quota.is_denied(quota))
    one_more = [one._asdict() for one in explain_quota.changes(quota, would, wants_more=wants_more)]
    beside = {"when": when._asdict(), "oneMore": one_more, "quota": quota}
    return _shown(names, tree, answer, sentence, held=held) | beside


def only_said(names: Json, tree: Tree, told: Sequence[Step]) -> Json:
    """Of an autoscaler whose target is not there: what its controller says."""
    kind, name = next((kind, name) for kind, name in names.items() if name is not None)
    own = status(tree)
    sentence = f"{kind.lower()}/{name} scales nothing: {'; '.join(one.text for one in told)}."
    answer = Answer(0, 0, "failed", all(one.certain for one in told), tuple(told))
    counts = dict.fromkeys(("currentReplicas", "desiredReplicas"), own["currentReplicas"])
    nothing: Json = {"when": None, "oneMore": [], "quota": None, "tolerance": None}
    return _shown(names, tree, answer, sentence, held=True) | counts | nothing | {"status": own}


def _shown(names: Json, tree: Tree, answer: Answer, sentence: str, *, held: bool) -> Json:
    scaled = target.named(tree)
    return names | {
        "namespace": namespace_of(tree),
        "workload": {"kind": scaled.kind, "name": scaled.name},
        "sentence": sentence,
        "outcome": answer.outcome or "idle",
        "held": held,
        "confidence": confidence(certain=answer.certain),
        "currentReplicas": answer.current,
        "desiredReplicas": answer.desired,
        "steps": steps(answer.steps),
    }


def status(tree: Tree, names: Sequence[str] = ("currentReplicas", "desiredReplicas")) -> Json:
    return {name: (tree.get("status") or {}).get(name) for name in names}


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
        lines += ["", explain_quota.heading([one["kind"] for one in found["oneMore"]])]
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
