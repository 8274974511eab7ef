"""The log: one line a decision and one an event, written in batches by a thread of its own.

A line is formatted at once, which takes microseconds, and queued. Another thread writes it. So a slow reader of the log
never delays a decision. If the reader falls far behind, lines are dropped and counted.

What a client sends is cut to a bound. Characters that a terminal or a reader of lines may obey are escaped.
"""

from __future__ import annotations

import json
import logging
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TextIO

import orjson

from extauthz.core import quantities, texts
from extauthz.core.model import WOULD_REFUSE, Decision, Lower, PolicyAnswer, Shortage, Unspecified, Verdict, WorkloadRef
from extauthz.tell.observe import log_text
from extauthz.tell.observe.observers import Report

LEVELS = ("debug", "info", "warning", "error")

MAX_QUEUED_BYTES = 32 << 20
"""Memory of all lines that are not written yet. About twenty seconds of decisions at 3,000 a second."""

BATCH_S = 0.1
"""How long a line may wait for others to be written with it."""

BATCH_BYTES = 1 << 20
"""Memory of the lines that are written at once."""

MAX_USER_AGENT = 200
"""Characters kept. The longest of a Kubernetes client is about 120."""

MAX_TEXT = 16_384
"""Characters kept of a text in an event: a traceback has a few thousand."""

MAX_ITEMS = 100
"""Kept of a list in an event."""

OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
"""DEL and the C1 controls, the separators of lines and paragraphs, and what turns the direction of a text (Unicode
Bidi_Control). JSON itself escapes the C0 controls. Some terminals and readers of lines obey them all."""

DECISION_LEVELS: Mapping[Verdict, str] = {
    Verdict.ALLOW: "info",
    Verdict.DENY: "warning",
    Verdict.UNAVAILABLE: "warning",
}

Fields = dict[str, Any]


class Log:
    """Writes lines to a stream. ``close`` writes what is left; lines after it are lost.

    Args:
        stream: where to; written and flushed only by the log's own thread.
        level: the least level that is written.
        style: ``json`` or ``text``.
        clock: seconds since the epoch.
    """

    def __init__(
        self, stream: TextIO, level: str = "info", style: str = "json", clock: Callable[[], float] = time.time
    ) -> None:
        self._stream = stream
        self._least = LEVELS.index(level)
        self._encode = STYLES[style]
        self._clock = clock
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._counting = threading.Lock()
        self.dropped = 0
        self.queued_bytes = 0
        """Memory of the lines that are not written yet."""
        self._decisions = {v for v, name in DECISION_LEVELS.items() if LEVELS.index(name) >= self._least}
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def event(self, level: str, event: str, **fields: object) -> None:
        """One line about the gate itself: what happened, as a stable word, and its particulars."""
        if LEVELS.index(level) >= self._least:
            told = {name: _bounded(value) for name, value in fields.items()}
            self._put({"time": _stamp(self._clock()), "level": level, "event": event, **told})

    def decided(self, told: Report) -> None:
        """One line about a decision, or about a write that is asked for with fewer replicas: the decision about what is
        sent follows.

        Of the headers only the user-agent is kept: it names the autoscaler, which is the first thing asked of a
        refusal, and Kubernetes clients put no secret there. No other header's value is ever logged. A webhook is told
        the name of the ``user``.
        """
        decision = told.decision
        if (decision.would or decision.verdict) in self._decisions:
            self._put(decision_fields(decision, told.user_agent, self._clock(), told.user))

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._lines.put(None)
        self._thread.join(timeout=5)

    def _put(self, fields: Fields) -> None:
        line = f"{_escaped(self._encode(fields))}\n"
        size = sys.getsizeof(line)
        with self._counting:
            if self.queued_bytes + size > MAX_QUEUED_BYTES:
                self.dropped += 1
                return
            self.queued_bytes += size
        self._lines.put(line)

    def _write(self) -> None:
        ends = False
        while not ends:
            first = self._lines.get()
            if first is not None and self.queued_bytes < BATCH_BYTES:
                time.sleep(BATCH_S)
            lines, ends = self._batch(first)
            try:
                self._stream.write("".join(lines))
                self._stream.flush()
            except (OSError, ValueError):  # the reader has gone (EPIPE): decisions go on without a log
                self.dropped += len(lines)
            with self._counting:
                self.queued_bytes -= sum(map(sys.getsizeof, lines))

    def _batch(self, line: str | None) -> tuple[list[str], bool]:
        """Lines to write at once, and whether they are the last."""
        lines: list[str] = []
        size = 0
        while line is not None:
            lines.append(line)
            size += sys.getsizeof(line)
            if size >= BATCH_BYTES or self._lines.empty():
                return lines, False
            line = self._lines.get()
        return lines, True


