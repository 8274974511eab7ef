"""What a gate notes for its record. On the way of a decision only references are appended; a thread does the rest."""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from extauthz.core.ledger.accounts import Position, rise
from extauthz.core.model import Amounts, Decision, Reading, Resize, Template, WorkloadRef, Write
from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.record.files import Files
from extauthz.tell.record.scribe import Note, Object, Scribe, Seen

__all__ = ["RecordThread", "Recorder", "Seen"]

MOST: Final = 65_536
"""Notes that wait for the thread. It takes them once a second: some twenty seconds of a busy gate."""

EVERY_S: Final = 1.0
"""How often the thread looks."""

AT_ONCE: Final = 100
"""Notes between two pauses of the thread. They take a few tenths of a millisecond, and meanwhile no decision is
made."""


_MOST_USER: Final = 400
"""Characters: a service account has 340 at most."""
_ACCOUNT: Final = re.compile(r"system:serviceaccount:([a-z0-9-]{1,63}):([a-z0-9.-]{1,253})")


@lru_cache(1024)
def asker_of(user: str, user_agent: str) -> str:
    """``NAMESPACE/NAME`` of the service account that asks, as autoscalers do; empty: somebody else, or not known.

    Controllers of kube-controller-manager end their user agent with its name (``rest.AddUserAgent``).
    """
    found = _ACCOUNT.fullmatch(user) or _ACCOUNT.search(user_agent)
    return f"{found[1]}/{found[2]}" if found is not None else ""


See: TypeAlias = Callable[[WorkloadRef], Seen]
Price: TypeAlias = Callable[[str, Template], Amounts | None]
"""What a pod costs in a namespace, nano-units by key; ``None``: that is not known."""


class Recorder:
    """A ``Witness`` that notes. What does not fit in the queue is dropped and counted, and leaves a gap.

    Args:
        scribe: makes lines of notes, and writes them.
        clock: seconds since 1970.
        see: labels and version of a workload.
        price: what a pod of a template costs.
    """

    def __init__(self, scribe: Scribe, clock: Callable[[], float], see: See, price: Price) -> None:
        self._scribe = scribe
        self._clock = clock
        self._see = see
        self._price = price
        self._notes: deque[Note] = deque()
        self._lost = 0
        self._lost_since_s: float | None = None
        self._dropped = 0
        self._began = False
        self.is_incomplete = True
        """All workloads have to be told anew (``begin``, ``seen``, ``complete``)."""

    @property
    def dropped(self) -> int:
        """Notes and lines that are lost, since the start."""
        return self._dropped + self._scribe.failed

    # A Witness.

    def moved(self, ref: WorkloadRef, before: Position, after: Position) -> None:
        """Note what a workload costs now. What a grant reserves is left out: the line of its question tells."""
        if not self._began:
            return
        ends = bool(rise(after.envelope, before.envelope))
        if not ends and after.used_in is before.used_in and after.used == before.used:
            return  # more is reserved
        self._note(self._scribe.counted, ref, after, self._see(ref), ends)

    def labelled(self, namespace: str, labels: Mapping[str, str] | None) -> None:
        if self._began:
            self._note(self._scribe.labelled, namespace, labels)

    def limited(self, tree: QuotaTree) -> None:
        if self._began:
            self._note(self._scribe.limited, tree)

    def counted_anew(self) -> None:
        self.is_incomplete = True

    # What else is noted.

    def begin(self, tree: QuotaTree) -> None:
        """All namespaces and workloads are told from now on (``labelled``, ``seen``). The others no longer exist. What
        was lost until now leaves a gap."""
        self._began = True
        self.is_incomplete = False
        self._notes.append((self._clock(), self._scribe.telling, (self._lost, self._lost_since_s)))
        self._lost, self._lost_since_s = 0, None
        self.limited(tree)

    def seen(self, ref: WorkloadRef, at: Position) -> None:
        """Note a workload that is there."""
        self._note(self._scribe.counted, ref, at, self._see(ref))

    def complete(self) -> None:
        """All were told. Does nothing where they have to be told once more."""
        if not self.is_incomplete:
            self._notes.append((self._clock(), self._scribe.all_told, ()))

    def decided(self, decision: Decision, reading: Reading | None, user: str = "", user_agent: str = "") -> None:
        """Note a decision, in its order among all changes. Of a count, as nearly all are, only references."""
        asker = asker_of(user[:_MOST_USER], "" if user else user_agent[-_MOST_USER:])
        if type(reading) is Write and reading.object is None and len(self._notes) < MOST:
            self._notes.append((self._clock(), self._scribe.asked, (decision, reading.replicas, asker)))
            return
        brought: Object | None = None
        to = reading.replicas if isinstance(reading, Write) else decision.replicas
        if isinstance(reading, Write) and reading.object is not None:
            made = reading.object
            pod = self._price(reading.ref.namespace, made.template) if made.template is not None else None
            brought = Object(pod, made.labels)
        self._note(self._scribe.asked, decision, to, asker, brought, isinstance(reading, Resize))

    def _note(self, method: Callable[..., None], *given: object) -> None:
        if len(self._notes) >= MOST:
            self._dropped += 1
            self._lost += 1
            if self._lost_since_s is None:
                self._lost_since_s = self._clock()
            self.is_incomplete = True
            return
        self._notes.append((self._clock(), method, given))

    # The thread's side.

    def take(self, most: int) -> bool:
        """Make lines of some notes. True: there are more."""
        self._scribe.take(self._notes, most)
        return bool(self._notes)

    def flush(self) -> None:
        while self.take(AT_ONCE):
            pass
        self._scribe.flush()

    def finish(self) -> None:
        """Write what has come, and that nothing comes any more."""
        self.flush()
        self._scribe.finish()


class RecordThread:
    """Brings notes to files, once a second. ``close`` writes what is left.

    Args:
        tell: told once when the record cannot be written, and once when it can again.
    """

    def __init__(self, recorder: Recorder, files: Files, tell: Callable[..., None]) -> None:
        self._recorder = recorder
        self._files = files
        self._tell = tell
        self._trouble = ""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._ends.wait(EVERY_S):
            try:
                while self._recorder.take(AT_ONCE):
                    time.sleep(0)  # decisions go first
                self._flush()
            except Exception:  # noqa: BLE001 (a bug of ours; decisions go on, and what comes next is recorded)
                self._tell("error", "record-failed", traceback=traceback.format_exc())
        self._recorder.finish()
        self._files.close()

    def _flush(self) -> None:
        self._recorder.flush()
        if self._files.trouble != self._trouble:
            self._trouble = self._files.trouble
            if self._trouble:
                cure = "mend it, or leave out --record; meanwhile nothing is recorded"
                self._tell("error", "record-failed", error=self._trouble, cure=cure)
            else:
                self._tell("info", "record-goes-on")
