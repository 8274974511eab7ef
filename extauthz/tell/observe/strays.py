"""Tells of namespaces that no quota covers though somebody meant one: their label ``workspace`` says so.

Such a label is mistyped, or its quota is not there. Wired by ``service``: ``run()`` is one more task of a gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from extauthz.core.decision.gate import Gate
from extauthz.core.quota.spec import LABEL
from extauthz.tell.observe.quota_facts import in_slices

LOOK_S: Final = 30.0
"""Between two looks. Somebody who labels a namespace first and then creates the quota is not told."""


AT_ONCE: Final = 10
"""So many are told of at one look: events of refusals wait for them. The others are told of at the next."""


class Strays:
    """Looks for them.

    Args:
        found: told once of each that was there at two looks: the namespace, and the value of its label.
    """

    def __init__(self, gate: Gate, found: Callable[[str, str], None]) -> None:
        self._gate = gate
        self._found = found
        self._before: frozenset[tuple[str, str]] = frozenset()
        self._told: frozenset[tuple[str, str]] = frozenset()

    async def run(self) -> None:
        """Look for ever. Ends by cancellation."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look once. While what is known may be out of date, all stays as it is."""
        if not self._gate.synced or self._gate.is_stale:
            return
        coverage = self._gate.ledger.coverage
        has_some = any(await in_slices(node.quota.by_its_name for node in coverage.tree.nodes))
        known = list(coverage.namespaces.items()) if has_some else []
        labelled = await in_slices((name, one.labels.get(LABEL, ""), one.covered) for name, one in known)
        there = frozenset((name, label) for name, label, covered in labelled if label and not covered)
        now = sorted((there & self._before) - self._told)[:AT_ONCE]
        for stray in now:
            self._found(*stray)
        self._told = (self._told & there) | {*now}
        self._before = there
