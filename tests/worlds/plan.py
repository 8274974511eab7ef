"""What happens in a simulated world, drawn from its seed before it begins. Without some steps it is still the same
world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from tests.worlds.drawing import DRAWN, Draw
from tests.worlds.objects import CLAIM_GI

FAULTS: Mapping[str, str] = {
    "lag": "watches bring events late, and one kind before another; answers to a gate's calls come late",
    "drop": "watches break, and are resumed",
    "relist": "watches break and the API server no longer knows the version (410)",
    "lost": "calls of a gate get lost, or their answers after they were carried out; some land later; some get a 429",
    "late": "allowed writes are refused, get lost, or land as late as the landing window permits",
    "unheard": "the access log comes late or not at all",
    "crash": "gates are killed at any of their awaits, and started again",
    "pause": "gates are stopped for a while, and go on",
    "halt": "gates are stopped cleanly and started again",
    "again": "gates are killed, and killed or stopped again while they may still hold; their ledger is lost before",
    "cut": "operators change the limits of quotas",
    "move": "operators hang quotas under other parents",
    "comes": "operators delete quotas, and make them again",
    "flood": "one tenant sends many writes at once",
    "relabel": "labels change past the gates, so that other quotas cover a workload or a namespace",
    "ungated": "somebody scales, deletes or creates past the gates",
    "partition": "a gate does not reach the API server for a while",
    "deleted": "somebody deletes the ledger object",
    "edited": "somebody writes into the ledger object what no gate can read",
    "webhook-lost": "calls of the webhook get lost, or their answers",
    "refused-later": "another webhook, or a ResourceQuota, refuses what a gate has admitted",
    "policies": "a plug-in limits some workloads, fails at others, and now and then fails, lies and refuses",
    "guarantees": "quotas have siblings, and operators give them guarantees and take these back",
    "overrides": "operators give quotas other amounts for a while; the clocks of gates are up to 5 s apart",
    "turns": "roots have turns, and operators give them turns and take these back",
    "adopted": "ReplicaSets that stand alone are given to a Deployment, and taken from it again",
    "applied": "server-side applies leave out the count, a label or a container that earlier ones had",
    "remade": "StatefulSets are deleted, and made again under the same or other labels; their claims stay",
    "spelled": "patches copy values within the object, or have directives ($patch, $retainKeys)",
    "leaves": "callers leave before they have their answer",
}
"""What may go wrong."""

MANY = 8
"""Where as many faults are asked for, some worlds have only a few of them."""

WORDS = ("deploy", "deploy", "deploy", "roll", "roll", "sts", "sts", "rs", "tin")
"""Kinds of workloads, in proportion to how often each is listed."""

LIMITED = (
    ("requests.cpu",),
    ("pods",),
    ("requests.cpu", "pods"),
    ("requests.cpu", "requests.storage"),
    ("requests.storage",),
)
"""What a quota limits: one of these sets. The first three say nothing of storage."""

PACE = (0.02, 0.3, 1.0)
"""Average seconds between two steps: one of these."""


ENTRANCES = ("envoy", "webhook", "both")
"""Who asks the gates: an Envoy before the API server, the API server itself, or both, about the same writes."""


class Step(NamedTuple):
    """One thing that happens."""

    number: int
    at_s: float
    what: str
    how: Mapping[str, Any]

    def __str__(self) -> str:
        words = " ".join(f"{key}={value}" for key, value in self.how.items())
        return f"step {self.number}: {self.what} {words}"


@dataclass(frozen=True)
class Plan:
    """A world: all of it follows from this."""

    seed: int
    gates: int
    ledger: str
    workloads: tuple[str, ...]
    """``namespace/tier-word-number``: the word is one of ``kinds.KINDS``."""
    quotas: tuple[Mapping[str, Any], ...]
    steps: tuple[Step, ...]
    faults: frozenset[str]
    entrances: str
    """One of ``ENTRANCES``."""
    clamps: bool = False
    """The API server asks the mutating webhook too, and quotas are in mode Clamp. Only where no Envoy is asked."""

    def without(self, numbers: frozenset[int]) -> Plan:
        """The same world without some steps."""
        return replace(self, steps=tuple(one for one in self.steps if one.number not in numbers))


def draw(
    seed: int,
    steps: int,
    faults: frozenset[str],
    ledger: str = "",
    gates: int = 0,
    often: Mapping[str, float] | None = None,
    pace: Sequence[float] = PACE,
    words: Sequence[str] = WORDS,
    entrances: str = "",
) -> Plan:
    """The world of a seed. Ledger, number of gates and entrances are drawn too unless they are given; ``often`` says
    how often a kind of step is drawn, where it is to be more or less than usual, ``pace`` how many seconds lie between
    them, and ``words`` of which kinds the workloads are."""
    random = Random(f"plan {seed}")
    ledger = ledger or random.choice(("memory", "store", "kubernetes", "kubernetes"))
    gates = 1 if ledger == "memory" else gates or random.choice((1, 2, 3))
    faults = _happening(random, faults)
    workloads = _workloads(random, words)
    quotas = _quotas(random, any("-sts-" in one for one in workloads))
    entrances = entrances or _entrances(seed)
    clamps = entrances == "webhook" and _clamps(seed)
    if "guarantees" in faults:
        quotas = _guaranteed(seed, quotas)
    if "turns" in faults:
        quotas = tuple(one if "parent" in one else {**one, "sharing": {"turns": "Share"}} for one in quotas)
    if clamps:
        quotas = tuple({**one, "mode": "Clamp"} for one in quotas)
    return Plan(
        seed,
        gates,
        ledger,
        workloads,
        quotas,
        _steps(Draw(random, faults, workloads, gates), steps, often or {}, pace),
        faults,
        entrances,
        clamps,
    )


def _entrances(seed: int) -> str:
    """Half of the worlds have counts at Envoy, and objects at the webhook."""
    random = Random(f"entrances {seed}")
    return random.choice(("envoy", "envoy", "webhook", "both", "both", "both"))


def _clamps(seed: int) -> bool:
    """In two thirds of the worlds where it may be."""
    random = Random(f"clamps {seed}")
    return random.random() < 2 / 3


def _happening(random: Random, faults: frozenset[str]) -> frozenset[str]:
    """In half of the worlds only some faults: where all happen at once, a gate seldom comes to grant anything."""
    if len(faults) < MANY or random.random() < 0.5:
        return faults
    return frozenset(random.sample(sorted(faults), random.randint(1, len(faults) // 2)))


def _workloads(random: Random, words: Sequence[str]) -> tuple[str, ...]:
    places = [f"{namespace}/{tier}" for namespace in ("shop", "lab", "zoo") for tier in ("web", "job")]
    chosen = sorted(random.sample(places, random.randint(1, 4)))
    return tuple(f"{place}-{random.choice(words)}-{number}" for number, place in enumerate(chosen))


def _quotas(random: Random, claims: bool) -> tuple[Mapping[str, Any], ...]:
    """Tight ones: there is room for a few pods more than there are at the start, which is one each. Storage is limited
    where there are ``claims``."""

    def hard(low: int, high: int) -> dict[str, str]:
        limits = {"requests.cpu": str(random.randint(low, high)), "pods": str(random.randint(low, high))}
        limits["requests.storage"] = f"{CLAIM_GI * random.randint(low, high)}Gi"
        return {key: limits[key] for key in random.choice(LIMITED if claims else LIMITED[:3])}

    quotas: list[dict[str, Any]] = [
        {"name": "acme", "namespaces": {"workspace": "acme"}, "hard": hard(4, 9)},
        {"name": "zoo", "namespaces": {"workspace": "zoo"}, "hard": hard(3, 6)},
    ]
    if random.random() < 0.5:
        web = {"tier": "web"}
        drawn = hard(2, 6)
        least = {**drawn, **{key: str(max(int(drawn[key]), 4)) for key in drawn if key != "requests.storage"}}
        quotas.append({"name": "acme-web", "parent": "acme", "namespaces": {}, "workloads": web, "hard": least})
    if random.random() < 0.4:
        quotas.append({"name": "site", "namespaces": {}, "hard": {"pods": str(random.randint(5, 12))}})
    return tuple(quotas)


def _guaranteed(seed: int, quotas: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The same under one root, with siblings, and with guarantees at two levels. Each workload counts in one line."""
    random = Random(f"guarantees {seed}")
    acme, zoo = quotas[:2]
    hard = {key: str(random.randint(6, 10)) for key in ("pods", "requests.cpu")}
    site = {"name": "site", "namespaces": {"workspace": "none"}, "hard": hard}

    def share(of: Mapping[str, Any]) -> dict[str, Any]:
        within = {key: amount for key, amount in of["hard"].items() if not amount.endswith("Gi")}
        return {**of, "guaranteed": {key: str(random.randint(0, int(amount))) for key, amount in within.items()}}

    tiers = [{**acme, "name": f"acme-{tier}", "parent": "acme", "workloads": {"tier": tier}} for tier in ("job", "web")]
    return (site, {**acme, "parent": "site"}, {**zoo, "parent": "site"}, share(tiers[0]), share(tiers[1]))


def _steps(draw: Draw, number: int, often: Mapping[str, float], pace: Sequence[float]) -> tuple[Step, ...]:
    random, able = draw.random, [kind for kind, (_, fault, _) in DRAWN.items() if not fault or fault in draw.faults]
    weights = [often.get(kind, DRAWN[kind][0]) for kind in able]
    at_s, steps = 1.0, []
    for one in range(number):
        at_s += random.expovariate(1 / random.choice(pace))
        kind = random.choices(able, weights)[0]
        steps.append(Step(one, round(at_s, 4), kind, DRAWN[kind][2](draw)))
    return tuple(steps)
