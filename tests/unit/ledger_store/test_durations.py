"""Durations that must fit into each other."""

from __future__ import annotations

from extauthz.ledger_store import committing, kubernetes
from extauthz.render.options import SidecarOptions


def test_a_call_to_the_store_fits_into_an_answer_and_an_answer_into_what_envoy_waits():
    assert kubernetes.WITHIN_S < committing.WITHIN_S < SidecarOptions().gate_timeout_s


def test_who_waits_for_another_gate_looks_before_who_waits_for_the_store_and_both_before_who_waits_for_nothing():
    assert 0 < committing.CATCH_UP_S < committing.AGAIN_S < committing.HOUSEKEEPING_S < committing.IDLE_AGAIN_S
