"""What a server does with a call, by the method's path: ``/package.Service/Method``.

Handlers must not block. A ``StatusError`` that one raises is the call's status; any other exception is told to the
loop's exception handler, and the client gets UNKNOWN.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias


class Call(Protocol):
    """One call whose handler reads and writes as it likes. It is an iterator over the client's messages."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """The fields of its head, but for HTTP's own."""

    async def read(self) -> bytes | None:
        """The next message; ``None`` once the client has sent everything."""

    async def write(self, message: bytes) -> None:
        """Send one, and wait until the client has room for it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class Unary:
    """A message for a message. What is answered at once is sent together with all answers to what was read with it."""

    answer: Callable[[bytes], bytes | Awaitable[bytes]]
    """Nothing of an awaitable runs before it is awaited, and it is cancelled when its caller has gone."""


@dataclass(frozen=True, slots=True)
class Sink:
    """A stream of messages that nobody waits for. When the server leaves, it ends as if the client had ended it."""

    take: Callable[[bytes], None]
    last: bytes = b""
    """The answer, once it has ended."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """Any number of messages both ways, in any order. The call ends when ``run`` returns."""

    run: Callable[[Call], Awaitable[None]]


Method: TypeAlias = Unary | Sink | Streaming
Methods: TypeAlias = Mapping[str, Method]
