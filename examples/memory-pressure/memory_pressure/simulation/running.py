"""Runs cells: a workload at a degree with a remedy, a run for each seed, on all processors."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from statistics import fmean
from typing import NamedTuple

from . import remedies
from .cluster import Cluster
from .setup import WORKLOADS, Free, Workload


class Cell(NamedTuple):
    """One row of the table."""

    workload: str
    degree: int
    remedy: str


class Result(NamedTuple):
    """What became of one run, in seconds."""

    total_s: float
    restarts: int
    running_s: float
    """Mean, from the first start of a container to its end."""
    longest_running_s: float
    waiting_s: float
    """From the start of the run to the first start of a container: the mean of those that wait at all."""
    longest_waiting_s: float


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to run."""

    workloads: Sequence[str]
    degrees: Sequence[int]
    remedies: Sequence[str]
    seeds: Sequence[int]
    free: Free

    def cells(self) -> list[Cell]:
        return [Cell(*each) for each in product(self.workloads, self.degrees, self.remedies)]


def named(name: str) -> Workload:
    """One of the three workloads."""
    return next(one for one in WORKLOADS if one.name == name)


def run(cell: Cell, seed: int, free: Free) -> Result:
    """One run. The same arguments give the same result everywhere."""
    workload = named(cell.workload)
    cluster = Cluster(workload, cell.degree, free, seed)
    remedies.put(cell.remedy, cluster, workload.marks(cell.degree))
    cluster.run()
    return result(cluster)


def result(cluster: Cluster) -> Result:
    """What became of the containers of a cluster that has run."""
    running = [one.ended_s - one.started_s for one in cluster.containers]
    waiting = [one.started_s for one in cluster.containers]
    return Result(
        max(one.ended_s for one in cluster.containers),
        sum(one.kills for one in cluster.containers),
        fmean(running),
        max(running),
        fmean([one for one in waiting if one > 0] or [0.0]),
        max(waiting),
    )


def run_all(wanted: Wanted, jobs: int) -> dict[Cell, list[Result]]:
    """All cells, each with a result for each seed."""
    cells = wanted.cells()
    if jobs == 1:
        return dict(_each(wanted, cell) for cell in cells)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        return dict(pool.map(_each, [wanted] * len(cells), cells))


def _each(wanted: Wanted, cell: Cell) -> tuple[Cell, list[Result]]:
    return cell, [run(cell, seed, wanted.free) for seed in wanted.seeds]
