"""The pages of docs/ make a site: each is in the navigation, and each link leads somewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.release import docs

ROOT = Path(__file__).parents[3]


def test_the_site_is_built_strictly(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        "tools/mkdocs.yml",
        "--site-dir",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "upgrade" / "index.html").is_file()


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("see [Envoy](../envoy/README.md#x)", "see Envoy (`envoy/README.md`)"),
        ("[`envoy/a.yaml`](../envoy/a.yaml)", "`envoy/a.yaml`"),
        ("[document](openapi.yaml)", "document (`docs/openapi.yaml`)"),
        ("[here](api.md#a) and [there](https://example.com/../a)", "[here](api.md#a) and [there](https://example.com/../a)"),
    ],
)  # fmt: skip
def test_a_link_out_of_the_pages_becomes_its_path(text: str, becomes: str):
    assert docs.on_page_markdown(text, page=at("render.md")) == becomes


def test_from_a_folder_of_docs_a_page_of_docs_is_a_page():
    text = "[a](../api.md#x), [b](ledger.md), [c](../../Makefile), [d](../openapi.yaml)"
    becomes = "[a](../api.md#x), [b](ledger.md), c (`Makefile`), d (`docs/openapi.yaml`)"
    assert docs.on_page_markdown(text, page=at("internals/design.md")) == becomes


def at(page: str) -> SimpleNamespace:
    """A page of MkDocs there."""
    return SimpleNamespace(file=SimpleNamespace(src_uri=page))
