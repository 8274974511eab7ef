"""Has a gate record what counts and what is asked (``--record``)."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from extauthz import version
from extauthz.core.decision.gate import Gate
from extauthz.core.errors import ObjectError
from extauthz.core.ledger.accounts import highest
from extauthz.core.ledger.coverage import Namespace
from extauthz.core.ledger.entry import Entry
from extauthz.core.model import Amounts, Template, WorkloadRef
from extauthz.serve.service.setting_types import size_of
from extauthz.serve.service.settings import Settings
from extauthz.tell.record.files import Files
from extauthz.tell.record.recorder import Recorder, Seen
from extauthz.tell.record.scribe import Scribe

STEP = 50
"""Workloads that are told at once: about a millisecond."""

PAUSE_S = 0.004
"""Between two steps, while requests are answered."""

LOOK_S = 1.0


def files(settings: Settings) -> Files | None:
    """Where lines go, by the settings; ``None``: nothing is recorded."""
    if settings.record is None:
        return None
    most_s = settings.numbers.record_days * 86400.0
    return Files(settings.record, socket.gethostname(), size_of(settings.record_max_bytes), most_s, time.time)


def recorder(gate: Gate, sink: Files, name: str, wall: Callable[[], float]) -> Recorder:
    """What notes for the record of a gate. It is told of all changes from now on.

    Args:
        sink: where lines go.
        name: the gate's own.
        wall: seconds since 1970.
    """
    ledger = gate.ledger

    def see(ref: WorkloadRef) -> Seen:
        entry = ledger.workloads.get(ref)
        shown = entry.shown if entry is not None else None
        if shown is None:
            return Seen("", "", None)
        pod = price(ref.namespace, shown.template) if shown.template is not None else None
        replicas = entry.observed.replicas if entry is not None and entry.observed is not None else 0
        return Seen(shown.labels, shown.resource_version, pod, replicas, may(ref.namespace, entry, pod))

    def may(namespace: str, entry: Entry | None, pod: Amounts | None) -> Amounts | None:
        """The pod of objects that were admitted and may still land, if it is dearer in something."""
        pending = entry.live_pending_writes() if entry is not None else ()
        pods = [price(namespace, template) or {} for one in pending for template in one.templates]
        found = highest([pod or {}, *pods]) if pods else None
        return found if found != pod else None

    def price(namespace: str, template: Template) -> Amounts | None:
        with suppress(ObjectError):
            return ledger.pod_costs.per_pod(namespace, template)
        return None

    made = Recorder(Scribe(sink, _head(gate, name, wall())), wall, see, price)
    ledger.usage.witness = made
    return made


def _head(gate: Gate, name: str, now_s: float) -> dict[str, Any]:
    settings = dataclasses.asdict(gate.policy) | {"allows": sorted(gate.policy.allows)}
    return {"gate": name, "version": version(), "run": f"{name}/{os.getpid()}/{now_s:.3f}", "settings": settings}


class Recording:
    """Tells a recorder of all that is there: at first, and again once it has lost something."""

    def __init__(self, gate: Gate, recorder: Recorder) -> None:
        self._gate = gate
        self.recorder = recorder

    async def begin(self) -> None:
        while self.recorder.is_incomplete:
            await self._tell_all(0.0)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self.recorder.is_incomplete:
                await self._tell_all(PAUSE_S)

    async def _tell_all(self, pause_s: float) -> None:
        gate, recorder = self._gate, self.recorder
        recorder.begin(gate.written)
        known: dict[str, Namespace] = dict(gate.ledger.coverage.namespaces)
        for number, (name, namespace) in enumerate(known.items()):
            recorder.labelled(name, namespace.labels)
            if number % STEP == STEP - 1:
                await asyncio.sleep(pause_s)
        for number, (ref, at) in enumerate(gate.ledger.usage.positions()):
            recorder.seen(ref, at)
            if number % STEP == STEP - 1:
                await asyncio.sleep(pause_s)
        recorder.complete()
