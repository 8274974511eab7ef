"""The ext_authz server: CheckRequest → Request → decision → CheckResponse, and nothing else.

The protocol is Envoy's ``envoy.service.auth.v3.Authorization``
(https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/auth/v3/external_auth.proto). The messages are those of
xds-protos on protobuf/upb, because betterproto2 parses a CheckRequest ninety times slower. A refusal is worded as the
API server would: a ``metav1.Status`` in JSON, so that client-go shows its sentence.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, TypeAlias

from envoy.config.core.v3.base_pb2 import HeaderValueOption
from envoy.service.auth.v3.attribute_context_pb2 import AttributeContext
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse, DeniedHttpResponse
from google.protobuf.message import DecodeError

from extauthz.core import texts
from extauthz.core.model import Decision, Request, Verdict
from extauthz.core.quota.selectors import CONTEXT_EXTENSION
from extauthz.serve.rpc.heads import Code, Methods, StatusError, Unary

REASONS: dict[Verdict, tuple[HTTPStatus, str]] = {
    Verdict.DENY: (HTTPStatus.FORBIDDEN, "Forbidden"),
    # No Retry-After: with it, client-go tries ten times over and blocks one of the autoscaler's workers meanwhile.
    Verdict.UNAVAILABLE: (HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable"),
}


def of(decision: Decision) -> tuple[int, str]:
    """HTTP code and body of a refusal, which is bounded whatever the client sent. An allowed request has none."""
    tree = {"kind": "Status", "apiVersion": "v1"} | fields(decision)
    return tree["code"], json.dumps(tree, separators=(",", ":"))


def fields(decision: Decision) -> dict[str, Any]:
    """The fields of the Status. An AdmissionReview holds them without kind and version."""
    code, reason = REASONS[decision.verdict]
    return {
        "metadata": {},
        "status": "Failure",
        "message": texts.cut(decision.sentence, texts.MAX_SENTENCE),
        "reason": reason,
        "details": _details(decision),
        "code": code,
    }


def _details(decision: Decision) -> dict[str, Any]:
    """``kind`` is the plural resource, as the API server's own refusals have it (``apierrors.NewForbidden``)."""
    details: dict[str, Any] = {}
    if decision.ref is not None:
        named = {"name": decision.ref.name, "group": decision.ref.group, "kind": decision.ref.resource}
        details |= {key: texts.cut(value, texts.MAX_NAME) for key, value in named.items() if value}
    # The stable code and the id are for programs; the sentence is for people.
    details["causes"] = [{"reason": decision.reason, "message": f"decision {decision.id}"}]
    return details


SERVICE = "envoy.service.auth.v3.Authorization"

MAX_MESSAGE_BYTES = 4 << 20
"""A body of 3 MiB, the API server's own limit, plus Envoy's limit of headers (60 KiB) with room to spare."""

DECISION_ID_HEADER = "x-extauthz-decision-id"

PARTIAL_BODY_HEADER = "x-envoy-auth-partial-body"
"""Set by Envoy itself, after what the client sent, wherever it sends a body along."""

HEADERS = ("content-type", "user-agent")
"""All headers that the core and the log need. No other header goes further than this server, and never
``authorization``, whatever Envoy sends."""

MAX_HEADER = 1_024
"""How many characters of a header go further. The media type is first in ``content-type``, and none is as long."""

Decide: TypeAlias = Callable[[Request], Decision | Awaitable[Decision]]
"""Answers at once, unless something must be fetched first."""

OK, PERMISSION_DENIED = 0, 7
"""google.rpc.Code. Envoy looks only at whether it is 0; the HTTP status goes into ``denied_response``."""


