"""Reads a record: the files of all gates of a folder as one row of events, in the order of time.

A file that was cut reads up to its last whole member. What is missing is a gap.
"""

from __future__ import annotations

import heapq
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from extauthz.core import quantities
from extauthz.core.model import Amounts, WorkloadRef
from extauthz.tell.record.files import FILE, MEMBER, SUFFIX
from extauthz.tell.record.scribe import SCHEMA

Fields: TypeAlias = Mapping[str, Any]


PIECE: Final = 16 * 1024
"""What is unpacked before it is counted. It has 16 MiB at most."""

MOST_IN_MEMBER: Final = 64 * MEMBER
"""Bytes of lines. A gate writes ``MEMBER``, and what one more line has."""

MOST_IN_FILE: Final = 8 * FILE
"""A gate writes ``FILE``, and the state that it begins with: some 700 bytes of each workload."""


class RecordError(ValueError):
    """A record cannot be read. The text names file, line, what is wrong and the cure."""

    code = "bad-record"


class Start(NamedTuple):
    """A file begins. ``at_s`` of this and all others: seconds since 1970."""

    at_s: float
    gate: str
    settings: Fields
    is_new: bool
    """The file before was of another run, or is incomplete: what is not ``listed`` is gone."""
    listed: frozenset[object]
    """Workloads, and names of quotas and namespaces, of the state that follows."""


class Quota(NamedTuple):
    """A quota is in force; ``None``: it is gone."""

    at_s: float
    name: str
    spec: Any
    is_illegible: bool


class Labelled(NamedTuple):
    """A namespace has these labels; ``None``: it is gone."""

    at_s: float
    namespace: str
    labels: Mapping[str, str] | None


class Load(NamedTuple):
    """What a workload costs now."""

    at_s: float
    ref: WorkloadRef
    replicas: int
    most: int
    """The highest count that may still land."""
    pod: Amounts
    """What each replica costs, nano-units by key."""
    beside: Amounts
    """What it costs besides."""
    covers: Amounts
    """The part of ``beside`` that the next replicas take up."""
    may: Amounts
    """What each replica may come to cost by objects that may still land; empty: no more than ``pod``."""
    labels: str
    """As the core has them: ``a=1,b=2``."""
    version: str
    is_unknown: bool
    """Its cost is not known."""


class Gone(NamedTuple):
    """A workload is gone."""

    at_s: float
    ref: WorkloadRef


class Ask(NamedTuple):
    """A decided write, with all equal retries if it was refused."""

    at_s: float
    id: str
    ref: WorkloadRef
    operation: str
    before: int | None
    to: int | None
    pod: Amounts | None
    """Of a template that it brings; ``None``: it brings none, or its cost is not known."""
    labels: str | None
    """Of an object that it brings; ``None``: it brings a count alone."""
    is_allowed: bool
    reason: str
    would_refuse: bool
    """A gate in mode audit allows it and would have refused it."""
    by: tuple[str, ...] = ()
    """Paths of the quotas that refused it, or would have."""
    asker: str = ""
    """``NAMESPACE/NAME`` of the service account that asked; empty: somebody else, or not known."""
    n: int = 1
    last_s: float = 0.0


class Gap(NamedTuple):
    """From ``at_s`` to ``until_s`` it is not known what happened."""

    at_s: float
    until_s: float
    lost: int


Event: TypeAlias = Start | Quota | Labelled | Load | Gone | Ask | Gap


class _File(NamedTuple):
    path: Path
    gate: str
    run: str
    begins_s: float


