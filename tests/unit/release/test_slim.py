"""What the image leaves out of its packages; ``tests/servers/test_loads.py`` holds it against a gate that runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tools.release import slim

KEPT = {
    "kubernetes/__init__.py", "kubernetes/aio/__init__.py", "kubernetes/aio/client/__init__.py",
    "kubernetes/aio/client/rest.py", "kubernetes/aio/client/models/__init__.py",
    "envoy/__init__.py", "envoy/used_pb2.py", "cel_expr_python/cel.so",
    "other/unloaded.py",
}  # fmt: skip
LEFT_OUT = {
    "kubernetes/aio/client/models/v1_pod.py", "kubernetes/client/api/core_v1_api.py", "envoy/unused_pb2.py",
    "cel_expr_python/ext/ext_math.so", "other/fast.pyx", "other/fast.c", "other/fast.pyi",
}  # fmt: skip


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As pip leaves them, with a gate that loads two of them."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    texts = dict.fromkeys(KEPT | LEFT_OUT, "")
    texts |= {f"extauthz/cli/{command}.py": "" for command in slim.ENTRANCES}
    texts |= {"extauthz/service/app.py": "import envoy.used_pb2, kubernetes.aio.client.rest\n"}
    texts |= {f"{package}/__init__.py": "" for package in ("extauthz", "extauthz/cli", "extauthz/service")}
    for name, text in texts.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    stale = tmp_path / "other" / "__pycache__" / "unloaded.cpython-311.pyc"
    stale.parent.mkdir()
    stale.touch()
    return tmp_path


def files(packages: Path) -> set[str]:
    return {file.relative_to(packages).as_posix() for file in packages.rglob("*.*") if file.is_file()}


def test_what_the_gate_does_not_load_of_the_large_packages_goes(packages: Path):
    slim.slim(packages, strip=None)
    assert files(packages) >= KEPT
    assert LEFT_OUT & files(packages) == set()


def test_what_the_gate_loads_is_compiled_and_nothing_else(packages: Path):
    slim.slim(packages, strip=None)
    compiled = {file.name.partition(".")[0] for file in packages.rglob("*.pyc")}
    assert {"app", "used_pb2", "rest", *slim.ENTRANCES} <= compiled
    assert "unloaded" not in compiled


def test_bytecode_holds_whatever_time_its_source_has(packages: Path):
    slim.slim(packages, strip=None)
    bytecode = Path(importlib.util.cache_from_source(str(packages / "extauthz/service/app.py"))).read_bytes()
    assert int.from_bytes(bytecode[4:8], "little") == 0b01  # by hash, and not checked (PEP 552)


def test_compiled_modules_are_stripped(packages: Path):
    (packages / "other/fast.so").touch()
    strip = packages / "strip"
    strip.write_text(f'#!/bin/sh\necho "$@" > {packages / "told"}\n')
    strip.chmod(0o755)
    slim.slim(packages, strip=str(strip))
    flag, *stripped = (packages / "told").read_text().split()
    assert flag == "--strip-unneeded"
    assert set(stripped) == {str(packages / one) for one in ("other/fast.so", "cel_expr_python/cel.so")}
