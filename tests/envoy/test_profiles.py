"""The profiles of the filter: what each asks the gate about, and that everything else goes on without a gate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from extauthz.tools.render.envoy import OUTAGE
from extauthz.tools.render.options import Endpoint, Outage, Profile
from tests.support import authz
from tests.support.stack import PATCH, SCALE, Stack, scale_body, status_of, unused_port

APPS = "/apis/apps/v1/namespaces/team-a"
CORE = "/api/v1/namespaces/team-a"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
GATE = "/apis/apps/v1/namespaces/extauthz-system"

SCALES = frozenset(Profile)
PATCHES = frozenset({Profile.AUTOSCALER, Profile.WRITES})
CREATES = frozenset({Profile.WRITES})
NEVER: frozenset[Profile] = frozenset()


class Case(NamedTuple):
    method: str
    path: str
    asked_in: frozenset[Profile]


CASES = {
    "scale-put-by-hpa-or-keda": Case("PUT", f"{APPS}/deployments/web/scale", SCALES),
    "scale-patch-by-kpa": Case("PATCH", f"{APPS}/deployments/web/scale", SCALES),
    "scale-of-a-statefulset": Case("PUT", f"{APPS}/statefulsets/db/scale", SCALES),
    "scale-of-a-replication-controller": Case("PUT", f"{CORE}/replicationcontrollers/rc/scale", SCALES),
    "scale-of-a-custom-resource": Case("PUT", "/apis/acme.io/v1/namespaces/team-a/runners/r/scale", SCALES),
    "scale-in-an-odd-spelling": Case("PATCH", f"{APPS}/deployments/web//scale/", SCALES),
    "patch-by-an-older-kpa": Case("PATCH", f"{APPS}/deployments/web", PATCHES),
    "put-of-a-deployment": Case("PUT", f"{APPS}/deployments/web", PATCHES),
    "patch-of-a-statefulset": Case("PATCH", f"{APPS}/statefulsets/db", PATCHES),
    "patch-of-a-replicaset": Case("PATCH", f"{APPS}/replicasets/web-1", PATCHES),
    "rollout-scales-a-replicaset": Case("PUT", f"{APPS}/replicasets/web-1", PATCHES),
    "patch-in-another-version": Case("PATCH", "/apis/apps/v1beta1/namespaces/team-a/deployments/web", PATCHES),
    "create-a-deployment": Case("POST", f"{APPS}/deployments", CREATES),
    "rollout-creates-a-replicaset": Case("POST", f"{APPS}/replicasets", CREATES),
    "create-a-replication-controller": Case("POST", f"{CORE}/replicationcontrollers", CREATES),
    "read": Case("GET", f"{APPS}/deployments/web", NEVER),
    "read-a-scale": Case("GET", f"{APPS}/deployments/web/scale", NEVER),
    "lease": Case("PUT", f"{LEASES}/kube-system/leases/kube-controller-manager?timeout=5s", NEVER),
    "event": Case("POST", f"{CORE}/events", NEVER),
    "event-of-events.k8s.io": Case("PATCH", "/apis/events.k8s.io/v1/namespaces/team-a/events/web.1", NEVER),
    "status": Case("PUT", f"{APPS}/deployments/web/status", NEVER),
    "status-of-an-autoscaler": Case(
        "PUT", "/apis/autoscaling/v2/namespaces/t/horizontalpodautoscalers/w/status", NEVER
    ),
    "pod": Case("POST", f"{CORE}/pods", NEVER),
    "job": Case("POST", "/apis/batch/v1/namespaces/team-a/jobs", NEVER),
    "token": Case("POST", f"{CORE}/serviceaccounts/hpa/token", NEVER),
    "delete": Case("DELETE", f"{APPS}/deployments/gone", NEVER),
    "rollout-of-the-gate": Case("PATCH", f"{GATE}/deployments/extauthz", NEVER),
    "scale-of-the-gate": Case("PUT", f"{GATE}/deployments/extauthz/scale", NEVER),
    "replicaset-of-the-gate": Case("POST", f"{GATE}/replicasets", NEVER),
}

PROTOBUF = {"content-type": "application/vnd.kubernetes.protobuf"}


def send(stack: Stack, case: Case):
    """As kube-controller-manager would send it: the body plays no part in the routing."""
    return stack.send(case.method, case.path, content=b"k8s\0", headers=PROTOBUF)


@pytest.fixture(scope="module", params=list(Profile))
def guarded(request: pytest.FixtureRequest, launch) -> Iterator[tuple[Profile, Stack]]:
    """One profile, and a gate that refuses whatever it is asked."""
    for stack in launch(profile=request.param):
        stack.gate.answer = authz.deny(403, "no room")
        yield request.param, stack


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_profile_asks_about_what_it_is_for_and_nothing_else(guarded: tuple[Profile, Stack], case: Case):
    profile, stack = guarded
    asked, passed = len(stack.gate.checks), len(stack.api.seen)
    answer = send(stack, case)
    is_asked = profile in case.asked_in
    assert len(stack.gate.checks) - asked == is_asked
    assert len(stack.api.seen) - passed == (not is_asked)
    assert (answer.status_code == 403) == is_asked


@pytest.fixture(scope="module", params=list(Profile))
def orphaned(request: pytest.FixtureRequest, launch) -> Iterator[tuple[Profile, Stack]]:
    """One profile, and no gate."""
    for stack in launch(profile=request.param, gate=Endpoint("127.0.0.1", unused_port()), gate_timeout_s=2.0):
        yield request.param, stack


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_without_a_gate_only_what_is_asked_about_stops_and_says_why(orphaned: tuple[Profile, Stack], case: Case):
    profile, stack = orphaned
    passed = len(stack.api.seen)
    answer = send(stack, case)
    if profile in case.asked_in:
        assert status_of(answer)["message"] == OUTAGE
        assert answer.status_code == 503
    assert len(stack.api.seen) - passed == (profile not in case.asked_in)


@pytest.fixture(scope="module", params=list(Profile))
def lenient(request: pytest.FixtureRequest, launch) -> Iterator[Stack]:
    """Each profile in the variant that lets writes pass while there is no gate; and none is there."""
    no_gate = Endpoint("127.0.0.1", unused_port())
    yield from launch(profile=request.param, on_outage=Outage.ALLOW, gate=no_gate, gate_timeout_s=2.0)


def test_with_allow_on_outage_growth_passes_without_a_gate_in_every_profile(lenient: Stack):
    answer = lenient.send("PATCH", SCALE, content=scale_body(3), headers=PATCH)
    assert (answer.status_code, [one.target for one in lenient.api.writes()]) == (200, [SCALE])
