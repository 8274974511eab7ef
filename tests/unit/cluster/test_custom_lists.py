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
from extauthz.kube.connection import ApiError, Connection
from extauthz.kube.discovery import ScaledKind
from extauthz.kube.reflector import Reflector
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
        first = self.cluster._first(TINS, self.listed, cast("Any", self.reflector), self.cluster._clock())
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
    began_s, reflector = waited.cluster._clock(), cast("Any", waited.reflector)
    other = asyncio.create_task(waited.cluster._first(TINS, waited.listed, reflector, began_s))
    waited.reflector.refusal = 403
    await waited.is_over()
    assert not other.done()
    other.cancel()


async def test_kinds_that_are_refused_are_given_up_together(monkeypatch: pytest.MonkeyPatch):
    """A broken operator may have ten kinds. The gate must not start ten times later for that."""
    monkeypatch.setattr(live, "LOOK_EVERY_S", 0.001)
    now_s = 0.0
    cluster = LiveCluster(cast("Connection", None), Gate(), InvalidObjects(print), clock=lambda: now_s)
    for plural in ("tins", "cans"):
        kind = ScaledKind(TINS._replace(plural=plural), ("spec", "replicas"), (), (("v1", ("spec", "replicas")),))
        listed = Listed(cast("Any", SimpleNamespace(convert=None, changed=None, reached=None)))
        cluster.feeds[TINS.group, plural] = object.__new__(ScaledObjects)
        cluster._custom[kind] = (listed, cast("Any", None))
        cluster._reflectors[kind.resource] = cast("Any", SimpleNamespace(refusal=500))
    cluster._definitions.first.set()
    waiting = asyncio.create_task(cluster._custom_listed())
    await asyncio.sleep(0.02)
    assert not waiting.done()
    now_s = live.GIVE_UP_S
    await asyncio.sleep(0.05)
    assert waiting.done()


async def test_a_refusal_counts_until_the_next_try():
    """A list that has begun and takes long is silence."""
    again = asyncio.Event()

    async def items(path: str, *_: Any, **__: Any) -> Any:
        if not again.is_set():
            raise ApiError(403, "Forbidden", "not yet")
        await asyncio.Event().wait()

    async def sleep(seconds: float) -> None:
        await again.wait()

    connection = cast("Connection", SimpleNamespace(items=items))
    reflector = Reflector(connection, TINS, cast("Any", None), sleep=sleep, streams_lists=False)
    task = asyncio.create_task(reflector.run())
    await asyncio.sleep(0.01)
    assert reflector.refusal == 403
    again.set()
    await asyncio.sleep(0.01)
    assert reflector.refusal == 0
    task.cancel()
