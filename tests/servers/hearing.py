"""The access-log door with ears: what it says is kept."""

from __future__ import annotations

from extauthz.core.ledger.intents import Event
from extauthz.servers.access_log import AccessLogs


class Heard:
    """Keeps what the door says."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, Event]] = []
        self.skips: list[str] = []
        self.door = AccessLogs(lambda decision_id, event: self.answers.append((decision_id, event)), self.skips.append)
