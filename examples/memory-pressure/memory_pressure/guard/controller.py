"""The loop of the guard: restore what an earlier run has left, look and act, and restore everything at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from extauthz.inputs.kube.connection import ApiError, Unreachable
from memory_pressure.marks import Marks

from .limits import Limits
from .pods import Pod
from .rounds import Act, Rounds, Seen

GONE = 404


class Options(NamedTuple):
    """How the guard looks and acts."""

    marks: Marks
    round_s: float
    dry_run: bool
    stale_after_s: float = 60.0
    """A node without newer metrics is not known: its pods are restored."""
    end_within_s: float = 20.0
    """How long it tries to restore everything at its end."""


class Told(Protocol):
    """Takes what happened: an event and its fields."""

    def __call__(self, event: str, **fields: str) -> None: ...


class Controller:
    """One guard. There must not be two for one namespace.

    Args:
        now: seconds since 1970.
    """

    def __init__(self, limits: Limits, options: Options, tell: Told, now: Callable[[], float]) -> None:
        self._limits = limits
        self._options = options
        self._tell = tell
        self._now = now
        self._rounds = Rounds(options.marks, dry_run=options.dry_run)

    async def run(self, stop: asyncio.Event) -> bool:
        """Until ``stop``; whether all is restored then."""
        await self.restore_all()
        while not stop.is_set():
            await self.round()
            await _either(stop, self._options.round_s)
        return await self.end()

    async def round(self) -> None:
        """Look once, and act. What does not succeed is tried again in the next round."""
        try:
            pods = await self._limits.pods()
        except (ApiError, Unreachable) as error:
            self._tell("unknown", why=str(error))
            return
        try:
            uses = await self._limits.uses(self._now(), self._options.stale_after_s)
            seen = Seen(uses, pods, await self._limits.memory())
        except (ApiError, Unreachable, KeyError, ValueError) as error:
            self._tell("unknown", why=f"metrics: {error}")
            seen = Seen({}, pods, {})
        for act in self._rounds.look(seen):
            await self._do(act)

    async def end(self) -> bool:
        """Restore everything, again and again for a while; whether that succeeded."""
        try:
            async with asyncio.timeout(self._options.end_within_s):
                while not await self.restore_all():  # noqa: ASYNC110 (nobody tells when the API server is back)
                    await asyncio.sleep(min(1.0, self._options.round_s))
        except TimeoutError:
            self._tell("stays lowered", cure="run `extauthz-guard --restore` with the same namespaces")
            return False
        return True

    async def restore_all(self) -> bool:
        """Restore each pod that carries the annotation; whether none is left."""
        if self._options.dry_run:
            return True
        try:
            lowered = [pod for pod in await self._limits.pods() if pod.lowered is not None or pod.is_unreadable]
        except (ApiError, Unreachable) as error:
            self._tell("unknown", why=str(error))
            return False
        done = [await self._do(Act(False, pod, "the guard begins or ends")) for pod in lowered]
        return all(done)

    async def _do(self, act: Act) -> bool:
        """Whether there is nothing left to do."""
        pod = act.pod
        word = "lower" if act.is_lowering else "restore"
        if pod.is_unreadable:
            self._tell("unreadable", pod=str(pod), cure="set its CPU limits yourself, then remove the annotation")
            return False
        if self._options.dry_run:
            self._tell(f"would {word}", pod=str(pod), limits=_shown(pod, act.is_lowering), why=act.why)
            return True
        try:
            await (self._limits.lower(pod) if act.is_lowering else self._limits.restore(pod))
        except (ApiError, Unreachable) as error:
            is_gone = isinstance(error, ApiError) and error.status == GONE
            self._tell("gone" if is_gone else f"cannot {word}", pod=str(pod), why=str(error))
            return is_gone
        self._tell(
            f"{word}{'ed' if act.is_lowering else 'd'}", pod=str(pod), limits=_shown(pod, act.is_lowering), why=act.why
        )
        return True


def _shown(pod: Pod, is_lowering: bool) -> str:
    changes = pod.possible if is_lowering else pod.lowered or pod.possible
    return ", ".join(
        f"{one.container} {one.limit} → {one.lowered}" if is_lowering else f"{one.container} → {one.limit}"
        for one in changes
    )


async def _either(stop: asyncio.Event, seconds: float) -> None:
    """Wait until it stops, or so long."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
