"""The filter that has a count lowered before it is decided upon (mode Clamp): Envoy's ext_proc, before ext_authz.

It may change the body and its length, and nothing else. Where nobody answers, the request goes on as it came.
"""

from __future__ import annotations

from datetime import timedelta

from envoy_data_plane.envoy.config.common.mutation_rules import v3 as mutation
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.filters.http.ext_proc import v3 as ext_proc
from envoy_data_plane.envoy.type.matcher import v3 as matcher

from extauthz.core.quota.requesters import METADATA

from . import clusters
from .options import CLAMP_TIMEOUT_S

NAME = "envoy.filters.http.ext_proc"

ATTRIBUTES = ("request.method", "request.path", "request.headers['content-type']", "request.useragent")
"""What is needed to read a body. Envoy sends no headers: there may be secrets in them."""


def ext_proc_filter(requester: str = "") -> ext_proc.ExternalProcessor:
    """One message for each request: its body, with these attributes. Of one that is longer than the connection's
    buffer it is the beginning, and then it goes on as it came. Asking about headers too would take twice as long."""
    header, body = ext_proc.ProcessingModeHeaderSendMode, ext_proc.ProcessingModeBodySendMode
    return ext_proc.ExternalProcessor(
        # No timeout for the stream: a body may be long in coming.
        grpc_service=core.GrpcService(
            envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=clusters.GATE),
            initial_metadata=[core.HeaderValue(key=METADATA, value=requester)] if requester else [],
        ),
        message_timeout=timedelta(seconds=CLAMP_TIMEOUT_S),
        failure_mode_allow=True,
        processing_mode=ext_proc.ProcessingMode(
            request_header_mode=header.SKIP,
            response_header_mode=header.SKIP,
            request_body_mode=body.BUFFERED_PARTIAL,
            response_body_mode=body.NONE,
            request_trailer_mode=header.SKIP,
            response_trailer_mode=header.SKIP,
        ),
        request_attributes=list(ATTRIBUTES),
        mutation_rules=mutation.HeaderMutationRules(
            disallow_all=True, allow_expression=matcher.RegexMatcher(regex="content-length")
        ),
        # It lowers. Only ext_authz refuses.
        disable_immediate_response=True,
    )
