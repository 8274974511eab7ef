"""Whom a page in somebody's browser could reach: ``--http`` answers under its own names alone (DNS rebinding)."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import TestClient, TestServer

from extauthz.servers.http import Readiness, application


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
