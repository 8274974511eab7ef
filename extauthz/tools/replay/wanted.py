"""A workload as the record has it, what is different in this run, and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from extauthz.core.ledger.accounts import Shared
from extauthz.core.ledger.line import LEAST_S, MOST_S
from extauthz.core.model import Amounts, WorkloadRef
from extauthz.tell.record.lines import NO_COSTS, Ask, Load
from extauthz.tools.replay.measures import Row

RETRY_S: Final = 15.0
"""How often somebody asks again of whom the record shows no retry: an HPA's interval."""

LANDS_S: Final = 1.0
"""How soon a grant lands that the record does not have, where it shows no other landing of the workload."""


UNSEEN: Final = Load(0.0, workload="", replicas=0, pod=NO_COSTS)


@dataclass(slots=True, eq=False)
class Waiting:
    """What a workload was refused, and still wants."""

    ask: Ask
    """By which it was refused first."""
    since_s: float
    counted_s: float
    """The same, on the clock of what counts."""
    first: int
    """What it had at first."""
    had: int
    interval_s: float
    last_s: float
    """When its last retry of the record was. After that, and where ``left`` is none, only this run asks again."""
    left: int
    """Retries of the record that are still to come."""
    mark_s: float
    """Up to when ``missed`` is summed, on that clock."""
    rows: tuple[Row, ...] = ()
    """Limits that have refused it."""
    missed: float = 0.0
    """Replicas that it wanted and had not, times seconds."""
    seconds: float = 0.0
    """How long it has waited, once it has ended. Gaps do not count."""
    scheduled_s: float = 0.0
    """When it is asked again; 0: nothing has become free yet."""


@dataclass(slots=True)
class Pending:
    """A count that was granted here and may still land."""

    to: int
    is_own: bool = False
    """It lands by itself: the record does not have it."""
    brings: bool = False
    """It brings an object."""


@dataclass(slots=True, eq=False)
class Workload:
    """What the record says of a workload, and what is different here."""

    ref: WorkloadRef
    key: WorkloadRef
    """By which the gate of this run knows it: one of no kind whose family counts, with the same key ``count/…``."""
    beside_key: WorkloadRef
    load: Load = UNSEEN
    """What the record has said of it last."""
    is_there: bool = False
    cap: int | None = None
    """The most that has been granted here, where the record has granted more; ``None``: all that it has."""
    above: int | None = None
    """What has landed here, where the record has refused it."""
    kept: Load | None = None
    """Whose pods and labels it has here, where the record has granted others."""
    top: int = 0
    """The highest count that the record has granted since ``cap`` is set."""
    want: int | None = None
    waiting: Waiting | None = None
    shown: tuple[int, Shared, str] | None = None
    """As the gate of this run observes it: replicas, pod and labels."""
    is_unknown: bool = False
    """The cost of what is shown is not known."""
    shown_beside: tuple[Amounts, str] | None = None
    pending: dict[str, Pending] = field(default_factory=dict)
    """What was granted here and may still land, by id."""
    refused: Ask | None = None
    """The last question, if the record has refused it."""
    may: tuple[str, Shared] | None = None
    """What the record says that may still land of objects: what each replica may come to cost, and by which id."""
    asked_s: float | None = None
    asked_to: int = 0
    delay_s: float = LANDS_S
    interval_s: float = RETRY_S
    """How often it is asked for again."""

    def learn(self, ask: Ask) -> None:
        """Take the interval of a question's retries, as a line of turns does (core/ledger/line.py)."""
        before, gap_s = self.refused, 0.0
        if ask.n > 1:
            gap_s = (ask.ends_s - ask.at_s) / (ask.n - 1)
        elif before is not None and before.to == ask.to:
            gap_s = ask.at_s - before.ends_s
        if gap_s >= LEAST_S:  # what comes sooner is the same ask, by another way
            self.interval_s = min(gap_s, MOST_S)

    @property
    def silent_s(self) -> float:
        """After how long without a question nobody wants any more what the record has refused."""
        return 2 * self.interval_s

    @property
    def count(self) -> int:
        """Replicas here."""
        found = self.load.replicas if self.cap is None else min(self.load.replicas, self.cap)
        return found if self.above is None else max(found, self.above)

    @property
    def had(self) -> int:
        """The most that was granted here and is there, or may still land."""
        return max(self.shown[0] if self.shown is not None else 0, *(one.to for one in self.pending.values()), 0)

    @property
    def own(self) -> list[str]:
        """What pends and lands by itself."""
        return [name for name, one in self.pending.items() if one.is_own]

    @property
    def may_change(self) -> bool:
        """An object may still land."""
        return self.may is not None or any(one.brings for one in self.pending.values())
