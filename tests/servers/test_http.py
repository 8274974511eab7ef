"""The operators' door: alive, ready with reasons, metrics."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import TestClient, TestServer

from extauthz.servers.http import Readiness, application

READY = Readiness([])


async def get(path: str, readiness: Readiness = READY) -> tuple[int, str, str]:
    async def scrape(accept: str) -> tuple[bytes, str]:
        return f"asked {accept}\n".encode(), "text/plain; version=0.0.4; charset=utf-8"

    async with TestClient(TestServer(application(lambda: readiness, scrape))) as client:
        response = await client.get(path, headers={"accept": "application/openmetrics-text"})
        return response.status, response.headers["content-type"], await response.text()


async def test_healthz_is_alive_even_where_it_is_not_ready() -> None:
    assert (await get("/healthz", Readiness(["no quotas"])))[::2] == (200, "alive\n")


@pytest.mark.parametrize(
    ("readiness", "status", "text"),
    [
        pytest.param(READY, 200, "ready\n", id="ready"),
        pytest.param(Readiness([], ["held"]), 200, "ready\nnote: held\n", id="ready-with-a-note"),
        pytest.param(Readiness(["a", "b"], ["c"]), 503, "not ready: a\nnot ready: b\nnote: c\n", id="not-ready"),
    ],
)
async def test_readyz_tells_the_reasons(readiness, status, text) -> None:
    assert (await get("/readyz", readiness))[::2] == (status, text)


async def test_metrics_come_in_the_format_that_was_asked_for() -> None:
    assert await get("/metrics") == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
        "asked application/openmetrics-text\n",
    )


async def test_there_is_nothing_else() -> None:
    assert (await get("/"))[0] == 404
