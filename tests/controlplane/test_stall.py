"""A real API server from which nothing comes any more: a gate notices, and its growth waits or not, as it was told."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack

import grpc
import pytest
from pydantic.warnings import PydanticDeprecatedSince212

from extauthz.demo.gate import Gate
from tests.controlplane.living import deployment, namespace
from tests.support import numbered

with warnings.catch_warnings():
    # envoy-data-plane declares its validators in a way that pydantic 3 will no longer take.
    warnings.simplefilter("ignore", PydanticDeprecatedSince212)
    from tests.servers.running import ask, scale

pytestmark = pytest.mark.controlplane

STALE_AFTER_S = 75
"""The API server sends a bookmark a minute: less than that would be stale without anything wrong."""
WITHIN_S = 2 * STALE_AFTER_S
SHOP = "stalled"


@pytest.fixture
async def gates(plane, relayed_kubeconfig, tmp_path) -> AsyncIterator[Mapping[str, Gate]]:
    """One that refuses growth while it is stale, and one that allows it, over three pods of six."""
    namespace(plane, SHOP)
    plane.api.create(deployment("web", 3, SHOP))
    (tmp_path / "quotas.json").write_text(json.dumps(quota()))
    flags = [f"--kubeconfig={relayed_kubeconfig}", "--allow-unknown=unclean-start"]
    with ExitStack() as running:
        made = {
            growth: Gate(
                tmp_path / "quotas.json",
                "kubernetes",
                tmp_path / growth,
                [*flags, *(["--allow-unknown=stale"] if growth == "allow" else [])],
                serve=numbered.command(["serve"], stale_after_s=STALE_AFTER_S),
            )
            for growth in ("deny", "allow")
        }
        for gate in made.values():
            await asyncio.to_thread(running.enter_context, gate)
        yield made
        await asyncio.to_thread(running.close)


def quota() -> dict[str, object]:
    spec = {"namespaceSelector": {"matchLabels": {"workspace": SHOP}}, "hard": {"pods": "6"}, "mode": "Enforce"}
    return {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": SHOP}, "spec": spec}


async def answer(gate: Gate, replicas: int) -> str:
    """``allowed``, or the message of the refusal."""

    def asked() -> str:
        with grpc.insecure_channel(f"127.0.0.1:{gate.port}") as channel:
            request = scale(replicas)
            request.path = request.path.replace("/shop/", f"/{SHOP}/")
            denied = ask(channel, request).denied_response
            return json.loads(denied.body)["message"] if denied is not None else "allowed"

    return await asyncio.to_thread(asked)


async def told(gate: Gate, event: str) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not list(gate.events(event)):  # noqa: ASYNC110 (a process's log)
            await asyncio.sleep(0.2)


async def test_growth_waits_or_not_until_the_watches_are_heard_again(gates, relay):
    for gate in gates.values():
        assert await answer(gate, 4) == "allowed"
    relay.mute()
    for gate in gates.values():
        await told(gate, "stale")
    assert "may be out of date: nothing was heard of" in await answer(gates["deny"], 5)
    assert "exceeded workspace quota" not in await answer(gates["deny"], 7), "what is not known is no quota denial"
    assert await answer(gates["deny"], 2) == "allowed", "less always passes"
    assert await answer(gates["allow"], 5) == "allowed"
    assert f"exceeded workspace quota: {SHOP}" in await answer(gates["allow"], 7), "what is known is weighed"
    relay.unmute()
    for gate in gates.values():
        await told(gate, "fresh")
        assert await answer(gate, 5) == "allowed"
        assert f"exceeded workspace quota: {SHOP}" in await answer(gate, 7)
