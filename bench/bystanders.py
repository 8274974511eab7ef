"""What honest checks feel while others mean harm in each way of ``attackers``, at a gate as ``serve`` runs it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from extauthz.core.intake.counts import MAX_BYTES
from extauthz.demo.gate import Gate

from . import inputs
from .attackers import ATTACKERS, TIMEOUT_S, WAYS, Attackers
from .check import METHOD, checks, growing
from .figures import Figure, Goal, percentile
from .machine import family, memory_bytes
from .population import Population

SHARE = 0.99
SLOWER = Goal(5.0)
LOST = Goal(0.0)
MEMORY = Goal(16.0)
"""Times what the attackers have under way."""

PAUSE_S = 0.005
"""Between two checks: most of the time is left to the attackers."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    population: Population
    rounds: int
    seconds: float
    """A round, quiet and under attack each."""


FULL = Size(Population(100, 2_000), rounds=6, seconds=5.0)
QUICK = Size(Population(10, 500), rounds=1, seconds=1.0)


NAMES = {
    "bodies": "bodies at the size limit",
    "connections": "silent connections",
    "resets": "resets",
}


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """For each way of the attackers: the p99 of honest checks, and those that were lost; and the gate's memory."""
    say(f"starting extauthz serve, and {ATTACKERS} attackers in turns")
    with ExitStack() as stack:
        directory, logs = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        files = inputs.write(size.population, directory)
        gate = stack.enter_context(Gate(files.quotas, files.state, logs / "gate.log", serve=inputs.SERVE))
        channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{gate.port}"))
        honest = _Honest(channel.unary_unary(METHOD), growing(checks(size.population)))
        honest.ask(size.seconds, [])
        return [figure for way in WAYS for figure in _figures(gate, honest, way, size, say)]


@dataclass
class _Honest:
    """One who asks now and then."""

    call: Callable[..., bytes]
    growth: Iterator[bytes]
    lost: int = 0
    took_s: list[list[float]] = field(default_factory=lambda: [[], []])
    """Of each check: when it is quiet, and under attack."""

    def ask(self, seconds: float, took_s: list[float]) -> None:
        """For so long. What is lost took all the time that it may take."""
        until_s = time.perf_counter() + seconds
        while (start_s := time.perf_counter()) < until_s:
            answered = False
            with suppress(grpc.RpcError):
                self.call(next(self.growth), timeout=TIMEOUT_S)
                answered = True
            self.lost += not answered
            took_s.append(time.perf_counter() - start_s if answered else TIMEOUT_S)
            time.sleep(PAUSE_S)


def _figures(gate: Gate, honest: _Honest, way: str, size: Size, say: Callable[[str], None]) -> list[Figure]:
    honest.took_s, honest.lost = [[], []], 0
    quiet, beside = honest.took_s
    before_bytes = _peak_bytes(gate.pid)
    done = 0
    for number in range(size.rounds):
        honest.ask(size.seconds, quiet)
        with Attackers(gate.port, way) as attackers:
            honest.ask(size.seconds, beside)
        done += attackers.done
        now = f"p99 {percentile(beside, SHARE) * 1e3:.1f} ms, quiet {percentile(quiet, SHARE) * 1e3:.1f} ms"
        say(f"bystanders, {way}, round {number + 1} of {size.rounds}: {now}, {done} done")
    grown_bytes, sent_bytes = _peak_bytes(gate.pid) - before_bytes, ATTACKERS * MAX_BYTES
    slow, usual = percentile(beside, SHARE), percentile(quiet, SHARE)
    name = f"bystanders beside {ATTACKERS} attackers with {NAMES[way]}"
    memory = Figure(
        f"{name}: peak memory, against what is sent at a time",
        f"+{grown_bytes / 2**20:.0f} MiB",
        f"{sent_bytes / 2**20:.0f} MiB",
        grown_bytes / sent_bytes,
        MEMORY,
    )
    return [
        Figure(f"{name}: p99 of a check", f"{slow * 1e3:.2f} ms", f"{usual * 1e3:.2f} ms", slow / usual, SLOWER),
        Figure(f"{name}: checks lost", f"{honest.lost}", f"{len(beside)} checks", honest.lost / len(beside), LOST),
        *([memory] if way == "bodies" else []),
    ]


def _peak_bytes(pid: int) -> int:
    """Of a process and its children together."""
    return memory_bytes(family(pid), "VmHWM")
