"""The HTTP API for others over real TLS: client certificates, and their authorities renewed."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from extauthz.serve.servers.api.people import People
from extauthz.serve.servers.api.routes import routes
from extauthz.serve.service import certificates, listening
from extauthz.serve.service.setting_types import Address
from extauthz.serve.service.settings import Settings
from tests.servers.running import QUOTAS, STATE
from tests.servers.test_serve import start
from tests.support.certs import Authority, Pair
from tests.support.kubecalls import Reviewer


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def people(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "people CA")


class Api:
    """The listener as ``serve`` makes it. Nothing is known behind it: who is let in reads 503."""

    def __init__(self, address: Address, authority: Authority, reviewer: Reviewer, look: Callable[[], None]) -> None:
        self.address, self.authority, self.reviewer, self.look = address, authority, reviewer, look
        self.lines: list[dict[str, Any]] = []

    def ask(self, pair: Pair | None = None, token: str = "") -> int:
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        if pair is not None:
            context.load_cert_chain(*pair)
        connection = http.client.HTTPSConnection(self.address.host, self.address.port, timeout=10, context=context)
        with closing(connection):
            connection.request("GET", "/api/v1/quotas", headers={"authorization": f"Bearer {token}"} if token else {})
            return connection.getresponse().status


@pytest.fixture
async def api(tmp_path: Path, authority: Authority, people: Authority) -> AsyncIterator[Api]:
    pair = authority.issue("gate")
    settings = Settings(api="127.0.0.1:0", api_cert=pair.cert, api_client_ca=people.ca)
    tls = certificates.Handshakes.of(certificates.API, settings, lambda level, event, **fields: None)
    assert tls is not None
    app, reviewer = web.Application(), Reviewer({"good": {"username": "olga"}})
    made = Api(Address("", 0), authority, reviewer, tls.look)
    app.add_routes(routes(lambda: None, People(reviewer, lambda level, event, **fields: made.lines.append(fields))))
    runner, made.address = await listening.bind_api(app, settings, tls.context)
    yield made
    await runner.cleanup()


async def asked(api: Api, *args: Any) -> int:
    return await asyncio.to_thread(api.ask, *args)


async def test_a_client_certificate_names_user_and_groups(api: Api, people: Authority):
    assert await asked(api, people.issue("ada", organization="admins")) == 503, "let in: nothing is known yet"
    assert api.lines[-1]["user"] == "ada"
    assert api.reviewer.called == [], "a certificate needs no review"


async def test_without_a_certificate_a_token_does(api: Api):
    assert await asked(api) == 401
    assert await asked(api, None, "bad") == 401
    assert await asked(api, None, "good") == 503


async def test_a_certificate_of_another_authority_is_refused_by_tls(api: Api, authority: Authority):
    """That of the gate's own certificate, say: who may be Envoy is nobody here."""
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asked(api, authority.issue("envoy"))


async def test_renewed_authorities_hold_for_new_connections(api: Api, people: Authority, tmp_path: Path):
    old, other = people.issue("ada"), Authority(tmp_path, "new people CA")
    new = other.issue("eve")
    people.ca.write_bytes(other.ca.read_bytes())
    api.look()
    assert await asked(api, new) == 503
    assert api.lines[-1]["user"] == "eve"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asked(api, old)


def test_without_a_cluster_nobody_can_be_judged(tmp_path: Path, authority: Authority):
    (tmp_path / "quotas.yaml").write_text(QUOTAS % 4)
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    pair = authority.issue("gate")
    given = ("--api", "127.0.0.1:0", "--api-cert", pair.cert, "--http", "127.0.0.1:0")
    code, error = start("--quotas", tmp_path / "quotas.yaml", "--state", tmp_path / "state.json", *given)
    assert (code, "--kubeconfig" in error) == (64, True)
