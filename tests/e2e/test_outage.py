"""A dead gate stops growth and nothing else; it comes back and counts right; a broken one can be rolled out anew."""

from __future__ import annotations

import pytest

from extauthz.tools.render.options import Profile
from tests.controlplane.load import Load
from tests.controlplane.workspace import autoscaler, workload
from tests.controlplane.world import GATES_OWN, WINDOW_S
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")

OUTAGE_S = 60
UNAVAILABLE = "quota gate unavailable"
BROKEN = "registry.test/extauthz:broken"
MENDED = "registry.test/extauthz:mended"


@pytest.fixture
def kill_gate(world):
    """Ends the gate; it is back when the test is over."""
    assert world.manager.running
    yield world.gate.kill
    if not world.gate.running:
        world.gate.start()
    eventually(lambda: not world.gate.holding)


def test_the_controller_manager_works_through_a_minute_without_a_gate_and_only_growth_waits(
    world, workspace, kill_gate
):
    acme = workspace({"requests.cpu": "8"})
    acme.create(workload("web", 2, {"cpu": "1"}))
    acme.await_ready("web", 2)
    acme.busy("900m")
    kill_gate()
    began = world.manager.renewed()
    acme.create(autoscaler("web", most=4))

    # Reads, status, pods, events and rollouts go through the same Envoy.
    acme.create(workload("new", 2, {"cpu": "1"}))
    acme.await_ready("new", 2)
    world.kubectl("rollout", "restart", "deployment/web", f"--namespace={acme.namespace}")
    world.kubectl("rollout", "status", "deployment/web", f"--namespace={acme.namespace}", "--timeout=30s")
    eventually(lambda: acme.events("ScalingReplicaSet", "new"))

    eventually(lambda: UNAVAILABLE in acme.able().get("message", ""), acme.able)
    assert any(UNAVAILABLE in event["message"] for event in acme.events("FailedRescale", "web"))
    said = world.kubectl_through().run("scale", "deployment/web", "--replicas=3", f"--namespace={acme.namespace}")
    assert said.returncode == 1
    assert "Error from server (ServiceUnavailable)" in said.stderr
    assert UNAVAILABLE in said.stderr

    def lasted() -> float:
        return (world.manager.renewed() - began).total_seconds()

    eventually(lambda: lasted() >= OUTAGE_S or not world.manager.running, lasted, within_s=OUTAGE_S + 30)
    assert world.manager.running, "it has given up its lease"
    assert acme.replicas("web") == 2
    world.gate.start()
    acme.await_ready("web", 4)
    eventually(lambda: acme.charged() == 6, acme.charged)


@pytest.mark.parametrize("stop", ["terminate", "kill"])
def test_a_gate_that_restarts_under_load_never_lets_it_over_and_counts_right_again(world, workspace, stop):
    acme = workspace({"requests.cpu": "12"})
    names = [f"web-{number}" for number in range(8)]
    for name in names:
        acme.create(workload(name, 1, {"cpu": "1"}))
    eventually(lambda: acme.charged() == 8, acme.charged)

    with Load(acme, names) as load:
        load.until(lambda: load.grown > 20)
        getattr(world.gate, stop)()
        load.until(lambda: load.refused[503] > 20)
        world.gate.start()
        before = load.grown
        load.until(lambda: load.grown > before + 20)
    assert load.most <= 12, f"over; the slowest write took {load.slowest_s:.1f} s of a window of {WINDOW_S} s"
    assert load.refused[403] > 0, "it never came to the edge; then this test tests nothing"
    counted = sum(each["spec"]["replicas"] for each in acme.api.list("Deployment", acme.namespace))
    eventually(lambda: acme.charged() == counted, lambda: (acme.charged(), counted))


def test_a_broken_gate_is_repaired_by_a_rollout_through_what_it_would_have_filtered(world, workspace, kill_gate):
    acme = workspace({"requests.cpu": "2"})
    acme.create(workload("web", 1, {"cpu": "1"}))
    eventually(lambda: acme.charged() == 1, acme.charged)
    namespace = f"--namespace={GATES_OWN}"
    world.kubelet.broken_images.add(BROKEN)
    world.kubectl("set", "image", "deployment/extauthz", f"gate={BROKEN}", namespace)
    eventually(lambda: BROKEN in world.kubectl("get", "pods", "--output=jsonpath={.items[*].spec..image}", namespace))
    kill_gate()

    kubectl = world.kubectl_through(Profile.WRITES)
    refused = kubectl.run("set", "resources", "deployment/web", "--requests=cpu=2", f"--namespace={acme.namespace}")
    assert UNAVAILABLE in refused.stderr
    kubectl("set", "image", "deployment/extauthz", f"gate={MENDED}", namespace)
    kubectl("rollout", "status", "deployment/extauthz", namespace, "--timeout=30s")
    assert world.api.get("Deployment", "extauthz", GATES_OWN)["status"]["readyReplicas"] == 3

    world.gate.start()  # what the new pod would run

    def scale(replicas: int) -> str:
        return kubectl.run("scale", "deployment/web", f"--replicas={replicas}", f"--namespace={acme.namespace}").stderr

    eventually(lambda: not scale(2))  # it holds for W first
    assert f"exceeded workspace quota: {acme.name}" in scale(3)
