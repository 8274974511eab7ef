"""The services of docker-compose.yml, up once for all tests."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.compose import DockerCompose

from tests.compose import engine, prepare, standins


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCompose]:
    """All services, started."""
    folder = tmp_path_factory.mktemp("compose")
    prepare.own_images(*prepare.OWN)
    with engine.served(folder) as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        command = _command(folder, engine.compose())
        up = DockerCompose(standins.ROOT, wait=False, docker_command_path=str(command))
        try:
            _start(up, folder)
            yield up
        finally:
            up.stop()


def _start(services: DockerCompose, folder: Path) -> None:
    try:
        services.start()
    except subprocess.CalledProcessError as error:
        log = folder / "podman.log"
        told = f"{error}\n{(error.stderr or b'').decode()}\n{log.read_text() if log.exists() else ''}"
        pytest.fail(told, pytrace=False)


def _command(folder: Path, compose: tuple[str, ...]) -> Path:
    """A ``docker`` that has ``compose``: testcontainers puts that word first, the standalone command has none."""
    script = folder / "docker"
    script.write_text(f'#!/bin/sh\nshift\nexec {shlex.join(compose)} "$@"\n')
    script.chmod(0o755)
    return script
