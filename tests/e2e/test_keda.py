"""KEDA's real operator: what it scales itself, and its HPA, stop at the edge of a quota by the webhook, and say why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane import keda
from tests.controlplane.api import eventually
from tests.controlplane.keda import Queue
from tests.controlplane.plane import running_plane
from tests.controlplane.workspace import Workspace, condition, workload
from tests.e2e.clamping import asked, clamps
from tests.e2e.webhooked import DENIED, WebhookWorld

pytestmark = [pytest.mark.controlplane("keda-operator", "kube-controller-manager"), pytest.mark.envoy]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookWorld]:
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        WebhookWorld(plane, tmp_path_factory.mktemp("world"), ("--clamp",)) as running,
        keda.running_operator(plane, plane.url, tmp_path_factory.mktemp("keda")),
    ):
        yield running


def askers(world: WebhookWorld, workload: str) -> set[str]:
    """Who asked about it, as the API server says. The log is written a little late."""
    about = [one for one in world.gate.events("decision") if one.get("workload", "").endswith(workload)]
    return {str(one.get("user")) for one in about}


def test_an_idle_workload_is_not_woken_beyond_the_quota_and_is_once_there_is_room(world: WebhookWorld):
    with Workspace(world, "idle", {"requests.cpu": "2"}) as acme, Queue() as queue:
        acme.create(workload("other", 2, {"cpu": "1"}))
        acme.create(workload("web", 0, {"cpu": "1"}))
        eventually(lambda: acme.used() == 2)
        acme.create(keda.scaled_object("web", queue.trigger, least=0, most=5))
        queue.length = 3
        failed = eventually(lambda: acme.events("KEDAScaleTargetActivationFailed", "web"))
        assert DENIED in failed[-1]["message"]
        assert "exceeded workspace quota: idle" in failed[-1]["message"]
        assert acme.replicas("web") == 0
        eventually(lambda: "system:serviceaccount:keda:keda-operator" in askers(world, "idle/web"))
        acme.set_hard({"requests.cpu": "3"})
        eventually(lambda: acme.replicas("web") == 1)
        eventually(lambda: acme.events("KEDAScaleTargetActivated", "web"))
        eventually(lambda: acme.used() == 3)
        acme.api.delete(keda.SCALED_OBJECT, "web", acme.namespace)


def test_its_hpa_stops_at_the_edge_and_goes_on_when_the_quota_is_raised(world: WebhookWorld):
    assert world.manager.running
    with Workspace(world, "busy", {"requests.cpu": "4"}) as acme:
        acme.create(workload("web", 1, {"cpu": "1"}))
        acme.await_ready("web", 1)
        acme.busy("900m")
        trigger = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
        acme.create(keda.scaled_object("web", trigger, least=1, most=8))
        eventually(lambda: acme.api.list("HorizontalPodAutoscaler", acme.namespace))

        def able() -> dict:
            hpa = acme.api.get("HorizontalPodAutoscaler", "keda-hpa-web", acme.namespace)
            return condition(hpa, "AbleToScale")

        eventually(lambda: able().get("reason") == "FailedUpdateScale", lambda: (able(), acme.replicas("web")))
        assert acme.replicas("web") == 4
        assert DENIED in able()["message"]
        assert "exceeded workspace quota: busy" in able()["message"]
        acme.set_hard({"requests.cpu": "8"})
        acme.await_ready("web", 8)
        acme.api.delete(keda.SCALED_OBJECT, "web", acme.namespace)


def test_its_hpa_is_lowered_to_what_fits_then_denied_and_grows_when_the_limit_rises(world: WebhookWorld):
    assert world.manager.running
    with Workspace(world, "lowered", {"requests.cpu": "3"}, "Clamp") as acme:
        acme.create(workload("web", 1, {"cpu": "1"}))
        acme.await_ready("web", 1)
        acme.busy("900m")
        trigger = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
        acme.create(keda.scaled_object("web", trigger, least=1, most=8))
        eventually(lambda: acme.api.list("HorizontalPodAutoscaler", acme.namespace))

        def able() -> dict:
            hpa = acme.api.get("HorizontalPodAutoscaler", "keda-hpa-web", acme.namespace)
            return condition(hpa, "AbleToScale")

        eventually(lambda: able().get("reason") == "FailedUpdateScale", lambda: (able(), acme.replicas("web")))
        assert acme.replicas("web") == 3, "lowered to three; at two it asked for four"
        (line,) = asked(acme, "clamp")
        assert (line["from"], line["to"], line["clamped_to"]) == (2, 4, 3)
        assert clamps(acme) == 1
        acme.set_hard({"requests.cpu": "8"})
        acme.await_ready("web", 8)
        acme.api.delete(keda.SCALED_OBJECT, "web", acme.namespace)


def test_a_workload_that_keda_wakes_is_one_replica_and_is_not_lowered(world: WebhookWorld):
    with Workspace(world, "woken", {"requests.cpu": "2"}, "Clamp") as acme, Queue() as queue:
        acme.create(workload("other", 2, {"cpu": "1"}))
        acme.create(workload("web", 0, {"cpu": "1"}))
        eventually(lambda: acme.used() == 2)
        acme.create(keda.scaled_object("web", queue.trigger, least=0, most=5))
        queue.length = 3
        failed = eventually(lambda: acme.events("KEDAScaleTargetActivationFailed", "web"))
        assert DENIED in failed[-1]["message"]
        assert (acme.replicas("web"), asked(acme, "clamp")) == (0, [])
        acme.api.delete(keda.SCALED_OBJECT, "web", acme.namespace)
