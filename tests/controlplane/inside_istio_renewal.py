"""Run by ``test_istio.py`` in a network namespace: certificates are renewed in a sidecar that a real istiod programs.

They are in volumes as the kubelet keeps them; what names them to Envoy is from the annotations of the rendered pod. The
gate is a real one, with TLS on both sides. Nothing is started anew.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import yaml

from extauthz.demo.certs import Authority
from extauthz.demo.gate import Gate
from tests.controlplane.access import service_account
from tests.controlplane.inside_istio import LISTENER, MERGE, SERVICE_IP, Mesh, main, mesh, network, render
from tests.controlplane.inside_istio_hpa import running_gate
from tests.controlplane.workspace import workload
from tests.envoy.mutual import shown
from tests.envoy.rotation import ROTATIONS, WRITERS, Certificates, Rotation, short_connections
from tests.waiting import eventually

__all__ = ["mesh", "network"]

ROOM = 100_000


@pytest.fixture(scope="module")
def authority(mesh: Mesh) -> Authority:
    """Of what the client is shown."""
    return Authority(mesh.folder)


@pytest.fixture(scope="module")
def certificates(mesh: Mesh, authority: Authority) -> Certificates:
    return Certificates(authority, Authority(mesh.folder, "new CA"), mesh.folder / "volumes", (SERVICE_IP,))


@pytest.fixture(scope="module")
def gate(mesh: Mesh, certificates: Certificates) -> Iterator[Gate]:
    files = certificates.gates
    flags = [f"--tls-cert={files['tls.crt']}", f"--tls-client-ca={files['ca.crt']}"]
    with running_gate(mesh, ROOM, *flags) as gate:
        for writer in range(WRITERS):
            made = workload(f"web-{writer}", 1, {"cpu": "1m"})
            made["metadata"]["namespace"] = "shop"
            mesh.plane.api.create(made)
        yield gate


@pytest.fixture(scope="module")
def client(mesh: Mesh, authority: Authority) -> Client:
    return Client(authority, service_account(mesh.plane, "default", "person", "cluster-admin"))


class Client:
    """As an autoscaler: it dials the service IP, with a token, and trusts the authority."""

    def __init__(self, authority: Authority, token: str) -> None:
        self._trust = ssl.create_default_context(cafile=str(authority.ca))
        self._headers = {"authorization": f"Bearer {token}", "content-type": MERGE}

    def grow(self, writer: int, number: int) -> int:
        """Each over a connection of its own."""
        path = f"/apis/apps/v1/namespaces/shop/deployments/web-{writer}/scale"
        body = json.dumps({"spec": {"replicas": number + 2}})
        with httpx.Client(base_url=f"https://{SERVICE_IP}", verify=self._trust, headers=self._headers) as through:
            return through.patch(path, content=body, timeout=60).status_code


def test_the_sidecar_shows_the_certificate_of_the_volume(
    capsys, mesh: Mesh, certificates: Certificates, gate: Gate, authority: Authority
):
    files = {"cert": certificates.served["tls.crt"], "key": certificates.served["tls.key"]}
    tls = {"ca": "ca.crt", "cert": "tls.crt", "key": "tls.key"}
    files |= {f"gate-{what}": certificates.envoys[file] for what, file in tls.items()}
    told = [f"--gate=127.0.0.1:{gate.port}", "--gate-name=localhost", *(f"--{a}={b}" for a, b in files.items())]
    tree = yaml.safe_load(render(capsys, mesh, *told))
    short_connections(
        [each["patch"]["value"] for each in tree["spec"]["configPatches"] if each["applyTo"] == "CLUSTER"]
    )
    mesh.plane.kubectl("apply", "--filename=-", stdin=json.dumps(tree))
    eventually(lambda: "extauthz" in mesh.sidecar.chains(LISTENER), mesh.diagnosis)
    assert mesh.sidecar.refusals() == []
    pem = Path(certificates.served["tls.crt"]).read_text()
    assert shown(443, authority, SERVICE_IP) == ssl.PEM_cert_to_DER_cert(pem)


def test_certificates_rotated_under_load_no_failed_write(
    mesh: Mesh, certificates: Certificates, gate: Gate, authority: Authority, client: Client
):
    rotation = Rotation(certificates, gate, mesh.sidecar.stat, lambda: shown(443, authority, SERVICE_IP))
    statuses = rotation.under_load(client.grow)
    assert len(rotation.seen) == ROTATIONS + 1
    assert statuses == [200] * len(statuses)

    def lines() -> list[dict[str, object]]:
        return [json.loads(line) for line in (mesh.folder / "access.log").read_text().splitlines()]

    eventually(lambda: len(lines()) >= len(statuses), lambda: (len(lines()), len(statuses)))
    assert len(lines()) == len(statuses)
    assert len({line["decision_id"] for line in lines()}) == len(statuses)
    assert list(gate.events("tls-refused")) == []


def test_the_doctor_tells_of_certificates_that_came_by_sds_which_ends_first(
    capsys, mesh: Mesh, certificates: Certificates, authority: Authority, gate: Gate
):
    """Of the one that Envoy shows to the gate, which no client sees; until it is renewed."""
    admin = "http://" + (mesh.folder / "sidecar-admin").read_text()

    def told() -> str:
        main(["doctor", f"--admin={admin}", "-o", "json"])
        rows = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
        assert rows["accepted"]["verdict"] == "ok"
        return str(rows["certificate"]["found"])

    ending = authority.issue("ending", ("sidecar.example",), lifetime=timedelta(hours=5))
    certificates.envoys.put(tls_crt=ending.cert.read_bytes(), tls_key=ending.key.read_bytes(), ca_crt=certificates.both)
    eventually(lambda: told().startswith("sidecar.example is the first to expire"), told)
    certificates.envoys.issue(authority, certificates.both)
    eventually(lambda: "sidecar.example" not in told(), told)
