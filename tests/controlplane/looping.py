"""A blocking loop in a thread of its own, beside a test. (``extauthz.testing.processes`` is for coroutines.)"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

ENDS_WITHIN_S = 30.0


class Looping:
    """Runs ``loop`` from enter to exit. A context manager; what ``loop`` raised is raised again at the exit.

    Args:
        loop: goes on until the event that it gets is set.
    """

    def __init__(self, name: str, loop: Callable[[threading.Event], None]) -> None:
        self.failure: Exception | None = None
        self._loop = loop
        self._ends = threading.Event()
        self._looping = threading.Thread(target=self._guarded, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._looping.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._looping.join(ENDS_WITHIN_S)
        if self.failure is not None and error is None:
            raise self.failure

    def _guarded(self) -> None:
        try:
            self._loop(self._ends)
        except Exception as error:  # noqa: BLE001 (raised again at the exit)
            self.failure = error
