"""What tests say where parts of the real control plane are missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import parts

ROOT = Path(__file__).parents[2]
WITHIN_S = 60


def binary(path: Path, text: str) -> Path:
    """An executable script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No part is anywhere."""
    for module in parts.MODULES:
        for part in module.parts:
            monkeypatch.delenv(part.variable, raising=False)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv(parts.HIDDEN, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")


def test_no_file_of_a_registry_is_kept_beside_go_mod():
    kept = {path.name for path in parts.MODULES_FOLDER.rglob("*") if path.is_file()}
    assert kept == {"go.mod", "tools.go", "decider.go", "definitions.go", "made.go"}


class TestMarker:
    def run(self, file: str = "test_plane.py", which: str = "", processes: int = 0, **environment: str) -> str:
        options = ["-p", "no:cacheprovider", "-n", str(processes)]
        command = [sys.executable, "-m", "pytest", *options, f"tests/controlplane/{file}", "-k", which]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        return done.stdout

    def test_a_test_without_its_parts_is_skipped_and_listed_with_the_cure(self):
        said = self.run()
        assert "2 skipped" in said
        assert "NOT TESTED, 2 tests: kube-apiserver v1.36.3 is not here: run `make controlplane`" in said

    def test_where_the_parts_are_required_it_fails(self):
        """Side by side too: each process requires the same."""
        said = self.run(processes=2, EXTAUTHZ_REQUIRE="controlplane")
        assert "2 errors" in said
        assert "skipped" not in said

    def test_an_optional_part_is_required_only_by_its_own_name(self, tmp_path):
        there = str(binary(tmp_path / "there", "#!/bin/sh\n"))
        others = {part.variable: there for each in parts.MODULES if not each.optional for part in each.parts}
        said = self.run("test_istio.py", EXTAUTHZ_REQUIRE="controlplane,istiod", **others)
        assert "1 skipped, 1 error" in said
        assert re.search(r"istiod v\S+ is not here: run `make istiod`", said)
