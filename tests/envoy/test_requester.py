"""Whose writes come by a listener: its configuration says so to the gate, and no client can."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extauthz.core.quota.requesters import CONTEXT_EXTENSION
from extauthz.testing.stack import SCALE, Stack

KEDA = "system:serviceaccount:keda:keda-operator"
FORGED = {CONTEXT_EXTENSION.replace("/", "-"): "admin", "x-envoy-requester": "admin", "requester": "admin"}


@pytest.fixture(scope="module")
def told(launch) -> Iterator[Stack]:
    yield from launch(requester=KEDA)


@pytest.mark.parametrize("headers", [{}, FORGED])
def test_the_gate_is_told_what_the_configuration_says(told: Stack, headers: dict[str, str]):
    told.forget()
    told.send("PUT", SCALE, content=b"{}", headers=headers)
    (check,) = told.gate.checks
    assert dict(check.attributes.context_extensions) == {CONTEXT_EXTENSION: KEDA}


def test_without_it_the_gate_is_told_nothing(stack: Stack):
    stack.send("PUT", SCALE, content=b"{}", headers=FORGED)
    (check,) = stack.gate.checks
    assert dict(check.attributes.context_extensions) == {}
