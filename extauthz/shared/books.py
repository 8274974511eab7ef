"""What one gate knows of all ledger objects, and what it would write into each. Synchronous; waits for nothing.

Every gate holds the intents of all gates in its own in-memory ledger, so that every decision is the same pure step. An
object only says which of them are agreed upon: an intent that appears in one is adopted, and one that has vanished from
the last object that held it is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from cachetools import FIFOCache

from extauthz.core.ledger import record
from extauthz.core.ledger.intents import is_newer
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.ledger.payload import Payload, PayloadError, decode
from extauthz.core.ledger.record import RecordError
from extauthz.core.quota.tree import QuotaTree

from .store import Stored

_ABANDONED = 65_536
"""Ids that are remembered for having been given up. One that is forgotten is taken for another gate's, until its W."""


class Progress(Protocol):
    """How far this gate has come in seeing the cluster."""

    def seen(self) -> Mapping[str, int]:
        """``deployments.apps`` to the highest resourceVersion of any object of that kind that it was shown."""

    def has_reached(self, kind: str, version: int) -> bool:
        """Whether every change of that kind up to ``version`` has been shown to it; also if there is no such kind."""


@dataclass(slots=True)
class Book:
    """The ledger of one root quota, as this gate last saw it."""

    root: str
    base: Stored | None = None
    payload: Payload = field(default_factory=Payload)
    lacks: set[str] = field(default_factory=set)
    """Agreed intents that it should hold and does not: it was made anew, or a quota has moved here."""
    held_since_s: float | None = None
    """When this gate first saw that the object holds growth back."""
    released: bool = False
    """W has passed since: the next write says so."""


