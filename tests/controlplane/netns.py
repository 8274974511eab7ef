"""What a network namespace of its own needs: ``make netns``, or ``python -m tests.controlplane.netns``.

Some tests run in a network where they set addresses and redirects (``unshare``, ``ip``, ``iptables``). Debian has these
programs in three packages. What is missing is installed with apt-get, by root or through sudo.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

from tests.controlplane.parts import hidden

PACKAGES: Mapping[str, str] = {"unshare": "util-linux", "ip": "iproute2", "iptables": "iptables"}
"""Program → Debian's package."""

CURE = "run `make netns` (tests/controlplane/README.md)"

ALONE = ("unshare", "--map-root-user", "--net", "--")
"""Runs a command in a network of its own. The network namespace of a new user namespace needs no rights
(user_namespaces(7)), where the system allows it at all."""

TRY_WITHIN_S = 30.0
INSTALL_WITHIN_S = 600.0


class CannotInstallError(Exception):
    """Packages are missing and cannot be installed here. The message has the cure."""


def environment() -> dict[str, str]:
    """Ours, with the folders of system programs on PATH: Debian leaves them out for users who are not root."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}


def missing() -> list[str]:
    """What is not here, a sentence each with the cure; empty if all is."""
    return [f"{tool} is not on PATH: {CURE}" for tool in (PACKAGES if hidden("netns") else absent())]


def why_not() -> list[str]:
    """Why there can be no network namespace with redirects here; empty if there can."""
    if reasons := missing():
        return reasons
    command = [*ALONE, "iptables", "-t", "nat", "-S"]
    tried = subprocess.run(
        command, capture_output=True, text=True, timeout=TRY_WITHIN_S, check=False, env=environment()
    )
    return [] if tried.returncode == 0 else [f"no network namespace with redirects here: {tried.stderr.strip()}"]


def main() -> int:
    """Install what is missing, and say so. 1 if that cannot be done."""
    try:
        install()
    except (CannotInstallError, subprocess.SubprocessError) as error:
        print(f"make netns: {error}", file=sys.stderr)
        return 1
    print(f"{', '.join(PACKAGES)}: here", flush=True)
    return 0


def install(wanted: Mapping[str, str] = PACKAGES) -> None:
    """Do nothing where all is here.

    Args:
        wanted: program → Debian's package.

    Raises:
        CannotInstallError: there is no apt-get, or no right to use it; or the packages did not help.
        SubprocessError: apt-get failed.
    """
    lacking = absent(wanted)
    if not lacking:
        return
    packages = [wanted[tool] for tool in lacking]
    apt = [*_as_root(lacking, packages), "apt-get"]
    print(f"{', '.join(lacking)}: not on PATH; {' '.join(apt)} install {' '.join(packages)}", flush=True)
    _run([*apt, "update", "--quiet"])
    _run([*apt, "install", "--quiet", "--yes", "--no-install-recommends", *packages])
    if reasons := absent(wanted):
        raise CannotInstallError(f"{', '.join(reasons)} not on PATH although the packages are installed")


def absent(wanted: Mapping[str, str] = PACKAGES) -> list[str]:
    """Programs that are neither on PATH nor where they are looked for."""
    path = environment()["PATH"]
    return [tool for tool in wanted if shutil.which(tool, path=path) is None]


def _as_root(programs: list[str], packages: list[str]) -> list[str]:
    what = f"{', '.join(programs)} not on PATH"
    if shutil.which("apt-get") is None:
        raise CannotInstallError(f"{what}, and there is no apt-get: install your system's {' '.join(packages)}")
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        raise CannotInstallError(f"{what}: run as root: apt-get update && apt-get install {' '.join(packages)}")
    return ["sudo", "env", "DEBIAN_FRONTEND=noninteractive"]


def _run(command: list[str]) -> None:
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, check=True, timeout=INSTALL_WITHIN_S, env=quietly)


if __name__ == "__main__":
    sys.exit(main())
