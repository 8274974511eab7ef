"""What happens in a world with pods, drawn from its seed before it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from tests.worlds.objects import Kind, milli
from tests.worlds.plan import Step
from tests.worlds.pods.judge import Amounts
from tests.worlds.pods.objects import (
    FIRST,
    JOB,
    LEADER,
    MAKES,
    OVERHEAD,
    POD,
    RETRIES,
    SCRATCH_SIZE,
    SHARED_DEVICES,
    WORKLOADS,
    word_of,
)

CPUS: Final = ("500m", "1", "2", "3")

TIERS: Final = ("gold", "silver")

FAULTS: Final[Mapping[str, str]] = {
    "lag": "watches bring events late, each collection for itself; answers to a gate's calls come late",
    "drop": "watches break, and are resumed",
    "relist": "watches break and the API server no longer knows the version (410)",
    "lost": "calls of a gate get lost, or their answers after they were carried out; some land later; some get a 429",
    "late": "admitted writes are stored late, or refused by somebody else",
    "crash": "gates are killed at any of their awaits, and started again",
    "sidecar": "somebody puts a sidecar into pods",
    "operator": "an operator makes dearer or cheaper pods than before",
    "evicted": "pods are evicted",
    "reissued": "somebody makes the template of claims anew, for more or fewer devices",
}


@dataclass(frozen=True)
class Plan:
    """A world: all of it follows from this."""

    seed: int
    gates: int
    ledger: str
    workloads: tuple[tuple[str, str, bool], ...]
    """``namespace/app-word-number``, what its template asks for, and whether a StatefulSet's pods come in parallel, or
    a Job ends after some pods (else it makes none once one has ended)."""
    hard: Amounts
    steps: tuple[Step, ...]
    faults: frozenset[str]
    tiers: Mapping[str, Amounts] = field(default_factory=dict)
    """Quotas within the one of all, by the label of their workloads, and what each is limited to."""
    guaranteed: Mapping[str, Amounts] = field(default_factory=dict)
    """What some of them have for themselves."""
    charges_surge: bool = False
    """The setting ``charge-surge`` is on."""

    @property
    def words(self) -> frozenset[str]:
        """Of all workloads."""
        return frozenset(word_of(name) for name, _, _ in self.workloads)

    @property
    def watched(self) -> tuple[Kind, ...]:
        """What is watched of which there is something."""
        return tuple(dict.fromkeys((POD, *(kind for word in sorted(self.words) for kind in MAKES[word]))))

    def without(self, numbers: frozenset[int]) -> Plan:
        """The same world without some steps."""
        return replace(self, steps=tuple(one for one in self.steps if one.number not in numbers))


def draw(
    seed: int,
    steps: int,
    faults: frozenset[str],
    *,
    often: Mapping[str, float] | None = None,
    words: tuple[str, ...] = ("deploy", "deploy", "sts", "crew"),
    ledger: str = "",
    tiers: bool = False,
    charges_surge: bool = False,
) -> Plan:
    """The world of a seed. A third of the worlds has no faults, the others some or all of ``faults``.

    Args:
        tiers: workloads belong to quotas by their labels, and move between them.
    """
    random = Random(f"pods {seed}")
    ledger = ledger or random.choice(("memory", "kubernetes", "kubernetes"))
    gates = 1 if ledger == "memory" else random.choice((1, 2))
    chance = random.random()
    if chance < 1 / 3:
        faults = frozenset()
    elif chance < 2 / 3:
        faults = frozenset(random.sample(sorted(faults), random.randint(1, len(faults)))) if faults else faults
    places = random.sample(["shop/web", "shop/api", "lab/web", "lab/api"], random.randint(2, 3))
    workloads = tuple(
        (f"{place}-{random.choice(words)}-{number}", random.choice(CPUS[:3]), random.random() < 0.5)
        for number, place in enumerate(places)
    )
    start_m = sum(milli(cpu) if "-crew-" not in name else 1000 for name, cpu, _ in workloads)
    teams = sum("-team-" in name for name, _, _ in workloads)
    start_m += milli(OVERHEAD) * sum("-kata-" in name for name, _, _ in workloads)
    start_m, pods = start_m + teams * milli(LEADER), len(workloads) + teams
    hard = Amounts(start_m + 1000 * random.randint(3, 10), pods + random.randint(4, 20))
    if claims := sum("-dra-" in name for name, _, _ in workloads):
        hard = hard._replace(devices=2 * SHARED_DEVICES + claims + random.randint(2, 12))
    spills, caches = (sum(word in name for name, _, _ in workloads) for word in ("-spill-", "-cache-"))
    if spills or caches:
        hard = hard._replace(storage=SCRATCH_SIZE * (spills * (FIRST + RETRIES) + caches + random.randint(2, 10)))
    weights = {one: (often or {}).get(one, weight) for one, (weight, fault, _) in DRAWN.items()}
    able = [one for one, (_, fault, _) in DRAWN.items() if (not fault or fault in faults) and _those(one, workloads)]
    able = [one for one in able if tiers or one != "move"]
    at_s, drawn = 1.0, []
    for number in range(steps):
        at_s += random.expovariate(1 / random.choice((0.05, 0.5, 2.0)))
        what = random.choices(able, [weights[one] for one in able])[0]
        how = {
            "workload": random.choice(_those(what, workloads)),
            "gate": random.randrange(gates),
            **DRAWN[what][2](random),
        }
        drawn.append(Step(number, round(at_s, 4), what, how))
    limits = {tier: _between(random, hard, 1 / 2, 1.0) for tier in TIERS} if tiers else {}
    own = {tier: _between(random, hard, 0.0, 1 / 4) for tier in limits if random.random() < 2 / 3}
    return Plan(seed, gates, ledger, workloads, hard, tuple(drawn), faults, limits, own, charges_surge)


def _between(random: Random, whole: Amounts, least: float, most: float) -> Amounts:
    """A part of each."""
    return Amounts(*(random.randint(int(one * least), int(one * most)) for one in whole))


def _those(what: str, workloads: tuple[tuple[str, str, bool], ...]) -> list[str]:
    """Workloads that a kind of step may be about."""
    words = OF.get(what, MAKES.keys() - {"pod"})
    return [name for name, _, _ in workloads if word_of(name) in words]


def _fate(random: Random) -> dict[str, Any]:
    return {"end": random.choice(("stored", "stored", "stored", "late", "refused"))}


DRAWN: Final[Mapping[str, tuple[float, str, Callable[[Random], dict[str, Any]]]]] = {
    "scale": (10.0, "", lambda r: {"to": r.choice((0, 1, 2, 3, 4, 5, 6, 8)), **_fate(r)}),
    "apply": (5.0, "", lambda r: {"to": r.choice((1, 2, 3, 4, 5)), "cpu": r.choice(CPUS), **_fate(r)}),
    "undo": (1.0, "", _fate),
    "pause": (1.0, "", lambda r: {"cpu": r.choice(("", *CPUS)), **_fate(r)}),
    "partition": (1.0, "", lambda r: {"at": r.choice((0, 1, 2, 5, None)), "cpu": r.choice(("", *CPUS)), **_fate(r)}),
    "shift": (1.0, "", lambda r: {"start": r.choice((0, 2, 5)), **_fate(r)}),
    "resize": (3.0, "", lambda r: {"pod": r.randrange(8), "cpu": r.choice(CPUS), **_fate(r)}),
    "delete": (0.5, "", lambda r: {"for_s": r.choice((0.0, 0.5, 3.0)) * r.random(), "to": r.choice((1, 2, 4))}),
    "orphan": (0.5, "", lambda r: {"for_s": r.choice((0.0, 0.5, 3.0)) * r.random(), "to": r.choice((1, 2, 4))}),
    "operator": (1.0, "operator", lambda r: {"cpu": r.choice(CPUS)}),
    "sidecar": (0.5, "sidecar", lambda r: {}),
    "evict": (1.0, "evicted", lambda r: {"pod": r.randrange(8)}),
    "suspend": (1.5, "", _fate),
    "finish": (2.0, "", lambda r: {"pod": r.randrange(8)}),
    "pod": (6.0, "", lambda r: {"cpu": r.choice(CPUS), "owner": r.choice(("", "", "a", "b")), **_fate(r)}),
    "unpod": (2.0, "", lambda r: {"pod": r.randrange(8)}),
    "reissue": (1.0, "reissued", lambda r: {"devices": r.randint(1, 4), "for_s": 2.0 * r.random()}),
    "class": (1.0, "", lambda r: {"for_s": r.choice((0.0, 0.5, 3.0)) * r.random()}),
    "limits": (0.5, "", lambda r: {}),
    "forge": (0.5, "", _fate),
    "hold-watch": (2.0, "lag", lambda r: {"kind": r.randrange(420), "for_s": 4.0 * r.random()}),
    "drop-watch": (1.0, "drop", lambda r: {"kind": r.randrange(420)}),
    "relist": (1.0, "relist", lambda r: {"kind": r.randrange(420)}),
    "move": (4.0, "", lambda r: {"tier": r.choice((*TIERS, *TIERS, "")), **_fate(r)}),
    "crash": (0.7, "crash", lambda r: {"after": r.randint(1, 60), "for_s": r.random()}),
}
"""Every kind of step: how often, the fault without which it does not happen, and how it is drawn."""

_TEMPLATED: Final = frozenset({"deploy", "sts", "dra", "kata", "surge", "cache"})
_JOBS: Final = frozenset(word for word, kind in WORKLOADS.items() if kind is JOB)

OF: Final[Mapping[str, frozenset[str]]] = {
    "apply": _TEMPLATED,
    "undo": _TEMPLATED,
    **dict.fromkeys(("orphan", "pause"), frozenset({"deploy", "dra", "kata", "surge"})),
    "partition": frozenset({"sts", "cache"}),
    "shift": frozenset({"sts", "cache"}),
    "operator": frozenset({"crew"}),
    "suspend": _JOBS,
    "finish": _JOBS,
    "pod": frozenset({"pod"}),
    "unpod": frozenset({"pod"}) | _JOBS,
    "reissue": frozenset({"dra"}),
    "class": frozenset({"kata"}),
    "limits": frozenset({"bare"}),
    "forge": frozenset({"deploy"}),
    "resize": frozenset(MAKES.keys() - {"crew", "team", "bare"}),
    "move": frozenset(MAKES.keys() - {"pod", "dra"}),
    **dict.fromkeys(("evict", "hold-watch", "drop-watch", "relist", "crash"), frozenset(MAKES)),
}
"""What is about some workloads alone. A Job's template stays, as do those of custom resources. Pods by themselves are
made and deleted one by one. A Crew's price would follow a resize (docs/guarantee.md), and a Team's pods count by their
sum."""
