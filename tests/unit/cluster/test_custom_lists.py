"""How long a gate waits for the first list of a custom resource: silence is waited out, a refusal is not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from extauthz.cluster import live
from extauthz.cluster.event_handlers import InvalidObjects
from extauthz.cluster.live import Listed, LiveCluster
from extauthz.cluster.scaled import ScaledObjects
from extauthz.core.decision.gate import Gate
from extauthz.kube.connection import Connection
from extauthz.kube.resource import Resource

TINS = Resource("ops.example.com", "v1", "tins", "Tin")
KEY = TINS.group, TINS.plural


class Waited:
    """A list of tins that is waited for."""

    def __init__(self) -> None:
        self.cluster = LiveCluster(cast("Connection", None), Gate(), InvalidObjects(print))
        self.cluster.feeds[KEY] = object.__new__(ScaledObjects)
        self.listed = Listed(cast("Any", SimpleNamespace(convert=None, changed=None, reached=None)))
        self.reflector = SimpleNamespace(refusal=0)
        first = self.cluster._first(TINS, self.listed, cast("Any", self.reflector))
        self.task = asyncio.create_task(first)

    async def is_over(self) -> bool:
        await asyncio.sleep(0.05)
        return self.task.done()


@pytest.fixture
async def waited(monkeypatch: pytest.MonkeyPatch) -> Waited:
    monkeypatch.setattr(live, "GIVE_UP_S", 0.0)
    monkeypatch.setattr(live, "LOOK_EVERY_S", 0.001)
    return Waited()


async def test_silence_and_what_passes_are_waited_out(waited: Waited):
    for refusal in (0, 429, 503):
        waited.reflector.refusal = refusal
        assert not await waited.is_over(), refusal
    waited.listed.first.set()
    assert await waited.is_over()


@pytest.mark.parametrize("refusal", [403, 404, 500])
async def test_a_refusal_is_not_waited_out(waited: Waited, refusal: int):
    waited.reflector.refusal = refusal
    assert await waited.is_over()


async def test_a_refusal_may_be_mended_for_a_while(waited: Waited, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "GIVE_UP_S", 600.0)
    waited.reflector.refusal = 403
    assert not await waited.is_over()
    waited.task.cancel()


async def test_what_has_gone_is_not_waited_for(waited: Waited):
    del waited.cluster.feeds[KEY]
    assert await waited.is_over()


async def test_a_kind_that_every_cluster_has_is_waited_for_whatever_is_said(waited: Waited):
    waited.cluster.feeds[KEY] = cast("Any", object())
    other = asyncio.create_task(waited.cluster._first(TINS, waited.listed, cast("Any", waited.reflector)))
    waited.reflector.refusal = 403
    await waited.is_over()
    assert not other.done()
    other.cancel()
