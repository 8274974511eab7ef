"""Mode Clamp on the Envoy way, under a real API server, HPA and Knative: ext_proc before ext_authz. No webhook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from extauthz.tools.render.options import Profile, SidecarOptions
from tests.controlplane import knative
from tests.controlplane.activator import Activator
from tests.controlplane.api import RefusedError
from tests.controlplane.plane import running_plane
from tests.controlplane.world import World
from tests.e2e.clamping import asked, clamps, forms
from tests.waiting import eventually

pytestmark = [pytest.mark.controlplane("kube-controller-manager"), pytest.mark.envoy]


class ClampWorld(World):
    """Every Envoy is rendered with ``--clamp``."""

    mode = "Clamp"

    def _options(self, profile: Profile) -> SidecarOptions:
        return replace(super()._options(profile), clamp=True)


OBJECTS = ("put", "apply")
"""Forms that are not decided at Envoy."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClampWorld]:
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        ClampWorld(plane, tmp_path_factory.mktemp("world")) as running,
    ):
        yield running


def test_every_form_is_lowered_on_the_version_that_is_there(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    acme.runs(2)
    through = world.client()
    try:
        counts = {name: ask for name, ask in forms(acme, through).items() if name not in OBJECTS}
        for name, ask in counts.items():
            # What a controller writes meanwhile makes the write conflict. Whoever asks, asks again.
            eventually(lambda ask=ask: _done(ask))
            assert acme.replicas("web") == 4, name
            eventually(lambda: acme.used() == 4)
            with pytest.raises(RefusedError, match="largest allowed replicas: 4"):
                ask()
            acme.api.patch("Deployment", "web", acme.namespace, {"spec": {"replicas": 2}}, sub="scale")
            eventually(lambda: acme.charged() == 2)
    finally:
        through.close()
    assert clamps(acme) >= len(counts)


def _done(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except RefusedError as error:
        if error.code not in (409, 422):
            raise
        return False
    return True


@pytest.mark.parametrize("version", knative.versions("autoscaler"))
def test_a_kpa_is_lowered_to_what_fits_and_then_denied(world, workspace, version):
    assert world.manager.running
    acme = workspace({"requests.cpu": "3"})
    server = world.url(Profile.AUTOSCALER)
    with knative.running_autoscaler(world.plane, version, server, world.folder) as child, Activator() as activator:
        for tree in knative.revision(acme.namespace, "hello", {"cpu": "1"}):
            acme.create(tree)
        knative.await_service(world.plane.api, acme.namespace, "hello")
        activator.concurrent[acme.namespace, "hello"] = 8
        eventually(lambda: acme.replicas("hello") == 3, lambda: acme.replicas("hello"))
        said = [event["message"] for event in acme.events("InternalError", "hello")]
        eventually(lambda: any("largest allowed replicas: 3" in one["sentence"] for one in asked(acme, "decision")))
        line = asked(acme, "clamp")[-1]
        assert line["to"] > line["clamped_to"] == 3, said
        assert child.running, child.tail()
