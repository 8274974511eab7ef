"""Run by ``test_istio_doctor.py`` in a network namespace: ``extauthz doctor`` on a sidecar that a real istiod programs.

Each fault of an installation in a mesh, made on purpose, and which rows catch it.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.controlplane import knative
from tests.controlplane.access import service_account
from tests.controlplane.inside_istio import (
    LISTENER,
    SENTENCE,
    SERVICE_IP,
    Mesh,
    main,
    mesh,
    network,
    only_services_of,
    render,
)
from tests.support import authz
from tests.waiting import eventually

__all__ = ["mesh", "network"]

NOWHERE = ("trust", "canary")
"""Istio's own chain leads to no API server here: the Service has no endpoints, as they cannot be loopback addresses. In
a cluster it does, and the canary comes back undecided (``tests/e2e/test_doctor.py``)."""

Rows = dict[str, dict[str, str]]
Doctor = Callable[..., Rows]


@pytest.fixture
def doctor(mesh: Mesh, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """In the autoscaler's pod: its sidecar, the service IP, its token; and an administrator's kubeconfig."""
    token = mesh.folder / "token"
    token.write_text(service_account(mesh.plane, "default", "person", "cluster-admin"))
    given = {
        "admin": "http://" + (mesh.folder / "sidecar-admin").read_text(),
        "url": f"https://{SERVICE_IP}",
        "ca": mesh.plane.ca,
        "token-file": token,
        "kubeconfig": mesh.plane.kubeconfig,
        "profile": "autoscaler",
    }
    # Nothing of deploy/ is installed here: what the cluster lacks is another test's.
    others = ("definitions", "rights", "namespace labels")

    def run(**changed: object) -> Rows:
        mesh.gate.answer = authz.deny(403, SENTENCE)
        words = [f"--{name}={value}" for name, value in (given | changed).items() if value is not None]
        main(["doctor", *words, "-o", "json"])
        rows = json.loads(capsys.readouterr().out)["checks"]
        return {each["name"]: each for each in rows if each["name"] not in others}

    return run


def failing(rows: Rows) -> list[str]:
    return [name for name, row in rows.items() if row["verdict"] == "fail"]


@contextmanager
def applied(mesh: Mesh, text: str) -> Iterator[None]:
    """An EnvoyFilter, until the sidecar is again as it was without."""
    mesh.plane.kubectl("apply", "--filename=-", stdin=text)
    try:
        yield
    finally:
        mesh.plane.kubectl("delete", "--filename=-", stdin=text)
        eventually(lambda: "extauthz" not in mesh.sidecar.chains(LISTENER), mesh.diagnosis)


@contextmanager
def installed(
    capsys: pytest.CaptureFixture[str], mesh: Mesh, *words: str, alter: tuple[str, str] = ("", "")
) -> Iterator[None]:
    """The filter of ``istio/``, in force."""
    text = render(capsys, mesh, *words)
    assert alter[0] in text
    with applied(mesh, text.replace(*alter) if alter[0] else text):
        eventually(lambda: "extauthz" in mesh.sidecar.chains(LISTENER), mesh.diagnosis)
        yield


def test_installed_as_istio_shows_it_nothing_fails(capsys, mesh: Mesh, doctor: Doctor):
    with installed(capsys, mesh):
        rows = doctor()
        assert failing(rows) == []
        assert rows["listener"]["found"].startswith(LISTENER)
        assert rows["canary"]["verdict"] == rows["token"]["verdict"] == rows["trust"]["verdict"] == "ok"
        assert doctor(url=None)["listener"]["verdict"] == "ok", "a sidecar's carrier is known by the Service"


def test_without_a_filter_nothing_is_decided(mesh: Mesh, doctor: Doctor):
    assert failing(doctor()) == ["chain", "listener", *NOWHERE, "gate reachable"]


WRONG = {
    "filter-not-selected": ((), ("app: autoscaler", "app: other"), ["chain", "listener", *NOWHERE, "gate reachable"]),
    "listener-renamed": (("--service-ip=10.0.0.9",), ("", ""), ["chain", "listener", *NOWHERE]),
}


@pytest.mark.parametrize(("words", "alter", "wanted"), WRONG.values(), ids=WRONG)
def test_a_filter_that_selects_nothing_is_told(capsys, mesh: Mesh, doctor: Doctor, words, alter, wanted):
    text = render(capsys, mesh, *words)
    text = text.replace(*alter) if alter[0] else text
    text = text.replace("name: extauthz-", "name: wrong-")
    # A second filter, which selects, shows when istiod has sent both: it adds a cluster of another name.
    marker = render(capsys, mesh, "--service-ip=10.0.0.8").replace("name: extauthz-", "name: marker-")
    marker = marker.replace("name: apiserver\n", "name: marker\n", 1)
    with applied(mesh, text), applied(mesh, marker.replace("name: extauthz\n", "name: not-the-gate\n")):
        eventually(lambda: _has_cluster(mesh, "marker"), mesh.diagnosis)
        assert failing(doctor()) == wanted


def _has_cluster(mesh: Mesh, name: str) -> bool:
    address = (mesh.folder / "sidecar-admin").read_text()
    with urllib.request.urlopen(f"http://{address}/clusters", timeout=5) as answer:
        return f"{name}::".encode() in answer.read()


def test_a_pod_that_was_not_patched_so_that_envoy_refused_the_listener_is_told(capsys, mesh: Mesh, doctor: Doctor):
    # Not in the folder of other tests: what Envoy has by SDS it keeps until a listener is drained.
    text = render(capsys, mesh, f"--secrets={mesh.folder / 'unpatched'}")
    (mesh.folder / "unpatched" / "serving.yaml").unlink()
    with applied(mesh, text):
        eventually(mesh.sidecar.refusals, mesh.diagnosis)
        rows = doctor()
        assert failing(rows) == ["accepted", "chain", "listener", *NOWHERE]
        assert "serving.yaml" in rows["accepted"]["found"]


def test_a_sidecar_resource_that_leaves_the_service_out_is_told(capsys, mesh: Mesh, doctor: Doctor):
    """Without ``--url``: Istio's rules let a sidecar's own connections pass, the one rule here has it dial itself."""
    with installed(capsys, mesh):
        mesh.plane.kubectl(
            "apply", "--filename=-", stdin=json.dumps(only_services_of(knative.NAMESPACE, "istio-system/*"))
        )
        eventually(lambda: LISTENER not in mesh.sidecar.listeners(), mesh.diagnosis)
        rows = doctor(url=None)
        assert failing(rows) == ["chain", "listener"]
        assert LISTENER in rows["listener"]["found"]
        mesh.plane.kubectl("apply", "--filename=-", stdin=json.dumps(only_services_of(knative.NAMESPACE, "default/*")))
        eventually(lambda: "extauthz" in mesh.sidecar.chains(LISTENER), mesh.diagnosis)
