"""The report: a table for the terminal, the same in Markdown, and a plot of all ratios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .figures import Figure

HEADER = ("figure", "measured", "floor", "ratio", "goal", "met?")
MET, MISSED, TOLD = "#3a7d44", "#b3261e", "#8a8a8a"


def rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """The cells of the table."""
    return [
        (
            figure.name,
            figure.measured,
            figure.floor,
            _spelled(figure),
            str(figure.goal) if figure.goal else "none",
            "-" if figure.goal is None else "NO" if figure.missed else "yes",
        )
        for figure in figures
    ]


def _spelled(figure: Figure) -> str:
    """The ratio, with its range where there is one."""
    span = f" ({figure.span[0]:.2f} to {figure.span[1]:.2f})" if figure.span else ""
    return f"{figure.ratio:.2f}{span}"


def text(figures: Sequence[Figure]) -> str:
    """For the terminal."""
    cells = [HEADER, *rows(figures)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def markdown(figures: Sequence[Figure], notes: Sequence[str]) -> str:
    """For ``report.md``."""
    lines = [HEADER, tuple("---" for _ in HEADER), *rows(figures)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"# Benchmark\n\n{table}\n\n" + "\n".join(f"- {note}" for note in notes) + "\n\n![ratios](report.png)\n"


def plot(figures: Sequence[Figure], path: Path) -> None:
    """A bar a ratio, with its goal as a mark."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    chart, axes = pyplot.subplots(figsize=(11, 0.6 * len(figures) + 1.4), layout="constrained")
    for place, figure in enumerate(reversed(figures)):
        colour = TOLD if figure.goal is None else MISSED if figure.missed else MET
        axes.barh(place, figure.ratio, color=colour, height=0.6)
        if figure.goal:
            axes.plot([figure.goal.bound] * 2, [place - 0.4, place + 0.4], color="black", linewidth=2)
        label = f"  {figure.ratio:.2f}  =  {figure.measured} / {figure.floor}"
        axes.text(0, place, label, va="center", fontsize=8, color="white")
    axes.set_yticks(range(len(figures)), [figure.name for figure in reversed(figures)], fontsize=8)
    axes.set_xlabel("ratio to the floor; black mark: the goal; grey: told, not judged")
    axes.set_xlim(0, 1.1 * max(figure.ratio for figure in figures))
    axes.spines[["top", "right"]].set_visible(False)
    chart.savefig(path, dpi=130)
    pyplot.close(chart)
