"""Header blocks: decoded by the package hpack, checked as RFC 9113 §8.2 and §8.3 ask, and read as the head of a call.

A client sends nearly the same block with each call. So what was made of a block is kept, and found again by its bytes,
for as long as that is the same thing as to decode it anew: see ``Decoder``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote

import hpack
from hpack.table import HeaderTable

from extauthz.serve.rpc.frames import BadConnectionError, Error


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

    answer: Callable[[bytes, float | None], bytes | Awaitable[bytes]]
    """Takes the message, and how long its client waits (``grpc-timeout``, seconds), if it says so. Nothing of an
    awaitable runs before it is awaited, and it is cancelled when its caller has gone."""


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
    fields = (("grpc-status", str(int(code))),)
    return (*fields, ("grpc-message", quote(text[:LONGEST], safe=_PLAIN, errors="replace"))) if text else fields


Fields: TypeAlias = tuple[tuple[bytes, bytes], ...]

CONTENT_TYPE: Final = "application/grpc"
ENCODINGS: Final = "identity"
"""What may be done with messages: nothing. They are small and stay within a host or a cluster."""


def block(fields: Iterable[tuple[str, str]]) -> bytes:
    """A header block that leaves the peer's table as it is (RFC 7541 §6.2.3), so that it is the same each time."""
    return hpack.Encoder().encode([(name, value, True) for name, value in fields], huffman=False)


EMPTY_TABLE: Final = b"\x20"
"""The table's size becomes 0 (RFC 7541 §4.2, §6.3): due before the first block after the peer made its own smaller.
This end never uses a table, so it says so once."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is known from the head alone."""

    block: bytes
    """The header block of the answer."""
    body: bytes = b""
    at_once: bool = True
    """False: only when the client has sent everything, as HTTP clients expect. One of gRPC may wait for the answer
    before it goes on."""


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of a request says."""

    path: str = ""
    """``/package.Service/Method``."""
    fields: Fields = ()
    timeout_s: float | None = None
    """How long its client will wait."""
    content_length: int | None = None
    refusal: Refusal | None = None
    is_malformed: bool = False
    """RFC 9113 §8.1.1."""
    size: int = 0
    """What it decodes to, bytes, each field with 32 more (RFC 7541 §4.1)."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """All fields but HTTP's own. Those of one name are joined with a comma (RFC 9110 §5.3)."""
        found: dict[str, str] = {}
        for name, value in self.fields:
            if name[:1] != b":":
                key, text = name.decode("ascii"), value.decode("latin-1")
                found[key] = f"{found[key]},{text}" if key in found else text
        return found


MALFORMED: Final = Head(is_malformed=True)


_RESIZED_THRICE: Final = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]*[\x00-\x7f]){3}").match
"""A block begins so. RFC 7541 §4.2 has two resizes at most before it, and a block of 16,384 takes 28 ms."""


class _Table(HeaderTable):
    """hpack's own, and counts how often something was put into it."""

    def __init__(self) -> None:
        super().__init__()
        self.additions = 0

    def add(self, name: bytes, value: bytes) -> None:
        self.additions += 1
        super().add(name, value)


class Decoder:
    """The blocks of one connection, in the order in which they come.

    A block that neither adds to the table nor resizes it can be known by its bytes, until the next one that does: its
    fields depend on nothing but the table, and to decode it again would change nothing. All others are decoded.
    """

    KNOWN, KNOWN_BYTES = 64, 512
    """How many blocks are known, and how long each is at most. A client has a few methods."""

    def __init__(self, most_bytes: int) -> None:
        self._hpack = hpack.Decoder(max_header_list_size=most_bytes)
        self._table = self._hpack.header_table = _Table()
        self._known: dict[bytes, Head] = {}
        self.known_bytes = 0

    def head(self, encoded: bytes) -> Head:
        """That of a request. Raises BadConnectionError as ``fields`` does."""
        found = self._known.get(encoded)
        if found is not None:
            return found
        before = self._table.additions
        found = read(self.fields(encoded))
        if self._table.additions == before and len(encoded) <= self.KNOWN_BYTES and len(self._known) < self.KNOWN:
            self._known[encoded] = found
            self.known_bytes += len(encoded) + found.size
        return found

    def fields(self, encoded: bytes) -> Fields:
        """The fields of any block.

        Raises:
            BadConnectionError: the table is no longer the same at both ends, or would be too costly to keep so.
        """
        before = self._table.additions
        if _RESIZED_THRICE(encoded):
            raise BadConnectionError(Error.COMPRESSION_ERROR, "a header block resizes the table more than twice")
        try:
            decoded = tuple((bytes(name), bytes(value)) for name, value in self._hpack.decode(encoded, raw=True))
        except hpack.OversizedHeaderListError:
            raise BadConnectionError(Error.ENHANCE_YOUR_CALM, "the fields of a head are too long together") from None
        except hpack.HPACKError:
            raise BadConnectionError(Error.COMPRESSION_ERROR, "a header block cannot be decoded") from None
        resized = encoded[:1] and encoded[0] & 0xE0 == 0x20  # §6.3: only at the start of a block
        if resized or self._table.additions != before:
            self._known.clear()
            self.known_bytes = 0
        return decoded


