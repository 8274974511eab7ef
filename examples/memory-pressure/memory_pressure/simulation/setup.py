"""What the paper gives, and what it leaves open. Memory is in MiB, time in seconds.

Source: Kang and Yu, doi 10.3745/TKIPS.2024.13.3.91.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from memory_pressure.marks import Marks

GIB: Final = 1024
NODES: Final = 3
CAPACITY: Final = 32 * GIB
"""Of a node, without swap."""
DEGREES: Final = (100, 110, 120, 130, 140, 150)
"""Percent: the sum of the limits on a full node, of its memory."""
BACK_OFF_S: Final = (10.0, 300.0)
"""After the first kill, and at most. It doubles with each kill."""
RESET_S: Final = 600.0
"""A container that ran for so long begins again with the first back-off."""
SLOWED: Final = 45.0
"""A paused container (CPU limit 10m) takes so many times as long."""
REMEDIES: Final = ("none", "pause", "hold")


class Workload(NamedTuple):
    """Containers of one size. Together their limits are 200 GB."""

    name: str
    limit: int
    containers: int
    step: int
    """What one allocation takes."""
    usual: Marks
    """Mupper, Mlower, T and R of the paper's table."""
    at_150: Marks

    def marks(self, degree: int) -> Marks:
        """What the paper's table has for a degree."""
        return self.at_150 if degree >= 150 else self.usual


WORKLOADS: Final = (
    Workload("2GB", 2 * GIB, 100, 256, Marks(94, 91, 3, 2), Marks(94, 91, 3, 2)),
    Workload("4GB", 4 * GIB, 50, 512, Marks(89, 86, 3, 1), Marks(91, 89, 3, 2)),
    Workload("8GB", 8 * GIB, 25, 1024, Marks(88, 86, 5, 1), Marks(88, 86, 5, 1)),
)


REPORTED_TOTAL: Final = {("2GB", 150): -8, ("4GB", 140): -14, ("8GB", 150): -10}
"""What pausing changes of the total time, in percent."""
REPORTED_RESTARTS: Final = {("4GB", 140): -58}
REPORTED_TEXT: Final = """\
The paper, of pausing: total time -7 % on average, none where nothing restarts. Restarts of 2GB and 4GB -41 %, of 8GB
-36 %, on average -40 %. At 4GB-140 running 454 → 402 s on average and 653 → 523 s at the longest, waiting 286 → 215 s.
Of holding it says nothing: that is ours."""

ALSO_TAKEN: Final = """\
Without a flag: a cycle takes a random part of what the limit leaves, each as often ("random"). The kernel kills the
container that uses the most (oom_badness, of pods with the same request). The gate sees the use of all nodes together.
The time between a kill and the restart counts as running."""


def _open(default: Any, reason: str, **how: Any) -> Any:  # noqa: ANN401 (as dataclasses.field)
    """A parameter that the paper does not give: its default, and why."""
    return field(default=default, metadata={"reason": reason} | how)


@dataclass(frozen=True, slots=True)
class Free:
    """The parameters that the paper does not give, and the cores, which it does. Each is a flag of the command."""

    step_s: float = _open(8.0, "from one allocation to the next; a run then takes some 300 s alone", range=(0.01, 600))
    hold_s: float = _open(
        2.0, "how long the most is held before it is freed; the paper names no such time", range=(0, 600)
    )
    cycles: int = _open(
        14, "how often a container fills and frees its memory; with the two above some 300 s", range=(1, 1000)
    )
    jitter: float = _open(
        0.3, "each time is drawn within so much of itself, or containers would march in step", range=(0, 0.9)
    )
    cores: int = _open(
        10,
        "of a node, for the containers that run; the paper's CPU has ten, and a paused one frees its share",
        range=(1, 1000),
    )
    allocatable_gb: float = _open(
        31.5,
        "what the kubelet offers of a node's 32 GB, which requests must fit in; at 150 % five containers of 8GB fit "
        "then, and six in 32",
        range=(8, 32),
    )
    system_gb: float = _open(1.0, "what kernel, kubelet and runtime of a node use; a usual worker's", range=(0, 8))
    round_s: float = _open(
        2.0,
        "from one look of the pausing at its node to the next; T of them, 6 to 10 s, are then about one allocation",
        range=(0.1, 60),
    )
    hold_marks: Marks = _open(  # noqa: RUF009 (it is a field)
        Marks(85, 80, 1, 3),
        "upper, lower, patience and step of holding; the paper's are for a node that is looked at each second, and "
        "make growth wait too long where looks are metrics-s apart",
    )
    metrics_s: float = _open(
        15.0, "from one look of the gate to the next; metrics-server's own resolution", range=(0.1, 600)
    )
