"""Growth of two tenants at a steady pace: whether the ledger has room for what is under way."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.check import GRANTS
from bench.figures import Figure, Goal
from bench.filling import Size, namespace_of
from tests.controlplane.access import service_account
from tests.controlplane.plane import Plane

from .crowd import crowded, started
from .tail import RATE, growing
from .ways import behind_envoy

FULL = Size(deployments=2_000, namespaces=2, quotas=2, starts=0, seconds=60.0, pods=1)
QUICK = Size(deployments=100, namespaces=2, quotas=2, starts=0, seconds=3.0, pods=1)
ALL = Goal(1.0, at_least=True)
LEDGER_FULL = 'extauthz_decisions_total{reason="ledger-full",verdict="unavailable"}'


def measure(size: Size, programs: Path, say: Callable[[str], None]) -> list[Figure]:
    """The row: how many of the growths the ledger had room for."""
    with crowded(size, say) as plane:
        return _paced(plane, size, programs, say)


def _paced(plane: Plane, size: Size, programs: Path, say: Callable[[str], None]) -> list[Figure]:
    say(f"starting a gate behind Envoy: {RATE} growths a second of {size.quotas} quotas, for {size.seconds:g} s")
    with ExitStack() as stack:
        gate = stack.enter_context(started(plane, "pace"))
        url = behind_envoy(plane, gate, stack)
        token = service_account(plane, namespace_of(0, size), "pacer", "cluster-admin")
        command = growing(plane, size, programs, url, token)
        done = subprocess.run(command, capture_output=True, text=True, timeout=size.seconds + 120, check=True)
        granted, refused = gate.metric(GRANTS), gate.metric(LEDGER_FULL)
    found = json.loads(done.stdout)
    say(f"{len(found['scaled']) / found['seconds']:.0f} growths a second, {found['failed']} failed; {done.stderr}")
    return rows(granted, refused, found["seconds"])


def rows(granted: float, refused: float, seconds: float) -> list[Figure]:
    """Granted, of those that were granted or had no room in the ledger."""
    asked = granted + refused
    title = (
        f"pace, {asked / seconds:.0f} growths a second of two quotas: granted, of what the ledger may have no room for"
    )
    return [Figure(title, f"{granted:.0f}", f"{asked:.0f}", granted / asked, ALL)]
