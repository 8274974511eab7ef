"""A gate on a virtual clock that records what it is asked, for tests of records and of what is read from them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Decision, Request
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.serve.service.recording import Recording, recorder
from extauthz.tell.record.files import Files
from extauthz.testing import gate, shown

BEGINS_S = 1_800_000_000.0
"""When the clock begins, in seconds since 1970."""


class Recorded:
    """A gate with a record in ``folder``.

    Grants land when the test says so, by ``observe``.
    """

    def __init__(
        self,
        folder: Path,
        quotas: Sequence[WorkspaceQuota],
        *objects: Mapping[str, Any],
        name: str = "gate-0",
        at_s: float = BEGINS_S,
        **how: Any,
    ) -> None:
        self.folder = folder
        self.folder = folder
        self.now_s = at_s
        self.files = Files(folder, name, 1 << 30, 1e9, lambda: self.now_s)
        self.gate: Gate = gate(quotas, *objects, **how)
        self.recorder = recorder(self.gate, self.files, name, lambda: self.now_s)
        self._recording = Recording(self.gate, self.recorder)
        self._name = name
        self._asked = 0
        self.tell_all()

    def tell_all(self) -> None:
        """All that is there is told anew, as after a loss."""
        asyncio.run(self._recording.begin())
        self.recorder.flush()

    def ask(self, request: Request) -> Decision:
        """Decide a request now."""
        self._asked += 1
        reading = shown(self.gate, request)
        decision = self.gate.decide(reading, f"{self._name}-{self._asked}", self.now_s)
        self.recorder.decided(decision, reading, request.requester, request.headers.get("user-agent", ""))
        return decision

    def observe(self, obj: Mapping[str, Any]) -> None:
        """The gate sees an object so now."""
        self.gate.observe(*observe(obj))

    def gone(self, obj: Mapping[str, Any]) -> None:
        """The gate sees that it is gone."""
        ref, _ = observe(obj)
        self.gate.observe(ref, None)

    def limit(self, *quotas: WorkspaceQuota) -> None:
        """Other quotas are in force from now on."""
        self.gate.load_quotas(QuotaTree.build(quotas), self.now_s)

    def later(self, seconds: float) -> None:
        """Let time pass, and write what has come."""
        self.recorder.flush()
        self.now_s += seconds

    def close(self) -> None:
        """Write everything."""
        self.recorder.finish()
        self.files.close()
