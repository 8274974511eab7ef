"""``make bare``: the README's two commands on bare machines, by a person without root.

debootstrap makes each machine, as root: a release of Debian with Python, make and git, and nothing else. What is
committed is cloned into it. Its network, authorities and settings of pip are those of the machine that this runs on;
the mirror is that of its apt.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.controlplane.build import Progress
from tests.controlplane.netns import CannotInstallError, environment, install
from tests.controlplane.parts import cache_root

ROOT = Path(__file__).parents[1]
RELEASES = ("trixie", "sid")
"""Debian 13, and what will be the next one."""
TARGETS = ("demo", "test")
PACKAGES = ("ca-certificates", "git", "make", "python3", "python3-venv")
NEEDED: Mapping[str, str] = {"debootstrap": "debootstrap", "unshare": "util-linux"}
PERSON = "visitor"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
FROM_HERE = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", *PROXIES)
INSIDE = """set -e
mount -t proc proc "$0/proc"
mount -t tmpfs -o mode=755 tmpfs "$0/dev"
for each in null zero full random urandom tty; do touch "$0/dev/$each"; mount --bind "/dev/$each" "$0/dev/$each"; done
ln -s /proc/self/fd "$0/dev/fd"
for each in stdin:0 stdout:1 stderr:2; do ln -s "/proc/self/fd/${each#*:}" "$0/dev/${each%:*}"; done
mkdir "$0/dev/shm" "$0/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts"
ln -s pts/ptmx "$0/dev/ptmx"
machine=$0
exec /usr/sbin/chroot --userspec=1000:1000 --groups= "$machine" "$@"
"""
"""Run in mounts and processes of its own, which end with it."""


def main(arguments: Sequence[str]) -> int:
    """1 if a command failed on a machine, or there can be none."""
    parser = argparse.ArgumentParser(prog="python -m tests.bare", description="The README's commands on bare machines.")
    parser.add_argument("machines", nargs="*", default=RELEASES, help="releases of Debian")
    parser.add_argument("--targets", nargs="+", default=TARGETS, help="of the Makefile")
    asked = parser.parse_args(arguments)
    if os.geteuid() != 0:
        print("make bare: run it as root: debootstrap and chroot need that", file=sys.stderr)
        return 1
    try:
        install(NEEDED)
        return max(tried(machine, asked.targets) for machine in asked.machines)
    except (CannotInstallError, subprocess.SubprocessError) as error:
        print(f"make bare: {error}", file=sys.stderr)
        return 1


def tried(release: str, targets: Sequence[str]) -> int:
    """The number of commands that failed on a new machine, which is gone afterwards."""
    progress = Progress()
    machine = cache_root().parent / "bare" / release
    shutil.rmtree(machine, ignore_errors=True)
    try:
        progress.say(f"{release}: debootstrap")
        made(release, machine)
        python = inside(machine, "python3", "--version", capture_output=True).stdout.strip()
        failed = 0
        for target in targets:
            progress.say(f"{release}, {python}: make {target}")
            start = time.monotonic()
            code = inside(machine, "make", "--directory=/home/visitor/extauthz", target).returncode
            progress.say(f"{release}, {python}: make {target} took {time.monotonic() - start:.0f} s, exit code {code}")
            failed += code != 0
        return failed
    finally:
        shutil.rmtree(machine, ignore_errors=True)


def made(release: str, machine: Path) -> None:
    """A machine with a person and the repository on it. Raises SubprocessError."""
    machine.parent.mkdir(parents=True, exist_ok=True)
    packages = f"--include={','.join(PACKAGES)}"
    words = ["debootstrap", "--variant=minbase", packages, release, str(machine), *mirror()]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment())
    for file in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", AUTHORITIES):
        if Path(file).exists():
            shutil.copyfile(file, machine / file.lstrip("/"))
    subprocess.run(["chroot", str(machine), "useradd", "--create-home", "--uid=1000", PERSON], check=True)
    home = machine / "home" / PERSON
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(home / "extauthz")], check=True)
    subprocess.run(["chown", "--recursive", "1000:1000", str(home)], check=True)


def mirror() -> list[str]:
    """Where this machine's apt gets Debian from; empty if it does not say: then debootstrap knows one."""
    if shutil.which("apt-get") is None:
        return []
    command = ["apt-get", "indextargets", "--format=$(LABEL) $(REPO_URI)", "Created-By: Packages"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    return [line.split(" ", 1)[1] for line in said.splitlines() if line.startswith("Debian ")][:1]


def inside(machine: Path, *command: str, capture_output: bool = False) -> subprocess.CompletedProcess[str]:
    """A command of the person's, in that machine."""
    given = {name: os.environ[name] for name in FROM_HERE if name in os.environ}
    shown = {"HOME": f"/home/{PERSON}", "USER": PERSON, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    trusts = {"SSL_CERT_FILE": AUTHORITIES, "PIP_CERT": AUTHORITIES}
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, str(machine)]
    return subprocess.run(
        [*alone, *command], env={**shown, **trusts, **given}, capture_output=capture_output, text=True, check=False
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
