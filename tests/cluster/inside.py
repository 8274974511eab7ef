"""The first process of a cluster: starts its parts in namespaces of their own, and looks after them.

``unshare`` starts it (``cluster.py``) as process 1 of a process, mount and network namespace. When it ends, however
that comes, the kernel ends all others with it, and takes mounts and network away: pid_namespaces(7). So a cluster
leaves nothing behind but its folder and its cgroups.

An administrator outside comes in by a port of 127.0.0.1: the socket was opened out there, and what comes there is
carried to the API server in here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cluster.daemons import CONTAINERD, commands, files
from tests.cluster.place import ADDRESS, NODE, Place, hierarchies
from tests.controlplane.netns import environment
from tests.controlplane.parts import find

KERNEL = {"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1"}
"""What a kubelet writes below /proc/sys where it finds another value (``setupKernelTunables``). It is the machine's."""
CLONE_NEWCGROUP = 0x02000000
READY_WITHIN_S = 120.0
AGAIN_AFTER_S = 1.0
COMMAND_WITHIN_S = 120.0
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def main(folder: Path, listener: int) -> None:
    """Until it is killed.

    Args:
        listener: a listening socket's file descriptor.
    """
    place = Place(folder)
    _be_alone(place)
    _be_connected()
    _write(place)
    watched = Watched(place)
    with socket.socket(fileno=listener) as outside:
        threading.Thread(target=_carry, args=(outside,), daemon=True).start()
        _start(place, watched)
        place.ready.touch()
        watched.forever()


def _be_alone(place: Place) -> None:
    """In cgroups and folders that the parts think are the machine's."""
    for hierarchy, group in zip(hierarchies(), place.cgroups(), strict=True):
        _let_have(hierarchy)
        _join(group)
    _be_root_of_cgroups()
    for hierarchy in hierarchies():
        _join(hierarchy / "node")  # only leaves hold processes (cgroups(7))
    _run("mount", "--make-rshared", "/")
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")
    for name in ("/var/lib", "/var/log"):
        below = place.folder / name.strip("/").replace("/", "-")
        below.mkdir()
        _run("mount", "--bind", str(below), name)
    for name, value in KERNEL.items():
        stand_in = place.folder / name.replace("/", "-")
        stand_in.write_text(f"{value}\n")
        _run("mount", "--bind", str(stand_in), f"/proc/sys/{name}")


def _let_have(hierarchy: Path) -> None:
    """Its groups have all controllers that it has (version 2)."""
    names = hierarchy / "cgroup.controllers"
    if names.is_file() and (found := names.read_text().split()):
        (hierarchy / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in found))


def _join(group: Path) -> None:
    """The group is there, and this process in it."""
    group.mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):  # version 1 has none to begin with
        if (group / name).is_file() and not (group / name).read_text().strip():
            (group / name).write_text((group.parent / name).read_text())
    (group / "cgroup.procs").write_text(str(os.getpid()))


def _be_root_of_cgroups() -> None:
    """From here on the groups that this process is in are the root: what the kubelet says of the node is the
    cluster's, and not the machine's (cgroup_namespaces(7))."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWCGROUP):
        sys.exit(f"no cgroup namespace: {os.strerror(ctypes.get_errno())}")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place, _, source = line.partition(" - ")
        kind, _, options = source.split()
        if kind in ("cgroup", "cgroup2"):
            point = place.split()[4]
            _run("umount", point)
            _run("mount", "-t", kind, "-o", options, kind, point)


def _be_connected() -> None:
    """A network with the node in it, and nothing else."""
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "node", "type", "bridge")  # a dummy device is not in every kernel
    _run("ip", "address", "add", f"{ADDRESS}/24", "dev", "node")
    _run("ip", "link", "set", "node", "up")
    _run("ip", "route", "add", "default", "dev", "node")  # Services' addresses need a way, before they are translated
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _write(place: Place) -> None:
    for name, text in files(place).items():
        file = place.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    place.logs.mkdir(exist_ok=True)
    config = f"--config={place.folder / 'kubeadm.json'}"
    kubeadm = str(find("kubeadm"))
    _run(kubeadm, "init", "phase", "certs", "all", config)
    _run(kubeadm, "init", "phase", "kubeconfig", "all", config, f"--kubeconfig-dir={place.kubeconfigs}")


class Watched:
    """The parts. One that ends is started again, as on any node."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._commands = commands(place)
        self._running: dict[int, str] = {}

    def start(self, *names: str) -> None:
        for name in names:
            log = (os.POSIX_SPAWN_OPEN, 1, str(self._place.logs / f"{name}.log"), _APPEND, 0o644)
            files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), log, (os.POSIX_SPAWN_DUP2, 1, 2)]
            more = self._place.flags(name)
            command = [*self._commands[name], *(more.read_text().splitlines() if more.is_file() else ())]
            # subprocess would wait for those it has started, and take an end away from `forever`.
            child = os.posix_spawn(command[0], command, _environment(), file_actions=files, setsigdef=[signal.SIGPIPE])
            self._running[child] = name
            (self._place.logs / f"{name}.pid").write_text(str(child))

    def start_rest(self) -> None:
        self.start(*(name for name in self._commands if name not in self._running.values()))

    def forever(self) -> None:
        """Process 1 also waits for processes that lost their parents."""
        while True:
            ended, _ = os.wait()
            if name := self._running.pop(ended, None):
                time.sleep(AGAIN_AFTER_S)
                self.start(name)


def _start(place: Place, watched: Watched) -> None:
    kubectl = [str(find("kubectl")), f"--kubeconfig={place.admin}"]
    watched.start("etcd", "kube-apiserver", "containerd")
    ctr = [str(find("ctr")), f"--address={CONTAINERD}", "--namespace=k8s.io"]
    _until(lambda: _says([*ctr, "version"]))
    _run(*ctr, "images", "import", str(place.images))
    _until(lambda: _says([*kubectl, "get", "--raw", "/readyz"]))
    _until(lambda: _says([*kubectl, "apply", "-f", str(place.folder / "objects.json")]))
    watched.start_rest()
    _until(lambda: _says([*kubectl, "wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=1s"]))
    _until(lambda: _says([*kubectl, "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes"]))


def _until(holds: Callable[[], str]) -> None:
    """Until it says nothing; SystemExit with what it says if that takes too long."""
    deadline = time.monotonic() + READY_WITHIN_S
    while said := holds():
        if time.monotonic() > deadline:
            sys.exit(f"not ready after {READY_WITHIN_S:.0f} s: {said}")
        time.sleep(0.2)


def _says(command: Sequence[str]) -> str:
    """What is wrong; empty if nothing is."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMMAND_WITHIN_S, check=False, env=_environment()
    )
    return done.stderr.strip() or f"it ended with {done.returncode}" if done.returncode else ""


def _run(*command: str) -> None:
    if said := _says(command):
        sys.exit(f"{' '.join(command)}: {said}")


def _environment() -> dict[str, str]:
    """containerd looks for its shim on PATH."""
    paths = environment()
    return {**paths, "PATH": f"{find('containerd').parent}:{paths['PATH']}"}


def _carry(outside: socket.socket) -> None:
    """Each connection to the API server, in threads that end with it."""
    while True:
        here, _ = outside.accept()
        try:
            there = socket.create_connection((ADDRESS, 6443))
        except OSError:
            here.close()  # else who came waits for an answer
            continue
        for pair in ((here, there), (there, here)):
            threading.Thread(target=_copy, args=pair, daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # that of the terminal of `make cluster`
    main(Path(sys.argv[1]), int(sys.argv[2]))
