"""Starts a cluster of one node on this machine, and takes it away again: ``make cluster``, ``make cluster-down``."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from extauthz.demo.processes import SlowStartError, StartError
from tests.cluster.lacking import NAMESPACES
from tests.cluster.place import ADDRESS, PAUSE, Place
from tests.compose import engine
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.netns import environment
from tests.controlplane.parts import find

ROOT = Path(__file__).parents[2]
IMAGE = "extauthz"
PAUSES = 'FROM {image}\nENTRYPOINT ["python3", "-S", "-c", "import signal; signal.pause()"]\n'
"""A pod's first container waits to be killed."""
READY_WITHIN_S = 300.0
GONE_WITHIN_S = 60.0
PORT = 26443
"""Of 127.0.0.1, and no port of docker-compose.yml; another one where it is taken."""
_STARTED: dict[int, subprocess.Popen[bytes]] = {}
"""Those that this process has to wait for."""


@dataclass(frozen=True)
class Cluster:
    """One that runs."""

    place: Place

    @property
    def kubeconfig(self) -> Path:
        """An administrator's, from outside."""
        return self.place.kubeconfig

    @property
    def kubectl(self) -> Kubectl:
        """An administrator's."""
        return Kubectl(self.kubeconfig)

    def inside(self, *command: str, within_s: float = 60.0) -> str:
        """What a command prints that runs as a process of the node.

        Raises:
            CalledProcessError: it failed.
        """
        done = subprocess.run(
            [*self.way_in(), *command], capture_output=True, text=True, timeout=within_s, check=True, env=environment()
        )
        return done.stdout

    def way_in(self) -> list[str]:
        """Before a command: it runs as a process of the node, which has no way out."""
        parent = self.place.process.read_text()
        (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return ["nsenter", f"--target={child}", "--net", "--mount", "--pid", "--"]

    def images(self, *command: str, within_s: float = 60.0) -> str:
        """What containerd says to a command about the node's images."""
        return self.inside(str(find("ctr")), "--namespace=k8s.io", "images", *command, within_s=within_s)

    def tag_image(self, name: str) -> None:
        """Let the node have the gate's image by another name."""
        self.images("tag", "--force", f"{engine.official(IMAGE)}:latest", name)

    def import_images(self, archive: Path) -> None:
        """Let the node have images that were saved."""
        self.images("import", str(archive), within_s=READY_WITHIN_S)

    def end_part(self, name: str) -> None:
        """SIGKILL for a part of the control plane or the node; it is started again after a second.

        An API server that is asked to end serves its watches for another minute.
        """
        self.inside("kill", "-KILL", (self.place.logs / f"{name}.pid").read_text())

    def set_flags(self, name: str, *flags: str) -> None:
        """A part has these besides its own: as if its manifest were edited."""
        self.place.flags(name).write_text("\n".join(flags))
        self.end_part(name)


def running(place: Place) -> Cluster | None:
    """The cluster, if it runs."""
    try:
        os.kill(int(place.process.read_text()), 0)
    except (OSError, ValueError):
        return None
    return Cluster(place) if place.ready.exists() else None


def up(place: Place) -> Cluster:
    """Start one, with the gate's image as it is now.

    Raises:
        StartError: a part does not start; with what it said.
    """
    down(place)
    place.folder.mkdir(parents=True)
    _save_images(place)
    with _listener() as outside:
        with (place.folder / "cluster.log").open("wb") as log:
            child = subprocess.Popen(
                [*NAMESPACES, sys.executable, "-m", "tests.cluster.inside", str(place.folder), str(outside.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[outside.fileno()],
                start_new_session=True,
                env=environment(),
            )
        port = outside.getsockname()[1]
    _STARTED[child.pid] = child
    place.process.write_text(str(child.pid))
    try:
        _wait(place, child)
    except StartError:
        _end(place, child.pid)
        raise
    _write_kubeconfig(place, port)
    return Cluster(place)


def down(place: Place) -> None:
    """Leave nothing behind; nothing happens where nothing is.

    Raises:
        AssertionError: something stays.
    """
    with contextlib.suppress(FileNotFoundError):
        _end(place, int(place.process.read_text()))
    for group in place.cgroups():
        _remove_group(group)
    shutil.rmtree(place.folder, ignore_errors=True)
    assert not place.folder.exists(), f"{place.folder} stays"


def _wait(place: Place, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not place.ready.exists():
        if child.poll() is not None or time.monotonic() > deadline:
            what = SlowStartError if child.returncode is None else StartError
            raise what(f"{(place.folder / 'cluster.log').read_text()[-4000:]} (logs: {place.logs})")
        time.sleep(0.1)


def _end(place: Place, process: int) -> None:
    """The kernel ends all that is within with process 1, which ends with the one that started it."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        if b"tests.cluster.inside" in Path(f"/proc/{process}/cmdline").read_bytes():  # a number is given out again
            os.kill(process, signal.SIGKILL)
    if child := _STARTED.pop(process, None):
        child.wait()
    place.process.unlink()


def _remove_group(group: Path) -> None:
    """From the leaves on, once the last process has left."""
    folders = [*(each for each in group.rglob("*") if each.is_dir()), *([group] if group.exists() else [])]
    deadline = time.monotonic() + GONE_WITHIN_S
    while folders := [each for each in sorted(folders, reverse=True) if not _removed(each)]:
        assert time.monotonic() < deadline, f"processes stay in {folders}"
        time.sleep(0.1)


def _removed(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def _save_images(place: Place) -> None:
    """The gate's, and what a pod begins with, as one archive."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Dockerfile").write_text(PAUSES.format(image=engine.official(IMAGE)))
        found = engine.found()
        found.run("build", *found.options, "--quiet", "--tag", PAUSE, folder, within_s=engine.BUILD_WITHIN_S)
    many = ("--multi-image-archive",) if found.is_podman else ()
    images = (engine.official(IMAGE), PAUSE)
    found.run("save", *many, "--output", str(place.images), *images, within_s=engine.BUILD_WITHIN_S)


@contextlib.contextmanager
def _listener() -> Iterator[socket.socket]:
    """The port that leads into the cluster."""
    with socket.socket() as outside:
        outside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            outside.bind(("127.0.0.1", PORT))
        except OSError:
            outside.bind(("127.0.0.1", 0))
        outside.listen(64)
        yield outside


def _write_kubeconfig(place: Place, port: int) -> None:
    text = (place.kubeconfigs / "super-admin.conf").read_text()
    place.kubeconfig.touch(0o600)
    place.kubeconfig.write_text(text.replace(f"https://{ADDRESS}:6443", f"https://127.0.0.1:{port}"))
