"""h2spec asks the real server every rule of HTTP/2, the strict ones too. None is left out."""

from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path

import pytest

from extauthz.serve.rpc.link import ALPN
from tests.controlplane.parts import find
from tests.rpc.client import METHODS
from tests.servers.listening import listening
from tests.support.certs import Authority

pytestmark = pytest.mark.h2spec

CASES = 146
WITHIN_S = 10
"""For the server's answer to one frame. The tool's own is 2 s, which a busy machine may need."""


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
async def test_no_case_fails_and_none_is_skipped(is_tls: bool, tmp_path: Path):
    tls = None
    if is_tls:
        pair = Authority(tmp_path).issue("gate")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pair.cert, pair.key)
        tls.set_alpn_protocols([ALPN])
    async with listening(METHODS, tls=tls) as (_, address):
        flags = ["--strict", f"--timeout={WITHIN_S}", f"--port={address.rpartition(':')[2]}"]
        flags += ["--tls", "--insecure"] if is_tls else []
        asked = await asyncio.create_subprocess_exec(find("h2spec"), *flags, stdout=asyncio.subprocess.PIPE)
        said, _ = await asyncio.wait_for(asked.communicate(), 300)
    text = said.decode()
    (found,) = re.findall(r"^(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", text, re.MULTILINE)
    assert [int(number) for number in found] == [CASES, CASES, 0, 0], text
