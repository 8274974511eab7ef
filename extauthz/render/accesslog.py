"""Envoy's two access logs: JSON lines for people, and a stream that reports to the gate what became of its
decisions."""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.access_loggers.file import v3 as file
from envoy_data_plane.envoy.extensions.access_loggers.grpc import v3 as grpc
from envoy_data_plane.google.protobuf import Any, Struct

from . import clusters, replies

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
"""Codes of Envoy's own refusals that come without a flag: an escaped slash, an upgrade of a write, a body too large.
Not 401: strangers could fill the disk."""


FLUSH_S = 0.1
"""How late the gate may hear of an answer (Envoy's default is 1 s): as long as a refused write goes on holding room."""

BUFFER_BYTES = 16384
"""Some twenty entries: then they are sent before ``FLUSH_S`` is over. Measured, an entry sent by itself costs ten times
as much as one among twenty."""


def access_logs(path: str | None) -> list[accesslog.AccessLog]:
    """The stream to the gate, and the lines in ``path``; ``None``: no lines."""
    return [_answers(), *([] if path is None else [_lines(path)])]


def _answers() -> accesslog.AccessLog:
    """How each decided request ended. No header is added to an entry: ``authorization`` is never in one."""
    common = grpc.CommonGrpcAccessLogConfig(
        log_name="extauthz",
        transport_api_version=core.ApiVersion.V3,
        grpc_service=core.GrpcService(envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=clusters.GATE)),
        buffer_flush_interval=timedelta(seconds=FLUSH_S),
        buffer_size_bytes=BUFFER_BYTES,
    )
    return accesslog.AccessLog(
        name="envoy.access_loggers.http_grpc",
        filter=replies.decided(),
        typed_config=Any.pack(grpc.HttpGrpcAccessLogConfig(common_config=common)),
    )


def _lines(path: str) -> accesslog.AccessLog:
    """Decided requests, and those that Envoy itself answered. Not each read, and not the end of each watch (``DC``)."""
    worth_a_line = accesslog.OrFilter(
        filters=[replies.decided(), replies.flagged(*FAILURES), *map(replies.coded, REFUSALS)]
    )
    fields = core.SubstitutionFormatString(json_format=Struct.from_dict(FIELDS))
    return accesslog.AccessLog(
        name="envoy.access_loggers.file",
        filter=accesslog.AccessLogFilter(or_filter=worth_a_line),
        typed_config=Any.pack(file.FileAccessLog(path=path, log_format=fields)),
    )
