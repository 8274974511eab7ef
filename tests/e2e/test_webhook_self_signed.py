"""Two gates that make the webhook's certificate themselves, with the chart's rights, under a real API server."""

from __future__ import annotations

import base64
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.intake.admission import NAME
from extauthz.demo.gate import Gate
from tests.controlplane.access import RBAC, service_account
from tests.controlplane.api import RefusedError
from tests.controlplane.plane import Plane, free_ports, running_plane, write_kubeconfig
from tests.controlplane.workspace import workload
from tests.e2e.doctoring import examined
from tests.rendering import helm
from tests.support import numbered, objects
from tests.support.balancing import Balancer
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("helm")

GATES_OWN = "extauthz-system"
LIFETIME_S = 24
"""Renewed after 16 s, which leaves a busy machine 8 s. An authority lives four times as long, and is renewed after
64 s."""
RENEWED_WITHIN_S = 108
PAUSE_S = 0.5
CHART = (
    "template",
    "extauthz",
    "charts/extauthz",
    f"--namespace={GATES_OWN}",
    "--set=webhook.enabled=true,webhook.certificates=self-signed,grpc.enabled=false",
)
CONFIGURATION = "ValidatingWebhookConfiguration.admissionregistration.k8s.io/v1"


class Gates:
    """Two of them behind one address."""

    def __init__(self, plane: Plane, folder: Path, stack: ExitStack) -> None:
        self.plane, self.api = plane, plane.api
        self.ports = free_ports(2)
        balancer = stack.enter_context(Balancer(self.ports))
        kubeconfig = folder / "gate.kubeconfig"
        rights = helm(*CHART, "--show-only=templates/rbac.yaml")
        for part in ("crd", "ledger-crd"):
            plane.kubectl("apply", "--filename=-", stdin=helm(*CHART, f"--show-only=templates/{part}.yaml"))
        plane.kubectl("create", "namespace", GATES_OWN)
        plane.kubectl("apply", "--filename=-", stdin=rights)
        eventually(lambda: self.api.serves("WorkspaceQuota"))
        token = service_account(plane, GATES_OWN, "extauthz")
        write_kubeconfig(kubeconfig, plane.url, plane.ca, {"token": token})
        self._render = ["render", "webhook", "--url", f"https://127.0.0.1:{balancer.port}"]
        self.install()
        options = [f"--kubeconfig={kubeconfig}", "--ledger=kubernetes", "--window-s=5"]
        self.gates = []
        for number, port in enumerate(self.ports):
            own = [*options, f"--webhook=127.0.0.1:{port}"]
            self.gates.append(
                Gate(
                    "kubernetes",
                    "kubernetes",
                    folder / f"gate-{number}.log",
                    own,
                    grpc="off",
                    serve=numbered.command(["serve"], certificate_lifetime_s=LIFETIME_S),
                )
            )
        for gate in self.gates:
            stack.enter_context(gate)
        eventually(lambda: not any(gate.holding for gate in self.gates))

    def install(self) -> None:
        """What docs/webhook.md says, without an authority."""
        command = [sys.executable, "-m", "extauthz.cli", *self._render]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert "caBundle" not in done.stdout
        self.plane.kubectl("apply", "--filename=-", stdin=done.stdout)

    def bundle(self) -> str:
        """Whom the API server trusts."""
        (hook,) = self.api.get(CONFIGURATION, "extauthz")["webhooks"]
        return base64.b64decode(hook["clientConfig"]["caBundle"]).decode()

    def shown(self, port: int, bundle: str) -> str:
        """When what a gate shows ends. Verified as the API server does."""
        context = ssl.create_default_context(cadata=bundle)
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            certificate = connection.getpeercert()
        assert certificate
        return str(certificate["notAfter"])

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for gate in self.gates for line in gate.events(name)]


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gates]:
    with ExitStack() as stack:
        plane = stack.enter_context(running_plane(folder=tmp_path_factory.mktemp("plane")))
        yield Gates(plane, tmp_path_factory.mktemp("gates"), stack)


@pytest.fixture(scope="module")
def shop(gates: Gates) -> str:
    gates.api.create(objects.quota("shop", {"requests.cpu": "4"}))
    gates.api.create(objects.namespace("shop", workspace="shop"))
    tree = workload("web", 1, {"cpu": "1"})
    tree["metadata"]["namespace"] = "shop"
    eventually(lambda: all(gate.metric("extauthz_quotas") for gate in gates.gates))
    # Until the API server has read the bundle it refuses by itself; and a new ledger grants nothing for a while.
    eventually(lambda: created(gates, tree))
    return "shop"


def created(gates: Gates, tree: dict[str, Any]) -> bool:
    try:
        gates.api.create(tree)
    except RefusedError as error:
        if error.code in (500, 503):
            return False
        raise
    return True


def scale(gates: Gates, namespace: str, replicas: int) -> str:
    """Why it was refused; empty if it was taken."""
    try:
        gates.api.patch("Deployment", "web", namespace, {"spec": {"replicas": replicas}}, sub="scale")
    except RefusedError as error:
        return str(error)
    return ""