class Record:
    """All files of a folder.

    Args:
        folder: where they are.

    Raises:
        RecordError: there are none, or one is none.
    """

    def __init__(self, folder: Path) -> None:
        self.warnings: list[str] = []
        """What was found missing so far, a line each."""
        paths = sorted(folder.glob(f"*{SUFFIX}"))
        if not paths:
            cure = f"name the folder that `serve --record` writes to, with files that end in {SUFFIX}"
            raise RecordError(f"{folder}: there is no file of a record; {cure}")
        files = [found for path in paths if (found := self._headed(path)) is not None]
        if not files:
            raise RecordError(f"{folder}: no file of it can be read; copy them whole")
        self._gates: dict[str, list[_File]] = {}
        for file in sorted(files, key=lambda file: file.begins_s):
            self._gates.setdefault(file.gate, []).append(file)
        self.begins_s = min(file.begins_s for file in files)
        self.ends_s = max(file.path.stat().st_mtime for file in files)
        """When the last file was written last, about."""

    @property
    def gates(self) -> list[str]:
        return list(self._gates)

    def events(self) -> Iterator[Event]:
        """All of them, in the order of time. A file of each gate is in memory at a time.

        Raises:
            RecordError: a line is none of a record.
        """
        rows = [self._of_gate(files) for files in self._gates.values()]
        return rows[0] if len(rows) == 1 else heapq.merge(*rows, key=attrgetter("at_s"))

    def _headed(self, path: Path) -> _File | None:
        """A file, if its beginning is there."""
        try:
            with path.open("rb") as file:
                begin = zlib.decompressobj(31).decompress(file.read(65_536), 1 << 20)
        except OSError as error:
            raise RecordError(f"{path}: cannot be read: {error.strerror}; check its permissions") from None
        except zlib.error:
            begin = b""
        line, end, _ = begin.partition(b"\n")
        if not end:
            self.warnings.append(f"{path}: its beginning is missing, so none of it counts")
            return None
        fields = _parsed(path, 1, line)
        if fields.get("k") != "start":
            raise RecordError(f"{path}:1: k: a file begins with a line of k start; it is no record, remove it")
        if fields.get("schema") != SCHEMA:
            what = f"schema {fields.get('schema')!r} is not {SCHEMA}"
            raise RecordError(f"{path}:1: schema: {what}; read it with the release that wrote it")
        return _File(path, str(fields.get("gate", "")), str(fields.get("run", "")), float(fields["t"]))

    def _of_gate(self, files: Iterable[_File]) -> Iterator[Event]:
        run, last_s, is_torn = "", 0.0, False
        for file in files:
            is_new = file.run != run or is_torn
            if is_new and run:
                yield Gap(last_s, file.begins_s, 0)
            reader = _Reader(file.path, is_new)
            events = reader.read()
            is_torn, run = reader.torn is not None, file.run
            if reader.torn is not None and reader.torn not in self.warnings:  # it may be read twice
                self.warnings.append(reader.torn)
            for event in events:
                last_s = max(last_s, event.last_s if isinstance(event, Ask) else event.at_s)
                yield event


_NAMES: dict[str, WorkloadRef] = {}
_AMOUNTS: dict[tuple[tuple[str, str], ...], Amounts] = {}
_LABELS: dict[tuple[tuple[str, str], ...], str] = {}
_NONE: Final[Amounts] = {}


