"""Rules of the shared ledger that ``make mutants`` found to have no test."""

from __future__ import annotations

import base64
import json
import zlib

from extauthz.core.model import Verdict, WorkloadRef
from extauthz.shared.memory import MemoryStore
from extauthz.testing.builders import create, quota, scale, workload
from tests.unit.shared.gates import members, until
from tests.unit.shared.stores import Odd

TEN = [quota("acme", {"requests.cpu": "10"})]
WEB = WorkloadRef("apps", "deployments", "team-a", "web")


async def test_a_create_of_what_is_there_is_refused_where_another_gate_wrote_since_the_look():
    """What the look has shown is older than what that gate may have seen: the object may be gone."""
    store = Odd()
    async with members(1, TEN, workload("web", 1), store=store) as (gate,):
        store.faults = ["conflict"]
        refused = await gate.ask(create(workload("web", 5)))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "ledger-unavailable")
        assert "is behind another gate" in refused.sentence
        assert (gate.looks, gate.reserved) == ([WEB], {})


async def test_once_an_object_of_another_release_is_deleted_another_one_is_made_and_growth_goes_on():
    store = MemoryStore()
    async with members(1, TEN, workload("web", 1), store=store, window_s=0.5) as (gate,):
        granted = await gate.ask(scale("web", 5))
        theirs = base64.b64encode(zlib.compress(json.dumps({"format": 99}).encode())).decode()
        await store.put(theirs, 0, await store.get())
        await until(gate.committer.notes)
        store.delete()
        await until(lambda: granted.id in gate.agreed and not gate.committer.notes())
        assert (await gate.ask(scale("web", 10))).verdict is Verdict.ALLOW
