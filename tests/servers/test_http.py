"""The operators' door: alive, ready with reasons, metrics."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from extauthz.serve.servers.http import Copies, Readiness, application
from tests.servers.running import Running, metadata, within
from tests.support.background import Background
from tests.support.platform import Platform

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
        "asked application/openmetrics-text; version=1.0.0\n",
    )


async def test_metrics_are_copied_once_a_second_and_nobody_reads_what_is_older_than_his_question() -> None:
    """Eight connections that asked without end made a check's median 60 times as long."""
    made = 0

    async def scrape(accept: str) -> tuple[bytes, str]:
        nonlocal made
        made += 1
        copied = made
        await asyncio.sleep(0.05)
        return b"%d" % copied, accept

    copies = Copies(scrape, every_s=0.2)
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    async def asks() -> None:
        for _ in range(4):
            there = made
            assert int((await copies.next(""))[0]) > there, "copied after it was asked for"

    await asyncio.gather(*(asks() for _ in range(8)), copies.next("application/openmetrics-text"))
    assert made == 5
    assert loop.time() - began_s >= 4 * 0.2


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


# The gate as a process, with quotas that a platform's own service tells.


class Service(Background):
    """A platform's service in a thread of its own."""

    def __init__(self) -> None:
        super().__init__("platform")
        self.platform = Platform({"workspaces": {"acme": {"pods": "4"}}}, token="secret")

    async def main(self) -> None:
        async with self.platform:
            self.started()
            await asyncio.Event().wait()


@pytest.fixture
def service() -> Iterator[Platform]:
    with Service() as running:
        yield running.platform


def flags(service: Platform) -> tuple[str, ...]:
    return ("--quotas", f"{service.url}/quotas")


def test_quotas_of_a_service_are_in_force_and_so_is_each_change(service: Platform, tmp_path: Path):
    service.token = ""
    with Running(tmp_path, *flags(service), quotas_every_s=0.05) as gate:
        assert gate.allows(4)
        assert not gate.allows(5)
        service.quotas = {"workspaces": {"acme": {"pods": "6"}}}
        assert within(5, lambda: gate.allows(6))
        assert not gate.allows(7)
        unchanged = 'extauthz_source_requests_total{result="not-modified",source="quotas"}'
        assert within(5, lambda: unchanged in gate.get("/metrics")[1]), "it is asked again and again"


def test_a_service_that_has_gone_silent_stops_growth_by_name_and_nothing_else(service: Platform, tmp_path: Path):
    service.token = ""
    with Running(tmp_path, *flags(service), quotas_every_s=0.05, stale_after_s=0.5) as gate:
        assert gate.allows(4)
        service.status = 503
        assert within(10, lambda: not gate.allows(4))
        refused = gate.check(4)
        assert metadata(refused)["reason"] == "stale"
        assert gate.allows(2)
        (failed,) = gate.events("source-failed")
        assert (failed["error"], failed["url"]) == ("it answered 503", f"{service.url}/quotas")
        service.status = 200
        assert within(10, lambda: gate.allows(4))
        assert gate.events("source-answers")
        assert within(5, lambda: gate.events("fresh"))


def test_without_a_first_answer_the_gate_does_not_serve_and_says_why(service: Platform, tmp_path: Path):
    def relent() -> None:
        within(20, lambda: len(service.seen) > 1)
        service.token = ""

    relenting = threading.Thread(target=relent)
    relenting.start()
    with Running(tmp_path, *flags(service), quotas_every_s=0.05) as gate:
        assert service.token == "", "it serves only now"
        assert gate.events("source-failed")[0]["error"] == "it answered 401; look at its credentials"
    relenting.join(5)


def test_a_stop_while_quotas_are_awaited_is_clean(service: Platform, tmp_path: Path):
    """The gate has no address to ask yet: its log says that a service is asked."""
    service.status = 503
    (tmp_path / "state.json").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    command = [sys.executable, "-m", "extauthz.cli", "serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    command += ["--state", str(tmp_path / "state.json"), *flags(service)]
    log = tmp_path / "log"
    with log.open("w") as stream:
        gate = subprocess.Popen(command, stderr=stream)
    assert within(20, lambda: "source-failed" in log.read_text())
    gate.terminate()
    assert gate.wait(20) == 0
    assert "Traceback" not in log.read_text()
