"""The demo's scenes: who asks for what, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from extauthz.demo import cluster
from extauthz.demo.cluster import Recording, Response, World
from extauthz.tools.render.envoy import OUTAGE

HELLO, WEB, KC = "hello-00001-deployment", "web", "kc"


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
    workload: str | None
    """The workload whose replicas are read afterwards."""
    outcome: Outcome
    holds: int | None
    """Replicas that the API server must then hold."""
    says: str = ""
    """Words that the sentence must have."""
    headline: str = ""
    """Said before, where something happens that is no request."""
    before: Callable[[World], None] = lambda world: None
    uncharged: bool = False
    """The gate's count of pending writes must stay."""


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
    return (*_growing(), *_refused(), *_free(), *_raised(), *_without_gate())


def _growing() -> tuple[Scene, ...]:
    hpa, kpa = "kube-controller-manager", "knative-autoscaler (serving"
    return (
        Scene("KPA (Knative 1.22+)", f"{HELLO} 1 → 3", cluster.find(kpa, '"value":3'), HELLO, Outcome.ALLOWED, 3),
        Scene("HPA (kube 1.36)", f"{WEB} 2 → 4", cluster.find(hpa, '"replicas":4}'), WEB, Outcome.ALLOWED, 4),
        Scene("HPA (kube 1.36)", f"{WEB} 4 → 8", cluster.find(hpa, '"replicas":8}'), WEB, Outcome.ALLOWED, 8),
    )


def _refused() -> tuple[Scene, ...]:
    gpu = cluster.find("knative-autoscaler (serving", '"value":5')
    cpu = cluster.find("kube-controller-manager", '"replicas":14}')
    return (
        Scene(
            "KPA (Knative 1.22+)",
            f"{HELLO} 3 → 5",
            gpu,
            HELLO,
            Outcome.DENIED,
            3,
            "requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=3, "
            "limited: requests.nvidia.com/gpu=4; largest allowed replicas: 4",
        ),
        Scene("HPA (kube 1.36)", f"{WEB} 8 → 14", cpu, WEB, Outcome.DENIED, 8, "exceeded workspace quota: big-corp"),
        Scene(
            "kubectl patch",
            f"{KC} 8 → 4, still over 3 pods",
            cluster.find("kubectl", '{"spec":{"replicas":4}}'),
            KC,
            Outcome.ALLOWED,
            4,
        ),
    )


def _free() -> tuple[Scene, ...]:
    kubectl = cluster.find("kubectl", "deployments/kc/scale")
    kpa = cluster.find("knative-autoscaler (serving", '"value":5')
    return (
        Scene(
            "kubectl --dry-run",
            f"{WEB} 8 → 9, dry run",
            kubectl.changed(path=kubectl.path.replace(KC, WEB) + "?dryRun=All", body=b'{"spec":{"replicas":9}}'),
            WEB,
            Outcome.ALLOWED,
            8,
            "charged nothing",
            uncharged=True,
        ),
        Scene(
            "KPA, spoilt body",
            f"{HELLO} 3 → 1e400",
            kpa.changed(body=kpa.body.replace(b'"value":5', b'"value":1e400')),
            HELLO,
            Outcome.UNREADABLE,
            3,
            "was not decided",
        ),
    )


def _raised() -> tuple[Scene, ...]:
    return (
        Scene(
            "KPA (Knative ≤ 1.21)",
            f"{HELLO} 3 → 6",
            cluster.find("knative-autoscaler v0.42.2", '"value":6'),
            HELLO,
            Outcome.ALLOWED,
            6,
            headline="the administrator raises acme's limit from 4 to 8 GPUs; the gate reads the file again",
            before=lambda world: world.raise_gpus(8),
        ),
    )


def _without_gate() -> tuple[Scene, ...]:
    return (
        Scene(
            "HPA (kube 1.36)",
            f"{WEB} 8 → 14",
            cluster.find("kube-controller-manager", '"replicas":14}'),
            WEB,
            Outcome.OUTAGE,
            8,
            OUTAGE,
            headline="the gate is killed (SIGKILL)",
            before=lambda world: world.gate.kill(),
        ),
        Scene(
            "kube-controller-manager",
            "renews its Lease",
            cluster.find("kube-controller-manager", "leases/kube-controller-manager"),
            None,
            Outcome.PASSED_BY,
            None,
        ),
    )
