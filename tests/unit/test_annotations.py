"""Of annotations only those are kept that policies may look at, and not too much of them."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.objects.metadata import annotations_dict, annotations_text

KEY = "policy.extauthz.dev/a"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, {}),
        ({}, {}),
        ("text", {}),
        ({"other": "x", 5: "y"}, {}),
        ({KEY: "a=b, c", "other": "x"}, {KEY: "a=b, c"}),
        ({KEY: 5}, {}),
        ({KEY: "x" * 900}, {KEY: "x" * 900}),
        ({KEY: "x" * 1024}, {}),
    ],
)
def test_what_is_kept(given: Any, kept: dict[str, str]) -> None:
    assert annotations_dict(annotations_text(given)) == kept
