"""The handover file: a clean stop leaves the writes under way in it, and the next start takes them over.

While the gate runs the file holds a marker instead. So a start that finds the marker, no file, or an unreadable one
begins a recovery hold: writes may be under way that it does not know (design.md L5).

Beside the file, in one of the same name with ``.run``, is the id of the last run. A handover that another run has left,
as one from a backup, is not taken over: others have allowed writes since.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from extauthz.core.decision.gate import Gate, HandoverError
from extauthz.core.ledger.accounts import Difference
from extauthz.serve.service.inputs import Clock
from extauthz.serve.service.setting_types import SettingsError
from extauthz.serve.service.settings import KUBERNETES, Settings
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Metrics

VERSION = 1

Record: TypeAlias = Mapping[str, object]

RUNNING: Record = {"version": VERSION, "clean": False, "intents": []}
"""The marker."""

BESIDE = ".run"
"""How the name of the file with the last run's id ends."""


class Handover(Protocol):
    """Where pending writes are kept from one run to the next."""

    def take(self) -> Taken:
        """What the last run left, once.

        Raises:
            OSError: it cannot be marked as taken; then a clean stop could not leave anything either.
        """

    def leave(self, pending_writes: Sequence[Record], line: Record | None = None) -> None:
        """Keep the pending writes of a clean stop, and who stands in line (``spec.turns``), if anybody may.

        Raises:
            OSError: they are not kept, and the next start holds.
        """


class HandoverFile:
    """A file. ``str`` gives its path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._run = secrets.token_hex(8)
        """The id of this run."""

    def __str__(self) -> str:
        return str(self._path)

    def take(self) -> Taken:
        """As ``take``."""
        return take(self._path, self._run)

    def leave(self, pending_writes: Sequence[Record], line: Record | None = None) -> None:
        """As ``leave``."""
        leave(self._path, pending_writes, self._run, line)


class Taken(NamedTuple):
    """What a start found."""

    pending_writes: Sequence[Record]
    unclean: str | None
    """Why nothing can be taken over, or ``None``."""
    line: object = None
    """Who stood in line; ``None``: nobody could."""


def take(path: Path, run: str) -> Taken:
    """Read what the last run left, put the running marker in its place, and note that ``run`` is the last one now.

    Raises:
        OSError: the marker cannot be written; then a clean stop could not leave anything either.
    """
    taken = _read(path)
    _write(_beside(path), run)
    _write(path, json.dumps(RUNNING))
    return taken


def leave(path: Path, pending_writes: Sequence[Record], run: str, line: Record | None = None) -> None:
    """Write what a clean stop leaves.

    Raises:
        OSError: the marker stays, and the next start holds.
    """
    _write(path, json.dumps(left(pending_writes, run, line)))


def left(pending_writes: Sequence[Record], run: str, line: Record | None = None) -> Record:
    """What a clean stop of a run leaves. A release that knows no lines leaves that of it aside."""
    found = {"version": VERSION, "clean": True, "run": run, "intents": list(pending_writes)}
    return found if line is None else {**found, "line": line}


def _beside(path: Path) -> Path:
    return path.with_name(path.name + BESIDE)


def _read(path: Path) -> Taken:
    try:
        last = _beside(path).read_text()
    except FileNotFoundError:
        last = ""
    except (OSError, ValueError) as error:
        return Taken((), f"the id of the last run cannot be read: {error}")
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Taken((), "there is no handover yet")
    except OSError as error:
        return Taken((), f"the handover cannot be read: {error}")
    return parsed(text, last)


def parsed(text: str | bytes, last: str) -> Taken:
    """What the text of a handover says, if the ``last`` run has left it; empty: none has noted its id, as in 0.1."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Taken((), f"the handover cannot be read: {error}")
    match tree:
        case {"version": 1, "clean": True, "intents": list(pending_writes)}:
            if tree.get("run", "") != last:
                return Taken((), "the handover is of an earlier run, and not of the last one")
            return Taken(pending_writes, None, tree.get("line"))
        case {"version": 1, "clean": False}:
            return Taken((), "the last run did not stop cleanly")
        case {"version": int(version)} if version != VERSION:
            return Taken((), f"the handover is of version {version}, and this release reads {VERSION}")
    return Taken((), "the handover is not as a gate writes it")


