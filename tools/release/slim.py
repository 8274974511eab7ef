"""What of the installed packages the image leaves out, and what it compiles: ``python slim.py SITE-PACKAGES``.

- The Kubernetes client's generated models and calls, which are nine tenths of it. The gate reads the API server's JSON
  itself: of the client it uses credentials, TLS and transport, which load none of them.
- Envoy's messages (xds-protos) that the gate does not load. ``extauthz render`` fills in templates, and needs none.
- Sources of C and type stubs, which nothing at run time reads; debug symbols of compiled modules.
- Bytecode of what the gate does not load. What it does load is compiled here, since the image's root is read-only.

It is a script of the standard library: it runs in the image's build.
"""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

GENERATED = ("kubernetes/client", "kubernetes/aio/client")
"""Each keeps its transport. ``models`` and ``api`` go, but for what makes them packages."""
LOADED_ONLY = "envoy"
UNREAD = {".c", ".h", ".pyi", ".pxd", ".pyx"}
ENTRANCES = ("serve", "check", "doctor", "explain", "top")
"""Commands whose modules are compiled."""
LOADS = """
import sys
from importlib import import_module
import_module("extauthz.serve.service.app")
for command in sys.argv[1:]:
    import_module(f"extauthz.cli.{command}")
print(*filter(None, (getattr(module, "__file__", None) for module in list(sys.modules.values()))), sep="\\n")
"""


def slim(packages: Path, *, strip: str | None, like: Path | None = None) -> None:
    """Leave out what the gate does not need.

    Args:
        packages: the folder with the installed packages.
        strip: binutils' strip(1); ``None`` leaves compiled modules as they are.
        like: the same packages for the architecture of this machine, where *packages* are for another.
    """
    for cache in [*packages.rglob("__pycache__")]:
        shutil.rmtree(cache)
    loaded = {packages / file.relative_to(like or packages) for file in loads(like or packages)}
    for file in left_out(packages, loaded):
        file.unlink()
    for file in sorted(loaded):
        if file.suffix == ".py":
            _compile(file)
    if strip:
        subprocess.run([strip, "--strip-unneeded", *packages.rglob("*.so")], check=True)


def left_out(packages: Path, loaded: set[Path]) -> set[Path]:
    """Files that go, where the gate loads these."""
    generated = {
        file for name in GENERATED for part in ("models", "api") for file in (packages / name / part).glob("[!_]*.py")
    }
    messages = {*(packages / LOADED_ONLY).rglob("*.py")} - loaded
    return generated | messages | {file for file in packages.rglob("*") if file.suffix in UNREAD}


def loads(packages: Path) -> set[Path]:
    """The files of the packages that the gate loads when it starts, and those of its other commands."""
    path = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-S", "-P", "-c", LOADS, *ENTRANCES]
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {file for line in said.splitlines() if (file := Path(line)).is_relative_to(packages)}


def _compile(file: Path) -> None:
    """Bytecode beside it, that holds whatever time the image's builder gives the file."""
    beside = file.parent / "__pycache__" / f"{file.stem}.{sys.implementation.cache_tag}.pyc"
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(file), cfile=str(beside), doraise=True, invalidation_mode=unchecked)


def size(packages: Path) -> int:
    """Its bytes."""
    return sum(file.stat().st_size for file in _files(packages))


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


if __name__ == "__main__":
    where = Path(sys.argv[1])
    before = size(where)
    slim(where, strip=shutil.which("strip"))
    print(f"{where}: {before / 1e6:.0f} MB became {size(where) / 1e6:.0f} MB")
