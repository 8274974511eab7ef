"""Renders the bootstrap of the Envoy that stands between an autoscaler and the API server, from typed messages.

Pure: options in, text out. What each setting is for stands where it is made; ``tests/envoy`` holds every one of them
against a real Envoy.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any as Tree
from typing import Final

import betterproto2
import yaml
from envoy_data_plane.envoy.config.bootstrap import v3 as bootstrap
from envoy_data_plane.envoy.config.common.mutation_rules import v3 as mutation
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.listener import v3 as listener
from envoy_data_plane.envoy.config.rbac import v3 as rbac
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.filters.http.ext_authz import v3 as ext_authz
from envoy_data_plane.envoy.extensions.filters.http.ext_proc import v3 as ext_proc
from envoy_data_plane.envoy.extensions.filters.http.lua import v3 as lua
from envoy_data_plane.envoy.extensions.filters.http.rbac import v3 as rbac_filter
from envoy_data_plane.envoy.extensions.filters.http.router import v3 as router
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.type import v3 as envoy_type
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google.protobuf import Any

from extauthz.core.quota.selectors import CONTEXT_EXTENSION, METADATA

from . import clusters, replies, routes
from .options import CLAMP_TIMEOUT_S, VERIFY_TIMEOUT_S, Anonymous, Outage, SidecarOptions
from .routes import Rule, rules

MAX_BODY_BYTES = 64 * 1024
"""How much of a body the gate is shown. A count has 16 KiB at most, so a longer body is no count."""

UPGRADES = ("websocket", "SPDY/3.1")
"""exec, attach and port-forward: kubectl's two protocols for them."""

GATE_SEES_HEADERS = ("content-type", "user-agent", "x-request-id")
"""What a decision and its log line need. A list of what may pass, because secrets come under many names:
``authorization``, ``cookie``, and even ``sec-websocket-protocol`` (``base64url.bearer.authorization.k8s.io.…``)."""


NODE = "extauthz"


def sidecar(options: SidecarOptions) -> bootstrap.Bootstrap:
    """The whole configuration: one listener, the API server twice (ordinary and upgraded requests), the gate."""
    return bootstrap.Bootstrap(
        # Envoy takes nothing by SDS, not from a file either, without a name of its own.
        node=core.Node(id=NODE, cluster=NODE),
        static_resources=bootstrap.BootstrapStaticResources(
            listeners=[_listener(options)], clusters=clusters.clusters(options)
        ),
        overload_manager=routes.overload_manager(),
        admin=options.admin and bootstrap.Admin(address=clusters.address(options.admin), ignore_global_conn_limit=True),
    )


def to_tree(config: betterproto2.Message) -> dict[str, Tree]:
    """The configuration as Envoy's documentation spells it (snake_case)."""
    return config.to_dict(casing=betterproto2.Casing.SNAKE)


def to_yaml(config: betterproto2.Message) -> str:
    return yaml.safe_dump(to_tree(config), sort_keys=False, width=120, allow_unicode=True)


def to_json(config: betterproto2.Message) -> str:
    return json.dumps(to_tree(config), indent=2) + "\n"


def filter_chain(options: SidecarOptions, flush_s: float | None = None) -> listener.FilterChain:
    """What ends a client's TLS, asks the gate where it must, and passes on to the clusters of ``clusters``.

    Args:
        flush_s: for a client to take an answer that is complete. Older Envoys, as sidecars may be, refuse the field.
    """
    http = _http(options)
    http.stream_flush_timeout = None if flush_s is None else timedelta(seconds=flush_s)
    manager = listener.Filter(name="envoy.filters.network.http_connection_manager", typed_config=Any.pack(http))
    return listener.FilterChain(
        filters=[manager],
        transport_socket=clusters.downstream_tls(options),
        transport_socket_connect_timeout=timedelta(seconds=routes.HANDSHAKE_S),
    )


def _listener(options: SidecarOptions) -> listener.Listener:
    return listener.Listener(
        name="apiserver",
        address=clusters.address(options.listen),
        filter_chains=[filter_chain(options, routes.FLUSH_S)],
        per_connection_buffer_limit_bytes=routes.BUFFER_BYTES,
    )


