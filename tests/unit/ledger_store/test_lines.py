"""What a line of the ledger object says of a pending write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extauthz.core.ledger.pending_write import PendingWrite
from extauthz.core.model import Precondition, Template
from extauthz.ledger_store.lines import Line, pack, unpack

OF_A_TEMPLATE = PendingWrite("a", None, (Template(b"{}"),), (), False, Precondition(), 100.0)


def line(pending_write: PendingWrite) -> Line:
    return Line("", {}, frozenset(), pending_write.expires_s, pending_write.renewed)


@pytest.mark.parametrize(
    "more",
    [
        {"renewed": 1},
        {"expires_s": 100.5},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_line_is_written_anew_where_the_write_may_land_for_longer(more):
    assert line(OF_A_TEMPLATE).says_less_than(replace(OF_A_TEMPLATE, **more))
    assert not line(replace(OF_A_TEMPLATE, **more)).says_less_than(OF_A_TEMPLATE)
    assert not line(OF_A_TEMPLATE).says_less_than(OF_A_TEMPLATE)


@pytest.mark.parametrize("name", ["web", "w", "a", "#d1"])
def test_a_line_comes_back_whatever_its_name_is(name: str):
    tree = {
        "workload": ["apps", "deployments", "shop", name],
        "templates": ['{"a":"web"}', "{}"],
        "labels": ["a=web", ""],
    }
    text, texts = pack(tree)
    assert unpack(text, texts) == tree


def test_texts_that_differ_by_the_name_alone_are_one():
    def packed(name: str) -> dict[str, str]:
        return pack({"workload": ["apps", "deployments", "shop", name], "labels": [f"app={name},b=c"]})[1]

    assert packed("web") == packed("api") != packed("b")
