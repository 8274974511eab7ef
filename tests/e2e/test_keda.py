"""KEDA's real operator: what it scales itself, and its HPA, stop at the edge of a quota by the webhook, and say why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from extauthz.cli import main
from tests.controlplane import keda
from tests.controlplane.access import service_account
from tests.controlplane.keda import Queue
from tests.controlplane.plane import running_plane, write_kubeconfig
from tests.controlplane.workspace import Workspace, workload
from tests.e2e.clamping import asked
from tests.e2e.webhooked import DENIED, WebhookWorld
from tests.waiting import eventually

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

        message = acme.await_refused("keda-hpa-web")
        assert acme.replicas("web") == 4
        assert DENIED in message
        assert "exceeded workspace quota: busy" in message
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


def test_a_scaled_job_makes_as_many_jobs_as_fit_and_says_why_it_makes_no_more(world: WebhookWorld):
    with Workspace(world, "batch", {"requests.cpu": "5"}) as acme, Queue() as queue:
        template = workload("train", 1, {"cpu": "1"})["spec"]["template"]
        template["spec"]["restartPolicy"] = "Never"
        queue.length = 4
        acme.create(keda.scaled_job("train", queue.trigger, template, parallelism=2, most=4))

        def jobs() -> list[str]:
            return [one["metadata"]["name"] for one in acme.api.list("Job", acme.namespace)]

        def refused() -> list[dict[str, Any]]:
            """KEDA may also say that it gave up a create itself, as it looked at the ScaledJob anew."""
            return [one for one in acme.events("KEDAJobCreateFailed", "train") if DENIED in one["message"]]

        def ready() -> dict[str, Any]:
            found = acme.api.get(keda.SCALED_JOB, "train", acme.namespace).get("status", {}).get("conditions", [])
            return next((dict(one) for one in found if one["type"] == "Ready"), {})

        event = eventually(refused, jobs)[-1]
        assert event["involvedObject"]["kind"] == "ScaledJob"
        assert f'{DENIED}jobs.batch "train-' in event["message"]
        assert "exceeded workspace quota: batch, requested: requests.cpu=2, used: requests.cpu=" in event["message"]
        charged = re.findall("(?:used|reserved): requests.cpu=([0-9]+)", event["message"])
        assert sum(map(int, charged)) == 4, "a Job may not have been seen yet"
        assert "largest allowed parallelism: 1" in event["message"]
        eventually(lambda: (len(jobs()), acme.used()) == (2, 4), lambda: (jobs(), acme.used()))
        eventually(lambda: "system:serviceaccount:keda:keda-operator" in askers(world, jobs()[0]))
        eventually(lambda: "exceeded workspace quota: batch" in ready().get("message", ""), ready)
        assert (ready()["status"], ready()["reason"]) == ("False", "KEDAJobCreateFailed")
        acme.set_hard({"requests.cpu": "8"})
        eventually(lambda: (len(jobs()), acme.used()) == (4, 8), lambda: (jobs(), acme.used()))
        acme.api.delete(keda.SCALED_JOB, "train", acme.namespace)


def test_explain_says_what_keda_does_and_is_refused(world: WebhookWorld, capsys: pytest.CaptureFixture[str]):
    """Pauses, the way from and to zero, and a write that is refused: what it says KEDA goes to, is where KEDA goes."""
    owner = world.folder / "owner"
    token = service_account(world.plane, "default", "owner", "cluster-admin")
    write_kubeconfig(owner, world.plane.url, world.plane.ca, {"token": token})

    def said(what: str = "scaledobject/web") -> dict[str, Any]:
        main(["explain", what, "-n", "told", "--kubeconfig", str(owner), "-o", "json"])
        out, err = capsys.readouterr()
        return dict(json.loads(out)) if out else {"outcome": err, "desiredReplicas": None, "hpa": None}

    def says(outcome: str, desired: int) -> bool:
        found = said()
        return (found["outcome"], found["desiredReplicas"]) == (outcome, desired)

    with Workspace(world, "told", {"requests.cpu": "2"}) as acme, Queue() as queue:
        acme.create(workload("other", 2, {"cpu": "1"}))
        acme.create(workload("web", 0, {"cpu": "1"}))
        eventually(lambda: acme.used() == 2)
        acme.create(keda.scaled_object("web", queue.trigger, least=0, most=5))
        eventually(lambda: says("idle", 0), said)
        queue.length = 3
        eventually(lambda: says("refused", 1), said)
        assert "exceeded workspace quota: told" in said()["sentence"]
        acme.set_hard({"requests.cpu": "4"})
        eventually(lambda: acme.replicas("web") == 1)
        eventually(lambda: said()["hpa"] == "keda-hpa-web", said)
        assert said("deploy/web")["scaledObject"] == "web"

        note = "autoscaling.keda.sh/paused-replicas"
        acme.api.patch(keda.SCALED_OBJECT, "web", acme.namespace, {"metadata": {"annotations": {note: "3"}}})
        assert says("paused", 3)
        assert acme.replicas("web") == 1, "there is no room for it yet"
        acme.set_hard({"requests.cpu": "9"})
        eventually(lambda: acme.replicas("web") == 3, said)
        acme.api.patch(keda.SCALED_OBJECT, "web", acme.namespace, {"metadata": {"annotations": {note: None}}})
        queue.length = 0
        eventually(lambda: acme.replicas("web") == 0, said)
        eventually(lambda: says("idle", 0), said)
        acme.api.delete(keda.SCALED_OBJECT, "web", acme.namespace)
