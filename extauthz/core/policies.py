"""Policies: rules of a platform's own over growth, at named steps (docs/policies.md).

A policy may lower and never raise. It is asked only about growth: zero and less always pass. What it is asked is a
question: it may be asked again about the same write, and nothing of it may count. Only ``reserve`` tells it of a grant,
and only ``turned_away`` that its answer has refused a write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, runtime_checkable

from extauthz.core.model import Decision, Growth, Tree, Verdict

FILTER: Final = "filter"
LIMIT: Final = "limit"
PERMIT: Final = "permit"
RESERVE: Final = "reserve"
AFTER: Final = "after"
TURNED_AWAY: Final = "turned_away"
KEEP: Final = "keep"
RANK: Final = "rank"
_STEPS: Final = (FILTER, LIMIT, PERMIT, RESERVE, AFTER, TURNED_AWAY, KEEP, RANK)

MAX_RANK: Final = 1_000
"""Ranks are from minus this to this."""


class Refused(NamedTuple):
    """An answer to ``filter``: it may not grow."""

    message: str
    """For the owner."""


class Limit(NamedTuple):
    """An answer to ``limit``: it may have at most so many replicas, and always as many as it has."""

    replicas: int
    message: str = ""


class NotYet(NamedTuple):
    """An answer to ``permit``: not now. Nothing waits: the write is refused, and its client asks again."""

    message: str
    again_s: float
    """After about how many seconds it is worth to ask again."""


class UnknownError(Exception):
    """A policy raises it where it cannot tell. The text says why; it is for the owner."""


class TwoOrdersError(Exception):
    """More than one policy gives ranks. The text says which."""


class Fate(StrEnum):
    """What became of a grant."""

    LANDED = "landed"
    """The API server has answered that it is done."""
    REFUSED = "refused"
    """By the API server."""
    NOT_SENT = "not-sent"
    """It never left the proxy."""
    WITHDRAWN = "withdrawn"
    """Another gate was first, or has ended it."""
    ENDED = "ended"
    """It can land no more. Whether it has, only the workload shows."""


@runtime_checkable
class GrowthPolicy(Protocol):
    """One rule of a platform's own. Subclass it, and write the steps that it needs: the others say nothing.

    Everything is called in the loop that decides, so nothing of it may wait or take long. ``filter``, ``limit``,
    ``rank`` and ``permit`` change nothing. ``reserve`` and ``after`` must bear being told twice.
    """

    def filter(self, growth: Growth) -> Refused | None:
        """May this grow at all? ``None``: as far as this policy says."""
        return None

    def limit(self, growth: Growth) -> Limit | None:
        """How far may its count grow? Of several limits the smallest holds."""
        return None

    def rank(self, growth: Growth) -> int:
        """Where it stands in a line (``spec.sharing.turns``): the smallest rank comes first, and of equal ones the
        smallest share. From -1,000 to 1,000."""
        return 0

    def permit(self, growth: Growth) -> NotYet | None:
        """Now, or not yet? Asked last: everything else has room for it."""
        return None

    def turned_away(self, growth: Growth) -> None:
        """It was refused, as ``permit`` has said. Told of writes that were meant to land, and of no question."""
        return

    def reserve(self, growth: Growth) -> None:
        """It was granted and may still land."""
        return

    def after(self, growth: Growth, fate: Fate) -> None:
        """A grant that was reserved has ended: what became of it."""
        return

    def keep(self, pod: Mapping[str, Tree]) -> str | None:
        """What the gate shall keep of a workload, from the ``spec`` of its pod template: ``Growth.kept`` has it under
        the name of the policy. Called for each object that is observed. Keep little: a gate holds a million of them.
        """
        return None


class Enlisted(NamedTuple):
    """A policy that is asked about all growth."""

    name: str
    policy: GrowthPolicy
    audits: bool = False
    """What it refuses is reported, and passes."""


class Policies:
    """Those that a gate asks about all growth, by the steps that they have, in their order.

    Args:
        failed: told of each call of ``keep``, ``rank``, ``turned_away``, ``reserve`` or ``after`` that failed: the
            policy's name, the step.
        ask: gets the answer of a policy at a step.

    Raises:
        TwoOrdersError: more than one gives ranks, and does not only audit.
    """

    def __init__(
        self,
        enlisted: Iterable[Enlisted] = (),
        failed: Callable[[str, str], None] = lambda name, step: None,
        ask: Callable[[Enlisted, str, Growth], object] = lambda one, step, growth: getattr(one.policy, step)(growth),
    ) -> None:
        self.all: Final = tuple(enlisted)
        self._of: Final = {step: tuple(one for one in self.all if _has(one.policy, step)) for step in _STEPS}
        self._of[RANK] = tuple(one for one in self._of[RANK] if not one.audits)
        if len(self._of[RANK]) > 1:
            names = ", ".join(one.name for one in self._of[RANK])
            raise TwoOrdersError(
                f"{names}: each gives ranks, and a line has one order; keep one of them, or name the others with =Audit"
            )
        self._listens = any(self._of[step] for step in (RESERVE, AFTER))
        self._failed = failed
        self.ask: Final = ask
        self._reserved: dict[str, Growth] = {}
        """Grants that have not ended, by the id of their pending write."""

    def at(self, step: str) -> tuple[Enlisted, ...]:
        """Those that have something to say at a step."""
        return self._of[step]

    def rank(self, growth: Growth | None) -> int:
        """Of one who asks, in a line. 0 where no policy gives ranks, or the one that does fails.

        Args:
            growth: what policies are asked; ``None``: nothing.
        """
        found = self._of[RANK]
        if not found or growth is None:
            return 0  # nearly always
        (one,) = found
        try:
            said = self.ask(one, RANK, growth)
        except Exception:  # noqa: BLE001 (code of others)
            said = None
        if type(said) is int and abs(said) <= MAX_RANK:
            return said
        self._failed(one.name, RANK)
        return 0

    def kept(self, obj: Tree, template: Sequence[str]) -> Mapping[str, str] | None:
        """What policies keep of an object with its pod template at ``template``; ``None`` if they do not, or if it has
        none."""
        if not self._of[KEEP]:
            return None  # usually
        pod = obj
        for key in (*template, "spec"):
            pod = pod.get(key) if isinstance(pod, Mapping) else None
        if not isinstance(pod, Mapping):
            return None
        said = {one.name: self._tell(one, KEEP, pod) for one in self._of[KEEP]}
        return {name: text for name, text in said.items() if isinstance(text, str)}

    def decided(self, decision: Decision, growth: Growth | None) -> None:
        """Tell those that held a write that it is refused. A dry run is a question.

        Args:
            growth: what they do not let go yet; ``None``: they let it go.
        """
        if growth is None or decision.verdict is not Verdict.DENY or decision.dry_run:
            return
        said = {row.policy for row in decision.evidence.policies if row.step == PERMIT and not row.audits}
        for one in self._of[TURNED_AWAY]:
            if one.name in said:
                self._tell(one, TURNED_AWAY, growth)

    def reserve(self, growth: Growth) -> None:
        """Tell of a grant."""
        if not self._listens:
            return
        self._reserved[growth.id] = growth
        for one in self._of[RESERVE]:
            self._tell(one, RESERVE, growth)

    def ended(self, pending_id: str, fate: Fate) -> None:
        """Tell of the end of a grant. Nothing is told twice, nor of what was not granted here."""
        growth = self._reserved.pop(pending_id, None)
        if growth is None:
            return
        for one in self._of[AFTER]:
            self._tell(one, AFTER, growth, fate)

    def _tell(self, one: Enlisted, step: str, *what: object) -> object:
        """It cannot fail: the room is taken, or given back, whatever a policy makes of it."""
        try:
            said: object = getattr(one.policy, step)(*what)
        except Exception:  # noqa: BLE001 (code of others)
            self._failed(one.name, step)
            return None
        return said


def _has(policy: GrowthPolicy, step: str) -> bool:
    """Whether it has the step, and not only the one that it inherits."""
    return getattr(type(policy), step, None) is not getattr(GrowthPolicy, step)
