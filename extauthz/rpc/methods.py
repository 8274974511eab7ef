"""What a server does with a call, by the method's path: ``/package.Service/Method``.

Handlers must not block. A ``StatusError`` that one raises is the call's status; any other exception is told to the
loop's exception handler, and the client gets UNKNOWN.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote


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


# The status of a call, and how gRPC spells it in trailers.
#
# Codes: https://github.com/grpc/grpc/blob/master/doc/statuscodes.md. Spelling: PROTOCOL-HTTP2.md, "Responses".


class Code(IntEnum):
    """Those that this server itself gives; a handler may give any."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class StatusError(Exception):
    """A call ends with this status. The text reaches the client."""

    def __init__(self, code: Code, text: str = "") -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


LONGEST: Final = 256
"""Characters of a text. A client needs no more to know what was wrong."""

_PLAIN: Final = "".join(chr(one) for one in range(0x20, 0x7F) if chr(one) != "%")
"""``grpc-message`` is percent-encoded, but for printable ASCII."""


def trailers(code: Code, text: str = "") -> tuple[tuple[str, str], ...]:
    """The fields that end a call."""
    fields = (("grpc-status", str(int(code))),)
    return (*fields, ("grpc-message", quote(text[:LONGEST], safe=_PLAIN, errors="replace"))) if text else fields