_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
"""A token of RFC 9110 §5.6.2, in lower case (RFC 9113 §8.2.1)."""

_SPOILT: Final = re.compile(rb"[\0\r\n]|\A[ \t]|[ \t]\Z").search
"""What no value has (RFC 9113 §8.2.1)."""

_OF_CONNECTIONS: Final = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
"""§8.2.2."""

_PSEUDO: Final = frozenset((b":method", b":scheme", b":path", b":authority"))


def read(fields: Fields) -> Head:
    """The head that the fields make; ``MALFORMED`` where they break a rule of HTTP."""
    pseudo: dict[bytes, bytes] = {}
    for name, value in fields:
        if name[:1] == b":":
            if name in pseudo or name not in _PSEUDO or _SPOILT(value):
                return MALFORMED
            pseudo[name] = value
    plain = fields[len(pseudo) :]
    if not well_formed(plain) or not _complete(pseudo):
        return MALFORMED
    given = dict(plain)
    length = given.get(b"content-length")
    if length is not None and not (length.isdigit() and len(length) < 20):
        return MALFORMED
    content_length = int(length) if length is not None else None
    timeout_s, refusal = _judged(pseudo[b":method"], given)
    path = pseudo.get(b":path", b"").decode("latin-1")
    size = sum(len(name) + len(value) + 32 for name, value in fields)
    return Head(path, fields, timeout_s, content_length, refusal, size=size)


def well_formed(plain: Fields) -> bool:
    """Whether these may stand behind HTTP's own fields, or in trailers (RFC 9113 §8.1)."""
    return not any(
        not _NAME(name) or _SPOILT(value) or name in _OF_CONNECTIONS or (name == b"te" and value != b"trailers")
        for name, value in plain
    )


def _complete(pseudo: Mapping[bytes, bytes]) -> bool:
    """§8.3.1; of CONNECT §8.5."""
    method = pseudo.get(b":method")
    if method == b"CONNECT":
        return b":authority" in pseudo and b":path" not in pseudo and b":scheme" not in pseudo
    return bool(method and pseudo.get(b":scheme") and pseudo.get(b":path"))


_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])").fullmatch
_GRPC: Final = re.compile(rb"application/grpc(?:[+;].*)?", re.DOTALL).fullmatch

TEXT: Final = b"Only gRPC is spoken here: POST, with content-type application/grpc.\n"


def http(code: int, *, body: bytes = TEXT) -> Refusal:
    """An answer to who does not speak gRPC."""
    fields = ((":status", str(code)), ("content-type", "text/plain"), ("content-length", str(len(body))))
    return Refusal(block(fields), body, at_once=False)


def trailers_only(code: Code, text: str, *more: tuple[str, str]) -> Refusal:
    """An answer without a message (PROTOCOL-HTTP2.md, "Trailers-Only")."""
    return Refusal(block(((":status", "200"), ("content-type", CONTENT_TYPE), *trailers(code, text), *more)))


_NOT_GRPC, _NOT_GRPC_HEAD, _NOT_POST = http(415), http(415, body=b""), http(405)
_BAD_TIMEOUT = trailers_only(Code.INTERNAL, "grpc-timeout: not up to 8 digits and one of H M S m u n")


def _judged(method: bytes, given: Mapping[bytes, bytes]) -> tuple[float | None, Refusal | None]:
    """How long its client will wait, and why the call cannot be answered at all, if so."""
    if not _GRPC(given.get(b"content-type", b"")):
        return None, _NOT_GRPC_HEAD if method == b"HEAD" else _NOT_GRPC
    if method != b"POST":
        return None, _NOT_POST
    encoding = given.get(b"grpc-encoding", b"identity").decode("latin-1")
    if encoding != "identity":
        text = f"grpc-encoding: messages come as they are, not by {encoding}"
        return None, trailers_only(Code.UNIMPLEMENTED, text, ("grpc-accept-encoding", ENCODINGS))
    timeout = given.get(b"grpc-timeout")
    if timeout is None:
        return None, None
    match = _TIMEOUT(timeout)
    return (int(match[1]) * _UNITS[match[2]], None) if match else (None, _BAD_TIMEOUT)
