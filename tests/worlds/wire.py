"""The bytes that reach a gate, and its answers: checks and entries of the access log of Envoy's, AdmissionReviews."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

from extauthz.core.model import Decision, Request, Verdict
from extauthz.inputs.settlement.answers import Fate
from extauthz.serve.servers.access_log import EXT_AUTHZ
from tests.worlds.judge import Promise

AUTOSCALER = "127.0.0.1"


class Question(NamedTuple):
    """What a gate is asked about a write."""

    raw: bytes
    """A CheckRequest, or an AdmissionReview."""
    promise: Promise
    """What may land if it is allowed."""
    write: int
    """The number of the write. It may be asked about more than once."""
    dry: bool
    review: str = ""
    """The uid of the AdmissionReview; empty: Envoy asks."""
    is_undecided: bool = False
    """It is more than a count, and Envoy asks."""

    @property
    def by_webhook(self) -> bool:
        """It is the API server that asks."""
        return bool(self.review)

    def __str__(self) -> str:
        promise = self.promise
        count = "as many" if promise.replicas is None else f"{promise.replicas}"
        to = count + (f" at {promise.cpu_m}m" if promise.cpu_m is not None else "")
        on = f" on {promise.only_on}" if promise.only_on else ""
        how = "webhook" if self.by_webhook else "envoy"
        return f"{how}, write {self.write}{', dry' if self.dry else ''}, {promise.key[1]} to {to}{on}"


class Answer(NamedTuple):
    """The answer that Envoy or the API server gets."""

    id: str
    verdict: Verdict
    reason: str
    sentence: str
    metadata: Any = None
    """Dynamic metadata: Envoy keeps it with the request, until that is logged."""


def check(request: Request) -> bytes:
    """A CheckRequest as Envoy's filter makes it, with the body as bytes."""
    message = CheckRequest()
    attributes = message.attributes
    attributes.source.address.socket_address.address = AUTOSCALER
    http = attributes.request.http
    http.method = request.method
    http.path = request.target
    http.headers.update(request.headers)
    http.headers["x-envoy-auth-partial-body"] = "false"
    http.raw_body = request.body
    raw: bytes = message.SerializeToString()
    return raw


def answer(raw: bytes) -> Answer:
    """The answer in a CheckResponse."""
    response = CheckResponse.FromString(raw)
    fields = response.dynamic_metadata.fields
    verdict = Verdict(fields["verdict"].string_value)
    assert (response.status.code == 0) is (verdict is Verdict.ALLOW)
    body = response.denied_response.body
    sentence = json.loads(body)["message"] if body else ""
    return Answer(
        fields["decision_id"].string_value, verdict, fields["reason"].string_value, sentence, response.dynamic_metadata
    )


def reviewed(raw: bytes, uid: str, logged: Decision) -> Answer:
    """The answer in an AdmissionReview. It does not tell its decision's id where it allows: the log does."""
    response = json.loads(raw)["response"]
    assert response["uid"] == uid
    assert response["allowed"] is (logged.verdict is Verdict.ALLOW)
    status = response.get("status", {})
    assert status.get("code", 200) == {Verdict.ALLOW: 200, Verdict.DENY: 403, Verdict.UNAVAILABLE: 503}[logged.verdict]
    return Answer(logged.id, logged.verdict, logged.reason, status.get("message", ""))


def lowered(raw: bytes, uid: str) -> int | None:
    """The count that a mutating webhook puts in place of the one that came; ``None``: it leaves it as it is."""
    response = json.loads(raw)["response"]
    assert response["uid"] == uid
    assert response["allowed"], "it decides nothing"
    if "patch" not in response:
        return None
    ((operation, path, count),) = [tuple(one.values()) for one in json.loads(base64.b64decode(response["patch"]))]
    assert (operation, path) == ("replace", "/spec/replicas")
    return int(count)


def log_entry(given: Answer, fate: Fate) -> bytes:
    """A message of the access log about the end of a write."""
    message = StreamAccessLogsMessage()
    entry = message.http_logs.log_entry.add()
    common, response = entry.common_properties, entry.response
    common.metadata.filter_metadata[EXT_AUTHZ].CopyFrom(given.metadata)
    for flag in fate.flags:
        setattr(common.response_flags, flag, True)
    common.upstream_request_attempt_count = fate.attempts
    if fate.sent:
        common.time_to_first_upstream_tx_byte.nanos = 1
    response.response_code.value = fate.code
    response.response_code_details = fate.details
    raw: bytes = message.SerializeToString()
    return raw
