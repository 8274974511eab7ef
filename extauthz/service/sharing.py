"""How far this gate has come in seeing the cluster: what gates that share a ledger hold each other against."""

from __future__ import annotations

from collections.abc import Mapping

from extauthz.ledger_store.replica import Progress


class Together:
    """How far several sources have come."""

    def __init__(self, parts: tuple[Progress, ...]) -> None:
        self._parts = parts

    def seen(self) -> Mapping[str, int]:
        return {kind: version for part in self._parts for kind, version in part.seen().items()}

    def has_reached(self, kind: str, version: int) -> bool:
        return all(part.has_reached(kind, version) for part in self._parts)
