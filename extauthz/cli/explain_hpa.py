"""``extauthz explain`` of a HorizontalPodAutoscaler (HPA), what the quota says to it, and how an answer is printed:
a text for people, or JSON whose fields are in ``docs/explain.md``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from extauthz.cli import asking, options
from extauthz.cli.report import printable, wrapped
from extauthz.cluster.snapshot import SnapshotBuilder
from extauthz.core.decision.gate import Gate
from extauthz.core.errors import ObjectError
from extauthz.core.model import Tree, WorkloadRef
from extauthz.core.quantities import QuantityError
from extauthz.core.resourcelists import FootprintError
from extauthz.explain import objects as controller
from extauthz.explain import refused, specs, target
from extauthz.explain.answer import Answer, Step
from extauthz.explain.decide import at_tolerance, decide, scene_of
from extauthz.explain.objects import ExplainError, Flags, Objects, milli
from extauthz.explain.sentence import HOLDS, Change, changes, sentence
from extauthz.explain.specs import Scene
from extauthz.servers.api.problems import Problem
from extauthz.servers.api.shown import named
from extauthz.service.setting_types import SettingsError
from extauthz.service.settings import policy
from extauthz.sources import file as quota_file

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
        lines += ["", "for one more replica, any of these:"]
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
    """Whether the gate was asked, and does not allow it."""
    return quota is not None and quota["decision"]["verdict"] != "allow"


def of_quota(quota: Json | None, *, wants_more: bool) -> str:
    """A sentence of its own, where more is wanted."""
    if quota is None or not wants_more:
        return ""
    if not is_denied(quota):
        return " The quota allows it."
    most = quota["headroom"]["replicas"]
    return " The quota does not allow it" + ("." if most is None else f": {replicas(most)} at most.")


def replicas(count: int) -> str:
    """With its noun."""
    return f"{count} replica{'s' * (count != 1)}"


def confidence(*, certain: bool) -> str:
    """In one word."""
    return "certain" if certain else "likely"


def _indented(text: str) -> list[str]:
    first, *more = wrapped(printable(text), indent=5)
    return [f"  {first}", *(f"     {line}" for line in more)]


def workload(ref: Tree, namespace: str) -> WorkloadRef:
    """What a ``scaleTargetRef`` names."""
    group = str(ref.get("apiVersion") or "apps/v1").rpartition("/")[0]
    return WorkloadRef(group, target.plural(ref.get("kind") or "Deployment"), namespace, ref["name"])


def said(arguments: argparse.Namespace, objects: Objects, ref: WorkloadRef, wanted: int) -> Json | None:
    """What the gate says to this count; ``None``: it is not asked."""
    if arguments.server is None and arguments.quotas is None:
        return None
    source: asking.Source = (
        asking.Server(arguments.server) if arguments.server else asking.Files(_gate(arguments, objects))
    )
    try:
        decision = source.decision(named(ref) | {"replicas": wanted})
        return {"asked": wanted, "decision": decision, "headroom": source.headroom(ref)}
    except Problem as problem:
        raise ExplainError(f"what the quota says is not known: {problem}") from None


def _gate(arguments: argparse.Namespace, objects: Objects) -> Gate:
    """A gate that knows what the files say."""
    made = Gate(policy(options.settings(arguments)))
    made.epoch_s = time.time()
    made.load_quotas(quota_file.load(arguments.quotas).tree, 0.0)
    builder = SnapshotBuilder()
    try:
        for tree in objects.all():
            if tree.get("kind"):
                builder.add(tree)
    except (ObjectError, FootprintError) as error:
        raise SettingsError(f"--state: {error}") from None
    made.load_state(builder.state(), 0.0)
    return made


def explained(arguments: argparse.Namespace, objects: Objects, hpa: Tree, now: float) -> Json:
    """All fields of the answer.

    Raises:
        ExplainError: what it depends on is not among the objects.
    """
    if hpa.get("apiVersion") == "autoscaling/v1":
        name, place = hpa["metadata"]["name"], hpa["metadata"].get("namespace", "default")
        raise ExplainError(
            f"hpa/{name} is of autoscaling/v1, which has its metrics elsewhere; save it as "
            f"kubectl get hpa.v2.autoscaling {name} -n {place} -o yaml prints it"
        )
    scene = _with_fields(scene_of(objects, hpa, _flags(arguments, objects), now), arguments.tolerance)
    answer = decide(scene, _values(hpa, arguments.at))
    if not (arguments.at or arguments.tolerance or arguments.controller):  # what if: nobody has refused that yet
        answer = refused.believed(scene, answer)
    would = changes(scene, answer) if not arguments.at else []
    ref = workload(hpa["spec"]["scaleTargetRef"], scene.namespace)
    wanted = max(answer.desired, scene.target.asked + 1)
    return shown(scene, answer, would, said(arguments, objects, ref, wanted))


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
