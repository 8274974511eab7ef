"""What a gate on a cluster loads until it decides: no more than it needs, and nothing that its image leaves out."""

from __future__ import annotations

import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from tests.support.apiserver import ApiServer
from tools.release import slim

from .test_serve_live import Live, api

__all__ = ["api"]

ROOT = Path(__file__).parents[2]
PACKAGES = Path(sysconfig.get_path("purelib"))
AT_MOST = 1320
"""Modules, those of Python's own library among them. Each costs a start about a millisecond."""
NEVER = {
    "matplotlib", "numpy", "envoy_data_plane", "betterproto2", "playwright", "pytest",
    "extauthz.tools.render", "extauthz.tools.doctor", "extauthz.demo", "extauthz.testing", "tests",
}  # fmt: skip
AT_THE_END = """
import atexit, sys
@atexit.register
def write():
    with open({file!r}, "w") as file:
        print(*(f"{{name}} {{getattr(module, '__file__', None)}}" for name, module in sys.modules.items()),
              sep="\\n", file=file)
"""


@pytest.fixture
def loaded(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Module → its file, of a gate that was ready, decided, and ended."""
    told, site = tmp_path / "told", tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(AT_THE_END.format(file=str(told)))
    monkeypatch.setenv("PYTHONPATH", f"{site}:{ROOT}")
    with Live(tmp_path) as gate:
        assert gate.allows(4)
        assert not gate.allows(5)
        assert gate.get("/")[0] == 200
        assert gate.get("/metrics")[0] == 200
        assert gate.child.terminate() == 0
    return {name: Path(file) for name, file in (line.split(" ", 1) for line in told.read_text().splitlines())}


def test_it_loads_no_more_than_it_needs(loaded: dict[str, Path]):
    whose = Counter(name.partition(".")[0] for name in loaded)
    assert len(loaded) <= AT_MOST, whose.most_common(20)
    packages = {".".join(name.split(".")[:depth]) for name in loaded for depth in (1, 2)}
    assert packages & NEVER == set()


def test_it_loads_nothing_that_the_image_leaves_out(loaded: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    left_out = slim.left_out(PACKAGES, slim.loads(PACKAGES))
    assert len(left_out) > 2000  # most of the client's models, and of Envoy's messages
    assert set(loaded.values()) & left_out == set()
