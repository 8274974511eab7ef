"""The results as a chart: a column of panels a workload, a bar a remedy. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .running import Cell, Result
from .statistics import mean

PANELS = (
    ("total time, s", "total_s", None),
    ("restarts", "restarts", None),
    ("running, s (mark: longest)", "running_s", "longest_running_s"),
    ("waiting, s (mark: longest)", "waiting_s", "longest_waiting_s"),
)
COLOURS = {"none": "#8a8a8a", "pause": "#3a6ea5", "hold": "#3a7d44"}


def draw(results: Mapping[Cell, Sequence[Result]], path: Path) -> None:
    """Write it. Raises ModuleNotFoundError without matplotlib, and ValueError for an ending that it does not know."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    workloads = list(dict.fromkeys(cell.workload for cell in results))
    size = 4.2 * len(workloads) + 0.8, 2.6 * len(PANELS)
    chart, panels = pyplot.subplots(len(PANELS), len(workloads), figsize=size, layout="constrained", squeeze=False)
    for row, (title, value, longest) in zip(panels, PANELS, strict=True):
        for axes, workload in zip(row, workloads, strict=True):
            _panel(axes, {cell: runs for cell, runs in results.items() if cell.workload == workload}, value, longest)
            axes.set_title(f"{workload}: {title}", fontsize=9)
    handles, names = panels[0][0].get_legend_handles_labels()
    chart.legend(handles, names, loc="outside upper center", ncols=3)
    chart.savefig(path, dpi=110)
    pyplot.close(chart)


def _panel(axes: Any, results: Mapping[Cell, Sequence[Result]], value: str, longest: str | None) -> None:  # noqa: ANN401
    degrees = sorted({cell.degree for cell in results})
    remedies = list(dict.fromkeys(cell.remedy for cell in results))
    width = 0.8 / len(remedies)
    for number, remedy in enumerate(remedies):
        places = [place + width * (number - (len(remedies) - 1) / 2) for place in range(len(degrees))]
        runs = [results[Cell(cell.workload, degree, remedy)] for cell in list(results)[:1] for degree in degrees]
        means = [mean([getattr(one, value) for one in each]) for each in runs]
        heights, around = [one.value for one in means], [one.around for one in means]
        axes.bar(places, heights, width, yerr=around, label=remedy, color=COLOURS[remedy], error_kw={"linewidth": 0.8})
        if longest:
            tops = [mean([getattr(one, longest) for one in each]).value for each in runs]
            axes.plot(places, tops, linestyle="", marker="_", color=COLOURS[remedy], markersize=9)
    axes.set_xticks(range(len(degrees)), [f"{degree} %" for degree in degrees], fontsize=8)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
