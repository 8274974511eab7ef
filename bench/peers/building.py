"""The Go programs of ``bench/peers/go``: built once into the user's cache directory, a folder for each version of them.

The build works in a copy, so that the repository gets no go.sum.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.controlplane import parts
from tests.controlplane.build import BuildError, go_binary

SOURCE = Path(__file__).parent / "go"
PROGRAMS = ("opa", "bare", "drive", "grow")
WITHIN_S = 1800.0


def cache(source: Path = SOURCE) -> Path:
    """Where they are kept. Whatever changes in a file makes another folder."""
    digest = hashlib.sha256()
    for file in sorted(source.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(source)}\0".encode() + file.read_bytes())
    return parts.cache_root().parent / "peers" / digest.hexdigest()[:12]


def is_built() -> bool:
    """They are all there."""
    return all((cache() / name).is_file() for name in PROGRAMS)


def built() -> Path:
    """The folder with the programs.

    Raises:
        BuildError: Go is missing and cannot be fetched, or a step failed.
    """
    folder = cache()
    if is_built():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = folder.with_name(f"{folder.name}-{os.getpid()}")
    shutil.copytree(SOURCE, work)
    try:
        go = str(go_binary())
        _step([go, "mod", "tidy"], work)
        _step([go, "build", "-o", f"{work / 'out'}/", *(f"./{name}" for name in PROGRAMS)], work)
        shutil.rmtree(folder, ignore_errors=True)
        (work / "out").rename(folder)
    finally:
        shutil.rmtree(work)
    return folder


def _step(command: list[str], folder: Path) -> None:
    environment = {**os.environ, "GOWORK": "off", "GO111MODULE": "on"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    if done.returncode:
        raise BuildError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-4000:]}")
