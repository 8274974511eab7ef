"""Hours that were used: of CPUs, GiB and devices, by quota and workload. Hours, not money."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TextIO

from extauthz.core.ledger.coverage import Coverage, leaves
from extauthz.core.model import Amounts, WorkloadRef
from extauthz.core.quantities import NANO
from extauthz.core.resources import is_device
from extauthz.record.reading import Load

_CPU: Final = "requests.cpu"
_MEMORY: Final = "requests.memory"
_GIB: Final = 1 << 30


@dataclass(slots=True)
class _Use:
    quotas: tuple[str, ...]
    labels: str
    amounts: Amounts
    since_s: float


class Hours:
    """Sums what is observed. Times are on the clock of what counts.

    Args:
        coverage: which quotas cover a workload.
    """

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._uses: dict[WorkloadRef, _Use] = {}
        self._sums: dict[tuple[str, WorkloadRef, str], float] = {}
        """Nano-units times seconds."""

    def load(self, load: Load, now_s: float) -> None:
        """A workload uses this from now on."""
        self._sum(load.ref, now_s)
        used = {key: load.replicas * each for key, each in load.pod.items() if _counts(key)}
        for key, amount in load.beside.items():
            if _counts(key):
                used[key] = used.get(key, 0) + amount
        self._uses[load.ref] = _Use(self._quotas(load.ref, load.labels), load.labels, used, now_s)

    def gone(self, ref: WorkloadRef, now_s: float) -> None:
        """A workload is gone."""
        self._sum(ref, now_s)
        self._uses.pop(ref, None)

    def recount(self, now_s: float) -> None:
        """Quotas or labels of namespaces are others."""
        for ref, use in self._uses.items():
            self._sum(ref, now_s)
            use.quotas = self._quotas(ref, use.labels)

    def end(self, now_s: float) -> None:
        """The time is over."""
        for ref in self._uses:
            self._sum(ref, now_s)

    def rows(self) -> Iterator[tuple[str, str, str, Fraction]]:
        """Quota, workload, key, and hours of CPUs, GiB or devices."""
        for (quota, ref, key), sums in sorted(self._sums.items()):
            unit = NANO * (_GIB if key == _MEMORY else 1)
            name = f"{ref.group_resource}/{ref.namespace}/{ref.name}"
            yield quota, name, key, Fraction(round(sums * 1000), unit * 3600 * 1000)

    def _quotas(self, ref: WorkloadRef, labels: str) -> tuple[str, ...]:
        """Those without quotas below: what is used in one is used in those above."""
        return tuple(sorted(leaves(self._coverage.nodes(ref.namespace, labels)))) or ("-",)

    def _sum(self, ref: WorkloadRef, now_s: float) -> None:
        use = self._uses.get(ref)
        if use is None or now_s <= use.since_s:
            return
        for quota in use.quotas:
            for key, amount in use.amounts.items():
                place = (quota, ref, key)
                self._sums[place] = self._sums.get(place, 0.0) + amount * (now_s - use.since_s)
        use.since_s = now_s


def _counts(key: str) -> bool:
    return key in (_CPU, _MEMORY) or is_device(key)


def write(hours: Hours, file: TextIO) -> None:
    """As CSV: a line for each quota, workload and resource, with hours to the thousandth."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(("quota", "workload", "resource", "unit", "hours"))
    for quota, workload, key, amount in hours.rows():
        unit = {_CPU: "CPU", _MEMORY: "GiB"}.get(key, "device")
        rows.writerow((quota, workload, key, unit, f"{float(amount):.3f}"))
