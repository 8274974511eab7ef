"""Envoy's access log: a JSON line for each checked request, with its decision's id, and each reply of Envoy's own."""

from __future__ import annotations

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.access_loggers.file import v3 as file
from envoy_data_plane.google.protobuf import Any, Struct

from . import replies

_DECISION = f"%DYNAMIC_METADATA({replies.EXT_AUTHZ}:{{}})%"

FIELDS = {
    "time": "%START_TIME%",
    "method": "%REQ(:METHOD)%",
    # Without the query: an exec's holds the command that is run.
    "path": "%PATH(NQ)%",
    "protocol": "%PROTOCOL%",
    "user_agent": "%REQ(USER-AGENT)%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "route": "%ROUTE_NAME%",
    "status": "%RESPONSE_CODE%",
    "status_details": "%RESPONSE_CODE_DETAILS%",
    "flags": "%RESPONSE_FLAGS%",
    "duration_ms": "%DURATION%",
    "decision_id": _DECISION.format("decision_id"),
    "verdict": _DECISION.format("verdict"),
    "reason": _DECISION.format("reason"),
}


FAILURES = (
    replies.REFUSED_BY_FILTER,
    "UF",
    "UH",
    "UC",
    "UO",
    "UT",
    "UMSDR",
    "URX",
    "UPE",
    "NR",
    "LR",
    "DPE",
    "IH",
    "OM",
)
"""Response flags (Envoy's documentation, access log, ``%RESPONSE_FLAGS%``) of failures on the way to the API server."""


REFUSALS = (400, 403, 413)
"""Codes of Envoy's own refusals that come without a flag: an escaped slash, an upgrade of a write, a body too large."""


def access_log(path: str | None) -> list[accesslog.AccessLog]:
    """Decided requests, and those that Envoy itself answered. Not each read, and not the end of each watch (``DC``)."""
    if path is None:
        return []
    worth_a_line = accesslog.OrFilter(
        filters=[replies.decided(), replies.flagged(*FAILURES), *map(replies.coded, REFUSALS)]
    )
    fields = core.SubstitutionFormatString(json_format=Struct.from_dict(FIELDS))
    return [
        accesslog.AccessLog(
            name="envoy.access_loggers.file",
            filter=accesslog.AccessLogFilter(or_filter=worth_a_line),
            typed_config=Any.pack(file.FileAccessLog(path=path, log_format=fields)),
        )
    ]
