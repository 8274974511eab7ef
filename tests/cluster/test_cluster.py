"""What a person does with the gate, on a cluster with a kubelet, containers, Services, DNS and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.typed import Person
from tests.cluster.writers import Writer, administrator, paused
from tests.controlplane.api import Api, RefusedError
from tests.waiting import eventually

pytestmark = pytest.mark.cluster

QUOTA = """kubectl apply -f - <<EOF
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{matchLabels: {{workspace: {name}}}}}
  hard: {hard}
  mode: {mode}
EOF"""


@pytest.fixture(scope="module")
def shop(installed: Person) -> Person:
    """A namespace under a quota in mode Audit."""
    installed.heading("A quota, for a first week that cannot hurt")
    installed.types("kubectl create namespace shop")
    installed.types("kubectl label namespace shop workspace=acme")
    installed.types(QUOTA.format(name="acme", hard='{requests.cpu: "500m", pods: "20"}', mode="Audit"))
    installed.sees("kubectl get wsq", "0/500m", "True")
    return installed


@pytest.fixture
def writer(shop: Person, cluster: Cluster, tmp_path: Path) -> Iterator[Writer]:
    """Writes in a namespace of its own."""
    api = administrator(cluster.kubeconfig, tmp_path / "admin")
    shop.types("kubectl create namespace busy --dry-run=client -o yaml | kubectl apply -f -")
    shop.types("kubectl label namespace busy workspace=busy")
    shop.types(QUOTA.format(name="busy", hard='{requests.cpu: "1"}', mode="Enforce"))
    shop.sees("kubectl wait --for=condition=Ready wsq/busy", "condition met")
    shop.types("kubectl -n busy delete deployment counted --ignore-not-found")
    eventually(lambda: _created(api), within_s=300)
    with Writer(api, "busy", "counted") as writing:
        eventually(lambda: writing.more(20), lambda: writing.failed[-1:])
        writing.failed.clear()
        yield writing
    api.close()


def _created(api: Api) -> bool:
    """Of a new ledger nothing is granted for a landing window."""
    with suppress(RefusedError):
        return bool(api.create(paused("counted", "busy")))
    return False


STEPS = {
    "restarted": ("kubectl -n extauthz-system rollout restart deployment extauthz",),
    "given a new certificate": (
        "kubectl -n extauthz-system patch secret extauthz-webhook --type=json"
        """ --patch '[{"op": "remove", "path": "/data"}]'""",
    ),
}


@pytest.mark.parametrize("what", STEPS)
def test_no_write_fails_while_gates_are(what: str, shop: Person, writer: Writer, tell):
    shop.heading(f"Gates are {what} under twenty writes a second")
    for line in STEPS[what]:
        shop.types(line)
        shop.sees("kubectl -n extauthz-system rollout status deployment extauthz | tail -1", "successfully rolled out")
        eventually(lambda: writer.more(100))
    tell(f"gates {what}: {writer.grown} writes grew it, {len(writer.failed)} failed")
    assert writer.failed == []


def test_a_release_is_found_well_by_helm_test(shop: Person):
    shop.heading("helm test")
    said = shop.types("helm -n extauthz-system test extauthz --logs")
    assert "Phase:          Succeeded" in said, said
    assert "webhook authority    ok" in said, said
