"""What a person does with the gate, on a cluster with a kubelet, containers, Services, DNS and metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.conftest import NEXT
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


(LEFT_BEHIND,) = re.findall(
    "^kubectl delete .*webhookconfig.*", (ROOT / "docs" / "upgrade.md").read_text(), re.MULTILINE
)
GATES = "kubectl -n extauthz-system"
ROLLED = f"{GATES} rollout status deployment extauthz | tail -1"
UPGRADE = "helm upgrade extauthz charts/extauthz --namespace extauthz-system --reuse-values"
STEPS = {
    "restarted": f"{GATES} rollout restart deployment extauthz",
    "given a new certificate": (
        f"""{GATES} patch secret extauthz-webhook --type=json --patch '[{{"op": "remove", "path": "/data"}}]'"""
    ),
    "upgraded": f"{UPGRADE} --set image.tag={NEXT} | head -3",
    "rolled back": "helm -n extauthz-system rollback extauthz",
    # One node: it is let schedule again while its gates are drained. Their disruption budget has them go one at a time.
    "drained": (
        "(sleep 2; kubectl uncordon node1) & kubectl drain node1 --timeout=240s"
        " --pod-selector=app.kubernetes.io/name=extauthz --delete-emptydir-data"
    ),
}
"""What is done to the gates: no write fails meanwhile (docs/upgrade.md)."""


@pytest.mark.parametrize("what", STEPS)
def test_no_write_fails_while_gates_are(what: str, shop: Person, writer: Writer, tell):
    shop.heading(f"Gates are {what} under twenty writes a second")
    shop.types(STEPS[what])
    shop.sees(ROLLED, "successfully rolled out")
    eventually(lambda: writer.more(100))
    tell(f"gates {what}: {writer.grown} writes grew it, {len(writer.failed)} failed")
    assert writer.failed == []


def test_of_a_killed_gate_only_what_it_was_asked_fails_and_the_others_answer(
    shop: Person, writer: Writer, cluster: Cluster, tell
):
    shop.heading("A gate is killed under twenty writes a second")
    cluster.inside("pkill", "--signal=KILL", "--oldest", "--full", "extauthz serve")
    eventually(lambda: writer.more(20))
    shop.sees(f"{GATES} get pods", "1 (")
    eventually(lambda: writer.more(100))
    tell(f"a gate killed: {writer.grown} writes grew it, {len(writer.failed)} failed: {writer.failed[:2]}")
    assert all("failed calling webhook" in each for each in writer.failed)


def test_writes_go_on_and_are_decided_after_the_api_server_has_restarted(
    shop: Person, writer: Writer, cluster: Cluster, tell
):
    shop.heading("The API server restarts under twenty writes a second")
    cluster.end_part("kube-apiserver")
    eventually(lambda: writer.away)
    eventually(lambda: writer.more(100))
    tell(f"API server restarted: {writer.grown} writes grew it, {writer.away} found none, {len(writer.failed)} failed")
    assert writer.failed == []
    refused = shop.run("kubectl -n busy scale deployment counted --replicas=2000")
    assert "exceeded workspace quota: busy" in refused.stdout


@pytest.mark.parametrize(("policy", "grown"), [("Ignore", True), ("Fail", False)])
def test_while_no_gate_lives_growth_is_what_the_failure_policy_says(policy: str, grown: bool, shop: Person):
    """And less is never refused."""
    shop.heading(f"webhook.failurePolicy={policy}, and no gate lives")
    shop.types(f"{UPGRADE} --set webhook.failurePolicy={policy} | head -3")
    shop.types(f"kubectl -n shop create deployment {policy.lower()} --image=registry.test/app:1 -- sleep 1d")
    shop.types(f"{GATES} scale deployment extauthz --replicas=0")
    shop.sees(f"{GATES} get pods", "No resources found")
    said = shop.run(f"kubectl -n shop scale deployment {policy.lower()} --replicas=2")
    assert (said.returncode == 0) == grown, said.stdout
    shop.types(f"kubectl -n shop scale deployment {policy.lower()} --replicas=0")
    shop.types(f"{GATES} scale deployment extauthz --replicas=3")
    shop.sees(ROLLED, "successfully rolled out")


def test_a_release_is_found_well_by_helm_test(shop: Person):
    shop.heading("helm test")
    said = shop.types("helm -n extauthz-system test extauthz --logs")
    assert "Phase:          Succeeded" in said, said
    assert "webhook authority    ok" in said, said


def test_a_namespace_deleted_without_uninstall_blocks_growth_until_what_upgrade_md_says_is_done(shop: Person):
    """The last one here: it takes the release away."""
    shop.heading("The gate's namespace is deleted, and the release with it is not")
    shop.types("kubectl -n shop create deployment last --image=registry.test/app:1 -- sleep 1d")
    shop.types("kubectl delete namespace extauthz-system")
    assert "failed calling webhook" in shop.run("kubectl -n shop scale deployment last --replicas=2").stdout
    shop.types(LEFT_BEHIND)
    shop.types("kubectl -n shop scale deployment last --replicas=2")
