"""The ledger of an earlier release is taken over by this one.

``tests/data/releases`` has one by its release, as that release wrote it: one allowed write, of 4 replicas. A release
adds its own, and changes none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extauthz.demo.apiserver import Key
from extauthz.serve.ledger_store.payload import FORMAT
from tests.unit.ledger_store.test_payload import text

from .test_serve_live import WITHIN_S, Live, api, within

__all__ = ["api"]

RELEASES = Path(__file__).parents[1] / "data" / "releases"
EACH = pytest.mark.parametrize("release", sorted(RELEASES.iterdir()), ids=lambda folder: folder.name)


def ledger(release: Path) -> tuple[Key, dict[str, Any]]:
    tree = json.loads((release / "ledger.json").read_text())
    return Key("extauthz.dev", "workspaceledgers", "", tree["metadata"]["name"]), tree


def pending(gate: Live) -> bool:
    return "\nextauthz_intents 1.0\n" in gate.get("/metrics")[1]


@EACH
def test_the_ledger_of_an_earlier_release_is_read(release: Path, api, tmp_path: Path):
    key, tree = ledger(release)
    api.objects.put(key, tree, "ADDED")
    with Live(tmp_path, "--ledger=kubernetes") as gate:
        assert within(WITHIN_S, lambda: pending(gate))


def test_a_ledger_of_a_newer_release_is_refused_by_name_and_left_as_it_is(api, tmp_path: Path):
    key, tree = ledger(RELEASES / "0.1.0")
    tree["spec"]["payload"] = newer = text(json.dumps({"format": FORMAT + 1}).encode())
    api.objects.put(key, tree, "ADDED")
    with Live(tmp_path, "--ledger=kubernetes") as gate:
        why = f"its format is {FORMAT + 1}; this gate writes {FORMAT}"
        assert within(WITHIN_S, lambda: why in gate.log_file.read_text())
        assert gate.check(4).denied_response is not None
        assert api.objects.get(key)["spec"]["payload"] == newer
