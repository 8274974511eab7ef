"""``extauthz explain`` for a HorizontalPodAutoscaler (HPA), and for a ScaledObject of KEDA: what KEDA does itself, then
the HPA that it made."""

from __future__ import annotations

import argparse

from extauthz.cli import explain_finding, explain_quota, explain_report
from extauthz.cli.explain_report import Json
from extauthz.core.model import Tree
from extauthz.core.quantities import QuantityError
from extauthz.explain import by_quota, keda, refused, remedies, said, specs, when
from extauthz.explain import objects as controller
from extauthz.explain import target as targets
from extauthz.explain.answer import replicas
from extauthz.explain.decide import at_tolerance, decide, scene_of
from extauthz.explain.objects import ExplainError, Flags, Objects, milli
from extauthz.explain.sentence import changes
from extauthz.explain.specs import Scene
from extauthz.serve.service.setting_types import SettingsError

OLD = ("autoscaling/v1", "autoscaling/v2beta1")
"""Versions whose metrics look different."""


def explained(arguments: argparse.Namespace, objects: Objects, hpa: Tree, now: float) -> Json:
    """All fields of the answer.

    Raises:
        ExplainError: what it depends on is not among the objects.
    """
    if hpa.get("apiVersion") in OLD:
        name, place = hpa["metadata"]["name"], hpa["metadata"].get("namespace", "default")
        raise ExplainError(
            f"hpa/{name} is of {hpa['apiVersion']}, which has its metrics elsewhere; save it as "
            f"kubectl get hpa.v2.autoscaling {name} -n {place} -o yaml prints it"
        )
    ref = hpa["spec"]["scaleTargetRef"]
    place = hpa["metadata"].get("namespace", "default")
    if targets.of_ref(objects, ref, place) is None and (told := said.of(hpa, said.HPA)):
        return explain_report.only_said("hpa", hpa, told)
    scene = _with_fields(scene_of(objects, hpa, _flags(arguments, objects), now), arguments.tolerance)
    answer = decide(scene, _values(hpa, arguments.at))
    if not (arguments.at or arguments.tolerance or arguments.controller):  # what if: nobody has refused that yet
        answer = refused.believed(scene, answer)
    workload = explain_quota.workload(objects, ref, scene.namespace)
    wanted = max(answer.desired, scene.target.asked + 1)
    quota = explain_quota.said(arguments, objects, workload, wanted, hpa["spec"]["maxReplicas"], now)
    would = changes(scene, answer) if not arguments.at else []
    would = by_quota.changes(quota, would, wants_more=answer.desired > answer.current)
    return explain_report.shown(scene, answer, would, quota)


def _values(hpa: Tree, texts: list[str]) -> dict[str, int]:
    """By metric. A name alone stands for the metrics of all containers of that name."""
    measured = specs.of_hpa(hpa)
    values = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        found = [one for one in measured if name in (one.said, one.name)]
        if not found:
            known = ", ".join(one.said for one in measured)
            raise SettingsError(f"--at {text}: the HPA has no metric {name!r}; it has {known}")
        try:
            for one in found:
                is_percent = one.measure == "Utilization"
                values[one.said] = int(value.rstrip(" %")) if is_percent else milli(value)
        except (ValueError, QuantityError):
            raise SettingsError(f"--at {text}: write for example cpu=83, or queue=1500") from None
    return values


def _flags(arguments: argparse.Namespace, objects: Objects) -> Flags:
    """Of the controller: its pod's, then those that are given."""
    for text in arguments.controller:
        name = text.lstrip("-").removeprefix(controller.PREFIX).partition("=")[0]
        if name not in controller.names():
            raise SettingsError(f"--controller {text}: there are {', '.join(controller.names())}")
    plain = [f"tolerance={text}" for text in arguments.tolerance if "=" not in text]
    try:
        return controller.of_cluster(objects).with_texts([*arguments.controller, *plain])
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _with_fields(scene: Scene, texts: list[str]) -> Scene:
    for text in texts:
        way, given, value = text.partition("=")
        if not given:
            continue
        try:
            scene = at_tolerance(scene, **{{"up": "up", "down": "down"}[way]: float(value)})
        except (KeyError, ValueError):
            raise SettingsError(f"--tolerance {text}: write 0.05, up=0.05 or down=0.05") from None
    return scene


