"""``extauthz explain`` for a ScaledObject of KEDA: what KEDA does itself, then the HPA that it made."""

from __future__ import annotations

import argparse

from extauthz.cli import explain_finding, explain_hpa, explain_quota, explain_report
from extauthz.cli.explain_report import Json
from extauthz.core.model import Tree
from extauthz.explain import keda
from extauthz.explain.keda import Answer, Scene
from extauthz.explain.objects import ExplainError, Objects

HELD = frozenset({"paused", "refused", "cooldown"})


def explained(arguments: argparse.Namespace, objects: Objects, tree: Tree, now: float) -> Json:
    """All fields of the answer."""
    scene = keda.of(objects, tree, now)
    answer = keda.decide(scene)
    if answer.outcome == "" and scene.replicas > 0:
        return _by_hpa(arguments, objects, scene, answer)
    namespace = tree["metadata"].get("namespace", "default")
    wants_more = answer.desired > answer.current
    ref = explain_quota.workload(tree["spec"]["scaleTargetRef"], namespace)
    quota = explain_quota.said(arguments, objects, ref, max(answer.desired, answer.current + 1), scene.most)
    kind, name = keda.target(tree)
    return {
        "scaledObject": scene.name,
        "hpa": None,
        "namespace": namespace,
        "workload": {"kind": kind, "name": name},
        "sentence": _sentence(scene, answer) + explain_report.of_quota(quota, wants_more=wants_more),
        "outcome": answer.outcome or "idle",
        "held": answer.outcome in HELD or (wants_more and explain_report.is_denied(quota)),
        "confidence": explain_report.confidence(certain=answer.certain),
        "currentReplicas": answer.current,
        "desiredReplicas": answer.desired,
        "tolerance": None,
        "status": {"currentReplicas": None, "desiredReplicas": None},
        "steps": explain_report.steps(answer.steps),
        "oneMore": [],
        "quota": quota,
    }


def _by_hpa(arguments: argparse.Namespace, objects: Objects, scene: Scene, answer: Answer) -> Json:
    namespace, name = scene.tree["metadata"].get("namespace", "default"), keda.hpa_name(scene.tree)
    try:
        hpa = explain_finding.one(objects, namespace, explain_finding.HPA, name)
    except ExplainError as error:
        raise ExplainError(f"KEDA leaves scaledobject/{scene.name} to the HPA that it makes, but {error}") from None
    found = explain_hpa.explained(arguments, objects, hpa, scene.now)
    sentence = f"scaledobject/{scene.name}: {answer.why}; its HPA decides. {found['sentence']}"
    own = explain_report.steps(answer.steps)
    return {"scaledObject": scene.name} | found | {"sentence": sentence, "steps": [*own, *found["steps"]]}


def _sentence(scene: Scene, answer: Answer) -> str:
    name, sure = f"scaledobject/{scene.name}", "" if answer.certain else "probably "
    if answer.outcome == "refused":
        return f"{name} is refused: KEDA asks for {answer.desired} in place of {answer.current}; {answer.why}."
    if answer.desired != answer.current:
        count = explain_report.replicas(answer.desired)
        return f"{name} {sure}goes from {answer.current} to {count}: {answer.why}."
    return f"{name} {sure}stays at {explain_report.replicas(answer.current)}: {answer.why}."