class Bridge(logging.Handler):
    """Brings what libraries log (asyncio, grpc, aiohttp) into the same stream and form."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower()
        fields = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            fields["traceback"] = logging.Formatter().formatException(record.exc_info)
        self._log.event(level if level in LEVELS else "error", "library", **fields)


def decision_fields(decision: Decision, user_agent: str, at: float, user: str = "") -> Fields:
    """The line of a decision as documented in ``docs/log.md``. Fields without a value are left out."""
    would = Verdict.DENY if decision.reason == WOULD_REFUSE else decision.would
    fields: Fields = {
        "time": _stamp(at),
        "level": DECISION_LEVELS[would or decision.verdict],
        "event": "clamp" if isinstance(decision.todo, Lower) else "decision",
        "id": decision.id,
        "verdict": decision.verdict,
        "reason": decision.reason,
    }
    if would is not None:
        fields["would"] = would
    if decision.refusal is not None:
        fields["refusal"] = decision.refusal
    if decision.ref is not None:
        _add_write(fields, decision, decision.ref)
    if user_agent:
        fields["user_agent"] = texts.cut(user_agent, MAX_USER_AGENT)
    if user:
        fields["user"] = texts.cut(user, texts.MAX_NAME)
    fields["sentence"] = texts.cut(decision.sentence, texts.MAX_SENTENCE)
    return fields


def _add_write(fields: Fields, decision: Decision, ref: WorkloadRef) -> None:
    parts = (ref.group_resource, ref.namespace, ref.name)
    fields["workload"] = "/".join(texts.cut(part, texts.MAX_NAME) for part in parts)
    if decision.operation is not None:
        fields["operation"] = decision.operation
    if decision.scale:
        fields["scale"] = True
    if decision.dry_run:
        fields["dry_run"] = True
    _add_counts(fields, decision)
    evidence = decision.evidence
    if evidence.shortages:
        fields["shortages"] = [shortage(row) for row in evidence.shortages]
    if evidence.audit:
        fields["audit"] = [shortage(row) for row in evidence.audit]
    if evidence.unspecified:
        fields["unspecified"] = [_unspecified(row) for row in evidence.unspecified]
    if evidence.policies:
        fields["policies"] = [_policy(row) for row in evidence.policies]
    if decision.pending_write is not None:
        fields["intent"] = decision.pending_write


def _add_counts(fields: Fields, decision: Decision) -> None:
    if decision.replicas_before is not None:
        fields["from"] = decision.replicas_before
    if decision.replicas is not None:
        fields["to"] = decision.replicas
    if isinstance(decision.todo, Lower):
        fields["clamped_to"] = decision.todo.to
    if decision.evidence.fits is not None:
        fields["fits"] = decision.evidence.fits


def shortage(row: Shortage) -> Fields:
    """A quota and resource without room, with its amounts as text."""
    amounts = {"requested": row.requested, "used": row.used, "reserved": row.reserved, "hard": row.hard}
    amounts |= {"kept": row.kept} if row.kept else {}
    texts = {name: quantities.format(amount, row.resource) for name, amount in amounts.items()}
    return {"quota": "/".join(row.path), "resource": row.resource, **texts}


def _unspecified(row: Unspecified) -> Fields:
    fields: Fields = {"quota": "/".join(row.path), "resource": row.resource, "containers": list(row.containers)}
    return fields | {"audit": True} if row.audits else fields


def _policy(row: PolicyAnswer) -> Fields:
    fields: Fields = {"policy": row.policy, "step": row.step, "result": row.result, "message": row.message}
    optional = {"replicas": row.replicas, "again_s": row.again_s}
    fields |= {name: value for name, value in optional.items() if value is not None}
    return fields | {"audit": True} if row.audits else fields


def _stamp(at: float) -> str:
    """RFC 3339 in UTC. A busy gate writes many lines a second, so that all but the milliseconds is kept."""
    second, millis = divmod(int(at * 1000), 1000)
    return f"{_second(second)}.{millis:03}Z"


@lru_cache(maxsize=2)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _bounded(value: object) -> object:
    """A value of an event, cut where it is longer than what anybody reads."""
    if isinstance(value, str):
        return texts.cut(value, MAX_TEXT)
    if isinstance(value, list | tuple):
        more = [f"{texts.MARK} {len(value) - MAX_ITEMS} more"] if len(value) > MAX_ITEMS else []
        return [_bounded(item) for item in value[:MAX_ITEMS]] + more
    return value


def _escaped(line: str) -> str:
    """Both styles hold such characters only inside JSON strings."""
    if line.isascii() and "\x7f" not in line:
        return line
    return OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def _json(fields: Fields) -> str:
    """For machines. orjson is ten times as quick, and takes neither half a surrogate pair nor more than 64 bits."""
    try:
        return orjson.dumps(fields, default=str).decode()
    except TypeError:
        return json.dumps(fields, separators=(",", ":"), default=str)


STYLES: Mapping[str, Callable[[Fields], str]] = {"json": _json, "text": log_text.line}
