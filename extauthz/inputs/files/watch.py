"""Watches a file or directory: good new content is handed on within a second, bad content changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from . import content
from .content import Content, FilesError

Value = TypeVar("Value")

TICK_S: Final = 0.5
"""How often ``stat`` is asked. Notifications of the system miss network file systems and links to elsewhere, and say
little more."""

SETTLE_S: Final = 0.1
SETTLES: Final = 4
"""A burst of changes is over when for so long nothing has changed, and is waited for so often at most."""


class Watched(Generic[Value]):
    """What a file or directory holds, as ``parse`` reads it, now and after every change.

    Notices writing in place, replacing by rename, deletion, re-creation, and the swapped ``..data`` link of a
    ConfigMap volume. Contents are compared: a touched file is no change.
    """

    def __init__(self, path: Path, parse: Callable[[Sequence[Content]], Value]) -> None:
        self._path = path
        self._parse = parse
        self._signature: content.Signature | None = None
        self._seen = b""
        """Digest of the content that was read last, or of the reason why it could not be read."""

    def load(self) -> Value:
        """Read what is there now.

        Raises:
            FilesError: with everything that is wrong with it. ``watch`` then waits for better content.
        """
        self._signature = content.signature(self._path)
        self._seen = b""
        outcome = self._changed()
        assert outcome is not None
        if isinstance(outcome, FilesError):
            raise outcome
        return outcome

    async def watch(self, accept: Callable[[Value], None], refuse: Callable[[FilesError], None]) -> None:
        """Call ``accept`` with each good new content, and ``refuse`` with the problems of each bad one, for ever.

        Files are looked at, read and parsed in a thread, so that the loop goes on serving; the callbacks are called in
        the loop. Give up by cancelling.
        """
        while True:
            await asyncio.sleep(TICK_S)
            if await self._look() == self._signature:
                continue
            self._signature = await self._settled()
            outcome = await asyncio.to_thread(self._changed)
            if isinstance(outcome, FilesError):
                refuse(outcome)
            elif outcome is not None:
                accept(outcome)

    async def _settled(self) -> content.Signature:
        """What stands there once a burst of changes is over."""
        found = await self._look()
        for _ in range(SETTLES):
            await asyncio.sleep(SETTLE_S)
            before, found = found, await self._look()
            if found == before:
                break
        return found

    async def _look(self) -> content.Signature:
        """What ``stat`` says. A network file system may not answer for long."""
        return await asyncio.to_thread(content.signature, self._path)

    def _changed(self) -> Value | FilesError | None:
        """The new content, its problems, or ``None`` if nothing has changed."""
        try:
            contents = content.read(self._path)
        except FilesError as error:
            return error if self._is_new(str(error).encode()) else None
        if not self._is_new(*(part for each in contents for part in (each.name.encode(), each.data))):
            return None
        try:
            return self._parse(contents)
        except FilesError as error:
            return error

    def _is_new(self, *parts: bytes) -> bool:
        digest = hashlib.sha256()
        for part in parts:
            digest.update(b"%d:" % len(part))
            digest.update(part)
        before, self._seen = self._seen, digest.digest()
        return self._seen != before
