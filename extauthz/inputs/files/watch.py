"""Watches a file or directory: good new content is handed on within a second, bad content changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Generic, TypeVar

from watchfiles import Change, awatch
from watchfiles.main import FileChange

from . import content
from .content import Content, FilesError

Value = TypeVar("Value")

TICK_MS = 500
"""How often ``stat`` is asked, too. Notifications miss network file systems, links to elsewhere, and directories that
are created again."""

SETTLE_MS = 400
"""How long a burst of changes is waited for, at most."""


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

        Contents are read and parsed in a thread, so that the loop goes on serving; the callbacks are called in the
        loop. Give up by cancelling.
        """
        async with aclosing(self._glances()) as glances:
            async for told in glances:
                signature = content.signature(self._path)
                if signature == self._signature and not told:
                    continue
                self._signature = signature
                outcome = await asyncio.to_thread(self._changed)
                if isinstance(outcome, FilesError):
                    refuse(outcome)
                elif outcome is not None:
                    accept(outcome)

    async def _glances(self) -> AsyncGenerator[bool, None]:
        """Yield when it is time to look: ``True`` after a notified change, ``False`` when time has passed."""
        while True:
            try:
                async with aclosing(_notifications(self._path)) as notifications:
                    async for changes in notifications:
                        yield bool(changes)
            except (OSError, RuntimeError):  # no such directory, or inotify is at its limits: stat alone will do
                await asyncio.sleep(TICK_MS / 1000)
                yield False

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


def _notifications(path: Path) -> AsyncGenerator[set[FileChange], None]:
    """Changes in the directory that holds ``path``, and in ``path`` if it is one; an empty set at every tick."""
    return awatch(
        path.absolute().parent,
        *([path] if path.is_dir() else []),
        watch_filter=_may_show_in(path),
        debounce=SETTLE_MS,
        rust_timeout=TICK_MS,
        yield_on_timeout=True,
        recursive=False,
        ignore_permission_denied=True,
    )


def _may_show_in(path: Path) -> Callable[[Change, str], bool]:
    """Tells which changes may concern ``path``. A log file beside it does not: else everything would be read again ten
    times a second. ``stat`` finds changes through links to other names."""
    directory = str(path.absolute()) if path.is_dir() else None

    def may_show(_: Change, changed: str) -> bool:
        folder, name = os.path.split(changed)
        is_member = folder == directory and name.endswith(content.SUFFIXES)
        return is_member or name == path.name or name.startswith(".")  # "..data" of a ConfigMap volume

    return may_show
