"""What ``extauthz render kubernetes`` prints: a real API server takes it, whatever was chosen."""

from __future__ import annotations

import pytest

from extauthz.cli import main
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.plane import Plane

pytestmark = pytest.mark.controlplane


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["render", *words]) == 0
    return capsys.readouterr().out


def tried(kubectl: Kubectl, manifests: str) -> list[str]:
    """What a server-side dry run with strict fields would make."""
    done = kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests)
    return [line.partition(" ")[0] for line in done.splitlines()]


@pytest.fixture
def kubectl(plane: Plane, request: pytest.FixtureRequest) -> Kubectl:
    """A dry run makes no namespace that objects could be tried in."""
    for namespace in ("extauthz-system", "keda", "knative-serving"):
        plane.kubectl.run("create", "namespace", namespace)
    return plane.kubectl


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--ledger", "memory", "--replicas", "1", "--mode", "audit", "--log-level", "debug"],
        ["--traffic", "PreferSameZone"],
        ["--traffic", "any"],
    ],
    ids=["defaults", "alone", "same-zone", "any-zone"],
)
def test_the_api_server_takes_the_gate_with_every_field_known(capsys, kubectl: Kubectl, words: list[str]):
    made = tried(kubectl, rendered(capsys, "kubernetes", *words))
    assert "deployment.apps/extauthz" in made
    assert len(made) == 14


def test_a_field_that_is_no_field_would_be_noticed(capsys, kubectl: Kubectl):
    misspelt = rendered(capsys, "kubernetes").replace("trafficDistribution", "traficDistribution")
    with pytest.raises(AssertionError, match="traficDistribution"):
        tried(kubectl, misspelt)
