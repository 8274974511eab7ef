"""What a person does with the gate, on a cluster with a kubelet, containers, Services, DNS and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import IMAGE, TAGS
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
BURNING = f"""kubectl apply -n shop -f - <<EOF
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: burn
          image: {IMAGE}:{TAGS[0]}
          command: [python3, -S, -c, "while True: pass"]
          resources: {{requests: {{cpu: 100m, memory: 32Mi}}, limits: {{cpu: 100m, memory: 64Mi}}}}
EOF"""
AUTOSCALED = "kubectl -n shop autoscale deployment web --cpu=50% --min=1 --max=12"
REPLICAS = "kubectl -n shop get deployment web -o jsonpath='{.spec.replicas}{\"\\n\"}'"
SENTENCE = "exceeded workspace quota: acme"
GATES = "kubectl -n extauthz-system get pods"
UNASKED = "failed calling webhook"


@pytest.fixture(scope="module")
def shop(installed: Person) -> Person:
    """A namespace under a quota in mode Audit."""
    installed.heading("A quota, for a first week that cannot hurt")
    installed.types("kubectl create namespace shop")
    installed.types("kubectl label namespace shop workspace=acme")
    installed.types(QUOTA.format(name="acme", hard='{requests.cpu: "500m", pods: "20"}', mode="Audit"))
    installed.sees("kubectl get wsq", "0/500m", "True")
    return installed


def test_a_real_hpa_meets_audit_clamp_enforce_and_a_raised_limit(shop: Person):
    shop.heading("Audit: an application that burns CPU grows as before, and it is said what would be refused")
    shop.sees(BURNING, "deployment.apps/web created")
    shop.types(AUTOSCALED)
    shop.sees(REPLICAS, "8")
    shop.sees("kubectl get wsq", "800m/500m")
    shop.sees("kubectl -n shop get events --field-selector reason=WorkspaceQuotaWouldRefuse", SENTENCE)

    shop.heading("Clamp: what fits is granted")
    shop.types("kubectl -n shop delete hpa web")
    shop.types("kubectl -n shop scale deployment web --replicas=1")
    shop.sees("kubectl get wsq", "100m/500m")
    shop.types("""kubectl patch wsq acme --type=merge --patch '{"spec": {"mode": "Clamp"}}'""")
    shop.sees("kubectl get wsq", "Clamp")
    shop.types(AUTOSCALED)
    shop.sees(REPLICAS, "5")
    shop.sees("kubectl -n shop describe hpa web | sed -n '/Conditions/,/Events/p'", SENTENCE, "largest allowed")

    shop.heading("Enforce: what does not fit is refused")
    shop.types("kubectl -n shop delete hpa web")
    shop.types("kubectl -n shop scale deployment web --replicas=1")
    shop.sees("kubectl get wsq", "100m/500m")
    shop.types("""kubectl patch wsq acme --type=merge --patch '{"spec": {"mode": "Enforce"}}'""")
    shop.sees("kubectl get wsq", "Enforce")
    shop.types(AUTOSCALED)
    described = shop.sees("kubectl -n shop describe hpa web | sed -n '/Conditions/,$p'", SENTENCE, "largest allowed")
    assert "FailedUpdateScale" in described
    shop.sees(REPLICAS, "4")
    shop.sees("extauthz explain hpa/web -n shop", "it asks for 8", SENTENCE)

    shop.heading("Raised: it grows on by itself")
    shop.types("""kubectl patch wsq acme --type=merge --patch '{"spec": {"hard": {"requests.cpu": "1"}}}'""")
    shop.sees(REPLICAS, "8")
    shop.sees("kubectl -n shop get events --field-selector reason=WorkspaceQuotaHasRoom", "WorkspaceQuotaHasRoom")
    shop.types("kubectl -n shop delete hpa web")
    shop.types("kubectl -n shop scale deployment web --replicas=0")


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
    "upgraded and rolled back": (
        f"helm upgrade extauthz charts/extauthz -n extauthz-system --reuse-values --set image.tag={TAGS[1]} --wait",
        "helm -n extauthz-system rollback extauthz --wait",
    ),
    "evicted": (
        "kubectl create --raw /api/v1/namespaces/extauthz-system/pods/$(kubectl -n extauthz-system get pods -o name |"
        ' head -1 | cut -d/ -f2)/eviction -f - <<< \'{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {}}\'',
    ),
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


def test_writes_are_asked_about_again_after_the_api_server_was_restarted(
    shop: Person, writer: Writer, cluster: Cluster
):
    cluster.end_part("kube-apiserver")
    eventually(lambda: writer.more(100), lambda: writer.failed[-1:])
    assert writer.failed == []


def test_when_gates_are_killed_growth_alone_waits_until_they_are_back(
    shop: Person, writer: Writer, cluster: Cluster, tell
):
    shop.heading("Every gate is killed")
    cluster.inside("pkill", "-KILL", "-f", "extauthz serve")
    less = "kubectl -n shop scale deployment web --replicas=0"
    assert "deployment.apps/web scaled" in shop.types(less), "fewer are never in the way"
    shop.types("kubectl create namespace elsewhere --dry-run=client -o yaml | kubectl apply -f -")
    assert "created" in shop.types("kubectl -n elsewhere create deployment free --image=none.test/none --replicas=0")
    shop.sees(GATES, "1/1")
    shop.sees("kubectl -n extauthz-system rollout status deployment extauthz | tail -1", "successfully rolled out")
    eventually(lambda: writer.more(100), lambda: writer.failed[-1:], within_s=300)
    tell(f"all gates killed: {len(writer.failed)} writes failed until one was back")
    assert {UNASKED in each or "503" in each for each in writer.failed} <= {True}, writer.failed


def test_a_release_is_found_well_by_helm_test(shop: Person):
    shop.heading("helm test")
    said = shop.types("helm -n extauthz-system test extauthz --logs")
    assert "Phase:          Succeeded" in said, said
    assert "webhook authority    ok" in said, said


def test_a_release_that_is_uninstalled_blocks_nobody(shop: Person):
    shop.heading("Uninstalled")
    shop.types("helm -n extauthz-system uninstall extauthz --wait")
    assert "extauthz" not in shop.types("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations")
    assert "scaled" in shop.types("kubectl -n busy scale deployment counted --replicas=50")
    assert "created" in shop.types("kubectl -n shop create deployment late --image=none.test/none --replicas=0")
    left = shop.types("kubectl get all,clusterroles,clusterrolebindings,secrets,configmaps -A -o name | grep extauthz")
    assert set(left.split()) <= {"secret/extauthz-webhook", "pod/extauthz-doctor"}, left
    shop.types("kubectl delete wsq --all")
    shop.types("kubectl delete crd workspacequotas.extauthz.dev workspaceledgers.extauthz.dev")
    assert "deleted" in shop.types("kubectl delete namespace shop busy elsewhere extauthz-system")
