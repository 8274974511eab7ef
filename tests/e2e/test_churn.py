"""After an hour's worth of churn, with real controllers, what is used is what the pods and claims there come to."""

from __future__ import annotations

import contextlib

import pytest

from tests.controlplane.bustle import Bustle
from tests.controlplane.recount import Snapshot, parsed
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")

SEED = 20
WRITES = 150
ROUNDS = 3
SETTLED_WITHIN_S = 120.0
HARD = {
    "requests.cpu": "100k",
    "requests.memory": "1Ti",
    "limits.cpu": "100k",
    "limits.memory": "1Ti",
    "pods": "100k",
    "requests.storage": "1Ti",
    "persistentvolumeclaims": "10k",
    "count/deployments.apps": "1k",
    "count/statefulsets.apps": "1k",
}


def test_what_a_quota_uses_is_what_kubectl_shows_to_be_there(world, workspace):
    assert world.manager.running
    acme, other = workspace(HARD), workspace(HARD)
    for one in (acme, other):
        one.allow_unspecified()
    paid = {
        "apiVersion": "extauthz.dev/v1alpha1",
        "kind": "WorkspaceQuota",
        "metadata": {"name": f"{acme.name}-paid"},
        "spec": {
            "namespaceSelector": {"matchLabels": {"workspace": acme.name}},
            "workloadSelector": {"matchLabels": {"tier": "paid"}},
            "hard": HARD,
            "mode": "Enforce",
            "onUnknown": {"unspecified": "Allow"},
        },
    }
    namespaces = [acme.namespace, other.namespace, acme.add_namespace(f"{acme.name}-moves")]
    with contextlib.closing(world.client()) as gated, contextlib.ExitStack() as stack:
        world.api.create(paid)
        stack.callback(world.api.delete, "WorkspaceQuota", paid["metadata"]["name"])
        limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "70m"}, "default": {"memory": "2Gi"}}]}
        acme.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all"}, "spec": limits})
        bustle = Bustle(SEED, namespaces, [world.api, gated])
        quotas = {
            acme.name: ({"workspace": acme.name}, {}),
            other.name: ({"workspace": other.name}, {}),
            paid["metadata"]["name"]: ({"workspace": acme.name}, {"tier": "paid"}),
        }
        for _ in range(ROUNDS):
            bustle.go(WRITES)
            eventually(
                lambda: not differences(world, quotas, namespaces),
                lambda: differences(world, quotas, namespaces),
                SETTLED_WITHIN_S,
            )


def differences(world, quotas, namespaces) -> list[str]:
    """What is still under way; or else where what is used is not what is there."""
    snapshot = Snapshot(world.kubectl)
    found = list(snapshot.unsettled(namespaces))
    for name, selectors in quotas.items() if not found else ():
        there = snapshot.used(*selectors)
        said = world.api.get("WorkspaceQuota", name).get("status", {}).get("used", {})
        used = {key: parsed(said.get(key, "0")) for key in HARD}
        wrong = [key for key in HARD if used[key] != there.get(key, 0)]
        found += [f"{name} {key}: {float(used[key])} used, {float(there.get(key, 0))} there" for key in wrong]
    return found
