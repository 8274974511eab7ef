"""The access-log door with ears: what it says is kept."""

from __future__ import annotations

from extauthz.core.ledger.pending_write import Event
from extauthz.servers.access_log import AccessLogs
from extauthz.settlement.answers import Fate, event


class Heard:
    """Keeps what the door says."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, Event]] = []
        self.skips: list[str] = []
        self.door = AccessLogs(self._hear, self.skips.append)

    def _hear(self, decision_id: str, fate: Fate) -> None:
        self.answers.append((decision_id, event(fate)))
