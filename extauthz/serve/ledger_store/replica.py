"""One gate's replica of the ledger object, and what it would write into it. Synchronous; waits for nothing.

Every gate holds the pending writes of all gates in its own in-memory ledger, so that every decision is the same pure
step. One that appears in the object is adopted, one whose line has changed learns from it, and one that has vanished is
forgotten: some gate has ended it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from math import ceil
from typing import Protocol, TypeVar

from cachetools import FIFOCache

from extauthz.core import records
from extauthz.core.ledger.entry import PendingWrite, is_newer
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.model import WorkloadRef
from extauthz.core.records import RecordError
from extauthz.serve.ledger_store.payload import (
    MAX_TEXT_BYTES,
    Line,
    OtherFormatError,
    Payload,
    PayloadError,
    decode,
    encode,
    pack,
    unpack,
)
from extauthz.serve.ledger_store.store import Stored

ABANDONED = 65_536
"""How many given-up ids are remembered. A forgotten one is taken for another gate's, until its landing window has
passed."""

MAX_TENANT_BYTES = 64 * 1024
"""What the pending writes under one quota may take in the object, so that a sixth of it is the most that one tenant
can fill. Some 700 writes of a count."""

LINE_S = 1.0
"""The object is not written more often for the sake of who waits in line alone."""

AGES = 8
"""How often in a landing window the ledger's clock is written, while a write is pending or growth is held."""


K = TypeVar("K", bound=Hashable)


class Progress(Protocol):
    """How much of the cluster this gate has seen."""

    def seen(self) -> Mapping[str, int]:
        """``deployments.apps`` to the highest resourceVersion of any object of that kind that it was shown."""

    def has_reached(self, kind: str, version: int) -> bool:
        """Whether it has seen every change of that kind up to ``version``. True if there is no such kind."""


