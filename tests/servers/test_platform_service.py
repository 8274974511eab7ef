"""``examples/platform-service``: a limit that is saved on its page is what a gate refuses by."""

from __future__ import annotations

import asyncio
import runpy
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.servers.running import Running, metadata, within
from tests.support.background import Background

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples/platform-service/service.py"))


class Service(Background):
    """Its address once it has started."""

    def __init__(self, folder: Path) -> None:
        super().__init__("platform-service")
        self._database = str(folder / "platform.db")

    async def main(self) -> None:
        runner = web.AppRunner(EXAMPLE["application"](self._database))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self.started()
        try:
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    def save(self, **row: object) -> None:
        urllib.request.urlopen(f"{self.url}/workspaces", urllib.parse.urlencode(row).encode(), timeout=5).close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path) as running:
        yield running


def test_what_is_saved_on_the_page_binds(service: Service, tmp_path: Path):
    service.save(name="acme", cpu="40", pods=4)
    with Running(tmp_path, "--quotas", f"{service.url}/quotas", quotas_every_s=0.05) as gate:
        assert metadata(gate.check(5))["reason"] == "exceeded-quota"
        with pytest.raises(urllib.error.HTTPError, match="400"):
            service.save(name="acme", cpu="40", pods="all")
        service.save(name="acme", cpu="40", pods=8)
        assert within(10, lambda: gate.allows(8))
        with pytest.raises(urllib.error.HTTPError, match="400"):
            service.save(name="Team A", cpu="1", pods=1)
        service.save(name="other", cpu="<b>", pods=1)
        page = urllib.request.urlopen(service.url, timeout=5).read().decode()
    assert "<td>acme<td>40<td>8</tr>" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
