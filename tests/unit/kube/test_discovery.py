"""Definitions as the real server never shows them for long."""

from __future__ import annotations

import asyncio

import pytest

from extauthz.kube.discovery import ScaledKind, ScaledKinds
from tests.contract.test_discovery import SCALE, crews, definition, version


@pytest.mark.parametrize(
    "status", [{}, {"conditions": []}, {"conditions": [{"type": "Established", "status": "False"}]}]
)
def test_a_definition_that_is_not_served_yet_is_not_told(status: dict[str, object]):
    told: list[frozenset[ScaledKind]] = []
    handler = ScaledKinds(told.append)
    tree = definition("example.com", version("v1", scale=SCALE, stored=True))
    asyncio.run(handler.replaced([handler.convert(tree | {"status": status})], "1"))
    handler.changed("MODIFIED", handler.convert(tree))
    handler.changed("MODIFIED", handler.convert(tree))
    handler.changed("MODIFIED", handler.convert(tree | {"status": status}))
    assert told == [frozenset(), frozenset({crews("example.com")}), frozenset()]
