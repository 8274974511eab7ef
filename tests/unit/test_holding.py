"""The recovery hold: who starts with one."""

from __future__ import annotations

import io

import pytest

from extauthz.serve.service.holding import Holding
from extauthz.serve.service.loading import load
from extauthz.tell.observe.log import Log
from extauthz.testing import Asker, gate, quota, scale, workload

CLUSTER = {"quotas": "kubernetes", "state": "kubernetes"}
FILES = {"quotas": "q.yaml", "state": "s.json"}


@pytest.mark.parametrize(
    ("given", "shares", "holds"),
    [
        pytest.param(CLUSTER, True, False, id="on-a-cluster-gates-share-a-ledger"),
        pytest.param({**CLUSTER, "ledger": "kubernetes"}, True, False, id="a-shared-ledger-knows"),
        pytest.param({**CLUSTER, "ledger": "memory"}, False, True, id="memory-has-forgotten-it"),
        pytest.param({**CLUSTER, "quotas": "q.yaml"}, False, True, id="so-has-the-memory-beside-quotas-of-files"),
        pytest.param(
            {**CLUSTER, "ledger": "memory", "allow_unknown": "unclean-start"}, False, False, id="a-first-start"
        ),
        pytest.param(FILES, False, False, id="a-state-file-is-trusted"),
    ],
)
def test_a_start_holds_growth_where_it_is_not_known_what_was_allowed(given: dict[str, str], shares: bool, holds: bool):
    settings = load(given, {}, None)
    ask = Asker(gate([quota("acme", {"requests.cpu": "12"})], workload("web", 1)))
    holding = Holding(settings, ask.gate, Log(io.StringIO()), lambda: 0.0)
    holding.begin()
    assert settings.shares_ledger is shares
    assert (ask(scale("web", 2)).reason == "hold") is holds
    assert bool(holding.notes()) is holds
