"""Each way in which kubectl writes a count passes within the quota, and is refused beyond it with our sentence. Whole
objects are not decided at Envoy.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.controlplane.kubectl import Kubectl
from tests.controlplane.workspace import Workspace, workload
from tests.waiting import eventually

Tree = Any
Done = subprocess.CompletedProcess[str]
Verb = Callable[[Kubectl, str, int], Done]

pytestmark = pytest.mark.controlplane

CPU = "requests.cpu"


def manifest(namespace: str, cpus: int) -> str:
    tree = workload("web", cpus, {"cpu": "1"})
    tree["metadata"]["namespace"] = namespace
    return json.dumps(tree)


def patched(kind: str, patch: Callable[[int], Tree], *more: str) -> Verb:
    def verb(kubectl: Kubectl, namespace: str, cpus: int) -> Done:
        what = ("patch", "deployment", "web", f"--namespace={namespace}", f"--type={kind}", *more)
        return kubectl.run(*what, f"--patch={json.dumps(patch(cpus))}")

    return verb


def from_file(*command: str) -> Verb:
    return lambda kubectl, namespace, cpus: kubectl.run(*command, "--filename=-", stdin=manifest(namespace, cpus))


def on_web(*command: str) -> Verb:
    """``%d`` stands for the CPUs that the workload is to have in all."""

    def verb(kubectl: Kubectl, namespace: str, cpus: int) -> Done:
        *verbs, last = command
        return kubectl.run(*verbs, "deployment/web", f"--namespace={namespace}", last.replace("%d", str(cpus)))

    return verb


def edit(kubectl: Kubectl, namespace: str, cpus: int) -> Done:
    editor = f"sed -i 's/^  replicas: .*/  replicas: {cpus}/'"
    return kubectl.run("edit", "deployment/web", f"--namespace={namespace}", KUBE_EDITOR=editor)


def to(cpus: int) -> Tree:
    return {"spec": {"replicas": cpus}}


VERBS: dict[str, Verb] = {
    "scale": on_web("scale", "--replicas=%d"),
    "scale with a precondition": on_web("scale", "--current-replicas=1", "--replicas=%d"),
    "patch --type=json": patched("json", lambda cpus: [{"op": "replace", "path": "/spec/replicas", "value": cpus}]),
    "patch --type=merge": patched("merge", to),
    "patch --type=strategic": patched("strategic", to),
    "patch --subresource=scale": patched("merge", to, "--subresource=scale"),
    "apply": from_file("apply"),
    "edit": edit,
}
OBJECTS: dict[str, Verb] = {
    "apply --server-side": from_file("apply", "--server-side", "--force-conflicts"),
    "replace": from_file("replace"),
    "set resources": on_web("set", "resources", "--requests=cpu=%d"),
    "create": from_file("create"),
}


@pytest.fixture
def acme(workspace) -> Workspace:
    """Room for 4 CPUs, of which web has one."""
    made: Workspace = workspace({CPU: "4"})
    eventually(lambda: made.hard(CPU) == 4)
    made.create(workload("web", 1, {"cpu": "1"}))
    charges(made, 1)
    return made


def charges(acme: Workspace, cpus: int) -> None:
    """What is used comes to this, and nothing stays reserved."""
    eventually(lambda: acme.used(CPU) == acme.charged(CPU) == cpus, lambda: (acme.used(CPU), acme.charged(CPU)))


def spec(acme: Workspace) -> Tree:
    return acme.api.get("Deployment", "web", acme.namespace)["spec"]


def refusal(acme: Workspace, cpus: int, used: int) -> str:
    return f"exceeded workspace quota: {acme.name}, requested: {CPU}={cpus}, used: {CPU}={used}, limited: {CPU}=4"


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_write_passes_within_the_quota_and_is_refused_beyond_it(world, acme, verb):
    kubectl = world.kubectl_through()
    beyond = verb(kubectl, acme.namespace, 5)
    assert beyond.returncode != 0
    assert refusal(acme, 4, 1) in beyond.stderr
    before = spec(acme)
    within = verb(kubectl, acme.namespace, 3)
    assert within.returncode == 0, within.stderr
    assert spec(acme) != before
    charges(acme, 3)


@pytest.mark.parametrize("verb", OBJECTS.values(), ids=OBJECTS)
def test_a_whole_object_is_not_decided_at_envoy_where_no_webhook_is(world, acme, verb):
    before = spec(acme)
    done = verb(world.kubectl_through(), acme.namespace, 3)
    assert done.returncode != 0
    assert "the quota gate decides replica counts at Envoy" in done.stderr
    assert spec(acme) == before
    charges(acme, 1)


def test_a_dry_run_gets_the_answer_and_is_charged_nothing(world, acme):
    kubectl = world.kubectl_through()
    before = spec(acme)
    for verb in (on_web("scale", "--dry-run=server", "--replicas=%d"), patched("merge", to, "--dry-run=server")):
        assert refusal(acme, 4, 1) in verb(kubectl, acme.namespace, 5).stderr
        within = verb(kubectl, acme.namespace, 4)
        assert within.returncode == 0, within.stderr
        assert acme.charged(CPU) == 1
    assert spec(acme) == before


def test_over_a_quota_that_was_cut_every_way_to_less_passes(world, acme):
    kubectl, here = world.kubectl_through(), f"--namespace={acme.namespace}"
    assert VERBS["scale"](kubectl, acme.namespace, 4).returncode == 0
    charges(acme, 4)
    acme.set_hard({CPU: "1"})
    eventually(lambda: acme.hard(CPU) == 1)
    kubectl("annotate", "deployment/web", "note=1", here)
    kubectl("scale", "deployment/web", "--replicas=3", here)
    charges(acme, 3)
    assert VERBS["scale"](kubectl, acme.namespace, 4).returncode != 0
    kubectl("scale", "deployment/web", "--replicas=0", here)
    charges(acme, 0)
    kubectl("delete", "deployment/web", here)
