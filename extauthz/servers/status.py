"""A refusal as the API server would word it: a ``metav1.Status`` in JSON, so that client-go shows its sentence.

The fields are those of ``k8s.io/apimachinery/pkg/apis/meta/v1/types.go``; how a client turns them into an error is
``pkg/api/errors``. Without ``content-type: application/json`` client-go decodes protobuf and the sentence is lost.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from extauthz.core import texts
from extauthz.core.model import Decision, Verdict

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