class _Reader:
    def __init__(self, path: Path, is_new: bool) -> None:
        self._path = path
        self._is_new = is_new
        self._events: list[Event] = []
        self._refused: dict[str, int] = {}
        """Where refused questions are, by id."""
        self._listed: set[object] = set()
        self._state = 0
        """Lines of the state that are still to come."""
        self.torn: str | None = None
        """What is missing; ``None``: nothing."""

    def read(self) -> list[Event]:
        """Its events. A gap comes at its beginning."""
        number = 0
        for text in self._members():
            for line in text.splitlines():
                number += 1
                self._take(number, _parsed(self._path, number, line))
        if self._events and isinstance(self._events[0], Start):
            self._events[0] = self._events[0]._replace(listed=frozenset(self._listed))
        self._events.sort(key=attrgetter("at_s"))  # that a workload is gone is written a moment later
        return self._events

    def _members(self) -> Iterator[bytes]:
        if self._path.stat().st_size > MOST_IN_FILE:  # packed lines are never more than the lines
            what = f"it has more than {MOST_IN_FILE:,} bytes"
            raise RecordError(f"{self._path}: {what}; no gate writes such a file, remove it")
        data = self._path.read_bytes()
        view = memoryview(data)
        at, lost_at, whole = 0, None, 0
        while at < len(data):
            text, end = self._unpacked(view, at)
            whole += len(text)
            if whole > MOST_IN_FILE:
                raise self._too_large(at, MOST_IN_FILE)
            if end is not None:
                if lost_at is not None:
                    self._miss(text)
                    lost_at = None
                yield text
                at = end
                continue
            lost_at = at if lost_at is None else lost_at
            after = data.find(b"\x1f\x8b\x08", at + 1)
            at = after if after > 0 else len(data)
        if lost_at is not None:
            self.torn = f"{self._path}: its end is torn at byte {lost_at:,}: what came after is missing"

    def _unpacked(self, data: memoryview, at: int) -> tuple[bytes, int | None]:
        """The member that begins there, and where it ends; ``None``: it does not, or is none."""
        packer, parts, size = zlib.decompressobj(31), [], 0
        begin = at
        try:
            while at < len(data) and not packer.eof:
                parts.append(packer.decompress(data[at : at + PIECE]))
                size += len(parts[-1])
                at = min(at + PIECE, len(data))
                if size > MOST_IN_MEMBER:
                    raise self._too_large(begin, MOST_IN_MEMBER)
        except zlib.error:
            return b"", None
        return b"".join(parts), at - len(packer.unused_data) if packer.eof else None

    def _too_large(self, at: int, most: int) -> RecordError:
        what = f"it unpacks to more than {most >> 20} MiB at byte {at:,}"
        return RecordError(f"{self._path}: {what}; no gate writes such a file, remove it")

    def _miss(self, text: bytes) -> None:
        """A member in the middle is missing: until the next one nobody knows what happened."""
        fields = _parsed(self._path, 0, text.partition(b"\n")[0])
        last_s = self._events[-1].at_s if self._events else float(fields["t"])
        self._events.append(Gap(last_s, float(fields["t"]), 0))
        self.torn = f"{self._path}: a part in the middle is missing"

    def _take(self, number: int, fields: Fields) -> None:
        try:
            event = self._event(fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{fields.get('k')!r} lacks a field, or has a wrong one: {error}"
            cure = "copy the file anew, or remove it"
            raise RecordError(f"{self._path}:{number}: {what}; {cure}") from None
        if event is None:
            return
        if self._state > 0:
            self._state -= 1
            self._listed.add(event.ref if isinstance(event, Load) else event[1])
        if isinstance(event, Start):
            self._state = int(fields["state"])
        self._events.append(event)

    def _event(self, fields: Fields) -> Event | None:
        kind, at_s = fields["k"], float(fields["t"])
        if kind == "ask":
            return self._ask(at_s, fields)
        if kind == "load":
            return _load(at_s, fields)
        if kind == "gone":
            if "workload" in fields:
                return Gone(at_s, ref_of(fields["workload"]))
            return (
                Quota(at_s, fields["quota"], None, False) if "quota" in fields else Labelled(at_s, fields["ns"], None)
            )
        if kind == "quota":
            return Quota(at_s, fields["quota"], fields["spec"], bool(fields.get("illegible")))
        if kind == "ns":
            return Labelled(at_s, fields["ns"], dict(fields["labels"]))
        if kind == "start":
            return Start(at_s, str(fields["gate"]), fields["settings"], self._is_new, frozenset())
        if kind == "gap":
            self._gap(float(fields["from"]), float(fields["to"]), int(fields["lost"]))
        return None  # a kind of a later release adds to these

    def _gap(self, from_s: float, to_s: float, lost: int) -> None:
        """Its line comes at its end."""
        at = max(bisect_left(self._events, from_s, key=attrgetter("at_s")), 1)
        self._events.insert(at, Gap(max(from_s, self._events[at - 1].at_s), to_s, lost))
        self._refused = {name: place + (place >= at) for name, place in self._refused.items()}

    def _ask(self, at_s: float, fields: Fields) -> Ask | None:
        name, n = fields["id"], int(fields.get("n", 1))
        known = self._refused.get(name)
        if known is not None:
            first = self._events[known]
            assert isinstance(first, Ask)
            self._events[known] = first._replace(n=n, last_s=float(fields.get("last", at_s)))
            return None
        labels, pod = fields.get("labels"), fields.get("pod")
        is_allowed = fields["verdict"] == "allow"
        if not is_allowed:
            self._refused[name] = len(self._events)
        return Ask(
            at_s,
            name,
            ref_of(fields["workload"]),
            str(fields.get("operation", "")),
            fields.get("from"),
            fields.get("to"),
            amounts_of(pod) if pod is not None else None,
            labels_of(labels) if labels is not None else None,
            is_allowed,
            str(fields["reason"]),
            fields.get("would", "allow") != "allow",
            tuple(fields.get("by", ())),
            str(fields.get("asker", "")),
            n,
            float(fields.get("last", at_s)),
        )


def _load(at_s: float, fields: Fields) -> Load:
    replicas = int(fields["replicas"])
    beside, covers, may, labels = (fields.get(name) for name in ("beside", "covers", "may", "labels"))
    return Load(
        at_s,
        ref_of(fields["workload"]),
        replicas,
        int(fields.get("most", replicas)),
        amounts_of(fields["pod"]),
        amounts_of(beside) if beside else _NONE,
        amounts_of(covers) if covers else _NONE,
        amounts_of(may) if may else _NONE,
        labels_of(labels) if labels else "",
        str(fields.get("version", "")),
        bool(fields.get("unknown")),
    )


def _parsed(path: Path, number: int, line: bytes) -> Fields:
    try:
        fields = orjson.loads(line)
    except ValueError as error:
        raise RecordError(f"{path}:{number}: it is no JSON: {error}; copy the file anew, or remove it") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("t"), int | float):
        raise RecordError(f"{path}:{number}: t: it is no line of a record; copy the file anew, or remove it")
    return fields


def ref_of(text: str) -> WorkloadRef:
    """The workload of ``deployments.apps/shop/web``.

    Raises:
        ValueError: it names none.
    """
    found = _NAMES.get(text)
    if found is None:
        resource, namespace, name = text.split("/", 2)
        plural, _, group = resource.partition(".")
        found = _NAMES[text] = WorkloadRef(group, plural, namespace, name)
    return found


def amounts_of(fields: Mapping[str, str]) -> Amounts:
    """Amounts in nano-units, by key. Equal ones are one object.

    Raises:
        ValueError: one is no quantity.
    """
    key = tuple(fields.items())
    found = _AMOUNTS.get(key)
    if found is None:
        found = _AMOUNTS[key] = {name: quantities.parse(amount) for name, amount in key}
    return found


def labels_of(fields: Mapping[str, str]) -> str:
    """Labels as the core has them. Equal ones are one object."""
    key = tuple(fields.items())
    found = _LABELS.get(key)
    if found is None:
        found = _LABELS[key] = ",".join(f"{name}={value}" for name, value in sorted(key))
    return found
