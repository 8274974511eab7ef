"""W is an assumption about Envoy's and the API server's timeouts: the defaults must keep it."""

from __future__ import annotations

from extauthz.core.decision.policy import Policy
from extauthz.render.options import SidecarOptions
from extauthz.service.loading import load
from extauthz.service.settings import ADMITTED_S, policy

API_SERVER_REQUEST_TIMEOUT_S = 60.0
"""``--request-timeout`` of kube-apiserver, by default."""


def test_an_allowed_write_has_landed_or_failed_before_w_by_the_default_timeouts():
    envoy = SidecarOptions()
    longest_s = envoy.gate_timeout_s + envoy.write_timeout_s + API_SERVER_REQUEST_TIMEOUT_S
    assert Policy().window_s >= longest_s + 5


def test_an_admitted_object_is_stored_or_not_before_its_own_shorter_window():
    assert ADMITTED_S >= API_SERVER_REQUEST_TIMEOUT_S + 5
    for given, window_s in (({}, ADMITTED_S), ({"window_s": 200.0}, 200.0), ({"window_s": 20.0}, 20.0)):
        assert policy(load(given, {}, None)).for_admitted_s == window_s
    assert policy(load({"window_s": 200.0, "admitted_window_s": 130.0}, {}, None)).for_admitted_s == 130.0
