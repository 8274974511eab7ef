"""What the doctor looks for, by the names that renderer and servers give. A test (``tests/envoy``) holds them equal.

Repeated here, because the renderer's modules load all of Envoy's messages, and the server's all of gRPC.
"""

from __future__ import annotations

GATE_CLUSTER = "extauthz"
SECRETS = ("serving", "apiserver-ca", "gate-ca", "gate-client")
EXT_AUTHZ = "envoy.filters.http.ext_authz"
RBAC = "envoy.filters.http.rbac"
DECISION_ID_HEADER = "x-extauthz-decision-id"
OUTAGE = "quota gate unavailable"
"""How Envoy's own sentence begins when the gate gives no answer."""
WEBHOOK = 'admission webhook "workspacequotas.extauthz.dev" denied the request'
"""How the API server begins where the webhook refused."""
MAX_BODY_BYTES = 64 * 1024
GATE_SEES_HEADERS = ("content-type", "user-agent", "x-request-id")

ENVOYS = (
    *("accepted", "chain", "listener", "order", "failure mode", "request body", "headers"),
    *("path rules", "watches", "growth timeouts", "trust", "certificate", "token", "canary"),
    *("gate reachable", "gate timeout"),
)
"""Checks of Envoy's way."""
WEBHOOKS_ROW = "webhook"

GROUP, VERSION = "extauthz.dev", "v1alpha1"
DEFINITIONS = ("workspacequotas.extauthz.dev", "workspaceledgers.extauthz.dev")