def _http(options: SidecarOptions) -> hcm.HttpConnectionManager:
    return hcm.HttpConnectionManager(
        stat_prefix="apiserver",
        route_config=_routes(options),
        http_filters=_filters(options),
        # Only where a route says so.
        upgrade_configs=[hcm.HttpConnectionManagerUpgradeConfig(upgrade_type=name, enabled=False) for name in UPGRADES],
        # A watch may be silent for as long as nothing changes.
        stream_idle_timeout=timedelta(0),
        request_timeout=timedelta(seconds=options.body_timeout_s),
        request_headers_timeout=timedelta(seconds=routes.HEAD_S),
        common_http_protocol_options=core.HttpProtocolOptions(idle_timeout=timedelta(seconds=routes.IDLE_S)),
        http2_protocol_options=routes.downstream_http2(),
        # One spelling for the routes, the gate and the API server. An escaped slash could make two segments of one.
        normalize_path=True,
        path_with_escaped_slashes_action=hcm.HttpConnectionManagerPathWithEscapedSlashesAction.REJECT_REQUEST,
        # Doubled slashes mean something below /proxy/; a write with any goes to the gate (routes.ODD).
        merge_slashes=False,
        # The client's address goes into x-forwarded-for, for the API server's audit log. No address is internal (there
        # is no internal_address_config), so that no client can ask for retries or more time by x-envoy-* headers.
        use_remote_address=True,
        server_header_transformation=hcm.HttpConnectionManagerServerHeaderTransformation.PASS_THROUGH,
        local_reply_config=replies.config(),
        access_log=replies.access_logs(options.access_log),
    )


def _filters(options: SidecarOptions) -> list[hcm.HttpFilter]:
    filters: dict[str, betterproto2.Message] = {}
    if options.anonymous is Anonymous.VERIFY:
        filters[NAME] = verify_filter(options.apiserver_name)
    if options.clamp:
        filters[EXT_PROC] = ext_proc_filter(options.requester)
    filters[replies.EXT_AUTHZ] = _ext_authz(options)
    if options.on_outage is Outage.DENY:
        filters[replies.RBAC] = _decided()
    filters["envoy.filters.http.router"] = router.Router(suppress_envoy_headers=True)
    return [hcm.HttpFilter(name=name, typed_config=Any.pack(config)) for name, config in filters.items()]


def _decided() -> rbac_filter.Rbac:
    """Nothing passes without a decision id. An empty CheckResponse means OK to ext_authz, whoever sent it."""
    decided = rbac.Policy(
        permissions=[
            rbac.Permission(
                sourced_metadata=rbac.SourcedMetadata(
                    metadata_matcher=replies.decision_id(matcher.ValueMatcher(present_match=True))
                )
            )
        ],
        principals=[rbac.Principal(any=True)],
    )
    return rbac_filter.Rbac(rules=rbac.Rbac(action=rbac.RbacAction.ALLOW, policies={"decided": decided}))


def _ext_authz(options: SidecarOptions) -> ext_authz.ExtAuthz:
    return ext_authz.ExtAuthz(
        transport_api_version=core.ApiVersion.V3,
        grpc_service=core.GrpcService(
            envoy_grpc=core.GrpcServiceEnvoyGrpc(cluster_name=clusters.GATE),
            timeout=timedelta(seconds=options.gate_timeout_s),
            retry_policy=clusters.retry_policy(options),
        ),
        # What has not come whole then is no count, and the gate says so. As bytes: protobuf is not UTF-8.
        with_request_body=ext_authz.BufferSettings(
            max_request_bytes=MAX_BODY_BYTES, allow_partial_message=True, pack_as_bytes=True
        ),
        allowed_headers=matcher.ListStringMatcher(
            patterns=[matcher.StringMatcher(exact=name) for name in GATE_SEES_HEADERS]
        ),
        # The gate decides; it changes nothing about what goes to the API server.
        decoder_header_mutation_rules=mutation.HeaderMutationRules(disallow_all=True),
        validate_mutations=True,
        failure_mode_allow=options.on_outage is Outage.ALLOW,
        # Envoy's default on an outage is an empty 403, which an owner would take for a denial.
        status_on_error=envoy_type.HttpStatus(code=envoy_type.StatusCode.ServiceUnavailable),
    )


def _routes(options: SidecarOptions) -> route.RouteConfiguration:
    routes = [
        rendered
        for rule in rules(options.profile, options.exempt_namespaces)
        for rendered in (_checked(rule, options) if rule.checked else _passing(rule, options))
    ]
    everything = route.VirtualHost(name="apiserver", domains=["*"], routes=routes)
    return route.RouteConfiguration(name="apiserver", virtual_hosts=[everything])


