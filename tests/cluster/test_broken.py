"""What is told, and to whom, while a part of the cluster is broken: no DNS, a foreign authority, somebody who
answers in the gates' place.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from extauthz.serve.service.reaching import ALLOWED
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import APP, GATE
from tests.cluster.typed import Person
from tests.waiting import eventually

pytestmark = pytest.mark.cluster

TOLD_WITHIN_S = 120
"""What metric, status and alert promise (docs/metrics.md), without the minute that the alert waits."""
GATES = "kubectl -n extauthz-system"
GROW = "kubectl -n yard scale deployment web --replicas=9 --dry-run=server"
REFUSED = "exceeded workspace quota: yard"
ASKED = "kubectl get wsq yard -o jsonpath='{.status.conditions[?(@.type==\"Asked\")]}'"
METRIC = (
    "kubectl get --raw /api/v1/namespaces/extauthz-system/services/extauthz:9192/proxy/metrics"
    " | grep ^extauthz_webhook_reached"
)
READY = (
    "kubectl get --raw /api/v1/namespaces/extauthz-system/pods/"
    f"$({GATES} get pods --selector='app.kubernetes.io/name=extauthz,liar!=yes' --output=name | sed '1!d;s,pod/,,')"
    ":9192/proxy/readyz"
)
RIGHTS = "clusterrole extauthz-webhook"
UNTRUSTED = "certificate signed by unknown authority"
PAUSE = "import signal; signal.pause()"
QUOTA = """apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: yard}
spec: {hard: {pods: '3'}, mode: Enforce}"""
LIAR = """
import http.server, json, ssl
class Liar(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": True}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(review).encode())
server = http.server.ThreadingHTTPServer(("", 9443), Liar)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
"""It has the gates' key, and allows whatever is asked."""


@pytest.fixture(scope="module")
def yard(installed: Person) -> Iterator[Person]:
    """A namespace under a quota of three pods, with two."""
    installed.types("kubectl create namespace yard && kubectl label namespace yard workspace=yard")
    installed.types(f'kubectl apply -f - <<< "{QUOTA}"')
    installed.sees("kubectl wait --for=condition=Ready wsq/yard", "condition met")
    installed.types(f"kubectl -n yard create deployment web --image={APP}:1 --replicas=2 -- python3 -c '{PAUSE}'")
    installed.types("kubectl -n yard rollout status deployment web --timeout=200s")
    yield installed
    installed.types("kubectl delete namespace yard && kubectl delete wsq yard")


@pytest.fixture(scope="module")
def inside(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Who reaches what the API server reaches."""
    return Person(cluster, tmp_path_factory.mktemp("inside") / "person", inside=True)


def told(person: Person, line: str, *words: str) -> None:
    """A line shows all these words in time."""
    last = ""

    def shows() -> bool:
        nonlocal last
        last = " ".join(person.run(line).stdout.split())
        return all(word in last for word in words)

    eventually(shows, lambda: f"{line}: {words} is not in {last}", within_s=TOLD_WITHIN_S, every_s=0.5)


DOCTOR = "COLUMNS=1000 extauthz doctor --kubeconfig $KUBECONFIG --canary yard/web"


@contextlib.contextmanager
def stopped(cluster: Cluster, part: str) -> Iterator[None]:
    """A part of the node gives no answer."""
    process = (cluster.place.logs / f"{part}.pid").read_text()
    cluster.inside("kill", "-STOP", process)
    try:
        yield
    finally:
        cluster.inside("kill", "-CONT", process)


def test_without_dns_new_gates_start_and_decide_and_helm_test_finds_them_well(yard: Person, cluster: Cluster):
    yard.heading("DNS does not answer")
    resolve = "import socket; socket.gethostbyname('kubernetes.default.svc.cluster.local')"
    asks = f'kubectl -n yard exec deploy/web -- python3 -c "{resolve}"'
    yard.types(asks)
    with stopped(cluster, "coredns"):
        assert "name resolution" in yard.run(asks).stdout
        yard.types(f"{GATES} rollout restart deployment extauthz")
        yard.sees(f"{GATES} rollout status deployment extauthz | tail -1", "successfully rolled out")
        assert REFUSED in yard.run(GROW).stdout
        said = yard.types("helm -n extauthz-system test extauthz --logs")
    assert "Phase:          Succeeded" in said
    assert "webhook authority    ok" in said


CANARY = {"Fail": "→ see the row webhook authority", "Ignore": "webhook canary warn"}


@contextlib.contextmanager
def without_rights(person: Person) -> Iterator[None]:
    """The gates may not write the authority into the webhook's configuration."""
    rules = person.types(f"kubectl get {RIGHTS} -o jsonpath='{{.rules}}'")
    may_read = json.dumps([one for one in json.loads(rules) if "patch" not in one["verbs"]])
    person.types(f"kubectl patch {RIGHTS} --type=merge -p '{{\"rules\": {may_read}}}'")
    try:
        yield
    finally:
        person.types(f"kubectl patch {RIGHTS} --type=merge -p '{{\"rules\": {rules}}}'")


@pytest.mark.parametrize(
    ("policy", "owner"),
    # The last one is what the chart has set.
    [("Ignore", "scaled"), ("Fail", f"failed calling webhook.*{UNTRUSTED}")],
    ids=["fails open", "fails closed"],
)
def test_a_foreign_authority_is_told_in_time_and_put_right_once_the_gates_may(
    policy: str, owner: str, yard: Person, inside: Person, cluster: Cluster
):
    yard.heading(
        f"The API server trusts a foreign authority, the gates may not put it right, failurePolicy is {policy}"
    )
    foreign = base64.b64encode((cluster.place.keys / "front-proxy-ca.crt").read_bytes()).decode()
    changed = {"clientConfig/caBundle": foreign, "failurePolicy": policy}
    change = [{"op": "replace", "path": f"/webhooks/0/{path}", "value": value} for path, value in changed.items()]
    told(yard, METRIC, "extauthz_webhook_reached 1")
    with without_rights(yard):
        yard.types(
            f"kubectl patch validatingwebhookconfiguration extauthz --type=json -p '{json.dumps(change)}' > /dev/null"
        )
        told(yard, f"{GROW} | grep '{owner}'", owner.partition(".*")[0])
        if policy == "Fail":
            told(yard, ASKED, '"reason":"NotReached"', '"status":"False"')
        told(yard, METRIC, "extauthz_webhook_reached 0")
        told(inside, DOCTOR, "webhook authority fail", CANARY[policy])
    yard.sees(GROW, REFUSED)
    told(yard, ASKED, '"status":"True"')
    told(yard, METRIC, "extauthz_webhook_reached 1")


def liar() -> str:
    """A pod that the gates' Service selects, as JSON."""
    labels = {"app.kubernetes.io/name": "extauthz", "liar": "yes"}
    container = {
        "name": "liar",
        "image": GATE,
        "command": ["python3", "-c", LIAR],
        "ports": [{"name": "webhook", "containerPort": 9443}],
        "readinessProbe": {"tcpSocket": {"port": 9443}, "periodSeconds": 1},
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
    }
    spec = {"containers": [container], "volumes": [{"name": "tls", "secret": {"secretName": "extauthz-webhook"}}]}
    metadata = {"name": "liar", "namespace": "extauthz-system", "labels": labels}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def test_who_allows_all_in_the_gates_place_is_told(yard: Person, inside: Person, cluster: Cluster, tmp_path: Path):
    """An API server keeps its connection, so it asks the liar alone, or not at all."""
    yard.heading("A pod that is no gate answers in their place")
    (tmp_path / "liar.json").write_text(liar())
    yard.types(f"kubectl apply -f {tmp_path / 'liar.json'}")
    yard.types(f"{GATES} wait --for=condition=Ready pod/liar --timeout=120s")
    yard.types(f'{GATES} patch service extauthz --type=merge -p \'{{"spec": {{"selector": {{"liar": "yes"}}}}}}\'')
    cluster.end_part("kube-apiserver")
    yard.sees(GROW, "scaled")
    told(yard, READY, ALLOWED["Fail"])
    told(inside, DOCTOR, "webhook canary warn")
    yard.types(f'{GATES} patch service extauthz --type=json -p \'[{{"op": "remove", "path": "/spec/selector/liar"}}]\'')
    yard.types(f"{GATES} delete pod liar --now")
    yard.sees(GROW, REFUSED)