def _write(path: Path, text: str) -> None:
    """Replace the file in one step. A crash or a loss of power leaves the old one or the new one.

    Nobody else may read it. What somebody has put in the way is replaced, and not written through.
    """
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(made, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


# The start and the end of a run: pending writes are handed over; if they are not known, a recovery hold begins.
# Meanwhile usage is counted from scratch now and then, in small steps, and what was wrong is repaired.


class Holding:
    """Takes over what the last run left, and hands over what this one leaves (design.md L5).

    Args:
        handover: where the pending writes are kept between two runs; ``None``: nowhere.
    """

    def __init__(self, settings: Settings, gate: Gate, log: Log, clock: Clock, handover: Handover | None) -> None:
        self._settings = settings
        self._gate = gate
        self._log = log
        self._clock = clock
        self._handover = handover
        self._until_s: float | None = None
        """When the landing window of the last run's writes has elapsed; ``None``: they are known."""

    def take_over(self) -> None:
        """Take over the pending writes of the last run, or begin a recovery hold if they are not known.

        Raises:
            SettingsError: the handover file cannot be written.
        """
        unclean = self._taken_over(self._handover) if self._handover is not None else self._without_a_handover()
        if unclean is None:
            return
        if self._settings.on_unclean_start == "allow":
            self._log.event("warning", "not-holding", why=unclean)
            return
        self._until_s = self._clock() + self._settings.window_s
        self._gate.hold(self._until_s)
        self._log.event("warning", "holding", why=unclean, seconds=self._settings.window_s)

    def _taken_over(self, handover: Handover) -> str | None:
        try:
            pending_writes, unclean, line = handover.take()
        except OSError as error:
            why = f"{error.strerror}; name a file in a directory that the gate may write"
            raise SettingsError(f"--handover {handover}: {why}") from None
        try:
            self._gate.import_pending_writes(pending_writes, self._clock())
        except HandoverError as error:
            return str(error)
        if line is not None:
            self._take_places(line)
        if unclean is None:
            self._log.event("info", "taken-over", intents=len(pending_writes), path=str(handover))
        return unclean

    def _take_places(self, line: object) -> None:
        """Without them everybody only has to ask again."""
        try:
            self._gate.ledger.turns.load(line, self._clock())
        except ValueError as error:
            self._log.event("warning", "line-lost", why=str(error))

    def _without_a_handover(self) -> str | None:
        """Why a start without a handover is unclean; ``None``: it is clean.

        A state file is for demonstrations and is trusted as it stands. On a cluster writes may be under way. A shared
        ledger knows them.
        """
        if self._settings.state != KUBERNETES or self._settings.ledger == KUBERNETES:
            return None
        return "without a handover it is not known which writes an earlier run allowed"

    async def release(self, list_anew: Callable[[], Awaitable[None]]) -> None:
        """Let growth pass again, once the landing window has elapsed and everything was listed after that."""
        if self._until_s is None:
            return
        await asyncio.sleep(max(self._until_s - self._clock(), 0.0))
        await list_anew()
        self._until_s = None
        self._gate.release()
        self._log.event("info", "released")

    def notes(self) -> list[str]:
        """A note for ``/readyz`` while growth is held."""
        if self._until_s is None:
            return []
        left_s = max(self._until_s - self._clock(), 0.0)
        return [
            f"grants no growth for another {left_s:.0f} s: writes that were allowed before the start may still land"
        ]

    def hand_over(self) -> None:
        """Leave the pending writes to the next run. In mode audit it leaves none: it does not know what it let pass.

        Nor does it while growth is held: what the run before has allowed is not known. So the next start holds anew.
        """
        handover = self._handover
        if handover is None or self._settings.mode == "audit":
            return
        if self._until_s is not None:
            why = "growth is held for writes of the run before; the next start holds anew"
            self._log.event("warning", "not-handed-over", path=str(handover), why=why)
            return
        pending_writes, turns = self._gate.export_pending_writes(self._clock()), self._gate.ledger.turns
        line = turns.dump(self._clock()) if turns.lines else None
        try:
            handover.leave(pending_writes, line)
        except OSError as error:  # the marker stays, and the next start holds
            self._log.event("error", "not-handed-over", path=str(handover), why=error.strerror)
        else:
            self._log.event("info", "handed-over", path=str(handover), intents=len(pending_writes))


STEP = 50
"""Workloads that are counted at once: about a millisecond."""

PAUSE_S = 0.004
"""Between two steps: a count takes a fifth of a processor at most, and a million workloads two minutes."""

TOLD = 20
"""Differences in one line of the log; more are counted."""


SLICE = 4
"""Workloads that are counted anew in one turn of the loop: half a millisecond where their costs are new too."""

LOOK_S = 0.005
"""How often somebody who waits for a count looks."""


class Counting:
    """Counts everything anew where quotas or costs have changed, in slices."""

    def __init__(self, gate: Gate) -> None:
        self._usage = gate.ledger.usage
        self._begun = asyncio.Event()
        self._usage.on_count = self._begun.set

    async def run(self) -> None:
        """For ever. Ends by cancellation."""
        while True:
            await self._begun.wait()
            self._begun.clear()
            while self._usage.count(SLICE):  # noqa: ASYNC110 (it does the counting)
                await asyncio.sleep(0)

    async def whole(self, _: object = None) -> None:
        """Wait until all is counted."""
        while self._usage.is_counting:  # noqa: ASYNC110 (not for long)
            await asyncio.sleep(LOOK_S)


class Recounting:
    """Counts every ``every_s`` seconds.

    Args:
        every_s: 0: never.
    """

    def __init__(self, gate: Gate, every_s: float, log: Log, metrics: Metrics) -> None:
        self._gate = gate
        self._every_s = every_s
        self._log = log
        self._metrics = metrics

    async def run(self) -> None:
        """For ever. Ends by cancellation."""
        while self._every_s:
            await asyncio.sleep(self._every_s)
            await self.count()

    async def count(self) -> None:
        """Once, from end to end."""
        steps = self._gate.ledger.usage.repair(STEP)
        try:
            while True:
                next(steps)
                await asyncio.sleep(PAUSE_S)
        except StopIteration as end:
            self._tell(end.value)
        finally:
            steps.close()

    def _tell(self, found: tuple[Difference, ...] | None) -> None:
        if found is None:
            self._metrics.recount("overtaken", 0)
            return
        self._metrics.recount("drifted" if found else "exact", len(found))
        if found:
            lines = [f"{one.quota}: {one.what}: kept {one.kept}, counted {one.counted}" for one in found[:TOLD]]
            self._log.event("error", "drift", differences=lines, all=len(found))