def _checked(rule: Rule, options: SidecarOptions) -> list[route.Route]:
    """The filters run wherever a route does not switch them off."""
    action = route.RouteAction(
        cluster=clusters.APISERVER,
        # Finite, and tried once: the ledger must know when a write can land no more (design.md L3). A try's time
        # begins when the body is whole and the connection there. Envoy ignores a route's ``timeout`` beside its
        # ``max_stream_duration`` (``FilterUtility::finalTimeout``), which bounds how long a body may trickle in.
        retry_policy=route.RetryPolicy(num_retries=0, per_try_timeout=timedelta(seconds=options.write_timeout_s)),
        max_stream_duration=route.RouteActionMaxStreamDuration(
            max_stream_duration=timedelta(seconds=options.stream_limit_s)
        ),
    )
    asked = route.Route(name=rule.name, match=_match(rule), route=action, typed_per_filter_config=_by(options))
    return [asked] if options.anonymous is Anonymous.ASK else [_unnamed(rule, options), asked]


def _by(options: SidecarOptions) -> dict[str, Any]:
    """Tells the gate whose writes come this way. It stands in the configuration: a client has no say in it."""
    if not options.requester:
        return {}
    told = ext_authz.CheckSettings(context_extensions={CONTEXT_EXTENSION: options.requester})
    return {replies.EXT_AUTHZ: Any.pack(ext_authz.ExtAuthzPerRoute(check_settings=told))}


def _unnamed(rule: Rule, options: SidecarOptions) -> route.Route:
    """Who names nobody is answered here: no body is waited for and no gate is asked."""
    nobody = route.HeaderMatcher(name="authorization", present_match=True, invert_match=True)
    return route.Route(
        name=f"{rule.name}-anonymous",
        match=_match(rule, nobody),
        direct_response=route.DirectResponseAction(status=401),
        typed_per_filter_config=_not_asked(options),
    )


def _passing(rule: Rule, options: SidecarOptions) -> list[route.Route]:
    """Upgrades go over HTTP/1.1: Go's HTTP/2 server takes none. Envoy would not wait for the body of one, so no other
    route takes any."""
    if not rule.upgrades:
        return [_unchecked(rule, options, route.RouteAction(cluster=clusters.APISERVER, timeout=timedelta(0)))]
    action = route.RouteAction(
        cluster=clusters.APISERVER_UPGRADE,
        timeout=timedelta(0),
        upgrade_configs=[route.RouteActionUpgradeConfig(upgrade_type=name) for name in UPGRADES],
    )
    return [_unchecked(rule, options, action, route.HeaderMatcher(name="upgrade", present_match=True))]


def _unchecked(
    rule: Rule, options: SidecarOptions, action: route.RouteAction, *headers: route.HeaderMatcher
) -> route.Route:
    return route.Route(
        name=rule.name, match=_match(rule, *headers), route=action, typed_per_filter_config=_not_asked(options)
    )


def _not_asked(options: SidecarOptions) -> dict[str, Any]:
    names = [replies.EXT_AUTHZ, replies.RBAC]
    if options.clamp:
        names.insert(0, EXT_PROC)
    if options.anonymous is Anonymous.VERIFY:
        names.insert(0, NAME)
    return {name: Any.pack(route.FilterConfig(disabled=True)) for name in names}


def _match(rule: Rule, *headers: route.HeaderMatcher) -> route.RouteMatch:
    wanted = list(headers)
    if rule.methods is not None:
        method = matcher.StringMatcher(safe_regex=matcher.RegexMatcher(regex=rule.methods))
        wanted.append(route.HeaderMatcher(name=":method", string_match=method))
    if rule.prefix is not None:
        prefix = matcher.StringMatcher(prefix=rule.prefix)
        wanted.append(route.HeaderMatcher(name=":path", string_match=prefix))
    if rule.path is None:
        return route.RouteMatch(prefix="/", headers=wanted)
    return route.RouteMatch(safe_regex=matcher.RegexMatcher(regex=rule.path), headers=wanted)


# The filter that has a count lowered before it is decided upon (mode Clamp): Envoy's ext_proc, before ext_authz.
#
# It may change the body and its length, and nothing else. Where nobody answers, the request goes on as it came.

EXT_PROC = "envoy.filters.http.ext_proc"

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


