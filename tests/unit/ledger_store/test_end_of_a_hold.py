"""A hold ends by a list of the very object that held."""

from __future__ import annotations

import asyncio

import pytest

from extauthz.core.model import Verdict
from extauthz.ledger_store.payload import Payload, encode
from extauthz.ledger_store.store import Stored
from extauthz.testing.builders import quota, scale, workload
from tests.unit.ledger_store.gates import Member, members
from tests.unit.ledger_store.stores import Barred
from tests.waiting import until

TEN = [quota("acme", {"requests.cpu": "10"})]
WEB = workload("web", 1)
OVER = encode(Payload(clock_ms=10**6, holds=True, hold_ends_ms=0))
"""Of another hold, whose time has passed as well."""


@pytest.mark.parametrize("what", ["made-anew", "deleted"])
async def test_a_list_that_was_begun_for_another_object_ends_no_hold(what: str, monkeypatch: pytest.MonkeyPatch):
    store = Barred()

    async def list_anew(self: Member) -> None:
        self.lists += 1
        if self.lists > 1:
            return
        lists_end = store.bar()
        if what == "deleted":
            store.delete()
        else:
            assert store._object is not None
            store._object = Stored(OVER, str(int(store._object.version) + 1), "another")
            store._tell(store._object)
        await until(lambda: self.committer.replica.base == store._object)
        store.lift()
        asyncio.get_running_loop().call_later(0.3, lists_end)

    monkeypatch.setattr(Member, "_list_anew", list_anew)
    async with members(1, TEN, WEB, store=store, window_s=0.2, released=False) as (gate,):
        await until(lambda: gate.lists and not gate.committer.notes())
        assert gate.lists == 2
        assert (await gate.ask(scale("web", 5))).verdict is Verdict.ALLOW
