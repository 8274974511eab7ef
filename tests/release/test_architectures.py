"""The image's packages for arm64, put together here: nothing is compiled, and slim.py leaves out the same.

The image itself is built under emulation (docs/internals/image.md), which no test does.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import tools.release.__main__ as release
from tools.release import slim

ARM64 = 183
"""``EM_AARCH64`` of elf(5)."""
WHEELS = ("--only-binary=:all:", "--platform=manylinux_2_28_aarch64", "--platform=manylinux2014_aarch64")
"""Debian 13, which the image is based on, has glibc 2.41."""


def installed(wheel: Path, folder: Path, *options: str) -> Path:
    """As the Dockerfile does it."""
    constraint = f"--constraint={release.ROOT / 'constraints.txt'}"
    words = ["--quiet", "--no-compile", f"--target={folder}", constraint, *options, str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "install", *words], cwd=folder.parent, check=True, timeout=600)
    return folder


def machine(file: Path) -> int:
    """What an ELF file is for."""
    head = file.read_bytes()[:20]
    assert head.startswith(b"\x7fELF"), file
    return int(struct.unpack_from("<H", head, 18)[0])


def modules(packages: Path, pattern: str) -> set[str]:
    """Files without what their names say of an interpreter or a machine."""
    return {str(file.relative_to(packages).with_name(file.name.partition(".")[0])) for file in packages.rglob(pattern)}


def test_arm64_has_wheels_of_all_that_is_compiled_here_and_slim_leaves_out_the_same(wheel: Path, tmp_path: Path, tell):
    here, arm64 = installed(wheel, tmp_path / "here"), installed(wheel, tmp_path / "arm64", *WHEELS)
    compiled = [*arm64.rglob("*.so")]
    assert {machine(file) for file in compiled} == {ARM64}
    assert modules(arm64, "*.so") == modules(here, "*.so")

    before = slim.size(arm64)
    slim.slim(arm64, strip=None, like=here)
    slim.slim(here, strip=None)
    tell(f"packages for arm64: {before / 1e6:.0f} MB became {slim.size(arm64) / 1e6:.0f} MB")
    for pattern in ("*.so", "*.py", "*.pyc"):
        assert modules(arm64, pattern) == modules(here, pattern)
    assert slim.size(arm64) < 1.1 * slim.size(here)