# The filter that has the API server say who a client is and what it may write, before the gate is asked
# (``--anonymous verify``).
#
# Envoy sends the client's ``authorization`` header, and whom it impersonates, along with a question of its own: a
# SelfSubjectAccessReview of the very write (https://kubernetes.io/docs/reference/access-authn-authz/authorization/).
# The API server answers 401 to a token that it does not take, and else whether that person may write this. It reads
# the path as the API server does (``k8s.io/apiserver/pkg/endpoints/request/requestinfo.go``), so it asks what the API
# server will ask itself. Without an answer nobody is asked.

NAME: Final = "envoy.filters.http.lua"

REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
"""What everybody may ask whom an API server knows (ClusterRole ``system:basic-user``)."""

_SOURCE: Final = """\
local VERBS = {POST = "create", PUT = "update", PATCH = "patch"}

local function text(value)
  return '"' .. (value or ""):gsub('[%%c"\\\\]', function(c) return ("\\\\u%%04x"):format(c:byte()) end) .. '"'
end

-- What a SelfSubjectAccessReview asks about a request.
local function question(method, target)
  local path = target:match("^[^?]*"):gsub("%%%%(%%x%%x)", function(hex) return string.char(tonumber(hex, 16)) end)
  local verb = VERBS[method] or method:lower()
  local parts = {}
  for part in (path:gsub("^/+", "") .. "/"):gmatch("([^/]*)/") do parts[#parts + 1] = part end
  while parts[#parts] == "" do parts[#parts] = nil end  -- a pattern for this would try each of many slashes
  if #parts < 3 or (parts[1] ~= "api" and parts[1] ~= "apis") then
    return '"nonResourceAttributes":{"path":' .. text(path) .. ',"verb":' .. text(method:lower()) .. "}"
  end
  local at, group, namespace = 2, "", ""
  if parts[1] == "apis" then
    at, group = 3, parts[2]
  end
  if parts[at + 1] == "namespaces" then
    namespace = parts[at + 2]
    if parts[at + 3] and parts[at + 3] ~= "status" and parts[at + 3] ~= "finalize" then at = at + 2 end
  end
  return '"resourceAttributes":{"verb":' .. text(verb) .. ',"group":' .. text(group) .. ',"version":' .. text(parts[at])
    .. ',"namespace":' .. text(namespace) .. ',"resource":' .. text(parts[at + 1]) .. ',"name":' .. text(parts[at + 2])
    .. ',"subresource":' .. text(parts[at + 3]) .. "}"
end

-- Over HTTP/1.1: on HTTP/2 an API server leaves the whole connection when it does not know somebody.
function envoy_on_request(handle)
  local given = handle:headers():get("authorization") or ""
  local word = given:match("^%%s*(%%S+) [^ ]")
  if word == nil or word:lower() ~= "bearer" then
    handle:respond({[":status"] = "401"}, "")
    return
  end
  local asked = {
    [":method"] = "POST",
    [":path"] = "%(review)s",
    [":authority"] = "%(authority)s",
    ["authorization"] = given,
    ["content-type"] = "application/json",
    ["accept"] = "application/json",
  }
  for name, value in pairs(handle:headers()) do
    if name:sub(1, 12) == "impersonate-" then
      asked[name] = asked[name] or {}
      table.insert(asked[name], value)
    end
  end
  local about = question(handle:headers():get(":method"), handle:headers():get(":path"))
  local body = '{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{' .. about .. "}}"
  local answer, review = handle:httpCall("%(cluster)s", asked, body, %(timeout_ms)d)
  local status = answer[":status"]
  if status == "201" and review and review:find('"allowed":%%s*true') then return end
  if status == "201" then
    handle:respond({[":status"] = "403"}, "the API server does not let you write this")
  else
    handle:respond({[":status"] = status:sub(1, 1) == "4" and status or "503"}, "")
  end
end
"""


def verify_filter(apiserver_name: str) -> lua.Lua:
    """Answers 401 to whom the API server does not know, and 403 to whom it does not let write."""
    source = _SOURCE % {
        "cluster": clusters.APISERVER_UPGRADE,
        "review": REVIEW,
        "authority": apiserver_name,
        "timeout_ms": timedelta(seconds=VERIFY_TIMEOUT_S) // timedelta(milliseconds=1),
    }
    return lua.Lua(default_source_code=core.DataSource(inline_string=source))
