"""The results as text: a row a cell, beside what the paper reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .running import Cell, Result
from .setup import REPORTED_RESTARTS, REPORTED_TOTAL
from .statistics import Mean, change, mean

Results = Mapping[Cell, Sequence[Result]]

HEADER = (
    *("workload", "degree", "remedy", "total s", "change %", "paper %", "restarts", "change %", "paper %"),
    *("running s", "longest", "those waiting s", "longest"),
)


def rows(results: Results) -> list[tuple[str, ...]]:
    """With their header. Changes are those to the row without a remedy, if it was run."""
    return [HEADER, *(_row(cell, results) for cell in results)]


def _row(cell: Cell, results: Results) -> tuple[str, ...]:
    column = list(zip(*results[cell], strict=True))
    total, restarts, *times = (mean(one) for one in column)
    total_change, restarts_change = changes(cell, results)
    paper = cell.workload, cell.degree
    is_pausing = cell.remedy == "pause"
    return (
        cell.workload,
        str(cell.degree),
        cell.remedy,
        total.shown(),
        _percent(total_change),
        _reported(REPORTED_TOTAL.get(paper) if is_pausing else None),
        restarts.shown(1),
        _percent(restarts_change),
        _reported(REPORTED_RESTARTS.get(paper) if is_pausing else None),
        *(one.shown() for one in times),
    )


def changes(cell: Cell, results: Results) -> tuple[Mean | None, Mean | None]:
    """Of the total time and of restarts, in percent; ``None`` where there is nothing to compare."""
    without = results.get(cell._replace(remedy="none"))
    if cell.remedy == "none" or without is None:
        return None, None
    total = change([one.total_s for one in without], [one.total_s for one in results[cell]])
    return total, change([one.restarts for one in without], [one.restarts for one in results[cell]])


def _percent(change: Mean | None) -> str:
    return "" if change is None else f"{change.value:+.0f} ± {change.around:.0f}"


def _reported(figure: int | None) -> str:
    return "" if figure is None else f"{figure:+d}"
