"""What tells owners in a cluster how their quotas and workloads stand: statuses, events, and looks ahead."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

from extauthz.core.decision.gate import Gate
from extauthz.core.model import WorkloadRef
from extauthz.core.queries import Queries
from extauthz.core.texts import Tell
from extauthz.inputs.kube.connection import Connection
from extauthz.serve.service.inputs import Clock
from extauthz.serve.service.live import LiveQuotaInput, LiveStateInput
from extauthz.serve.service.sources import Inputs
from extauthz.tell.observe.autoscalers import Autoscalers, NeverFit
from extauthz.tell.observe.ceilings import Ceilings
from extauthz.tell.observe.episodes import Episodes
from extauthz.tell.observe.kube_events import KubeEvents
from extauthz.tell.observe.metrics import each
from extauthz.tell.observe.observers import Serving
from extauthz.tell.observe.quota_facts import Level
from extauthz.tell.observe.status import StatusWriter
from extauthz.tell.observe.strays import Strays


class Telling:
    """Tells them, as far as quotas and workloads come from a cluster. ``run()`` is one more task of a gate.

    Args:
        connection: ``None``: nobody is told.
        episodes: workloads that may not grow.
        serving: who asks the gates.
    """

    def __init__(
        self,
        connection: Connection | None,
        gate: Gate,
        inputs: Inputs,
        episodes: Episodes,
        serving: Callable[[], Serving],
        tell: Tell,
        clock: Clock,
    ) -> None:
        self._known = inputs.state.known
        self._statuses: StatusWriter | None = None
        self._events: KubeEvents | None = None
        self._ceilings: Ceilings | None = None
        self._strays: Strays | None = None
        quotas, state = inputs.quotas, inputs.state
        if connection is not None and isinstance(state, LiveStateInput):
            instance = socket.gethostname()  # a pod's name, unless it is told otherwise
            events = KubeEvents(connection, Queries(gate.ledger), state.kinds, episodes, instance=instance, tell=tell)
            seen = Autoscalers(connection, clock)
            self._events = events
            self._ceilings = Ceilings(seen, gate, clock=clock, tell=tell, found=events.never_fits)
            self._strays = Strays(gate, events.uncovered)
        if connection is not None and isinstance(quotas, LiveQuotaInput):
            self._statuses = StatusWriter(
                connection,
                gate,
                lambda: quotas.standings,
                tell=tell,
                wrote=self._events.status_written if self._events is not None else None,
                serving=serving,
                never_fit=self._never_fit,
            )

    async def run(self) -> None:
        """Tell for ever, once the state is known. Ends by cancellation."""
        await self._known.wait()
        async with asyncio.TaskGroup() as group:
            for one in (self._statuses, self._events, self._ceilings, self._strays):
                if one is not None:
                    group.create_task(one.run())

    def may_ask_for(self, ref: WorkloadRef) -> int | None:
        """The most replicas that an autoscaler of a workload may ask for; ``None``: none is known."""
        return self._ceilings.most(ref) if self._ceilings is not None else None

    def levels(self) -> Iterator[tuple[str, Level]]:
        """Its metrics."""
        if self._statuses is not None:
            yield "extauthz_quotas_failing", each(self._statuses.failing())
            yield "extauthz_status_writes_total", each(self._statuses.results)
        if self._events is not None:
            yield "extauthz_event_writes_total", each(self._events.results)

    def _never_fit(self) -> NeverFit | None:
        return self._ceilings.by_quota() if self._ceilings is not None else {}