class Checks:
    """The service. Answers checks by ``decide``, which must neither block nor raise."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def methods(self) -> Methods:
        return {f"/{SERVICE}/Check": Unary(self.answer)}

    def answer(self, raw: bytes, timeout_s: float | None = None) -> bytes | Awaitable[bytes]:
        """The bytes of a CheckRequest to those of a CheckResponse: at once, unless something must be fetched first.

        Raises:
            StatusError: they are no CheckRequest.
        """
        try:
            message = CheckRequest.FromString(raw)
        except DecodeError:
            raise StatusError(Code.INTERNAL, "this is no CheckRequest") from None
        decision = self._decide(to_request(message, timeout_s))
        return encoded(decision) if isinstance(decision, Decision) else _awaited(decision)


async def _awaited(decision: Awaitable[Decision]) -> bytes:
    return encoded(await decision)


def to_request(message: CheckRequest, timeout_s: float | None = None) -> Request:
    """The HTTP request that a CheckRequest describes.

    ``path`` carries the query and is not decoded, as the message's documentation says. Envoy fills either ``headers``
    or, with ``encode_raw_headers``, ``header_map``; and either ``body`` or, with ``pack_as_bytes``, ``raw_body``.
    """
    attributes = message.attributes
    http = attributes.request.http
    given = http.headers or _raw_headers(http)
    headers = {}
    for name in HEADERS:
        value = given.get(name)
        if value is not None:
            headers[name] = value.strip()[:MAX_HEADER]
    body = http.raw_body
    truncated = given.get(PARTIAL_BODY_HEADER) == "true"
    if not body and http.body:
        body = http.body.encode()
        truncated = truncated or _spoilt(headers)
    requester = attributes.context_extensions.get(CONTEXT_EXTENSION, "")
    source = _source(attributes.source)
    return Request(http.method, http.path, headers, body, truncated, source, requester, timeout_s)


def _source(peer: AttributeContext.Peer) -> str:
    """The client of Envoy: the name in a verified client certificate, else the address without its port."""
    name: str = peer.principal or peer.address.socket_address.address
    return name


def _raw_headers(http: AttributeContext.HttpRequest) -> Mapping[str, str]:
    """Repeated names are joined with a comma, as Envoy does in ``headers`` and RFC 9110 §5.3 has it."""
    found: dict[str, list[str]] = {}
    for header in http.header_map.headers:
        found.setdefault(header.key.lower(), []).append(header.value or header.raw_value.decode("latin-1"))
    return {name: ",".join(values) for name, values in found.items()}


def _spoilt(headers: Mapping[str, str]) -> bool:
    """Without ``pack_as_bytes`` Envoy replaces bytes that are not UTF-8, so that a binary body is no longer whole."""
    media = headers.get("content-type", "").lower()
    return "protobuf" in media or "cbor" in media


ID_PLACE = b"decision-id-here"
"""Stands in the place of an id, with the same length."""


def encoded(decision: Decision) -> bytes:
    """The bytes of ``to_response``. Where a request is allowed only the id differs, so the rest is made once a reason.

    Measured, that saves a twentieth of a whole check. A length stands before every part of a message
    (https://protobuf.dev/programming-guides/encoding/), so ids of another length go the long way.
    """
    decision_id = decision.id.encode()
    if decision.verdict is Verdict.ALLOW and len(decision_id) == len(ID_PLACE):
        before, after = _around_the_id(decision.reason)
        return before + decision_id + after
    message: bytes = to_response(decision).SerializeToString()
    return message


@lru_cache(maxsize=256)
def _around_the_id(reason: str) -> tuple[bytes, bytes]:
    message: bytes = to_response(Decision(ID_PLACE.decode(), Verdict.ALLOW, reason, "")).SerializeToString()
    before, after = message.split(ID_PLACE)
    return before, after


def to_response(decision: Decision) -> CheckResponse:
    """The CheckResponse that carries a decision, its id always in the dynamic metadata."""
    response = CheckResponse()
    fields = response.dynamic_metadata.fields
    fields["decision_id"].string_value = decision.id
    fields["verdict"].string_value = decision.verdict
    fields["reason"].string_value = decision.reason
    if decision.verdict is Verdict.ALLOW:
        response.status.code = OK
        response.ok_response.SetInParent()
    else:
        response.status.code = PERMISSION_DENIED
        _deny(response.denied_response, decision)
    return response


def _deny(denied: DeniedHttpResponse, decision: Decision) -> None:
    code, body = of(decision)
    denied.status.code = code
    denied.body = body
    denied.headers.extend((_header("content-type", "application/json"), _header(DECISION_ID_HEADER, decision.id)))


def _header(name: str, value: str) -> HeaderValueOption:
    option = HeaderValueOption(append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD)
    option.header.key = name
    option.header.value = value
    return option
