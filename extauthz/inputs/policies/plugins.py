"""Plug-ins: policies in Python, found by the entry points of installed packages (docs/policies.md).

The head has what those that look at something of their own beside the gate are given, such as the memory of nodes.
A plug-in that is named and not there, or cannot be made, is an unknown each time that it would be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NamedTuple, NoReturn, Protocol

from extauthz.core.model import Growth, Tree
from extauthz.core.policies import Enlisted, GrowthPolicy, UnknownError
from extauthz.core.texts import Tell

AUDIT: Final = "=Audit"
"""Ends the name of a plug-in that only audits."""


GROUP: Final = "extauthz.policies"

AGAIN_S: Final = 10.0
"""How long a policy that was slow is not asked."""

TIMES: Final = 3
"""How often in a row it must have been. A busy machine makes every policy slow now and then."""


class Lists(Protocol):
    """The API server, as the gate's own account may read it."""

    async def items(self, path: str, take: Callable[[Tree], object], *, query: Sequence[tuple[str, str]] = ()) -> Tree:
        """Hand the items of the list at ``path`` to ``take`` one by one.

        Raises:
            ApiError: it refuses; and Unreachable: it does not answer (``extauthz.inputs.kube.connection``).
        """


class Host(NamedTuple):
    """What a policy that runs is given of the gate."""

    lists: Lists | None
    """``None``: neither quotas nor state come from a cluster."""
    clock: Callable[[], float]
    """Seconds, as ``Growth.now_s``."""
    wall: Callable[[], float]
    """Seconds since 1970."""
    event: Tell


class LivePolicy(GrowthPolicy):
    """A policy that runs beside the gate, in its loop. Write of these what it needs, beside the steps."""

    async def run(self, host: Host) -> None:
        """Run until it is cancelled, at the end of the gate. If it fails, that is logged, and it begins anew."""
        return

    def notes(self) -> Iterable[str]:
        """What an operator should know at ``/readyz``. The gate is ready all the same."""
        return ()

    def levels(self) -> Mapping[tuple[str, str], float]:
        """Numbers for ``extauthz_policy_level``: what is measured, and of what → how much. Keep them few."""
        return {}


class Missing(LivePolicy):
    """Stands for a policy that is not there."""

    def __init__(self, why: str) -> None:
        self.why = why

    def filter(self, growth: Growth) -> NoReturn:
        raise UnknownError(self.why)

    def notes(self) -> list[str]:
        return [self.why]


def enlisted(
    names: Iterable[str], found: Callable[[], Iterable[EntryPoint]] = lambda: entry_points(group=GROUP)
) -> list[Enlisted]:
    """The policies of these names, in their order. ``NAME=Audit`` only audits."""
    wanted = [(name.removesuffix(AUDIT), name.endswith(AUDIT)) for name in names]
    points = {point.name: point for point in found()} if wanted else {}
    return [Enlisted(name, _made(name, points.get(name)), audits) for name, audits in wanted]


def _made(name: str, point: EntryPoint | None) -> GrowthPolicy:
    if point is None:
        return Missing(f"no installed package has an entry point {name} of {GROUP}")
    try:
        policy: object = point.load()()
    except Exception as error:  # noqa: BLE001 (code of others)
        return Missing(f"{point.value} failed: {type(error).__name__}: {error}")
    if not isinstance(policy, GrowthPolicy):
        return Missing(f"{point.value} gave {type(policy).__name__}, which is no GrowthPolicy")
    return policy


class Patience:
    """Asks policies, and measures it. One that is slow cannot be interrupted. So a late answer is not used, and who is
    late ``TIMES`` in a row is not asked for a while: others wait for the loop that decides.

    Args:
        within_s: how long an answer may take.
    """

    def __init__(self, within_s: float, clock: Callable[[], float]) -> None:
        self._within_s = within_s
        self._clock = clock
        self._late: dict[str, int] = {}
        """How often in a row, by name."""
        self._until_s: dict[str, float] = {}

    def ask(self, one: Enlisted, step: str, growth: Growth) -> object:
        """What a policy says. Raises UnknownError, and what the policy raises."""
        began_s = self._clock()
        if self._until_s and began_s < self._until_s.get(one.name, began_s):
            raise UnknownError(f"it was slow, and is not asked for {AGAIN_S:.0f} s")
        try:
            said: object = getattr(one.policy, step)(growth)
        finally:
            ended_s = self._clock()
            if ended_s - began_s > self._within_s or self._late:
                self._note(one.name, ended_s - began_s > self._within_s, ended_s)
        if ended_s - began_s > self._within_s:
            took_ms, most_ms = (ended_s - began_s) * 1000, self._within_s * 1000
            raise UnknownError(f"it took {took_ms:.0f} ms, and may take {most_ms:.0f}")
        return said

    def _note(self, name: str, is_late: bool, now_s: float) -> None:
        late = self._late.pop(name, 0) + 1
        if is_late and late >= TIMES:
            self._until_s[name] = now_s + AGAIN_S
        elif is_late:
            self._late[name] = late
