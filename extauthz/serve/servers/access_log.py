"""The access-log server: what became of each decided request, as Envoy reports it.

The protocol is Envoy's ``envoy.service.accesslog.v3.AccessLogService``
(https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/service/accesslog/v3/als.proto). It is a stream of what has
happened, beside the requests. No request waits for it: if an entry is lost, the landing window ends its pending write.

Whoever may open this stream may end pending writes, and so give room away. The server trusts its peer as much as the
ext_authz server does, which is the same server: mTLS says who it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from envoy.data.accesslog.v3.accesslog_pb2 import HTTPAccessLogEntry, ResponseFlags
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage, StreamAccessLogsResponse
from google.protobuf.message import DecodeError

from extauthz.inputs.settlement.answers import Fate
from extauthz.serve.rpc.heads import Methods, Sink

SERVICE = "envoy.service.accesslog.v3.AccessLogService"

EXT_AUTHZ = "envoy.filters.http.ext_authz"
"""The namespace under which Envoy keeps the dynamic metadata of a CheckResponse."""

Answered: TypeAlias = Callable[[str, Fate], None]
"""Decision id → what happened to the request. An unknown id, or one whose pending write has ended, changes nothing."""

Skip: TypeAlias = Literal["no-message", "not-http", "no-decision", "not-over", "no-response"]
"""Why an entry was left out, or a whole message."""

Skipped: TypeAlias = Callable[[Skip], None]


def fate(entry: HTTPAccessLogEntry) -> Fate:
    """What the entry says, as far as ``settlement.answers`` needs it."""
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

    def methods(self) -> Methods:
        return {f"/{SERVICE}/StreamAccessLogs": Sink(self.take, StreamAccessLogsResponse().SerializeToString())}

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
            self._answered(decision_id, fate(entry))
        else:
            self._skipped(why)


def _decision_id(entry: HTTPAccessLogEntry) -> str:
    """The decision id that the ext_authz server left. ``""``: there is none, or it is no string."""
    metadata = entry.common_properties.metadata.filter_metadata
    if EXT_AUTHZ not in metadata:  # asking for it would make one
        return ""
    fields = metadata[EXT_AUTHZ].fields
    return fields["decision_id"].string_value if "decision_id" in fields else ""


def _why_not(entry: HTTPAccessLogEntry, decision_id: str) -> Skip | None:
    """Why the entry is left out, if it is."""
    if not decision_id:
        return "no-decision"
    if entry.common_properties.intermediate_log_entry:
        return "not-over"
    if not entry.HasField("response"):
        return "no-response"
    return None