class Books:
    """All ledger objects.

    Args:
        window_s: W. Another gate's intent expires so long after this gate first saw it (DESIGN §6.11).
        tell: a line for the log: level, event and fields.
        holds_new: whether a new object holds growth back for W.
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
        self._books: dict[str, Book] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        """Root to all quotas of its tree."""
        self._tree: QuotaTree | None = None
        self._where: dict[str, set[str]] = {}
        """Agreed intent to the roots whose objects hold it."""
        self._listing: dict[str, set[str]] = {}
        """Quota to the roots whose objects say that it counts there."""
        self._let_go: dict[str, set[str]] = {}
        """Intent to the roots whose objects have let go of it while others still hold it."""
        self._unsure: set[str] = set()
        """Intents that some object in which they count may lack."""
        self._watermark: dict[str, int] = {}
        """The highest of all objects, of each kind."""
        self._abandoned: FIFOCache[str, None] = FIFOCache(_ABANDONED)
        self.adoptions = 0
        """How often intents of others were taken over or buried; unknown to what was decided before the last time."""

    def __iter__(self) -> Iterator[Book]:
        return iter(self._books.values())

    def __getitem__(self, root: str) -> Book:
        return self._books.setdefault(root, Book(root))

    # What is seen.

    def take(self, stored: Stored) -> None:
        """An object as it is now, or as it was some time ago."""
        book = self[stored.root]
        if book.base is not None and not is_newer(stored.version, book.base.version):
            return
        anew = book.base is not None and book.base.uid != stored.uid
        payload = self._read(stored)
        self._list(book, payload)
        vanished = book.payload.intents.keys() - payload.intents.keys()
        if anew:
            self._lose(book.root, vanished)
        else:
            self._drop(book.root, vanished)
        self._adopt(book.root, payload)
        book.base, book.payload = stored, payload
        self._raise_watermark(payload)
        self._note_hold(book)
        if anew or self._is_new(book):
            self._note_lacks([book])
        book.lacks = {one for one in book.lacks - payload.intents.keys() if self._ledger.follows(one)}

    def gone(self, root: str) -> None:
        """There is no such object any more. What it held is still agreed upon, and will be in the next one."""
        book = self[root]
        self._list(book, Payload())
        self._lose(root, book.payload.intents)
        self._books[root] = Book(root)
        self._watermark = {}
        for one in self._books.values():
            self._raise_watermark(one.payload)
        self._note_lacks([self._books[root]])

    def keep_up(self) -> None:
        """Go by the quota tree that the ledger decides by; what was decided by another one rests on that."""
        tree = self._ledger.scope.tree
        if tree is self._tree:
            return
        self._tree = tree
        self.adoptions += 1
        members: dict[str, list[str]] = {}
        for node in tree.nodes:
            members.setdefault(node.root, []).append(node.quota.name)
        self._members = {root: tuple(sorted(names)) for root, names in members.items()}
        for root in self._members:
            self[root]
        self._unsure.update(self._where)
        self.note_lacks()

    def _read(self, stored: Stored) -> Payload:
        try:
            payload = decode(stored.payload)
            for one in payload.intents.values():
                record.load(one, 0.0, 0.0)
        except (PayloadError, RecordError) as error:
            self._tell("error", "ledger-unreadable", root=stored.root, why=str(error))
            return Payload(holds=True)
        return payload

    def _list(self, book: Book, payload: Payload) -> None:
        for name in book.payload.quotas:
            self._listing[name].discard(book.root)
        for name in payload.quotas:
            self._listing.setdefault(name, set()).add(book.root)

    def _raise_watermark(self, payload: Payload) -> None:
        for kind, version in payload.watermark.items():
            self._watermark[kind] = max(version, self._watermark.get(kind, 0))

    def _drop(self, root: str, vanished: Iterable[str]) -> None:
        """Some gate has ended these. Of one that other objects still hold ``bury`` finds out."""
        for intent_id in vanished:
            roots = self._where.get(intent_id, set())
            roots.discard(root)
            self.adoptions += intent_id in self._unsure
            if roots:
                self._let_go.setdefault(intent_id, set()).add(root)
            else:
                self._where.pop(intent_id, None)
                self._let_go.pop(intent_id, None)
                self._ledger.forget(intent_id)

    def _lose(self, root: str, lost: Iterable[str]) -> None:
        """Nobody has ended these: the object that held them was deleted."""
        for intent_id in lost:
            self._where[intent_id].discard(root)
            self._unsure.add(intent_id)

    def _adopt(self, root: str, payload: Payload) -> None:
        now_s = self._clock()
        for intent_id, one in payload.intents.items():
            roots = self._where.setdefault(intent_id, set())
            is_new = root not in roots
            roots.add(root)
            if is_new and not self._ledger.follows(intent_id) and intent_id not in self._abandoned:
                self._ledger.adopt(*record.load(one, now_s + self._window_s, now_s))
                self._unsure.add(intent_id)
                self.adoptions += 1

    def _note_hold(self, book: Book) -> None:
        if not book.payload.holds:
            book.held_since_s, book.released = None, False
        elif book.held_since_s is None:
            book.held_since_s = self._clock()

    def _note_lacks(self, books: Iterable[Book]) -> None:
        wanted = {book.root: book for book in books}
        for intent_id in [one for one in self._where if not self._where[one] and not self._ledger.follows(one)]:
            del self._where[intent_id]
        for intent_id in self._where:
            for root in self._ledger.roots_of(intent_id) & wanted.keys():
                if intent_id not in wanted[root].payload.intents:
                    wanted[root].lacks.add(intent_id)

    def note_lacks(self) -> None:
        """Remember what should be in objects that may lack some."""
        new = [book for book in self._books.values() if self._is_new(book)]
        if new:
            self._note_lacks(new)

    def _is_new(self, book: Book) -> bool:
        """Whether an object may lack what is agreed upon: it was made anew, or not written since a quota moved. What
        another one lacks has ended, or nobody has found room for it there yet."""
        return book.base is None or book.payload.holds or book.payload.quotas != self._members_of(book)

    # What stands in the way of a grant.

    def is_unsure(self, namespace: str, own: Container[str]) -> bool:
        """Whether an intent there, and none of ``own``, is not in all objects in which it counts: its gate is about to
        write it into them or to take it out, or died meanwhile. What would rest on it has to wait."""
        self._unsure = {one for one in self._unsure if not self._is_sure(one)}
        found = [self._ledger.intent(one) for one in self._unsure if one not in own]
        return any(one is not None and one[0].namespace == namespace for one in found)

    def _is_sure(self, intent_id: str) -> bool:
        return self._ledger.roots_of(intent_id) <= self._where.get(intent_id, set())

    def holds(self, root: str) -> bool:
        """Whether writes may still land that an earlier ledger of this root has known and this one does not."""
        book = self[root]
        return self._holds_new if book.base is None else book.payload.holds

    def is_held_until(self, book: Book) -> float:
        """When W of all that an earlier ledger may have known has passed; never where nothing is held or it is over."""
        if book.held_since_s is None or book.released:
            return inf
        return book.held_since_s + self._window_s

    def behind(self) -> str | None:
        """A kind of which writers have seen more than this gate; ``None``: there is none.

        Of any object: what one has let go of may be ended for what all of them have seen.
        """
        return next((kind for kind, at in self._watermark.items() if not self._progress.has_reached(kind, at)), None)

    def bury(self) -> bool:
        """Forget intents that some gate has ended, though not all objects that held them tell so yet: their room may be
        given away already. True: there were some, and what was decided before may rest on them."""
        if not self._let_go:
            return False
        if self.behind() is None:  # else one may have moved to another root without this gate knowing
            for intent_id, roots in self._let_go.items():
                if roots & self._ledger.roots_of(intent_id):
                    self._ledger.forget(intent_id)
            self._let_go.clear()
            self.adoptions += 1
        return True

    def fenced(self, root: str) -> set[str]:
        """Other roots whose objects still say that a quota of this one counts there. They must be written first."""
        return {other for name in self._members.get(root, ()) for other in self._listing.get(name, ()) if other != root}

    def abandon(self, intent_id: str) -> None:
        """An intent of this gate was not granted after all. If it gets into an object, it is taken out again."""
        self._abandoned[intent_id] = None
        self._ledger.forget(intent_id)

    # What to write.

    def wants_write(self, book: Book) -> bool:
        """Whether an object should be written even if nobody waits for it."""
        if book.base is None:
            return book.root in self._members
        return (
            any(map(self._ledger.follows, book.lacks))
            or (book.payload.holds and book.released)
            or book.payload.quotas != self._members_of(book)
            or any(self._is_over(book.root, intent_id) for intent_id in book.payload.intents)
        )

    def _members_of(self, book: Book) -> tuple[str, ...]:
        """Which quotas count there. Who is behind may know an older tree than the writers before."""
        if self._tree is None or self.behind() is not None:
            return book.payload.quotas
        return self._members.get(book.root, ())

    def _is_over(self, root: str, intent_id: str) -> bool:
        """Whether an intent no longer belongs into an object: it has ended, or others hold it where it counts now."""
        if not self._ledger.follows(intent_id):
            return True
        roots = self._ledger.roots_of(intent_id)
        return root not in roots and bool(roots) and roots <= self._where.get(intent_id, set())

    def next_payload(self, book: Book, ids: Iterable[str]) -> Payload:
        """The object with the intents ``ids`` in it, which are recorded in memory only so far."""
        intents = {key: one for key, one in book.payload.intents.items() if not self._is_over(book.root, key)}
        for intent_id in (*book.lacks, *ids):
            found = self._ledger.intent(intent_id)
            if found is not None:
                intents[intent_id] = record.dump(*found)
        watermark = dict(book.payload.watermark)
        for kind, version in self._progress.seen().items():
            if version:  # of what there is none, nobody has to have seen any
                watermark[kind] = max(version, watermark.get(kind, 0))
        holds = self._holds_new if book.base is None else book.payload.holds and not book.released
        return Payload(intents, watermark, self._members_of(book), holds)
