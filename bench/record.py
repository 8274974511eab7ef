"""What a record costs a decision, and what a replay of a month costs."""

from __future__ import annotations

import asyncio
import gzip
import io
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from extauthz.core.decision.gate import Gate
from extauthz.core.intake.counts import Reader
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Request, Verdict
from extauthz.core.quantities import NANO
from extauthz.serve.service.collector import spare_the_collector
from extauthz.serve.service.deciding import Deciding
from extauthz.serve.service.recording import Recording, recorder
from extauthz.tell.observe.episodes import Recent
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Levels, Metrics
from extauthz.tell.observe.observers import Observers
from extauthz.tell.record import lines
from extauthz.tell.record.files import Files
from extauthz.tell.record.recorder import Recorder

from .decision import FULL, QUICK, Size, batch, in_us, loaded
from .figures import Figure, Goal, figure

__all__ = ["FULL", "QUICK", "measure"]

COST = 1.05
REPLAY_S = 60.0
REPLAY_MB = 500.0


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """Both."""
    say("recording")
    with tempfile.TemporaryDirectory() as folder:
        cost = asyncio.run(_cost(size, Path(folder)))
    quick = size.decisions < 1_000
    workloads, asks = (200, 10_000) if quick else (20_000, 1_000_000)
    say(f"replaying {asks:,} asks of {workloads:,} workloads")
    with tempfile.TemporaryDirectory() as folder:
        write_month(Path(folder), workloads, asks)
        return [cost, *_replay(Path(folder), workloads, asks)]


# A decision that is recorded.


async def _cost(size: Size, folder: Path) -> Figure:
    """Processor time of decisions, told to log and metrics as ``serve`` does, with all that recording costs: the
    thread's work, packing and writing among it."""
    population, pick = size.small, random.Random("record")
    gate = loaded(population)
    files = Files(folder, "bench", 1 << 40, 1e9, time.time)
    notes = recorder(gate, files, "bench", time.time)
    await Recording(gate, notes).begin()
    notes.flush()
    spare_the_collector()  # as the service does after a load
    log = Log(io.StringIO())
    recent = Recent()
    observers = Observers((log.decided, Metrics(_levels).decided, recent.decided), log.event)
    read = Reader()
    plain = Deciding(gate, observers, log.event, read=read)
    noting = Deciding(gate, observers, log.event, read=read, note=notes.decided)
    costs: dict[int, list[float]] = {id(plain): [], id(noting): []}
    for number in range(size.rounds * 4):
        requests = batch("KPA PATCH", population, size.decisions, pick)
        for deciding in (plain, noting) if number % 2 else (noting, plain):
            gate.ledger.usage.witness = notes if deciding is noting else None
            costs[id(deciding)].append(await _batch_us(gate, deciding, requests, notes if deciding is noting else None))
    log.close()
    files.close()
    recorded, unrecorded = costs[id(noting)], costs[id(plain)]
    return in_us("decision that is recorded (--record), over one that is not", recorded, unrecorded, COST)


async def _batch_us(gate: Gate, deciding: Deciding, requests: Sequence[Request], notes: Recorder | None) -> float:
    """Processor time of all threads, a decision; each is granted, and answered with success."""
    start = time.process_time()
    decisions: list[Decision] = []
    for request in requests:
        decision = deciding(request)
        assert isinstance(decision, Decision)
        decisions.append(decision)
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if notes is not None:
        notes.flush()
    spent_s = time.process_time() - start
    for decision in decisions:
        assert decision.verdict is Verdict.ALLOW, decision.sentence
        assert decision.pending_write is not None
        gate.ledger.pending.settle(decision.pending_write, Event.NOT_FORWARDED, 0.0)
    if notes is not None:
        notes.flush()
    return spent_s / len(requests) * 1e6


def _levels() -> Levels:
    raise NotImplementedError("nobody scrapes")


# A month that is replayed.


def write_month(folder: Path, workloads: int, asks: int) -> None:
    """A record of 30 days: a fifth of all asks changes what a workload wants, the others ask for the same again.

    Workloads are in 400 quotas of which a few are full now and then.
    """
    pick, begins_s = random.Random("month"), 1_800_000_000.0
    quotas, counts = min(400, workloads // 10), [2] * workloads
    pod = lines.costs_text({"requests.cpu": NANO // 2, "requests.memory": NANO << 30, "pods": NANO})
    hard = {"requests.cpu": str(2 * workloads // quotas), "pods": "1k"}
    selects = [{"namespaceSelector": {"matchLabels": {"q": str(q)}}, "hard": hard} for q in range(quotas)]
    names = [f"deployments.apps/ns-{i % quotas}/web-{i:05}" for i in range(workloads)]

    def load(at_s: float, i: int) -> lines.Load:
        return lines.Load(at_s, workload=names[i], replicas=counts[i], pod=pod, version=str(int(at_s)))

    def state(at_s: float) -> list[lines.Line]:
        there: list[lines.Line] = [lines.Quota(at_s, name=f"q-{q}", spec=spec) for q, spec in enumerate(selects)]
        there += [lines.Labelled(at_s, name=f"ns-{q}", labels={"q": str(q)}) for q in range(quotas)]
        there += [load(at_s, i) for i in range(workloads)]
        return [lines.Start(at_s, schema=lines.SCHEMA, gate="g", run="1", settings={}, state=len(there)), *there]

    at_s, rows, made = begins_s, state(begins_s), 0
    for number in range(asks):
        at_s = begins_s + number * 30 * 86400 / asks
        i = pick.randrange(workloads)
        to = pick.randrange(1, 6) if pick.random() < 0.2 else counts[i]
        fits = "fits" if to > counts[i] else "no-growth"
        rows.append(lines.Ask(at_s, f"{number:016x}", names[i], "allow", fits, "patch", counts[i], to))
        if to != counts[i]:
            counts[i] = to
            rows.append(load(at_s, i))
        if number % 200_000 == 199_999 or number == asks - 1:
            members = (lines.encode_lines(rows[begin : begin + 1_000]) for begin in range(0, len(rows), 1_000))
            (folder / f"g.{made:03}.jsonl.gz").write_bytes(b"".join(gzip.compress(one, 1) for one in members))
            made, rows = made + 1, state(at_s)


def _replay(folder: Path, workloads: int, asks: int) -> list[Figure]:
    command = [sys.executable, "-m", "extauthz.cli", "replay", "--record", str(folder), "-o", "json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = after.ru_maxrss * 1024
    name = f"replay of {asks:,} asks of {workloads:,} workloads"
    return [
        figure(f"{name}: processor time", [spent_s], [REPLAY_S], Goal(1.0), unit=" s", digits=1),
        figure(f"{name}: peak memory", [peak / 1e6], [REPLAY_MB], Goal(1.0), unit=" MB"),
    ]
