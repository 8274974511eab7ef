"""Envoy's own answers, worded as the API server would: a ``metav1.Status`` in JSON.

Without it a client sees an empty 403 when the gate is down, and client-go drops any text that does not come with
``content-type: application/json``. Envoy takes the first mapper whose filter matches, and otherwise the
general format (https://www.envoyproxy.io/docs/envoy/v1.40.0/configuration/http/http_conn_man/local_reply).
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from envoy_data_plane.envoy.config.accesslog import v3 as accesslog
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.access_loggers.file import v3 as file
from envoy_data_plane.envoy.extensions.access_loggers.filters.cel import v3 as cel
from envoy_data_plane.envoy.extensions.access_loggers.grpc import v3 as grpc
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google.protobuf import Any, Struct

from . import clusters

EXT_AUTHZ = "envoy.filters.http.ext_authz"
RBAC = "envoy.filters.http.rbac"
"""Names of the two filters that a write passes."""

REFUSED_BY_FILTER = "UAEX"
"""Envoy's response flag for every reply that ext_authz makes: the gate's own refusals and the gate's outage alike."""

OUTAGE = (
    "quota gate unavailable: nobody could tell whether this write fits its workspace quotas, so it was not forwarded"
    " to the API server; it is safe to try again"
)

NOBODY = (
    "the proxy before the API server takes no write that can grow a workload without an authorization header that the"
    " API server takes: send a bearer token"
)

TOO_LARGE = "Request entity too large: limit is 3145728"
"""The API server's own sentence and limit (``k8s.io/apiserver/pkg/endpoints/handlers/rest.go``)."""


class Reply(NamedTuple):
    """The ``reason`` a code has in ``k8s.io/apimachinery/pkg/apis/meta/v1/types.go``, and a sentence."""

    code: int
    reason: str
    message: str


_WHY = "the proxy before the API server refused the request: %RESPONSE_CODE_DETAILS%"
_GONE = "the proxy got no answer from the API server: %RESPONSE_CODE_DETAILS% (%RESPONSE_FLAGS%)"

REPLIES = (
    Reply(400, "BadRequest", _WHY),
    Reply(401, "Unauthorized", NOBODY),
    Reply(403, "Forbidden", f"{_WHY} %LOCAL_REPLY_BODY%"),
    Reply(404, "NotFound", _WHY),
    Reply(408, "Timeout", _WHY),
    Reply(413, "RequestEntityTooLarge", TOO_LARGE),
    Reply(503, "ServiceUnavailable", _GONE),
    Reply(504, "Timeout", _GONE),
)


def config() -> hcm.LocalReplyConfig:
    """Mappers in order: the gate's outage, the gate's own refusals (left alone), Envoy's codes, anything else."""
    return hcm.LocalReplyConfig(
        mappers=[_outage(), _untouched(), *(_mapper(reply) for reply in REPLIES)],
        body_format=_format(Reply(0, "", _WHY)),
    )


def _outage() -> hcm.ResponseMapper:
    """Every decision of the gate's carries an id in its metadata; a refusal without one is no decision.

    That covers a gate that is down, that is slow or that talks nonsense. The status does not matter: the gate also
    refuses with 503, in sentences of its own (``unavailable``, design.md rule 6). A pass without an id is no
    decision either: the filter after ext_authz stops it.
    """
    failed = accesslog.AndFilter(filters=[flagged(REFUSED_BY_FILTER), undecided()])
    either = accesslog.OrFilter(filters=[accesslog.AccessLogFilter(and_filter=failed), _passed_undecided()])
    return hcm.ResponseMapper(
        filter=accesslog.AccessLogFilter(or_filter=either),
        status_code=503,
        body_format_override=_format(Reply(503, "ServiceUnavailable", OUTAGE)),
    )


def _untouched() -> hcm.ResponseMapper:
    return hcm.ResponseMapper(
        filter=flagged(REFUSED_BY_FILTER),
        body_format_override=core.SubstitutionFormatString(
            text_format_source=core.DataSource(inline_string="%LOCAL_REPLY_BODY%"), content_type="application/json"
        ),
    )