class Replica:
    """The ledger object as this gate last saw it.

    Args:
        window_s: the landing window.
        tell: a line for the log: level, event and fields.
        holds_new: whether a new object holds growth back for a landing window.
    """

    def __init__(
        self,
        ledger: Ledger,
        progress: Progress,
        window_s: float,
        clock: Callable[[], float],
        tell: Callable[..., None],
        *,
        holds_new: bool = True,
    ) -> None:
        self._ledger = ledger
        self._progress = progress
        self._window_s = window_s
        self._clock = clock
        self._tell = tell
        self._holds_new = holds_new
        self.base: Stored | None = None
        self.times_gone = 0
        """How often the object has gone."""
        self._is_new = True
        """There is no object, or none that a gate wrote. The next write makes it."""
        self.payload = Payload(holds=holds_new, hold_ends_ms=self._window_ms())
        self.unreadable = ""
        """Why the object cannot be read: a gate of another release wrote it."""
        self.released = False
        """Everything was listed again after a hold: the next write ends it."""
        self._seen_s = clock()
        """When the ledger's clock was at ``payload.clock_ms``."""
        self._text: str | None = None
        self._written: Payload
        """What this gate wrote last, or tried to. It is not parsed when it comes back."""
        self._places: Mapping[str, int] | None = None
        """Who waits in line, as in that; ``None``: nobody can."""
        self._places_s = -LINE_S
        """When news of that was written last, or tried to."""
        ledger.turns.clock = self._at_ms
        self._lines: dict[str, Line] = {}
        self._named: Counter[tuple[str, str]] = Counter()
        """Of each tenant and text: how many lines name it."""
        self._taken: Counter[str] = Counter()
        """Bytes of lines for each tenant, and of the texts that they name."""
        self._abandoned: FIFOCache[str, None] = FIFOCache(ABANDONED)

    def _window_ms(self) -> int:
        return int(self._window_s * 1000)

    def now_ms(self) -> int:
        """The ledger's clock. It never runs ahead of real time."""
        return self._at_ms(self._clock())

    def _at_ms(self, now_s: float) -> int:
        return self.payload.clock_ms + int((now_s - self._seen_s) * 1000)

    # What is seen.

    def take(self, stored: Stored, seen_s: float | None = None) -> None:
        """The object as it is now, or as it was some time ago. ``seen_s``: when this gate itself made its content."""
        base = self.base
        if base is not None and not is_newer(stored.version, base.version):
            return
        try:
            is_ours = stored.payload == self._text
            payload = self._written if is_ours else decode(stored.payload)
            known = self.payload
            before = known.pending_writes if base is not None and base.uid == stored.uid else {}
            changed = [one for one in payload.pending_writes if before.get(one) != payload.pending_writes[one]]
            found = [self._load(one, payload) for one in changed]
        except (PayloadError, RecordError) as error:
            self._cannot_read(stored, error)
            return
        if payload.clock_ms < known.clock_ms:
            self._was_put_back(stored, known.clock_ms - payload.clock_ms)
            return
        if base is None or base.uid != stored.uid:
            self.released = False
            if not is_ours:
                self._forget_lines()
        self.released = self.released and payload.hold_ends_ms == known.hold_ends_ms
        self.base, self.payload, self.unreadable, self._is_new = stored, payload, "", False
        self._seen_s = self._clock() if seen_s is None else seen_s
        for vanished in before.keys() - payload.pending_writes.keys():
            if not self._is_renewed_since(vanished, known):
                self._ledger.pending.forget(vanished)
        for ref, pending_write in found:
            self._adopt(ref, pending_write)
        self._take_places(payload, is_ours=is_ours)

    def _take_places(self, payload: Payload, *, is_ours: bool) -> None:
        turns = self._ledger.turns
        try:
            if payload.line is not None:
                turns.taken(payload.line, self._clock(), self._places if is_ours else None)
            elif turns.lines:
                turns.untold()
        except ValueError as error:  # who waits may have to ask once more
            self._tell("error", "line-unreadable", why=str(error))
            turns.untold()

    def gone(self) -> None:
        """The object has gone. Its writes are still pending, and will be in the next object."""
        self.times_gone += 1
        if self.base is not None:
            self._start_over(None, holds=self._holds_new)
            self.unreadable = ""

    def _load(self, pending_id: str, payload: Payload) -> tuple[WorkloadRef, PendingWrite]:
        """Raises RecordError."""
        now_s = self._clock()
        try:
            tree = unpack(payload.pending_writes[pending_id], payload.texts)
            expires_s = now_s + max(int(tree["until_ms"]) - payload.clock_ms, 0) / 1000
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise RecordError(repr(error)) from error
        return records.load({**tree, "id": pending_id}, expires_s, now_s)

    def _cannot_read(self, stored: Stored, error: Exception) -> None:
        """An object that cannot be read takes no room away: all that is known stays. An object that no gate wrote is
        replaced."""
        self._tell("error", "ledger-unreadable", why=str(error))
        self._start_over(stored, holds=True)
        self.unreadable = str(error) if isinstance(error, OtherFormatError) else ""

    def _was_put_back(self, stored: Stored, behind_ms: int) -> None:
        """Gates move the clock on with each write. So it is an object of earlier, as from a backup, or one of a gate
        that has seen none. What has been allowed since is lost but for what gates remember."""
        why = f"its clock is {behind_ms / 1000:.0f} s behind one that was seen before"
        self._tell("error", "ledger-put-back", why=why)
        self._start_over(stored, holds=True)
        self.unreadable = ""

    def _start_over(self, base: Stored | None, *, holds: bool) -> None:
        """The object will be made again. Its clock goes on: gates that have seen it would take another one for old."""
        ends_ms = self.now_ms() + self._window_ms()
        self.base, self._is_new = base, True
        self.payload = Payload(clock_ms=self.payload.clock_ms, holds=holds, hold_ends_ms=ends_ms)
        self._forget_lines()
        self._ledger.turns.untold()

    def _is_renewed_since(self, pending_id: str, payload: Payload) -> bool:
        """Whether it stands for a request of which ``payload`` does not know."""
        found = self._ledger.pending.get(pending_id)
        if found is None or not found[1].renewed:
            return False
        return found[1].renewed > self._load(pending_id, payload)[1].renewed

    def _adopt(self, ref: WorkloadRef, told: PendingWrite) -> None:
        """A pending write of another gate, or what another gate says of one that this gate follows."""
        line, text = self._lines.get(told.id), self.payload.pending_writes[told.id]
        is_abandoned = told.id in self._abandoned and not told.renewed
        if is_abandoned or (line is not None and line.text == text):
            return
        if self._ledger.pending.follows(told.id):
            self._ledger.pending.learn(told)
        else:
            self._ledger.adopt(ref, told)
            if told.replicas is not None and self._ledger.turns.lines:
                self._ledger.turns.granted(ref, told.replicas, by_count=told.counts_alone)
        self._set_line(told.id, self._line(ref, told)._replace(text=text))

    def abandon(self, pending_id: str) -> None:
        """A pending write of this gate was not granted after all. If it gets into the object, it is taken out again.

        One that stands for another request too stays, or comes back when another gate says so.
        """
        self._abandoned[pending_id] = None
        self.undo(pending_id)

    def undo(self, pending_id: str, requests: int = 1) -> None:
        """Forget a pending write of this gate, unless it stands for more than so many ``requests``."""
        found = self._ledger.pending.get(pending_id)
        if found is not None and found[1].renewed < requests:
            self._ledger.pending.forget(pending_id)

    # What stands in the way of a grant.

    def behind(self) -> str | None:
        """A kind of which other gates have seen more than this gate; ``None``: there is none."""
        return next((kind for kind in self.payload.watermark if not self.has_reached(kind)), None)

    def mark(self, kind: str) -> int:
        """How far gates that have written the object had seen a kind."""
        return self.payload.watermark.get(kind, 0)

    def has_reached(self, kind: str) -> bool:
        """Whether this gate's own watch has come as far."""
        return self._progress.has_reached(kind, self.mark(kind))

    @property
    def holds(self) -> bool:
        """Whether writes may still land that an earlier ledger has known and this one does not."""
        return self.payload.holds

    @property
    def hold_is_over(self) -> bool:
        """Whether none of them can land any more. Growth still waits for a list and a write."""
        return self.payload.holds and self.hold_left_s <= 0

    @property
    def hold_left_s(self) -> float:
        """For how much longer they can land."""
        return (self.payload.hold_ends_ms - self.now_ms()) / 1000

    def agrees(self, pending_id: str) -> bool:
        """Whether the object has a pending write that memory has too."""
        return pending_id in self.payload.pending_writes and self._ledger.pending.follows(pending_id)

    def is_full(self, pending_id: str) -> bool:
        """Whether a new pending write, which is in memory so far, is more than its tenant may have in the object."""
        found = self._ledger.pending.get(pending_id)
        if found is None or pending_id in self.payload.pending_writes:
            return False
        line = self._line(*found)
        self._set_line(pending_id, line)
        is_full = any(self._taken[tenant] > MAX_TENANT_BYTES for tenant in line.tenants)
        if is_full:
            self._drop_line(pending_id)
        return is_full

    # What to write.

    def wants_write(self) -> bool:
        """Whether the object should be written even if nobody waits for it."""
        self._keep_lines()
        if self.base is None or (self.payload.holds and self.released):
            return True
        known = self.payload.pending_writes
        if len(known) != len(self._lines) or any(known.get(one) != line.text for one, line in self._lines.items()):
            return True
        if self._ledger.turns.has_news and self._clock() - self._places_s >= LINE_S:
            return True
        waits = self._lines or self.payload.holds
        return bool(waits) and self._clock() - self._seen_s > self._window_s / AGES

    def next_text(self, most: int = MAX_TEXT_BYTES) -> tuple[str, int]:
        """The object with all pending writes that are in memory, and how many these are. Raises TooLargeError."""
        payload = self._next()
        self._text, self._written = encode(payload, most), payload
        return self._text, len(payload.pending_writes)

    def _next(self) -> Payload:
        self._keep_lines()
        texts: dict[str, str] = {}
        for line in self._lines.values():
            texts.update(line.texts)
        watermark = dict(self.payload.watermark)
        for kind, version in self._progress.seen().items():
            if version:  # where there is no object of a kind, nobody can have seen one
                watermark[kind] = max(version, watermark.get(kind, 0))
        pending_writes = {pending_id: line.text for pending_id, line in self._lines.items()}
        holds, now_ms, turns = self.payload.holds and not self.released, self.now_ms(), self._ledger.turns
        places = turns.texts() if turns.lines else None
        self._places = turns.sent() if turns.lines else None
        self._places_s = self._clock()
        # A hold begins when the object is made, and not when it was missed: others may have lost one meanwhile.
        ends_ms = now_ms + self._window_ms() if self._is_new else self.payload.hold_ends_ms
        return Payload(pending_writes, texts, watermark, now_ms, holds, ends_ms, places)

    def _keep_lines(self) -> None:
        """A line for each pending write in memory, and no others."""
        for ref, pending_write in self._ledger.pending:
            line = self._lines.get(pending_write.id)
            if line is None or line.says_less_than(pending_write):
                self._set_line(pending_write.id, self._line(ref, pending_write))
        if len(self._lines) > self._ledger.pending_writes:
            for pending_id in [one for one in self._lines if not self._ledger.pending.follows(one)]:
                self._drop_line(pending_id)

    def _set_line(self, pending_id: str, line: Line) -> None:
        if pending_id in self._lines:
            self._drop_line(pending_id)
        self._lines[pending_id] = line
        self._count(line, 1)

    def _drop_line(self, pending_id: str) -> None:
        self._count(self._lines.pop(pending_id), -1)

    def _count(self, line: Line, times: int) -> None:
        """Count a line in or out; of each tenant a text once, however many of its lines name it."""
        for tenant in line.tenants:
            size = len(line.text)
            for key, text in line.texts.items():
                others = self._named[tenant, key] - (times < 0)
                size += 0 if others else len(text)
                _add(self._named, (tenant, key), times)
            _add(self._taken, tenant, times * size)

    def _forget_lines(self) -> None:
        """The object is another one. Released ids and the times in lines mean nothing in the next."""
        self._lines.clear()
        self._named.clear()
        self._taken.clear()
        self.released = False

    def _line(self, ref: WorkloadRef, pending_write: PendingWrite) -> Line:
        tree = records.dump(ref, pending_write)
        tree["until_ms"] = self.now_ms() + max(ceil((pending_write.expires_s - self._clock()) * 1000), 0) + 1
        del tree["id"]
        tenants = self._ledger.pending.leaf_quotas(pending_write.id) or frozenset({f"namespace {ref.namespace}"})
        return Line(*pack(tree), tenants, pending_write.expires_s, pending_write.renewed)


def _add(counter: Counter[K], key: K, more: int) -> None:
    counter[key] += more
    if not counter[key]:
        del counter[key]
