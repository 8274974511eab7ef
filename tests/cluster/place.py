"""Where a cluster on one machine keeps its files, its addresses, and the names of its parts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import parts

NODE = "node1"
ADDRESS = "10.123.0.1"
"""The node's, on a bridge of the cluster's own network."""
SERVICES, PODS = "10.96.0.0/16", "10.124.0.0/24"
APISERVER, DNS = "10.96.0.1", "10.96.0.10"
"""Of Services: ``kubernetes`` and ``kube-dns``."""
DOMAIN = "cluster.local"
PAUSE = "localhost/pause:1"
"""The image that keeps a pod's network open."""
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Place:
    """A cluster's folder, and what is in it."""

    folder: Path

    @property
    def kubeconfig(self) -> Path:
        """An administrator's, from outside: by a port of 127.0.0.1."""
        return self.folder / "kubeconfig"

    @property
    def keys(self) -> Path:
        """Certificates, as kubeadm makes them."""
        return self.folder / "pki"

    @property
    def kubeconfigs(self) -> Path:
        """Of the parts of the cluster, as kubeadm makes them."""
        return self.folder / "kubeconfigs"

    @property
    def admin(self) -> Path:
        """An administrator's, from within the cluster's network."""
        return self.kubeconfigs / "super-admin.conf"

    @property
    def images(self) -> Path:
        """What is given to containerd at the start (``ctr images import``)."""
        return self.folder / "images.tar"

    @property
    def logs(self) -> Path:
        """Of each part, ``NAME.log``."""
        return self.folder / "logs"

    def flags(self, part: str) -> Path:
        """Those that a part has besides its own from its next start on, a line each; mostly not there."""
        return self.folder / f"{part}.flags"

    @property
    def process(self) -> Path:
        """Holds the process that the cluster lives and ends with: ``unshare``, as seen from outside."""
        return self.folder / "process"

    @property
    def ready(self) -> Path:
        """Is there once all parts answer."""
        return self.folder / "ready"

    @property
    def cgroup(self) -> str:
        """The group of all its processes, below the root of each hierarchy."""
        return f"extauthz-{hashlib.sha256(bytes(self.folder.absolute())).hexdigest()[:8]}"

    def cgroups(self) -> list[Path]:
        """The same in each hierarchy: one for each controller (version 1), or the only one (version 2)."""
        return [each / self.cgroup for each in hierarchies()]


def hierarchies() -> list[Path]:
    """The roots of cgroups."""
    if (CGROUPS / "cgroup.controllers").is_file():
        return [CGROUPS]
    # A link leads to a hierarchy that has another name.
    return [each for each in sorted(CGROUPS.iterdir()) if (each / "cgroup.procs").is_file() and not each.is_symlink()]


def default() -> Place:
    """That of ``make cluster``: beside the cache of what ``make controlplane`` builds."""
    return Place(parts.cache_root().parent / "cluster")
