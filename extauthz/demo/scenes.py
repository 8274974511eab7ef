"""The demo's scenes: who asks for what, and what must come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any

import yaml

from extauthz.demo import cluster
from extauthz.demo.cluster import Recording, Response, World


class Outcome(StrEnum):
    """What became of a request, as its sender sees it."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNREADABLE = "refused"
    OUTAGE = "gate down"
    PASSED_BY = "not asked"


@dataclass(frozen=True)
class Scene:
    """One request and its expectations."""

    who: str
    what: str
    recording: Recording
    outcome: Outcome
    workload: str | None = None
    """The workload whose replicas are read afterwards."""
    holds: int | None = None
    """Replicas that the API server must then hold."""
    says: str = ""
    """Words that the sentence must have."""
    headline: str = ""
    """Said before, where something happens that is no request."""
    gpus: int | None = None
    """Before, the quota is raised to so many."""
    kills: bool = False
    """Before, the gate is killed."""
    uncharged: bool = False
    """The gate's count of pending writes must stay."""

    def before(self, world: World) -> None:
        """Have happen what comes before the request."""
        if self.gpus is not None:
            world.raise_gpus(self.gpus)
        if self.kills:
            world.gate.kill()


def outcome_of(answer: Response) -> Outcome:
    """Read off what came over the wire and the gate's own log."""
    if answer.decision:
        verdicts = {"allow": Outcome.ALLOWED, "deny": Outcome.DENIED, "unavailable": Outcome.UNREADABLE}
        return verdicts[answer.decision["verdict"]]
    return Outcome.PASSED_BY if answer.code < 300 else Outcome.OUTAGE


def sentence_of(answer: Response) -> str:
    """What the sender is told; where it is let through, what the gate's log says."""
    if answer.code >= 400:
        return str(answer.body.get("message", ""))
    return str(answer.decision.get("sentence", "the gate is not asked about leases"))


def complaints(scene: Scene, answer: Response, held: int | None) -> list[str]:
    """What the scene promised and did not keep."""
    outcome, sentence = outcome_of(answer), sentence_of(answer)
    wrong = []
    if outcome is not scene.outcome:
        wrong.append(f"expected: {scene.outcome}, came: {outcome} ({answer.code}) {sentence}")
    if held != scene.holds:
        wrong.append(f"the API server was to hold {scene.holds} replicas and holds {held}")
    if scene.says not in sentence:
        wrong.append(f"the sentence was to say {scene.says!r} and says {sentence!r}")
    if answer.code >= 400 and answer.body.get("kind") != "Status":
        wrong.append("the refusal is no metav1.Status that client-go could read")
    if outcome is Outcome.OUTAGE and "exceeded" in sentence:
        wrong.append("an outage is worded as a denial")
    return wrong


def scenes() -> tuple[Scene, ...]:
    """In order; each builds on what the ones before left."""
    told = yaml.safe_load((files(__package__) / "scenes.yaml").read_text())
    return tuple(_scene(**one) for one in told)


def _scene(recording: list[str], outcome: str, changed: Mapping[str, str] | None = None, **told: Any) -> Scene:  # noqa: ANN401
    found = cluster.find(*recording)
    if changed is not None:
        found = found.changed(path=changed.get("path"), body=changed["body"].encode())
    return Scene(recording=found, outcome=Outcome(outcome), **told)
