"""What the doctor makes of whoever listens at an address of the API server, and whom it tells a token."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from extauthz.inputs.kube.session import Trust
from extauthz.serve.servers.ext_authz import DECISION_ID_HEADER
from extauthz.serve.service.setting_types import Address
from extauthz.tools.doctor import dial
from extauthz.tools.doctor.canary import BODIES, Canary
from extauthz.tools.doctor.client_path import AT_MOST, Found, State
from extauthz.tools.doctor.dial import Probe
from tests.support.certs import Authority, Pair
from tests.support.stack import unused_port

CANARY = Canary("team-a", "web", BODIES[0])
TOKEN = "the-autoscalers"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Listener:
    """Somebody at an address, who answers as told and remembers what was said."""

    def __init__(self, status: int = 200, headers: dict[str, str] | None = None, text: str = "") -> None:
        self._status, self._headers, self._text = status, headers, text
        self.seen: list[web.Request] = []
        self.bodies: list[bytes] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        self.bodies.append(await request.read())
        return web.Response(status=self._status, headers=self._headers, text=self._text)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def listening(handler: Handler, certificate: Pair | None, host: str = "127.0.0.1") -> AsyncIterator[Address]:
    """https, or http without a ``certificate``."""
    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    tls = None
    if certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*certificate)
    await web.TCPSite(runner, host, 0, ssl_context=tls).start()
    try:
        yield Address(host, runner.addresses[0][1])
    finally:
        await runner.cleanup()


def probe(ca: Path | None, trust: Path | None = None, server_name: str = "") -> Probe:
    return dial.probe(CANARY, TOKEN, ca, Trust(trust, server_name))


async def dialled(address: Address, tried: Probe | None) -> Found:
    (found,) = await dial.dial([address], tried)
    return found


async def test_who_takes_the_write_undecided_is_a_way_around(authority: Authority):
    server = Listener()
    async with listening(server.answer, authority.issue("server")) as address:
        assert (await dialled(address, probe(authority.ca)))[1:] == (State.OPEN, "taken undecided (200)")
    (request,) = server.seen
    assert (request.method, request.raw_path) == (
        "PATCH",
        "/apis/apps/v1/namespaces/team-a/deployments/web/scale?dryRun=All",
    )
    assert server.bodies == [CANARY.body]
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


ANSWERS = {
    "decided": (Listener(403, {DECISION_ID_HEADER: "d-1"}), State.ASKS, "decided as well (403)"),
    "outage": (
        Listener(503, text='{"message": "quota gate unavailable: nobody could tell"}'),
        State.ASKS,
        "a question to the gate that it did not answer (503)",
    ),
    "forbidden-by-the-api-server": (Listener(403), State.OPEN, "answered undecided (403)"),
    "nobody-behind-it": (Listener(503, text="no healthy upstream"), State.UNKNOWN, "503 (no healthy upstream)"),
}


@pytest.mark.parametrize(("server", "state", "told"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_tells_whether_the_gate_was_asked(authority: Authority, server, state, told):
    async with listening(server.answer, authority.issue("server")) as address:
        assert (await dialled(address, probe(authority.ca)))[1:] == (state, told)


async def test_who_is_vouched_for_by_nobody_that_was_named_is_told_nothing(authority: Authority, tmp_path: Path):
    server, other = Listener(), Authority(tmp_path, "another CA")
    async with listening(server.answer, other.issue("other")) as address:
        found = await dialled(address, probe(authority.ca))
        assert server.seen == []
        assert found.state is State.UNKNOWN
        assert "a certificate that is not trusted" in found.told
        assert (await dialled(address, probe(authority.ca, trust=other.ca))).state is State.OPEN, "the kubeconfig's"


async def test_who_is_vouched_for_but_made_out_to_others_is_told_nothing(authority: Authority):
    """As each kubelet may be, whose certificate the cluster's authority has signed."""
    server = Listener()
    async with listening(server.answer, authority.issue("kubelet", ("node-1", "10.1.0.1"))) as address:
        assert (await dialled(address, probe(authority.ca))).state is State.UNKNOWN
        assert server.seen == []
        assert (await dialled(address, probe(authority.ca, server_name="node-1"))).state is State.OPEN


async def test_a_certificate_may_be_made_out_to_the_api_server_instead_of_its_address(authority: Authority):
    async with listening(Listener().answer, authority.issue("server", ("kubernetes.default.svc",))) as address:
        assert (await dialled(address, probe(authority.ca))).state is State.OPEN


async def test_a_redirect_is_not_followed(authority: Authority):
    elsewhere = Listener()
    pair = authority.issue("server")
    async with (
        listening(elsewhere.answer, pair) as there,
        listening(Listener(307, {"Location": f"https://{there}/"}).answer, pair) as at,
    ):
        assert (await dialled(at, probe(authority.ca))).told == "answered undecided (307)"
    assert elsewhere.seen == []


async def test_an_address_of_version_6_is_dialled_and_written_in_brackets(authority: Authority):
    try:
        async with listening(Listener().answer, authority.issue("server", ("::1",)), "::1") as address:
            found = await dialled(address, probe(authority.ca))
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert found.state is State.OPEN
    assert str(found.address) == f"[::1]:{address.port}"


async def test_without_a_write_it_is_only_connected_to(authority: Authority):
    server = Listener()
    async with listening(server.answer, authority.issue("server")) as address:
        assert (await dialled(address, None))[1:] == (State.UNKNOWN, "a connection")
    assert server.seen == []


@pytest.mark.parametrize("tried", [True, False])
async def test_where_nobody_listens_nothing_can_be_connected_to(authority: Authority, tried: bool):
    found = await dialled(Address("127.0.0.1", unused_port()), probe(authority.ca) if tried else None)
    assert found[1:] == (State.CLOSED, "no connection (Connection refused)")


async def test_who_speaks_no_tls_is_told_nothing(authority: Authority):
    server = Listener()
    async with listening(server.answer, None) as address:
        found = await dialled(address, probe(authority.ca))
    assert found.state is State.UNKNOWN
    assert found.told.startswith("no TLS")
    assert server.seen == []


@asynccontextmanager
async def raw(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[Address]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Address(*server.sockets[0].getsockname())


async def test_who_ends_every_connection_lets_no_write_through(authority: Authority):
    """As a mesh does with what it does not know (``BlackHoleCluster``)."""

    async def ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with raw(ends) as address:
        assert (await dialled(address, probe(authority.ca)))[1:] == (State.CLOSED, "no connection (ended before TLS)")


async def test_who_never_answers_is_given_up(authority: Authority):
    over = asyncio.Event()

    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    async with raw(waits) as address:
        found = await dialled(address, probe(authority.ca)._replace(within_s=0.2))
        over.set()
    assert found[1:] == (State.UNKNOWN, "a connection, but no answer within 0.2 s,")


async def test_all_are_dialled_at_once(authority: Authority):
    """Nobody answers before all have been asked."""
    everybody = asyncio.Barrier(AT_MOST)

    async def answer(request: web.Request) -> web.StreamResponse:
        await everybody.wait()
        return web.Response()

    async with listening(answer, authority.issue("server")) as address:
        found = await dial.dial([address] * AT_MOST, probe(authority.ca))
    assert [each.state for each in found] == [State.OPEN] * AT_MOST
