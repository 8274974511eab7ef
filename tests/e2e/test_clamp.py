"""Mode Clamp under a real API server, kubectl and HPA, by the mutating webhook. No Envoy asks the gate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from extauthz.tools.render.options import Profile, SidecarOptions
from tests.controlplane.api import RefusedError
from tests.controlplane.plane import running_plane
from tests.controlplane.workspace import Workspace, workload
from tests.e2e.clamping import asked, clamps, forms
from tests.e2e.webhooked import DENIED, WebhookWorld
from tests.waiting import eventually

pytestmark = [pytest.mark.controlplane, pytest.mark.envoy]


class BothWays(WebhookWorld):
    """An Envoy, where a test asks for one, has counts lowered too."""

    mode = "Clamp"

    def _options(self, profile: Profile) -> SidecarOptions:
        return replace(super()._options(profile), clamp=True)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookWorld]:
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        BothWays(plane, tmp_path_factory.mktemp("world"), ("--clamp",)) as running,
    ):
        yield running


def scale(acme: Workspace, replicas: int, *more: str) -> str:
    """What kubectl says, straight at the API server."""
    done = acme.world.kubectl.run("scale", "deployment/web", f"--replicas={replicas}", "-n", acme.namespace, *more)
    return done.stdout + done.stderr


def test_kubectl_scale_is_lowered_to_what_fits_with_a_warning_and_then_denied(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    acme.runs(1)
    said = scale(acme, 9)
    assert "scaled" in said
    assert f"Warning: replicas lowered from 9 to 4: no more requests.cpu in workspace quota {acme.name}" in said
    assert acme.replicas("web") == 4
    eventually(lambda: acme.used() == 4)
    said = scale(acme, 9)
    assert f'{DENIED}deployments.apps "web" is forbidden: exceeded workspace quota: {acme.name}' in said
    assert "largest allowed replicas: 4" in said
    (event,) = eventually(lambda: acme.events("WorkspaceQuotaClamped", "web"))
    assert 'deployments.apps "web" asked for 9 replicas and may have 4: exceeded workspace quota' in event["message"]
    assert acme.events("WorkspaceQuotaExceeded", "web") == [], "it is the same episode"
    (line,) = eventually(lambda: asked(acme, "clamp"))
    assert (line["from"], line["to"], line["clamped_to"]) == (1, 9, 4)
    decided = [("allow", 1), ("allow", 4), ("deny", 9)]
    eventually(lambda: [(one["verdict"], one["to"]) for one in asked(acme, "decision")] == decided)
    assert clamps(acme) == 1


def test_a_dry_run_shows_what_would_come_and_charges_and_tells_nothing(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    acme.runs(1)
    path = f"/apis/apps/v1/namespaces/{acme.namespace}/deployments/web/scale?dryRun=All"
    shown = world.api.call("PATCH", path, {"spec": {"replicas": 9}}, "application/merge-patch+json")
    assert shown["spec"]["replicas"] == 4
    assert (acme.charged(), acme.replicas("web")) == (1, 1)
    (line,) = eventually(lambda: asked(acme, "clamp"))
    assert (line["dry_run"], line["clamped_to"]) == (True, 4)
    assert acme.events("WorkspaceQuotaClamped", "web") == []
    assert clamps(acme) == 0


def test_every_form_of_a_count_is_lowered_and_what_brings_more_than_a_count_is_denied(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    acme.runs(2)
    for name, ask in forms(acme, world.api).items():
        ask()
        assert acme.replicas("web") == 4, name
        eventually(lambda: acme.used() == 4)
        scale(acme, 2)
        eventually(lambda: acme.charged() == 2)
    container = {"name": "main", "resources": {"requests": {"cpu": "1500m"}}}
    dearer = {"spec": {"replicas": 9, "template": {"spec": {"containers": [container]}}}}
    path = f"/apis/apps/v1/namespaces/{acme.namespace}/deployments/web"
    with pytest.raises(RefusedError, match="exceeded workspace quota"):
        world.api.call("PATCH", path, dearer, "application/strategic-merge-patch+json")
    with pytest.raises(RefusedError, match="exceeded workspace quota"):
        acme.create(workload("new", 9, {"cpu": "1"}))
    assert acme.replicas("web") == 2


def test_what_envoy_has_lowered_the_webhook_leaves_as_it_is(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    acme.runs(1)
    through = world.kubectl_through(Profile.WRITES)
    said = through("scale", "deployment/web", "--replicas=9", "-n", acme.namespace)
    assert "scaled" in said
    assert "Warning" not in said
    eventually(lambda: (acme.replicas("web"), acme.used(), acme.charged()) == (4, 4, 4))
    (line,) = eventually(lambda: asked(acme, "clamp"))
    assert "user" not in line, "it was Envoy that asked"
    assert clamps(acme) == 1


@pytest.mark.controlplane("kube-controller-manager")
def test_an_hpa_is_lowered_to_what_fits_then_denied_and_grows_when_the_limit_rises(world, workspace):
    assert world.manager.running
    acme = workspace({"requests.cpu": "3"})
    acme.always_grows(8)

    message = acme.await_refused()
    assert acme.replicas("web") == 3, "lowered to three; at two it asked for four"
    assert f"exceeded workspace quota: {acme.name}" in message
    (line,) = asked(acme, "clamp")
    assert (line["from"], line["to"], line["clamped_to"]) == (2, 4, 3)
    assert line["user"].endswith(":horizontal-pod-autoscaler")
    claimed = [event["message"] for event in acme.events("SuccessfulRescale", "web")]
    assert any("New size: 4" in one for one in claimed), "the HPA says what it asked for"
    assert sum("New size: 4" in one for one in claimed) == 1, "and says it once, as it is denied from then on"
    (event,) = eventually(lambda: acme.events("WorkspaceQuotaClamped", "web")[:1])
    assert "asked for 4 replicas and may have 3" in event["message"]
    acme.set_hard({"requests.cpu": "8"})
    acme.await_ready("web", 8)
    eventually(lambda: acme.able().get("status") == "True", acme.able)


def test_a_dead_gate_lowers_nothing_and_growth_is_refused(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    acme.runs(1)
    world.gate.terminate()
    try:
        said = scale(acme, 9)
        assert 'failed calling webhook "workspacequotas.extauthz.dev"' in said
        assert "scaled" in scale(acme, 1)
    finally:
        world.gate.start()
    eventually(lambda: "scaled" in scale(acme, 9))
    assert acme.replicas("web") == 4
