"""``extauthz explain`` for Knative: a PodAutoscaler, or a Service with all revisions that matter now."""

from __future__ import annotations

import re

from extauthz.cli import explain_finding, explain_hpa, explain_report
from extauthz.cli.explain_quota import Asked
from extauthz.cli.explain_report import Json
from extauthz.cli.report import wrapped
from extauthz.core.model import Tree
from extauthz.explain import said, when
from extauthz.explain.knative import scene
from extauthz.explain.knative.decide import decide
from extauthz.explain.knative.decider import Values
from extauthz.explain.knative.rules import KPA
from extauthz.explain.knative.scene import Scene
from extauthz.explain.knative.sentence import HOLDS, changes, sentence
from extauthz.explain.objects import ExplainError, namespace_of
from extauthz.serve.service.setting_types import SettingsError

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def explained(asked: Asked, tree: Tree) -> Json:
    """All fields of the answer for one PodAutoscaler."""
    kind, name = scene.autoscaler_class(tree), tree["metadata"]["name"]
    if kind.startswith("hpa."):
        return {"kpa": name} | _by_hpa(asked, tree)
    if kind != KPA:
        raise ExplainError(f"kpa/{name} is of the class {kind}, whose arithmetic is not known here")
    if asked.arguments.controller:
        raise SettingsError(f"--controller is for HPAs; kpa/{name} knows nothing of it")
    known = scene.of(asked.objects, tree, asked.now)
    answer = decide(known, _values(known, asked.arguments.at))
    aim = {"metric": known.rules.metric, "value": known.rules.target, "total": known.rules.total}
    found = explain_report.found(
        asked,
        {"kpa": name},
        tree,
        answer,
        sentence(known, answer),
        would=changes(known, answer),
        when=when.of_knative(known, answer),
        most=known.rules.most or None,
        holds=HOLDS,
    )
    status = explain_report.status(tree, ("actualScale", "desiredScale"))
    return found | {"desiredScale": answer.scale if answer.scale >= 0 else None, "target": aim, "status": status}


def _by_hpa(asked: Asked, tree: Tree) -> Json:
    """Of the class ``hpa`` Knative makes an HPA of the same name."""
    name = tree["metadata"]["name"]
    try:
        hpa = explain_finding.one(asked.objects, namespace_of(tree), explain_finding.HPA, name)
    except ExplainError as error:
        raise ExplainError(f"kpa/{name} is of the class hpa, for which Knative makes an HPA, but {error}") from None
    return explain_hpa.explained(asked, hpa)


def of_service(asked: Asked, tree: Tree) -> Json:
    """Of a Knative Service: each revision that gets traffic, and the newest one if it is not ready yet."""
    name, namespace = tree["metadata"]["name"], namespace_of(tree)
    found = []
    for revision in scene.revisions(tree):
        autoscaler = explain_finding.one(asked.objects, namespace, explain_finding.KPA, revision.name)
        found.append({"revision": revision.name, "role": revision.role} | explained(asked, autoscaler))
    own = [f"{one.text}." for one in said.of(tree, said.KNATIVE_SERVICE)]
    each = [f"{one['revision']} ({one['role']}): {one['sentence']}" for one in found]
    return {
        "ksvc": name,
        "namespace": namespace,
        "sentence": f"ksvc/{name}: {' '.join([*own, *each])}",
        "said": own,
        "held": any(one["held"] for one in found),
        "revisions": found,
    }


def service_as_text(found: Json) -> str:
    count = len(found["revisions"])
    head = f"ksvc/{found['ksvc']} has {count} revision{'s' * (count != 1)} that matter{'s' * (count == 1)} now."
    head = " ".join([head, *found["said"]])
    each = [f"{one['revision']} ({one['role']})\n\n{explain_report.as_text(one)}" for one in found["revisions"]]
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
