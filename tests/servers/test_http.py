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


async def asked(path: str, host: str) -> tuple[int, str]:
    async def scrape(accept: str) -> tuple[bytes, str]:
        return b"secret 1\n", "text/plain"

    app = application(lambda: Readiness([]), scrape, ["extauthz.extauthz-system.svc"])
    async with TestClient(TestServer(app)) as client, client.get(path, headers={"host": host}) as response:
        return response.status, await response.text()


@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/", "/api/v1/quotas"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9192", "127.0.0.1.evil.example", "", "\u00e9vil", "[::1"]
)
async def test_a_foreign_name_is_answered_nothing(path: str, host: str) -> None:
    status, text = await asked(path, host)
    assert status in (400, 421)
    assert "secret" not in text
    if status == 421:
        assert text.endswith("is no name of this server; ask by address, or set http-names\n")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:9192",
        "10.1.2.3",
        "[::1]:9192",
        "[fd00::7]",
        "localhost:9192",
        "LOCALHOST",
        "extauthz.extauthz-system.svc:9192",
        "extauthz.extauthz-system.svc.",
    ],
)
async def test_addresses_and_own_names_are_answered(host: str) -> None:
    assert await asked("/metrics", host) == (200, "secret 1\n")