def test_growth_is_decided_while_certificates_and_authorities_are_renewed(gates: Gates, shop: str):
    series = 'extauthz_quota_used{quota="shop",resource="requests.cpu"}'
    eventually(lambda: all(gate.metric(series) == 1 for gate in gates.gates))
    first, ends, asked = gates.bundle(), set[str](), 0
    deadline = time.monotonic() + RENEWED_WITHIN_S
    while time.monotonic() < deadline:
        bundle = gates.bundle()
        ends |= {gates.shown(port, bundle) for port in gates.ports}
        for replicas in (2, 1):
            assert scale(gates, shop, replicas) == ""
        said = scale(gates, shop, 5)
        assert f'admission webhook "{NAME}" denied the request' in said
        assert "exceeded workspace quota: shop" in said
        asked += 3
        time.sleep(PAUSE_S)
    assert first not in gates.bundle(), "the first authority has ended"
    assert len(ends) >= 5
    authorities = [line for line in gates.events("certificate-renewed") if line["authority"] == "new"]
    assert 2 <= len(authorities) <= 3, "one gate makes it, the other takes it"
    for gate in gates.gates:
        assert {line["ends"] for line in gate.events("certificate-shown")}
        assert not list(gate.events("certificate-problem"))
        assert 0 < gate.metric('extauthz_certificate_ends_in_seconds{use="webhook"}') <= LIFETIME_S
        assert 0 < gate.metric('extauthz_certificate_ends_in_seconds{use="webhook-authority"}') <= 4 * LIFETIME_S
        assert any(line.get("user") for line in gate.events("decision")), "each was asked"
    assert asked > 30


def test_gates_agree_upon_a_pod_that_is_resized(gates: Gates, shop: str):
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": "lone", "namespace": shop}
    gates.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
    series = 'extauthz_quota_used{quota="shop",resource="requests.cpu"}'
    eventually(lambda: all(gate.metric(series) == 2 for gate in gates.gates))

    def resize(cpu: str) -> None:
        spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
        path = f"/api/v1/namespaces/{shop}/pods/lone/resize"
        gates.api.call("PATCH", path, {"spec": spec}, "application/strategic-merge-patch+json")

    resize("2")
    resize("3")
    with pytest.raises(RefusedError, match="exceeded workspace quota: shop, requested: "):
        resize("4")
    assert "exceeded workspace quota: shop" in scale(gates, shop, 2), "whichever gate is asked"
    eventually(lambda: all(gate.metric(series) == 4 for gate in gates.gates))
    eventually(lambda: all(gate.metric("extauthz_intents") == 0 for gate in gates.gates))
    gates.api.delete("Pod", "lone", shop)
    eventually(lambda: all(gate.metric(series) == 1 for gate in gates.gates))


def test_a_secret_that_is_empty_and_a_bundle_that_is_wrong_are_put_right(gates: Gates, shop: str):
    gates.plane.kubectl(
        *("--namespace", GATES_OWN, "patch", "secret", "extauthz-webhook", "--type=json"),
        '--patch=[{"op": "remove", "path": "/data"}]',
    )
    eventually(lambda: gates.api.get("Secret", "extauthz-webhook", GATES_OWN).get("data"))
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/extauthz"
    nonsense = base64.b64encode(b"nonsense").decode()
    broken = {"webhooks": [{"name": NAME, "clientConfig": {"caBundle": nonsense}}]}
    gates.api.call("PATCH", path, broken, "application/strategic-merge-patch+json")
    eventually(lambda: "exceeded workspace quota: shop" in scale(gates, shop, 5))
    eventually(lambda: scale(gates, shop, 2) == "")


def test_a_gate_without_the_right_is_not_ready_and_says_why(gates: Gates, tmp_path: Path):
    kubeconfig = tmp_path / "kubeconfig"
    plane = gates.plane
    token = service_account(plane, GATES_OWN, "without", "extauthz")
    write_kubeconfig(kubeconfig, plane.url, plane.ca, {"token": token})
    command = ["serve", "--quotas=kubernetes", "--state=kubernetes", "--grpc=off", "--webhook=127.0.0.1:0"]
    command += [f"--kubeconfig={kubeconfig}", f"--http=127.0.0.1:{free_ports(1)[0]}"]
    log = tmp_path / "log"
    with log.open("wb") as out:
        child = subprocess.Popen([sys.executable, "-m", "extauthz.cli", *command], stderr=out)
        try:
            eventually(lambda: "certificate-problem" in log.read_text())
        finally:
            child.terminate()
            child.wait(30)
    text = log.read_text()
    assert "is forbidden" in text
    assert "let the gate do that (docs/webhook.md)" in text
    assert '"serving"' not in text
    assert child.returncode == 0


def test_the_configuration_that_is_applied_again_keeps_its_authority(gates: Gates):
    before = gates.bundle()
    gates.install()
    assert gates.bundle().endswith(before[-200:])


def test_the_doctor_says_whether_the_gates_may_make_it(gates: Gates, capsys: pytest.CaptureFixture[str]):
    def row() -> dict[str, str]:
        return examined(capsys, {"kubeconfig": gates.plane.kubeconfig})[1]["webhook certificate"]

    assert row() == row() | {
        "verdict": "ok",
        "found": f"the service account {GATES_OWN}/extauthz may make and renew it",
    }
    role = gates.api.get(f"Role.{RBAC}/v1", "extauthz-webhook", GATES_OWN)
    gates.api.delete(f"Role.{RBAC}/v1", "extauthz-webhook", GATES_OWN)
    try:
        eventually(lambda: row()["verdict"] == "fail")
        assert "may not get secrets extauthz-webhook in" in row()["found"]
        assert "webhookconfigurations" not in row()["found"]
    finally:
        del role["metadata"]["resourceVersion"], role["metadata"]["uid"]
        gates.api.create(role)
