"""W is an assumption about Envoy's and the API server's timeouts: the defaults must keep it."""

from __future__ import annotations

from extauthz.core.decision.policy import Policy
from extauthz.render.options import SidecarOptions

API_SERVER_REQUEST_TIMEOUT_S = 60.0
"""``--request-timeout`` of kube-apiserver, by default."""


def test_an_allowed_write_has_landed_or_failed_before_w_by_the_default_timeouts():
    envoy = SidecarOptions()
    longest_s = envoy.gate_timeout_s + envoy.write_timeout_s + API_SERVER_REQUEST_TIMEOUT_S
    assert Policy().window_s >= longest_s + 5
