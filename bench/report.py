"""The report: a table for the terminal, the same in Markdown, and a plot of all ratios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .figures import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Chart

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


def markdown(
    figures: Sequence[Figure], notes: Sequence[str], *, title: str = "Benchmark", picture: str = "report.png"
) -> str:
    """For ``report.md``."""
    lines = [HEADER, tuple("---" for _ in HEADER), *rows(figures)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    told = "\n".join(f"- {note}" for note in notes)
    return f"# {title}\n\n{table}\n\n{told}\n\n![ratios]({picture})\n"


def plot(figures: Sequence[Figure], path: Path) -> None:
    """A bar a ratio, with its goal as a mark, and the numbers in a column beside them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    chart = drawn(figures)
    chart.savefig(path, dpi=130, bbox_inches="tight")
    pyplot.close(chart)


def drawn(figures: Sequence[Figure]) -> Chart:
    """The picture. A bar may be too short for its numbers, so they stand on paper and never on it."""
    from matplotlib import pyplot

    chart, axes = pyplot.subplots(figsize=(11, 0.45 * len(figures) + 1.4))
    for place, figure in enumerate(reversed(figures)):
        colour = TOLD if figure.goal is None else MISSED if figure.missed else MET
        axes.barh(place, figure.ratio, color=colour, height=0.6)
        if figure.goal:
            axes.plot([figure.goal.bound] * 2, [place - 0.4, place + 0.4], color="black", linewidth=2)
        label = f"{_spelled(figure)}  =  {figure.measured} / {figure.floor}"
        axes.text(1.02, place, label, va="center", fontsize=8, transform=axes.get_yaxis_transform())
    axes.set_yticks(range(len(figures)), [figure.name for figure in reversed(figures)], fontsize=8)
    axes.set_ylim(-0.7, len(figures) - 0.3)
    axes.set_xlabel("ratio to the floor; black mark: the goal; grey: told, not judged", fontsize=8)
    axes.set_xlim(0, 1.05 * max(0.1, *map(_reach, figures)))
    axes.spines[["top", "right"]].set_visible(False)
    return chart


def _reach(figure: Figure) -> float:
    """How far its bar and its mark go."""
    return max(figure.ratio, figure.goal.bound if figure.goal else 0.0)
