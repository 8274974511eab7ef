"""Docker where its daemon answers, else podman: how images are looked for, pulled and built."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.controlplane.parts import Module, Part, hidden

COMPOSE = Module("compose", (Part("docker-compose", "github.com/docker/compose/v2/cmd"),))
NONE = "neither a Docker daemon nor podman is here"
CURE = "run `make containers` (tests/compose/README.md)"
IMAGE_CURE = "run `make image` (tests/compose/README.md)"
BUILD_WITHIN_S = 1800.0
PULL_WITHIN_S = 600.0
SERVICE_WITHIN_S = 30.0


class MissingError(Exception):
    """No engine is here. The message says what would cure it."""


class Engine(NamedTuple):
    """A command line that Docker and podman share."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = {}
    options: tuple[str, ...] = ()
    """Of ``build``."""

    @property
    def is_podman(self) -> bool:
        return Path(self.command[0]).name == "podman"

    def run(
        self, *arguments: str, within_s: float = 60.0, check: bool = True, show: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """One command, its output kept unless it is to be shown."""
        return subprocess.run(
            [*self.command, *arguments],
            env={**os.environ, **self.environment},
            capture_output=not show,
            text=True,
            timeout=within_s,
            check=check,
        )


def found() -> Engine:
    """The engine of this machine.

    Raises:
        MissingError: there is none.
    """
    if hidden("containers"):
        raise MissingError(NONE)
    if (docker := shutil.which("docker")) and _is_docker(docker):
        return Engine((docker,), {"DOCKER_BUILDKIT": "1"})
    podman = shutil.which("podman")
    if podman is None:
        raise MissingError(NONE)
    runtime = ("--runtime", "runc") if shutil.which("runc") and not shutil.which("crun") else ()
    settings = {"CONTAINERS_CONF": str(Path(__file__).with_name("containers.conf"))}
    # Its own format drops HEALTHCHECK.
    return Engine((podman, *runtime), settings, ("--format=docker",))


def has(image: str) -> bool:
    """Whether it is here."""
    return found().run("image", "inspect", image, check=False).returncode == 0


def pull(image: str) -> bool:
    """Pull it; whether that worked."""
    return found().run("pull", "--quiet", image, within_s=PULL_WITHIN_S, check=False).returncode == 0


def build(image: str, folder: Path, *options: str) -> None:
    """Build the Dockerfile of a folder.

    Raises:
        CalledProcessError: it cannot be built.
    """
    engine = found()
    engine.run(
        "build", *engine.options, "--tag", official(image), *options, str(folder), within_s=BUILD_WITHIN_S, show=True
    )


def official(image: str) -> str:
    """The whole name that a short one stands for, as Docker has it; podman would put its own registry before it."""
    registry, slash, _ = image.partition("/")
    if slash and ("." in registry or ":" in registry):
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"


def compose() -> tuple[str, ...]:
    """Docker's compose command: the engine's own, that of PATH, or what ``make containers`` built; empty if none."""
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0:
        return (docker, "compose")
    if standalone := shutil.which("docker-compose"):
        return (standalone,)
    built = COMPOSE.cache / COMPOSE.parts[0].name
    return (str(built),) if built.is_file() else ()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which ``compose`` reaches the engine; podman's socket is open meanwhile."""
    engine = found()
    if not engine.is_podman:
        yield {}
        return
    socket = folder / "podman.sock"
    environment = {**os.environ, **engine.environment}
    command = [*engine.command, "system", "service", "--time=0", f"unix://{socket}"]
    with (folder / "podman.log").open("wb") as log:
        service = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + SERVICE_WITHIN_S
        while not socket.exists():
            assert time.monotonic() < deadline, (folder / "podman.log").read_text()
            time.sleep(0.05)
        yield {"DOCKER_HOST": f"unix://{socket}"}
    finally:
        service.terminate()
        service.wait(SERVICE_WITHIN_S)


def missing(*, with_compose: bool) -> str:
    """What is not here; empty if all is."""
    try:
        found()
    except MissingError as error:
        return str(error)
    return "" if compose() or not with_compose else "Docker's compose command is not here"


def _is_docker(command: str) -> bool:
    """Its daemon answers, and is no podman behind Docker's socket, which has its own way to build."""
    done = subprocess.run([command, "version"], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode == 0 and "Podman" not in done.stdout
