"""What happens in a world with pods, drawn from its seed before it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from extauthz.simulate.objects import milli
from extauthz.simulate.plan import Step

from .judge import Amounts
from .objects import LEADER

CPUS: Final = ("500m", "1", "2", "3")

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
}


@dataclass(frozen=True)
class Plan:
    """A world: all of it follows from this."""

    seed: int
    gates: int
    ledger: str
    workloads: tuple[tuple[str, str, bool], ...]
    """``namespace/app-word-number``, what its template asks for, and whether a StatefulSet's pods come in parallel."""
    hard: Amounts
    steps: tuple[Step, ...]
    faults: frozenset[str]

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
) -> Plan:
    """The world of a seed. A third of the worlds has no faults, the others some or all of ``faults``."""
    random = Random(f"pods {seed}")  # noqa: S311 (to be repeated, not to be secret)
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
    start_m, pods = start_m + teams * milli(LEADER), len(workloads) + teams
    hard = Amounts(start_m + 1000 * random.randint(3, 10), pods + random.randint(4, 20))
    weights = {one: (often or {}).get(one, weight) for one, (weight, fault, _) in DRAWN.items()}
    able = [one for one, (_, fault, _) in DRAWN.items() if not fault or fault in faults]
    at_s, drawn = 1.0, []
    for number in range(steps):
        at_s += random.expovariate(1 / random.choice((0.05, 0.5, 2.0)))
        what = random.choices(able, [weights[one] for one in able])[0]
        how = {"workload": random.choice(workloads)[0], "gate": random.randrange(gates), **DRAWN[what][2](random)}
        drawn.append(Step(number, round(at_s, 4), what, how))
    return Plan(seed, gates, ledger, workloads, hard, tuple(drawn), faults)


def _fate(random: Random) -> dict[str, Any]:
    return {"end": random.choice(("stored", "stored", "stored", "late", "refused"))}


DRAWN: Final[Mapping[str, tuple[float, str, Callable[[Random], dict[str, Any]]]]] = {
    "scale": (10.0, "", lambda r: {"to": r.choice((0, 1, 2, 3, 4, 5, 6, 8)), **_fate(r)}),
    "apply": (5.0, "", lambda r: {"to": r.choice((1, 2, 3, 4, 5)), "cpu": r.choice(CPUS), **_fate(r)}),
    "undo": (1.0, "", _fate),
    "partition": (1.0, "", lambda r: {"at": r.choice((0, 1, 2, 5)), "cpu": r.choice(("", *CPUS)), **_fate(r)}),
    "resize": (3.0, "", lambda r: {"pod": r.randrange(8), "cpu": r.choice(CPUS), **_fate(r)}),
    "delete": (0.5, "", lambda r: {"for_s": r.choice((0.0, 0.5, 3.0)) * r.random(), "to": r.choice((1, 2, 4))}),
    "orphan": (0.5, "", lambda r: {"for_s": r.choice((0.0, 0.5, 3.0)) * r.random(), "to": r.choice((1, 2, 4))}),
    "operator": (1.0, "operator", lambda r: {"cpu": r.choice(CPUS)}),
    "sidecar": (0.5, "sidecar", lambda r: {}),
    "evict": (1.0, "evicted", lambda r: {"pod": r.randrange(8)}),
    "hold-watch": (2.0, "lag", lambda r: {"kind": r.randrange(7), "for_s": 4.0 * r.random()}),
    "drop-watch": (1.0, "drop", lambda r: {"kind": r.randrange(7)}),
    "relist": (1.0, "relist", lambda r: {"kind": r.randrange(7)}),
    "crash": (0.7, "crash", lambda r: {"after": r.randint(1, 60), "for_s": r.random()}),
}
"""Every kind of step: how often, the fault without which it does not happen, and how it is drawn."""
