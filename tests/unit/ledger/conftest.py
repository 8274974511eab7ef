"""Every ledger test has a kind of custom resource whose operator makes whatever counts."""

from __future__ import annotations

import pytest

from extauthz.core import kinds


@pytest.fixture(autouse=True)
def rollouts_make_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    made = (kinds.DEPLOYMENTS, kinds.STATEFUL_SETS, kinds.REPLICA_SETS, kinds.JOBS)
    monkeypatch.setitem(kinds.MADE_BY_CUSTOM, ("example.com", "Rollout"), made)  # type: ignore[misc]
