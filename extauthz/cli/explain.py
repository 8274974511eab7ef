"""``extauthz explain``: why an autoscaler leaves a workload at its count, or where it takes it next.

Here are Knative (a PodAutoscaler, or a Service with all revisions that matter now) and KEDA (what KEDA does itself,
then the HPA that it made). ``explain_hpa`` has HPAs, and what all have in common.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from extauthz.cli import asking, exits, explain_finding, explain_hpa, report
from extauthz.cli.explain_finding import HPA, KPA, KSVC, SCALED_OBJECT
from extauthz.cli.explain_hpa import Json
from extauthz.cli.report import wrapped
from extauthz.core.model import Tree
from extauthz.core.quantities import QuantityError
from extauthz.explain import keda
from extauthz.explain.knative import decide as knative
from extauthz.explain.knative import rules, scene
from extauthz.explain.knative.decider import Values
from extauthz.explain.knative.scene import Scene
from extauthz.explain.knative.sentence import HOLDS, changes, sentence
from extauthz.explain.objects import ExplainError, Objects
from extauthz.files import content
from extauthz.files.objects import objects as placed
from extauthz.service.setting_types import SettingsError

UNKNOWN = 2


@asking.answered
def run(arguments: argparse.Namespace) -> int:
    """Print it; the exit code tells whether something holds it back."""
    try:
        objects, now = _objects(arguments)
        return _explained(arguments, objects, now)
    except ExplainError as error:
        return exits.fail(UNKNOWN, error)
    except (KeyError, TypeError, AttributeError, QuantityError) as error:
        text = f"an object is not as kubectl prints it: {type(error).__name__}: {error}"
        return exits.fail(exits.DATA, ValueError(text))


def _explained(arguments: argparse.Namespace, objects: Objects, now: float) -> int:
    kind, name = explain_finding.meant(objects, arguments.namespace, *arguments.what)
    tree = explain_finding.one(objects, arguments.namespace, kind, name)
    found = EXPLAINED[kind](arguments, objects, tree, now) | {"notSeen": list(objects.missing)}
    as_text = _service_as_text if kind == KSVC else explain_hpa.as_text
    text = report.as_json(found) if arguments.output == "json" else as_text(found) + explain_hpa.not_seen(found)
    sys.stdout.write(text)
    return 1 if found["held"] else 0


def _objects(arguments: argparse.Namespace) -> tuple[Objects, float]:
    """All of them, and the time that they are of."""
    if not arguments.state:
        if arguments.quotas is not None:
            raise SettingsError("--quotas needs --state; with a cluster ask a gate that runs: --server URL")
        kind, name = arguments.what
        from extauthz.cli import explain_cluster  # it needs the Kubernetes client

        return explain_cluster.objects(arguments.kubeconfig, arguments.namespace, kind, name), time.time()
    if arguments.kubeconfig is not None:
        raise SettingsError("--state and --kubeconfig are two places; leave one of them out")
    contents = [one for path in arguments.state for one in content.read(path)]
    now = max(Path(one.name).stat().st_mtime for one in contents)
    return Objects(each.tree for one in contents for each in placed(one)), now


_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def _of_autoscaler(arguments: argparse.Namespace, objects: Objects, tree: Tree, now: float) -> Json:
    """All fields of the answer for one PodAutoscaler."""
    kind = scene.autoscaler_class(tree)
    if kind.startswith("hpa."):
        return _autoscaler_by_hpa(arguments, objects, tree, now)
    name = tree["metadata"]["name"]
    if kind != rules.KPA:
        raise ExplainError(f"kpa/{name} is of the class {kind}, whose arithmetic is not known here")
    if arguments.tolerance or arguments.controller:
        raise SettingsError(f"--tolerance and --controller are for HPAs; kpa/{name} knows neither")
    known = scene.of(objects, tree, now)
    answer = knative.decide(known, _values(known, arguments.at))
    wanted = max(answer.desired, known.replicas + 1)
    ref = explain_hpa.workload(tree["spec"]["scaleTargetRef"], known.namespace)
    return _shown(known, answer, explain_hpa.said(arguments, objects, ref, wanted))


def _shown(known: Scene, answer: knative.Answer, quota: Json | None) -> Json:
    ref = known.autoscaler["spec"]["scaleTargetRef"]
    status = known.autoscaler.get("status") or {}
    wants_more = answer.desired > answer.current
    return {
        "kpa": known.name,
        "namespace": known.namespace,
        "workload": {"kind": ref["kind"], "name": ref["name"]},
        "sentence": sentence(known, answer) + explain_hpa.of_quota(quota, wants_more=wants_more),
        "outcome": answer.outcome,
        "held": answer.outcome in HOLDS or (wants_more and explain_hpa.is_denied(quota)),
        "confidence": explain_hpa.confidence(certain=answer.certain),
        "currentReplicas": answer.current,
        "desiredReplicas": answer.desired,
        "desiredScale": answer.scale if answer.scale >= 0 else None,
        "target": {"metric": known.rules.metric, "value": known.rules.target, "total": known.rules.total},
        "status": {name: status.get(name) for name in ("actualScale", "desiredScale")},
        "steps": explain_hpa.steps(answer.steps),
        "oneMore": [one._asdict() for one in changes(known, answer)],
        "quota": quota,
    }


def _autoscaler_by_hpa(arguments: argparse.Namespace, objects: Objects, tree: Tree, now: float) -> Json:
    """Of the class ``hpa`` Knative makes an HPA of the same name."""
    name, namespace = tree["metadata"]["name"], tree["metadata"].get("namespace", "default")
    try:
        hpa = explain_finding.one(objects, namespace, explain_finding.HPA, name)
    except ExplainError as error:
        raise ExplainError(f"kpa/{name} is of the class hpa, for which Knative makes an HPA, but {error}") from None
    found = explain_hpa.explained(arguments, objects, hpa, now)
    return {"kpa": name} | found


def _of_service(arguments: argparse.Namespace, objects: Objects, tree: Tree, now: float) -> Json:
    """Of a Knative Service: each revision that gets traffic, and the newest one if it is not ready yet."""
    name, namespace = tree["metadata"]["name"], tree["metadata"].get("namespace", "default")
    found = []
    for revision in scene.revisions(tree):
        autoscaler = explain_finding.one(objects, namespace, explain_finding.KPA, revision.name)
        found.append(
            {"revision": revision.name, "role": revision.role} | _of_autoscaler(arguments, objects, autoscaler, now)
        )
    said = " ".join(f"{one['revision']} ({one['role']}): {one['sentence']}" for one in found)
    return {
        "ksvc": name,
        "namespace": namespace,
        "sentence": f"ksvc/{name}: {said}",
        "held": any(one["held"] for one in found),
        "revisions": found,
    }


def _service_as_text(found: Json) -> str:
    """Each revision by itself."""
    count = len(found["revisions"])
    head = f"ksvc/{found['ksvc']} has {count} revision{'s' * (count != 1)} that matter{'s' * (count == 1)} now."
    each = [f"{one['revision']} ({one['role']})\n\n{explain_hpa.as_text(one)}" for one in found["revisions"]]
    return "\n".join(["\n".join(wrapped(head)) + "\n", *each])


def _values(known: Scene, texts: list[str]) -> Values | None:
    """What is given for its metric; one window stands for both."""
    metric, given = known.rules.metric, dict[str, float]()
    for text in texts:
        name, _, value = text.rpartition("=")
        if name not in (metric, "stable", "panic", "panic-mode"):
            raise SettingsError(f"--at {text}: kpa/{known.name} has {metric} (both windows), stable, panic, panic-mode")
        if not _NUMBER.fullmatch(value) or (name == "panic-mode" and value not in ("0", "1")):
            raise SettingsError(f"--at {text}: write for example {metric}=150, panic=300, panic-mode=1")
        given[name] = float(value)
    both = given.get(metric)
    stable = given.get("stable", both if both is not None else given.get("panic"))
    if stable is None:
        if given:
            raise SettingsError(f"--at panic-mode=…: say also {metric}=N")
        return None
    panic = given.get("panic", both if both is not None else stable)
    return Values(stable, panic, bool(given["panic-mode"]) if "panic-mode" in given else None)


HELD_BY_KEDA = frozenset({"paused", "refused", "cooldown"})


def _of_scaled_object(arguments: argparse.Namespace, objects: Objects, tree: Tree, now: float) -> Json:
    """All fields of the answer."""
    scene = keda.of(objects, tree, now)
    answer = keda.decide(scene)
    if answer.outcome == "" and scene.replicas > 0:
        return _scaled_object_by_hpa(arguments, objects, scene, answer)
    namespace = tree["metadata"].get("namespace", "default")
    wants_more = answer.desired > answer.current
    ref = explain_hpa.workload(tree["spec"]["scaleTargetRef"], namespace)
    quota = explain_hpa.said(arguments, objects, ref, max(answer.desired, answer.current + 1))
    kind, name = keda.target(tree)
    return {
        "scaledObject": scene.name,
        "hpa": None,
        "namespace": namespace,
        "workload": {"kind": kind, "name": name},
        "sentence": _sentence_of_keda(scene, answer) + explain_hpa.of_quota(quota, wants_more=wants_more),
        "outcome": answer.outcome or "idle",
        "held": answer.outcome in HELD_BY_KEDA or (wants_more and explain_hpa.is_denied(quota)),
        "confidence": explain_hpa.confidence(certain=answer.certain),
        "currentReplicas": answer.current,
        "desiredReplicas": answer.desired,
        "tolerance": None,
        "status": {"currentReplicas": None, "desiredReplicas": None},
        "steps": explain_hpa.steps(answer.steps),
        "oneMore": [],
        "quota": quota,
    }


def _scaled_object_by_hpa(
    arguments: argparse.Namespace, objects: Objects, scene: keda.Scene, answer: keda.Answer
) -> Json:
    namespace, name = scene.tree["metadata"].get("namespace", "default"), keda.hpa_name(scene.tree)
    try:
        hpa = explain_finding.one(objects, namespace, explain_finding.HPA, name)
    except ExplainError as error:
        raise ExplainError(f"KEDA leaves scaledobject/{scene.name} to the HPA that it makes, but {error}") from None
    found = explain_hpa.explained(arguments, objects, hpa, scene.now)
    sentence = f"scaledobject/{scene.name}: {answer.why}; its HPA decides. {found['sentence']}"
    own = explain_hpa.steps(answer.steps)
    return {"scaledObject": scene.name} | found | {"sentence": sentence, "steps": [*own, *found["steps"]]}


def _sentence_of_keda(scene: keda.Scene, answer: keda.Answer) -> str:
    name, sure = f"scaledobject/{scene.name}", "" if answer.certain else "probably "
    if answer.outcome == "refused":
        return f"{name} is refused: KEDA asks for {answer.desired} in place of {answer.current}; {answer.why}."
    if answer.desired != answer.current:
        count = explain_hpa.replicas(answer.desired)
        return f"{name} {sure}goes from {answer.current} to {count}: {answer.why}."
    return f"{name} {sure}stays at {explain_hpa.replicas(answer.current)}: {answer.why}."


EXPLAINED = {
    HPA: explain_hpa.explained,
    KPA: _of_autoscaler,
    KSVC: _of_service,
    SCALED_OBJECT: _of_scaled_object,
}
