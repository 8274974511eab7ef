"""``extauthz explain`` for a HorizontalPodAutoscaler (HPA), and for a ScaledObject of KEDA: what KEDA does itself, then
the HPA that it made."""

from __future__ import annotations

from extauthz.cli import explain_finding, explain_report
from extauthz.cli.explain_quota import Asked
from extauthz.cli.explain_report import Json
from extauthz.core.model import Tree
from extauthz.core.quantities import QuantityError
from extauthz.explain import keda, refused, remedies, said, specs, target, when
from extauthz.explain import objects as controller
from extauthz.explain.answer import Answer
from extauthz.explain.decide import decide, scene_of
from extauthz.explain.objects import ExplainError, Flags, milli, namespace_of
from extauthz.explain.sentence import HOLDS, changes, sentence
from extauthz.serve.service.setting_types import SettingsError

OLD = ("autoscaling/v1", "autoscaling/v2beta1")
"""Versions whose metrics look different."""


def explained(asked: Asked, hpa: Tree) -> Json:
    """All fields of the answer.

    Raises:
        ExplainError: what it depends on is not among the objects.
    """
    arguments, name = asked.arguments, hpa["metadata"]["name"]
    if hpa.get("apiVersion") in OLD:
        raise ExplainError(
            f"hpa/{name} is of {hpa['apiVersion']}, which has its metrics elsewhere; save it as "
            f"kubectl get hpa.v2.autoscaling {name} -n {namespace_of(hpa)} -o yaml prints it"
        )
    if target.of(asked.objects, hpa) is None and (told := said.of(hpa, said.HPA)):
        return explain_report.only_said({"hpa": name}, hpa, told)
    scene = scene_of(asked.objects, hpa, _flags(asked), asked.now)
    answer = decide(scene, _values(hpa, arguments.at))
    if not (arguments.at or arguments.controller):  # what if: nobody has refused that yet
        answer = refused.believed(scene, answer)
    would = changes(scene, answer) if not arguments.at else []
    found = explain_report.found(
        asked,
        {"hpa": name},
        hpa,
        answer,
        sentence(scene, answer, would),
        would=would,
        when=when.of_hpa(scene, answer),
        most=hpa["spec"]["maxReplicas"],
        holds=HOLDS,
    )
    tolerance = {"up": scene.band.up, "down": scene.band.down}
    return found | {"tolerance": tolerance, "status": explain_report.status(hpa)}


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


def _flags(asked: Asked) -> Flags:
    """Of the controller: its pod's, then those that are given."""
    for text in asked.arguments.controller:
        name = text.lstrip("-").removeprefix(controller.PREFIX).partition("=")[0]
        if name not in controller.names():
            raise SettingsError(f"--controller {text}: there are {', '.join(controller.names())}")
    try:
        return controller.of_cluster(asked.objects).with_texts(asked.arguments.controller)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def of_scaled_object(asked: Asked, tree: Tree) -> Json:
    """All fields of the answer."""
    names = {"scaledObject": tree["metadata"]["name"]}
    if target.of(asked.objects, tree) is None and (told := said.of(tree, said.KEDA)):
        return explain_report.only_said(names | {"hpa": None}, tree, told)
    scene = keda.of(asked.objects, tree, asked.now)
    answer = keda.decide(scene)
    if answer.outcome == "" and scene.replicas > 0:
        if (by_hpa := _by_hpa(asked, scene, answer)) is not None:
            return names | by_hpa
        answer = keda.without_hpa(scene)
    found = explain_report.found(
        asked,
        names | {"hpa": None},
        tree,
        answer,
        keda.sentence(scene, answer),
        would=remedies.of_quota(answer.note, answer.desired) if answer.outcome == refused.OUTCOME else (),
        when=when.of_keda(scene, answer),
        most=scene.most,
        holds=keda.HOLDS,
    )
    return found | {"tolerance": None, "status": explain_report.status({})}


def _by_hpa(asked: Asked, scene: keda.Scene, answer: Answer) -> Json | None:
    """``None``: there is no HPA, and KEDA says why."""
    name = keda.hpa_name(scene.tree)
    try:
        hpa = explain_finding.one(asked.objects, namespace_of(scene.tree), explain_finding.HPA, name)
    except ExplainError as error:
        if said.of(scene.tree, said.KEDA):
            return None
        raise ExplainError(f"KEDA leaves scaledobject/{scene.name} to the HPA that it makes, but {error}") from None
    found = explained(asked, hpa)
    sentence = f"scaledobject/{scene.name}: {answer.note}; its HPA decides. {found['sentence']}"
    own = explain_report.steps(answer.steps)
    return found | {"sentence": sentence, "steps": [*own, *found["steps"]]}
