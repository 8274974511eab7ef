"""The access-log server: what became of each decided request, told by Envoy, to an event of its intent.

The protocol is Envoy's ``envoy.service.accesslog.v3.AccessLogService``
(https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/service/accesslog/v3/als.proto). It is a stream of what has
happened, beside the requests and never in their way: a lost entry only delays the end of an intent until W.

Whoever may open this stream may end intents, and so give room away. The server trusts its peer as much as the ext_authz
server does, which is the same server: mTLS says who it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import grpc
from envoy.data.accesslog.v3.accesslog_pb2 import HTTPAccessLogEntry, ResponseFlags
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage, StreamAccessLogsResponse
from google.protobuf.message import DecodeError

from extauthz.core.ledger.intents import Event

SERVICE = "envoy.service.accesslog.v3.AccessLogService"

EXT_AUTHZ = "envoy.filters.http.ext_authz"
"""The namespace under which Envoy keeps the dynamic metadata of a CheckResponse."""

Answered: TypeAlias = Callable[[str, Event], None]
"""Decision id → what happened to the request. An id that is not known, or whose intent has ended, changes nothing."""

Skipped: TypeAlias = Callable[[str], None]
"""Told why an entry (or a whole message) was left out: one of ``SKIPS``."""

SKIPS = ("no-message", "not-http", "no-decision", "not-over", "no-response")


class Fate(NamedTuple):
    """What an entry says about one request."""

    code: int
    """HTTP status of the answer to the client; 0: there was none."""
    details: str
    """Envoy's response code details, without what stands in braces after them."""
    flags: frozenset[str]
    """Fields that are set in ``envoy.data.accesslog.v3.ResponseFlags``."""
    attempts: int
    """How often Envoy's router took it on. 0: it never came that far."""
    sent: bool
    """A byte of it was given to a connection to the API server."""
    inner: str = ""
    """What stood in braces after the details: why a stream was reset."""


# Before the router handed the request to a connection (source/common/router/router.cc and the filters before it), by
# details, with the flags that come along: what proves that it never left. Everything else may have left.
NEVER_LEFT: Mapping[str, frozenset[str]] = {
    "ext_authz_denied": frozenset({"unauthorized_details"}),
    "ext_authz_error": frozenset({"unauthorized_details"}),
    "ext_authz_invalid": frozenset({"unauthorized_details"}),
    "rbac_access_denied_matched_policy[none]": frozenset(),
    "route_not_found": frozenset({"no_route_found"}),
    "cluster_not_found": frozenset({"no_cluster_found"}),
    "no_healthy_upstream": frozenset({"no_healthy_upstream"}),
    # The pool got no connection, TLS included. With any other flag a reset may have come after the request was sent.
    "upstream_reset_before_response_started": frozenset({"upstream_connection_failure"}),
}

REFUSED_STREAM = ("upstream_reset_before_response_started", "remote_refused_stream_reset")
"""Details, and what stands in braces after them, of a stream that the API server refused with REFUSED_STREAM, or that
is above the last stream of its GOAWAY. Either says that nothing of the request was processed (RFC 9113 §8.7).
``tests/envoy/test_refused_stream.py`` shows what Envoy 1.40 makes of these and of other resets."""

BEFORE_THE_STORE = frozenset({401, 403, 404, 405, 409, 413, 415, 422, 429})
"""4xx that the API server answers only where it has stored nothing: authentication, authorization, admission,
routing, decoding, validation, preconditions, overload (``k8s.io/apiserver/pkg/endpoints/handlers``)."""

UNFINISHED = frozenset({408})
"""4xx that leave open whether the API server is done with the request."""


def event(fate: Fate) -> Event:
    """The event of the intent. In doubt ``ANSWERED_UNCLEAR``, which ends nothing before W.

    An answer counts only if the API server gave it, in the only attempt, and nothing went wrong on the way. 2xx says
    that the write has landed. Any other 4xx says only that the API server is done with the request: 400 also comes when
    the *answer* cannot be made, after the write has landed (a Table with ``?includeObject=bogus``: shown on a real one
    in ``tests/controlplane/test_refusals.py``). So it is taken like 2xx: what a consistent read shows from then on is
    all that the write will ever do.
    """
    if not fate.sent and fate.attempts <= 1 and fate.flags == NEVER_LEFT.get(fate.details):
        return Event.NOT_FORWARDED
    if _was_refused(fate):
        return Event.NOT_FORWARDED
    if fate.details != "via_upstream" or fate.attempts != 1 or fate.flags:
        return Event.ANSWERED_UNCLEAR
    if fate.code in BEFORE_THE_STORE:
        return Event.REFUSED
    is_done = 200 <= fate.code < 300 or (400 <= fate.code < 500 and fate.code not in UNFINISHED)
    return Event.ANSWERED_OK if is_done else Event.ANSWERED_UNCLEAR


