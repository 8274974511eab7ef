"""The package ``examples/memory-pressure`` for tests with real parts, which need not have it installed."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

MEMORY_PRESSURE = Path(__file__).parents[1] / "examples" / "memory-pressure"


def importable() -> None:
    """Have this process find the package, where it is not installed."""
    if str(MEMORY_PRESSURE) not in sys.path:
        sys.path.append(str(MEMORY_PRESSURE))


def as_installed(folder: Path) -> str:
    """A ``PYTHONPATH`` by which a process finds the package and its entry points, as if pip had put it there."""
    project = tomllib.loads((MEMORY_PRESSURE / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("".join(lines))
    return f"{folder}:{MEMORY_PRESSURE}"
