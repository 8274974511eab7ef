"""One peer that asks for too much, at the real gate: an honest client beside it has every call answered, about as soon
as without it. Attackers have addresses of their own; whoever is honest comes from 127.0.0.1."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hpack import Encoder

from extauthz.serve.rpc.frames import PREFACE
from extauthz.serve.rpc.link import HELD_BYTES
from extauthz.serve.servers.api.people import People
from extauthz.serve.servers.api.routes import routes
from extauthz.serve.service import certificates, listening
from extauthz.serve.service.settings import Settings
from extauthz.testing import admission, workload
from tests.rpc.client import block, head, headers, prefixed, raw, setting, spelled
from tests.servers.honest import CHECK, EXPECTED, HONEST, asking, honest, message
from tests.servers.running import QUOTAS, STATE, Running, metadata
from tests.servers.test_hostile_connections import STRANGERS, anybody
from tests.servers.test_serve_webhook import connected, flags, post
from tests.support.certs import Authority
from tests.support.kubecalls import Reviewer

MIB = 1 << 20
CALLS = 60
"""Of an honest client, one after the other. Their median is compared."""
RATIO = 40
"""How many times as long as without the attack one may take. What this is about took thousands of times as long."""
PING = spelled(6, 0, 0, b"finished")
PONG = spelled(6, 1, 0, b"finished")


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("gate")) as one:
        yield one


async def check_s(gate: Running) -> float:
    """The median of a check, each of which is answered."""
    taken = []
    async with asking(gate) as ask:
        for number in range(CALLS):
            began_s = time.perf_counter()
            answer = await ask(message(4 + number % 2))
            taken.append(time.perf_counter() - began_s)
            assert metadata(answer)["verdict"] == EXPECTED[number % 2]
    return median(taken)


@contextmanager
def attacking(address: str, said: bytes, until: bytes = PONG, each: int = 1) -> Iterator[list[int]]:
    """Strangers say this again and again, each time on a new connection, once the gate has read all or ended it."""
    over, times = threading.Event(), [0]

    def attack(source: str) -> None:
        while not over.is_set():
            with suppress(OSError), connection(address, source) as made:
                made.sendall(said)
                heard = b""
                while not over.is_set() and until not in heard and (piece := made.recv(1 << 16)):
                    heard = heard[-len(until) :] + piece
            times[0] += 1

    threads = [threading.Thread(target=attack, args=(source,)) for source in STRANGERS for _ in range(each)]
    for one in threads:
        one.start()
    try:
        yield times
    finally:
        over.set()
        for one in threads:
            one.join(60)


def connection(address: str, source: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30, source_address=(source, 0))


def open_calls(count: int) -> bytes:
    return b"".join(raw(headers(2 * number + 1, block(CHECK))) for number in range(count))


def resident_mib(gate: Running) -> float:
    status = Path(f"/proc/{gate.child.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def unfinished() -> bytes:
    """Seven checks of 4 MiB without their last byte."""
    begun = prefixed(bytes(4 * MIB - 1))[:-1]
    frames = [begun[at : at + 16_384] for at in range(0, len(begun), 16_384)]
    data = (spelled(0, 0, 2 * number + 1, frame) for number in range(7) for frame in frames)
    return PREFACE + raw(setting(4, 1_000)) + open_calls(7) + b"".join(data)


def heads_without_end() -> bytes:
    """1,024 checks of which only the head came, with 15 KB each."""
    fields = [*((name, value, True) for name, value in head(CHECK)), ("x-large", "x" * 15_000, True)]
    encoded = Encoder().encode(fields, huffman=False)
    calls = b"".join(raw(headers(2 * number + 1, encoded)) for number in range(1_023))
    return PREFACE + raw(setting(4, 1_000)) + calls


@pytest.mark.parametrize("said", [heads_without_end, unfinished])
async def test_all_that_is_not_finished_takes_little_memory_together(gate: Running, said: Callable[[], bytes]):
    """66 connections took 2.1 GiB. The allocator may keep more than the budget: of what has been freed, in pieces."""
    pieces = said()
    assert await honest(gate, HONEST) == EXPECTED
    before_mib = resident_mib(gate)
    with ExitStack() as stack:
        for number in range(40):
            with suppress(OSError):
                stack.enter_context(connection(gate.grpc, STRANGERS[number % 5])).sendall(pieces)
        assert await honest(gate, HONEST) == EXPECTED
        grown_mib = resident_mib(gate) - before_mib
    assert grown_mib < 4 * HELD_BYTES / MIB


def settings_of_many() -> bytes:
    values = b"".join(b"\x00\x04" + (1_000 + number % 2).to_bytes(4, "big") for number in range(2_730))
    return PREFACE + raw(setting(4, 1_000)) + open_calls(1_023) + spelled(4, 0, 0, values) * 16 + PING


def blocks_of_many_fields() -> bytes:
    """Half a MiB of heads, each with 300 fields of a byte that mean 46 bytes, and with one that is new."""
    encoder, calls = Encoder(), []
    for number in range(1_100):
        fields = [(name, value, True) for name, value in [*head(CHECK), ("x-new", f"{number}")]]
        calls.append(
            raw(headers(2 * number + 1, encoder.encode(fields) + b"\x8f" * 300, ("END_HEADERS", "END_STREAM")))
        )
    return PREFACE + raw(setting(4, 1_000)) + b"".join(calls) + PING


def resizes() -> bytes:
    return PREFACE + raw(setting(4, 1_000)) + raw(headers(1, b"\x20" * 16_000 + block(CHECK))) + PING


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(settings_of_many, id="SETTINGS of 2,730 values, over 1,023 open calls"),
        pytest.param(blocks_of_many_fields, id="heads of many fields"),
        pytest.param(resizes, id="heads that resize the table"),
    ],
)
async def test_costly_frames_hold_up_nobody_else(gate: Running, said: Callable[[], bytes]):
    """262 KB stopped the loop for 3 s, 1 MiB of heads for 2.5 s."""
    pieces = said()
    quiet_s = await check_s(gate)
    with attacking(gate.grpc, pieces):
        beside_s = await check_s(gate)
    assert beside_s < RATIO * quiet_s, f"{beside_s / quiet_s:.0f} times as long"


async def test_calls_that_are_never_sent_whole_keep_no_new_client_out(tmp_path: Path):
    """Two peers with 512 connections each had a new Envoy refused for 35 s and longer."""
    said = PREFACE + raw(setting(4, 1_000)) + open_calls(1) + spelled(0, 0, 1, prefixed(message(5))[:-1]) + PING
    with Running(tmp_path, descriptors=1_536) as gate, ExitStack() as stack:
        for source in STRANGERS[:2]:
            for _ in range(128):
                made = stack.enter_context(connection(gate.grpc, source))
                made.sendall(said)
                heard = b""
                while PONG not in heard and (piece := made.recv(1 << 16)):
                    heard += piece
        for _ in range(3):
            assert await honest(gate, HONEST) == EXPECTED


def long_review(size: int) -> dict[str, Any]:
    return admission(workload("web", 3, namespace="shop", version="5", annotations={"x": "y" * size}))


def test_long_reviews_of_some_keep_those_of_others_not_out(tmp_path: Path):
    """Five addresses with nine connections each had 82 of 102 others refused."""
    authority = Authority(tmp_path)
    body = json.dumps(long_review(187_000)).encode()
    said = b"POST /validate?timeout=2s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    with Running(tmp_path, *flags(authority.issue("gate"))) as gate:
        address = gate.events("serving")[-1]["webhook"]
        with attacking_over_tls(address, said, each=9) as times, connected(gate, authority) as one:
            for _ in range(40):
                assert post(one, long_review(20_000))["allowed"]
        assert times[0] > 40, "of them some were answered too"


@contextmanager
def attacking_over_tls(address: str, said: bytes, each: int) -> Iterator[list[int]]:
    """Strangers say this again and again on connections that stay."""
    over, times, context = threading.Event(), [0], anybody()

    def attack(source: str) -> None:
        while not over.is_set():
            with suppress(OSError), context.wrap_socket(connection(address, source)) as made:
                while not over.is_set():
                    made.sendall(said)
                    if not made.recv(1 << 16):
                        break
                    times[0] += 1

    threads = [threading.Thread(target=attack, args=(source,)) for source in STRANGERS for _ in range(each)]
    for one in threads:
        one.start()
    try:
        yield times
    finally:
        over.set()
        for one in threads:
            one.join(60)


async def test_invented_tokens_keep_good_ones_not_out(tmp_path: Path):
    """120 connections had 24 of 25 good questions refused."""
    authority = Authority(tmp_path)
    pair = authority.issue("gate")
    settings = Settings(api="127.0.0.1:0", api_cert=pair.cert)
    tls = certificates.Handshakes.of(certificates.API, settings, lambda level, event, **fields: None)
    assert tls is not None
    reviewer = Slow({f"good-{number}": {"username": f"user-{number}"} for number in range(25)})
    app = web.Application()
    people = People(reviewer, lambda level, event, **fields: None)
    app.add_routes(routes(lambda: None, people))
    runner, address = await listening.bind_api(app, settings, tls.context)
    url = f"https://{address.host}:{address.port}/api/v1/quotas"
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.check_hostname = False

    async def ask(session: aiohttp.ClientSession, token: str) -> str:
        async with session.get(url, headers={"authorization": f"Bearer {token}"}, ssl=context) as response:
            return str((await response.json(content_type=None))["detail"])

    async def attack(number: int) -> None:
        connector = aiohttp.TCPConnector(local_addr=(STRANGERS[number % 5], 0))
        async with aiohttp.ClientSession(connector=connector) as session:
            for turn in range(100_000):
                with suppress(aiohttp.ClientError):
                    await ask(session, f"invented-{number}-{turn}")

    attackers = [asyncio.create_task(attack(number)) for number in range(120)]
    try:
        async with aiohttp.ClientSession() as session:
            while reviewer.most_under_way < 8:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            told = [await ask(session, f"good-{number}") for number in range(25)]
    finally:
        for one in attackers:
            one.cancel()
        await asyncio.gather(*attackers, return_exceptions=True)
        await runner.cleanup()
    assert all("does not know all quotas" in one for one in told), "each is let in: nothing is known behind it"


class Slow(Reviewer):
    """Takes as long as an API server may that has much to do."""

    async def call(self, *given: Any, **more: Any) -> Any:
        answer = super().call(*given, **more)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0.05)
            return await answer
        finally:
            self.under_way -= 1


async def test_who_asks_for_metrics_without_end_gets_the_copy_of_the_others(tmp_path: Path):
    """Of 800 quotas, by eight connections: a check's median was 60 times as long, as each answer was a copy."""
    more = (QUOTAS.replace("acme", f"q{number}") % 4 for number in range(800))
    (tmp_path / "quotas.yaml").write_text("---\n".join([QUOTAS % 4, *more]))
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    over, copies = threading.Event(), Counter[str]()

    def scrape(source: str) -> None:
        host, _, port = gate.http.rpartition(":")
        with closing(http.client.HTTPConnection(host, int(port), timeout=60, source_address=(source, 0))) as made:
            while not over.is_set():
                made.request("GET", "/metrics")
                text = made.getresponse().read().decode()
                copies[text.partition("\nprocess_cpu_seconds_total ")[2].partition("\n")[0]] += 1

    with Running(tmp_path) as gate:
        quiet_s = await check_s(gate)
        threads = [threading.Thread(target=scrape, args=(STRANGERS[number % 5],)) for number in range(8)]
        for one in threads:
            one.start()
        while copies.total() < 16:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        beside_s = await check_s(gate)
        over.set()
        for one in threads:
            one.join(60)
    assert beside_s < RATIO * quiet_s, f"{beside_s / quiet_s:.0f} times as long"
    assert copies.total() >= 4 * len(copies), "one for all who ask meanwhile"