def _was_refused(fate: Fate) -> bool:
    """As a stream, in the only attempt. An earlier attempt may have been processed."""
    reset = frozenset({"upstream_remote_reset"})
    return (fate.details, fate.inner) == REFUSED_STREAM and fate.attempts == 1 and fate.flags == reset


def fate(entry: HTTPAccessLogEntry) -> Fate:
    """What the entry says, as far as ``event`` asks."""
    common, response = entry.common_properties, entry.response
    details, _, inner = response.response_code_details.partition("{")
    return Fate(
        code=response.response_code.value,
        details=details,
        flags=_flags(common.response_flags),
        attempts=common.upstream_request_attempt_count,
        sent=common.HasField("time_to_first_upstream_tx_byte") or common.upstream_wire_bytes_sent > 0,
        inner=inner.removesuffix("}"),
    )


def _flags(flags: ResponseFlags) -> frozenset[str]:
    return frozenset(field.name for field, _ in flags.ListFields())


class AccessLogs:
    """The service. Feeds ``answered`` with what the streams of any number of Envoys bring.

    Args:
        answered: must neither block nor raise.
        skipped: counts what was left out.
    """

    def __init__(self, answered: Answered, skipped: Skipped = lambda why: None) -> None:
        self._answered = answered
        self._skipped = skipped
        self._left = asyncio.Event()

    def handler(self) -> grpc.GenericRpcHandler:
        """For a grpc.aio server. Messages come as bytes: one that is no message must not end the stream."""
        method = grpc.stream_unary_rpc_method_handler(
            self._stream, response_serializer=StreamAccessLogsResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"StreamAccessLogs": method})

    def leave(self) -> None:
        """End the streams, for good. They have no end of their own and would hold up a stop."""
        self._left.set()

    def take(self, raw: bytes) -> None:
        """One message of a stream, whatever it is."""
        try:
            message = StreamAccessLogsMessage.FromString(raw)
        except DecodeError:
            self._skipped("no-message")
            return
        if message.HasField("tcp_logs"):
            self._skipped("not-http")
        for entry in message.http_logs.log_entry:
            self._take(entry)

    def _take(self, entry: HTTPAccessLogEntry) -> None:
        decision_id = _decision_id(entry)
        why = _why_not(entry, decision_id)
        if why is None:
            self._answered(decision_id, event(fate(entry)))
        else:
            self._skipped(why)

    async def _stream(self, _: Any, context: grpc.aio.ServicerContext) -> StreamAccessLogsResponse:  # noqa: ANN401
        left = asyncio.ensure_future(self._left.wait())
        try:
            while True:
                read = asyncio.ensure_future(context.read())
                await asyncio.wait((read, left), return_when=asyncio.FIRST_COMPLETED)
                if not read.done():
                    read.cancel()
                    break
                message = read.result()
                if message is grpc.aio.EOF:
                    break
                self.take(message)
        finally:
            left.cancel()
        return StreamAccessLogsResponse()


def _decision_id(entry: HTTPAccessLogEntry) -> str:
    """Where the ext_authz server left it. ``""``: nowhere, or it is no string."""
    metadata = entry.common_properties.metadata.filter_metadata
    if EXT_AUTHZ not in metadata:  # asking for it would make one
        return ""
    fields = metadata[EXT_AUTHZ].fields
    return fields["decision_id"].string_value if "decision_id" in fields else ""


def _why_not(entry: HTTPAccessLogEntry, decision_id: str) -> str | None:
    """Which of ``SKIPS`` the entry is, if any."""
    if not decision_id:
        return "no-decision"
    if entry.common_properties.intermediate_log_entry:
        return "not-over"
    if not entry.HasField("response"):
        return "no-response"
    return None