def _mapper(reply: Reply) -> hcm.ResponseMapper:
    return hcm.ResponseMapper(filter=coded(reply.code), body_format_override=_format(reply))


def _format(reply: Reply) -> core.SubstitutionFormatString:
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": reply.message,
        "reason": reply.reason,
        # Envoy keeps the type of a command that stands alone: a JSON number.
        "code": "%RESPONSE_CODE%",
    }
    return core.SubstitutionFormatString(json_format=Struct.from_dict(status), content_type="application/json")


def flagged(*flags: str) -> accesslog.AccessLogFilter:
    """The response has one of these flags. If none is given: any flag."""
    return accesslog.AccessLogFilter(response_flag_filter=accesslog.ResponseFlagFilter(flags=list(flags)))


def decided() -> accesslog.AccessLogFilter:
    """The gate left a decision id in the request's dynamic metadata."""
    return _metadata(decision_id(_PRESENT), without=False)


def undecided() -> accesslog.AccessLogFilter:
    """The gate left none. Envoy's metadata filter ignores ``invert`` of its matcher, so this matches a value that no id
    has."""
    return _metadata(decision_id(_NULL), without=True)


def decision_id(value: matcher.ValueMatcher) -> matcher.MetadataMatcher:
    """Where the gate leaves its decision's id."""
    return matcher.MetadataMatcher(
        filter=EXT_AUTHZ, path=[matcher.MetadataMatcherPathSegment(key="decision_id")], value=value
    )


def _passed_undecided() -> accesslog.AccessLogFilter:
    """The second filter's refusal. It leaves no flag, and its metadata comes after the reply. Only the details show
    it."""
    details = cel.ExpressionFilter(expression="response.code_details.startsWith('rbac_access_denied')")
    return accesslog.AccessLogFilter(
        extension_filter=accesslog.ExtensionFilter(
            name="envoy.access_loggers.extension_filters.cel", typed_config=Any.pack(details)
        )
    )


_PRESENT = matcher.ValueMatcher(present_match=True)
_NULL = matcher.ValueMatcher(null_match=matcher.ValueMatcherNullMatch())


def _metadata(wanted: matcher.MetadataMatcher, *, without: bool) -> accesslog.AccessLogFilter:
    return accesslog.AccessLogFilter(
        metadata_filter=accesslog.MetadataFilter(matcher=wanted, match_if_key_not_found=without)
    )


def coded(code: int) -> accesslog.AccessLogFilter:
    comparison = accesslog.ComparisonFilter(
        op=accesslog.ComparisonFilterOp.EQ,
        value=core.RuntimeUInt32(default_value=code, runtime_key=f"extauthz.reply.{code}"),
    )
    return accesslog.AccessLogFilter(status_code_filter=accesslog.StatusCodeFilter(comparison=comparison))


# Envoy's two access logs: JSON lines for people, and a stream that reports to the gate what became of its decisions.

_DECISION = f"%DYNAMIC_METADATA({EXT_AUTHZ}:{{}})%"

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
    REFUSED_BY_FILTER,
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
        filter=decided(),
        typed_config=Any.pack(grpc.HttpGrpcAccessLogConfig(common_config=common)),
    )


def _lines(path: str) -> accesslog.AccessLog:
    """Decided requests, and those that Envoy itself answered. Not each read, and not the end of each watch (``DC``)."""
    worth_a_line = accesslog.OrFilter(filters=[decided(), flagged(*FAILURES), *map(coded, REFUSALS)])
    fields = core.SubstitutionFormatString(json_format=Struct.from_dict(FIELDS))
    return accesslog.AccessLog(
        name="envoy.access_loggers.file",
        filter=accesslog.AccessLogFilter(or_filter=worth_a_line),
        typed_config=Any.pack(file.FileAccessLog(path=path, log_format=fields)),
    )