HELD = frozenset({"paused", "refused", "cooldown", "not-ready"})


def of_scaled_object(arguments: argparse.Namespace, objects: Objects, tree: Tree, now: float) -> Json:
    """All fields of the answer."""
    namespace = tree["metadata"].get("namespace", "default")
    if targets.of_ref(objects, tree["spec"]["scaleTargetRef"], namespace) is None and (
        told := said.of(tree, said.KEDA)
    ):
        return explain_report.only_said("scaledObject", tree, told)
    scene = keda.of(objects, tree, now)
    answer = keda.decide(scene)
    if answer.outcome == "" and scene.replicas > 0:
        found = _by_hpa(arguments, objects, scene, answer)
        if found is not None:
            return found
        answer = keda.without_hpa(scene)
    wants_more = answer.desired > answer.current
    ref = explain_quota.workload(objects, tree["spec"]["scaleTargetRef"], namespace)
    quota = explain_quota.said(arguments, objects, ref, max(answer.desired, answer.current + 1), scene.most, now)
    kind, name = keda.target(tree)
    would = remedies.of_quota(answer.why, answer.desired) if answer.outcome == "refused" else ()
    return {
        "scaledObject": scene.name,
        "hpa": None,
        "namespace": namespace,
        "workload": {"kind": kind, "name": name},
        "sentence": _sentence(scene, answer) + by_quota.sentence(quota, wants_more=wants_more),
        "outcome": answer.outcome or "idle",
        "held": answer.outcome in HELD or (wants_more and by_quota.is_denied(quota)),
        "confidence": explain_report.confidence(certain=answer.certain),
        "currentReplicas": answer.current,
        "desiredReplicas": answer.desired,
        "tolerance": None,
        "status": {"currentReplicas": None, "desiredReplicas": None},
        "when": when.of_keda(scene, answer)._asdict(),
        "steps": explain_report.steps(answer.steps),
        "oneMore": [one._asdict() for one in by_quota.changes(quota, would, wants_more=wants_more)],
        "quota": quota,
    }


def _by_hpa(arguments: argparse.Namespace, objects: Objects, scene: keda.Scene, answer: keda.Answer) -> Json | None:
    """``None``: there is no HPA, and KEDA says why."""
    namespace, name = scene.tree["metadata"].get("namespace", "default"), keda.hpa_name(scene.tree)
    try:
        hpa = explain_finding.one(objects, namespace, explain_finding.HPA, name)
    except ExplainError as error:
        if said.of(scene.tree, said.KEDA):
            return None
        raise ExplainError(f"KEDA leaves scaledobject/{scene.name} to the HPA that it makes, but {error}") from None
    found = explained(arguments, objects, hpa, scene.now)
    sentence = f"scaledobject/{scene.name}: {answer.why}; its HPA decides. {found['sentence']}"
    own = explain_report.steps(answer.steps)
    return {"scaledObject": scene.name} | found | {"sentence": sentence, "steps": [*own, *found["steps"]]}


def _sentence(scene: keda.Scene, answer: keda.Answer) -> str:
    name, sure = f"scaledobject/{scene.name}", "" if answer.certain else "probably "
    if answer.outcome == "refused":
        return f"{name} is refused: KEDA asks for {answer.desired} in place of {answer.current}; {answer.why}."
    if answer.desired != answer.current:
        count = replicas(answer.desired)
        return f"{name} {sure}goes from {answer.current} to {count}: {answer.why}."
    return f"{name} {sure}stays at {replicas(answer.current)}: {answer.why}."
