"""Texts of clients are cut to a bound, and say so."""

from __future__ import annotations

import pytest

from extauthz.core import texts


@pytest.mark.parametrize(
    ("text", "shown"), [("", ""), ("abcde", "abcde"), ("abcdef", "abcd…"), ("ä" * 9, "ääää…")]
)  # fmt: skip
def test_a_text_beyond_the_bound_is_cut_and_marked(text: str, shown: str):
    assert texts.cut(text, 5) == shown
