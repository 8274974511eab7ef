"""The admission webhook under a real API server, kubectl and HPA. No Envoy asks the gate."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from extauthz.tools.render.options import Profile
from tests.controlplane import knative
from tests.controlplane.activator import Activator
from tests.controlplane.api import MERGE, RefusedError, path_of
from tests.controlplane.plane import free_ports, running_plane
from tests.controlplane.workspace import Workspace, workload
from tests.controlplane.world import DEPLOY, WINDOW_S
from tests.e2e.gadgets import GADGETS, ROLLOUTS, gadget, may_see, rollout
from tests.e2e.webhooked import DENIED, WebhookWorld, rendered
from tests.support.custom import RAY, RAY_CLUSTERS, raycluster, worker
from tests.support.objects import quota
from tests.waiting import eventually

pytestmark = [pytest.mark.controlplane, pytest.mark.envoy]

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookWorld]:
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        WebhookWorld(plane, tmp_path_factory.mktemp("world"), CUSTOM, (f"--pod-groups={RAY}",)) as running,
    ):
        yield running


CUSTOM = ("--custom=rollouts.argoproj.io", "--custom=gadgets.e2e.extauthz.dev", "--custom=rayclusters.ray.io")


def scale(acme: Workspace, name: str, replicas: int, *more: str) -> str:
    """What kubectl says, straight at the API server."""
    done = acme.world.kubectl.run("scale", f"deployment/{name}", f"--replicas={replicas}", "-n", acme.namespace, *more)
    return done.stdout + done.stderr


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(RefusedError) as error:
        call()
    return str(error.value)


def test_kubectl_scale_stops_at_the_edge_and_goes_on_when_the_limit_is_raised(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    acme.runs(1)
    assert "scaled" in scale(acme, "web", 4)
    said = scale(acme, "web", 5)
    assert f'{DENIED}deployments.apps "web" is forbidden: exceeded workspace quota: {acme.name}' in said
    assert "largest allowed replicas: 4" in said
    acme.set_hard({"requests.cpu": "5"})
    eventually(lambda: acme.hard() == 5)
    assert "scaled" in scale(acme, "web", 5)
    eventually(lambda: (acme.used(), acme.charged()) == (5, 5))
    assert world.gate.metric("extauthz_intents") == 0, "each ended with the version or the object that it made"


def test_every_writer_and_form_is_asked_about(world, workspace):
    acme = workspace({"requests.cpu": "3"})
    acme.runs(1)
    api, at = world.api, acme.namespace
    whole = api.get("Deployment", "web", at)
    whole["spec"]["replicas"] = 4
    path = f"/apis/apps/v1/namespaces/{at}/deployments"
    json_patch = [{"op": "add", "path": "/spec/replicas", "value": 4}]
    apply = workload("web", 4, {"cpu": "1"})
    asked: dict[str, Callable[[], Any]] = {
        "create": lambda: acme.create(workload("new", 3, {"cpu": "1"})),
        "put": lambda: api.call("PUT", f"{path}/web", whole),
        "merge": lambda: api.patch("Deployment", "web", at, {"spec": {"replicas": 4}}),
        "scale": lambda: api.patch("Deployment", "web", at, {"spec": {"replicas": 4}}, sub="scale"),
        "json-patch": lambda: api.call("PATCH", f"{path}/web/scale", json_patch, "application/json-patch+json"),
        "apply": lambda: api.call(
            "PATCH", f"{path}/web?fieldManager=x&force=true", apply, "application/apply-patch+yaml"
        ),
        "template": lambda: api.call("PUT", f"{path}/web", whole | {"spec": dearer(whole, 1, "4")}),
        "statefulset": lambda: acme.create(workload("new", 3, {"cpu": "1"}, "StatefulSet")),
        "replicaset": lambda: acme.create(workload("new", 3, {"cpu": "1"}, "ReplicaSet")),
    }
    said = {name: refused(call) for name, call in asked.items()}
    for name, sentence in said.items():
        assert f"exceeded workspace quota: {acme.name}" in sentence, (name, sentence)
    assert acme.charged() == 1, "a refusal has charged nothing"


def job(name: str, parallelism: int, **spec: Any) -> dict[str, Any]:
    made = workload(name, parallelism, {"cpu": "1"})
    template = made["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": parallelism, "template": template} | spec
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def test_a_job_is_decided_by_the_pods_that_may_run_at_once(world, workspace):
    acme = workspace({"requests.cpu": "4"})

    def patch(name: str, **spec: Any) -> Any:
        return acme.api.patch("Job", name, acme.namespace, {"spec": spec})

    acme.create(job("few", 5, completions=2))
    eventually(lambda: (acme.used(), acme.charged()) == (2, 2))
    said = refused(lambda: acme.create(job("large", 5)))
    assert f'{DENIED}jobs.batch "large" is forbidden: exceeded workspace quota: {acme.name}' in said
    assert "largest allowed parallelism: 2" in said
    acme.create(job("queued", 9, suspend=True))  # as Kueue does
    assert "largest allowed parallelism: 2" in refused(lambda: patch("queued", suspend=False))
    patch("queued", parallelism=2, suspend=False)
    eventually(lambda: (acme.used(), acme.charged()) == (4, 4))
    assert "exceeded workspace quota" in refused(lambda: patch("queued", parallelism=3))
    patch("queued", parallelism=1)
    eventually(lambda: (acme.used(), acme.charged()) == (3, 3))


def test_a_cron_job_says_that_its_job_was_refused(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    assert world.manager.running
    acme.create(job("small", 1))
    eventually(lambda: acme.used() == 1)
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": job("nightly", 5)["spec"]}}
    acme.create({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec})
    before = (datetime.now(UTC) - timedelta(seconds=90)).strftime("%Y-%m-%dT%H:%M:%SZ")  # so that one is due now
    path = f"/apis/batch/v1/namespaces/{acme.namespace}/cronjobs/nightly/status"
    acme.api.call("PATCH", path, {"status": {"lastScheduleTime": before}}, "application/merge-patch+json")

    def told() -> list[str]:
        path = f"/api/v1/namespaces/{acme.namespace}/events"
        events = acme.api.call("GET", path)["items"]
        return [one["message"] for one in events if one["involvedObject"]["kind"] == "CronJob"]

    eventually(lambda: any(f"exceeded workspace quota: {acme.name}" in one for one in told()), told)
    assert [one["metadata"]["name"] for one in acme.api.list("Job", acme.namespace)] == ["small"]


@pytest.fixture(scope="module")
def customs(world: WebhookWorld) -> None:
    assert world.manager.running, "it aggregates the roles"
    for definition in (ROLLOUTS, GADGETS, RAY_CLUSTERS):
        world.api.create(definition)
        world.api.create(may_see(definition))
    for kind in (ROLLOUT, GADGET, RAY_CLUSTER):
        eventually(lambda kind=kind: world.api.serves(kind))


ROLLOUT, GADGET, RAY_CLUSTER = "Rollout.argoproj.io/v1", "Gadget.e2e.extauthz.dev/v1", "RayCluster.ray.io/v1"


@pytest.mark.usefixtures("customs")
@pytest.mark.parametrize(
    ("kind", "made", "count"), [(ROLLOUT, rollout, "replicas"), (GADGET, gadget, "size")], ids=["rollout", "gadget"]
)
def test_a_custom_resource_is_decided_by_its_object_like_any_workload(world, workspace, kind, made, count):
    acme = workspace({"requests.cpu": "5"})
    acme.create(made("web", 3))
    eventually(lambda: acme.used() == 3, acme.used)

    def patch(spec: Any) -> None:
        acme.api.patch(kind, "web", acme.namespace, {"spec": spec})

    said = refused(lambda: patch({count: 8}))
    assert f"exceeded workspace quota: {acme.name}" in said
    assert "largest allowed replicas: 5" in said
    assert "exceeded workspace quota" in refused(lambda: acme.create(made("new", 3)))
    assert "exceeded workspace quota" in refused(lambda: patch({"template": made("web", 1, "2")["spec"]["template"]}))
    patch({count: 5})
    eventually(lambda: acme.used() == 5, acme.used)
    assert world.gate.metric("extauthz_intents") == 0, "each ended with the version or the object that it made"
    patch({count: 1, "template": made("web", 1, "2")["spec"]["template"]})
    eventually(lambda: acme.used() == 2, acme.used)


@pytest.mark.usefixtures("customs")
@pytest.mark.parametrize(
    ("kind", "made", "count"), [(ROLLOUT, rollout, "replicas"), (GADGET, gadget, "size")], ids=["rollout", "gadget"]
)
def test_the_count_of_a_custom_resource_is_lowered_where_its_object_has_it(world, workspace, kind, made, count):
    acme = workspace({"requests.cpu": "5"}, mode="Clamp")
    acme.create(made("web", 3))
    eventually(lambda: acme.used() == 3, acme.used)
    acme.api.patch(kind, "web", acme.namespace, {"spec": {count: 8}})
    assert acme.api.get(kind, "web", acme.namespace)["spec"][count] == 5


def operate(acme: Workspace, name: str) -> None:
    """What an operator does: pods as the object says, each owned by it."""
    found = acme.api.get(RAY_CLUSTER, name, acme.namespace)
    owner = {key: found[key] for key in ("apiVersion", "kind")} | {"name": name, "uid": found["metadata"]["uid"]}
    wanted = {f"{name}-head": found["spec"]["headGroupSpec"]["template"]}
    for group in found["spec"]["workerGroupSpecs"]:
        wanted |= {f"{name}-{group['groupName']}-{at}": group["template"] for at in range(group["replicas"])}
    there = {one["metadata"]["name"] for one in acme.api.list("Pod", acme.namespace)}
    for one in wanted.keys() - there:
        metadata = {"name": one, "ownerReferences": [owner | {"controller": True}]}
        acme.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": wanted[one]["spec"]})
    for one in there - wanted.keys():
        acme.api.call("DELETE", f"/api/v1/namespaces/{acme.namespace}/pods/{one}?gracePeriodSeconds=0")


def ray(*workers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = raycluster(*workers, **spec)
    return made | {"metadata": {"name": "ray"}}


@pytest.mark.usefixtures("customs")
def test_an_object_with_several_templates_is_decided_whole_and_charged_for_what_its_operator_makes(world, workspace):
    acme = workspace({"requests.cpu": "8", "pods": "20"})

    def patch(**spec: Any) -> None:
        acme.api.patch(RAY_CLUSTER, "ray", acme.namespace, {"spec": spec})

    acme.create(ray(worker("a", 2, {"cpu": "2"}), worker("b", 1, {"cpu": "1"})))
    eventually(lambda: (acme.used(), acme.charged()) == (6, 6), acme.used)
    operate(acme, "ray")
    acme.create(workload("web", 1, {"cpu": "1"}))
    eventually(lambda: (acme.used(), acme.charged()) == (7, 7), acme.used)
    said = refused(lambda: patch(workerGroupSpecs=[worker("a", 2, {"cpu": "2"}), worker("b", 3, {"cpu": "1"})]))
    assert f'{DENIED}rayclusters.ray.io "ray" is forbidden: exceeded workspace quota: {acme.name}' in said
    assert "requested: requests.cpu=2, used: requests.cpu=7, limited: requests.cpu=8" in said
    assert "largest allowed" not in said

    def told() -> list[str]:
        events = acme.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{acme.namespace}/events")["items"]
        ours = [one for one in events if one["reason"] == "WorkspaceQuotaExceeded"]
        return [f"{one['regarding']['kind']} {one['regarding']['name']}: {one['note']}" for one in ours]

    eventually(lambda: any(one.startswith("RayCluster ray: rayclusters.ray.io") for one in told()), told)
    patch(workerGroupSpecs=[worker("a", 1, {"cpu": "2"}), worker("b", 4, {"cpu": "1"})])
    operate(acme, "ray")
    eventually(lambda: (acme.used(), acme.charged()) == (8, 8), acme.used)
    assert "exceeded workspace quota" in refused(lambda: acme.create(ray() | {"metadata": {"name": "other"}}))
    patch(suspend=True)
    for one in acme.api.list("Pod", acme.namespace):
        if one["metadata"]["name"].startswith("ray-"):
            acme.api.call("DELETE", f"/api/v1/namespaces/{acme.namespace}/pods/{one['metadata']['name']}")
    eventually(lambda: (acme.used(), acme.charged()) == (1, 1), acme.used)


@pytest.mark.usefixtures("customs")
def test_pods_by_themselves_are_gated_and_those_of_an_owner_that_is_charged_take_no_room(world, workspace):
    acme = workspace({"requests.cpu": "6"})
    selector = f"kubernetes.io/metadata.name={acme.namespace}"
    more = ("--webhook-pods", f"--namespace-selector={selector}", "--no-clamp")
    (tree,) = rendered(str(world.plane.ca), world.webhook_url, more=more)
    acme.api.create(tree | {"metadata": {"name": "pods"}})

    def bare(name: str, cpu: str) -> dict[str, Any]:
        made: dict[str, Any] = workload("x", 1, {"cpu": cpu})["spec"]["template"]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": made["spec"]}

    def try_bare(name: str, cpu: str) -> str:
        try:
            acme.create(bare(name, cpu))
        except RefusedError as error:
            return str(error)
        acme.api.call("DELETE", f"/api/v1/namespaces/{acme.namespace}/pods/{name}?gracePeriodSeconds=0")
        return ""

    eventually(lambda: "exceeded workspace quota" in try_bare("big", "7"))
    acme.create(ray(worker("a", 2, {"cpu": "2"})))
    eventually(lambda: acme.used() == 5, acme.used)
    operate(acme, "ray")
    acme.create(workload("web", 1, {"cpu": "1"}))
    eventually(lambda: len(acme.api.list("Pod", acme.namespace)) == 4, lambda: acme.api.list("Pod", acme.namespace))
    eventually(lambda: (acme.used(), acme.charged()) == (6, 6), acme.used)
    said = try_bare("one", "1")
    assert f'{DENIED}pods "one" is forbidden: exceeded workspace quota: {acme.name}' in said
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "ray", "controller": True}
    owner["uid"] = acme.api.get(RAY_CLUSTER, "ray", acme.namespace)["metadata"]["uid"]
    fake = bare("fake", "1")
    fake["metadata"]["ownerReferences"] = [owner]
    assert "exceeded workspace quota" in refused(lambda: acme.create(fake)), "it asks for no more pods"
    world.kubectl("delete", "validatingwebhookconfiguration", "pods")


def dearer(whole: dict[str, Any], replicas: int, cpu: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(json.dumps(whole["spec"]))
    spec["replicas"] = replicas
    spec["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return spec


def test_who_is_not_bound_passes_is_charged_and_binds_others(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    acme.runs(1)
    only = {"include": {"serviceAccounts": ["kube-system/horizontal-pod-autoscaler"]}}
    acme.api.patch("WorkspaceQuota", acme.name, None, {"spec": {"requesters": only}})
    hpa = ("--as=system:serviceaccount:kube-system:horizontal-pod-autoscaler", "--as-group=system:masters")
    eventually(lambda: "scaled" in scale(acme, "web", 6))  # the administrator is not bound
    assert DENIED in scale(acme, "web", 7, *hpa)
    decisions = [one for one in world.gate.events("decision") if one.get("workload", "").endswith(f"{acme.name}/web")]
    assert ("allow", "not-bound") in {(one["verdict"], one["reason"]) for one in decisions}
    assert "scaled" in scale(acme, "web", 3, *hpa), "less always passes"
    eventually(lambda: acme.used() == 3, acme.used)


def condition_in_the_readme() -> str:
    shown = (Path(__file__).parents[2] / "README.md").read_text().partition("\n  AbleToScale")[2].partition("\n```")[0]
    return " ".join(f"AbleToScale{shown}".split())


@pytest.mark.controlplane("kube-controller-manager")
def test_an_hpa_stops_at_the_edge_says_why_and_goes_on_when_the_quota_is_raised(world, workspace):
    assert world.manager.running
    acme = workspace({"requests.cpu": "4"})
    acme.always_grows(8)

    message = acme.await_refused()
    assert acme.replicas("web") == 4
    assert f"exceeded workspace quota: {acme.name}" in message
    assert DENIED in message
    said = world.kubectl("describe", "hpa", "web", f"--namespace={acme.namespace}")
    assert condition_in_the_readme() in " ".join(said.replace(acme.name, "acme").split())
    decisions = [one for one in world.gate.events("decision") if one.get("workload", "").endswith(f"{acme.name}/web")]
    assert any(one.get("user", "").endswith(":horizontal-pod-autoscaler") for one in decisions)
    acme.set_hard({"requests.cpu": "8"})
    acme.await_ready("web", 8)
    eventually(lambda: acme.able().get("status") == "True", acme.able)


@pytest.mark.parametrize("version", knative.versions("autoscaler"))
def test_a_kpa_stops_at_the_edge_says_why_and_goes_on_when_the_quota_is_raised(world, workspace, version):
    assert world.manager.running
    acme = workspace({"requests.cpu": "2"})

    def refusals() -> list[str]:
        return [event["message"] for event in acme.events("InternalError", "hello")]

    with knative.running_autoscaler(world.plane, version, world.plane.url, world.folder), Activator() as activator:
        for tree in knative.revision(acme.namespace, "hello", {"cpu": "1"}):
            acme.create(tree)
        knative.await_service(world.plane.api, acme.namespace, "hello")
        activator.concurrent[acme.namespace, "hello"] = 4
        eventually(lambda: any("largest allowed replicas: 2" in one for one in refusals()), refusals)
        assert DENIED in refusals()[-1]
        assert acme.replicas("hello") <= 2
        acme.set_hard({"requests.cpu": "4"})
        eventually(lambda: acme.replicas("hello") == 4, lambda: (acme.replicas("hello"), refusals()))


def test_with_both_ways_in_force_what_passes_envoy_passes_the_webhook_and_is_charged_once(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    through = world.kubectl_through(Profile.WRITES)

    def do(*words: str, stdin: Any = None) -> str:
        done = through.run(*words, "-n", acme.namespace, stdin=json.dumps(stdin) if stdin else "")
        # One change at a time: the next comes once this one is settled, long before its window ends.
        eventually(lambda: world.gate.metric("extauthz_intents") == 0, within_s=WINDOW_S / 2)
        return done.stdout + done.stderr

    def changed(cpu: str, replicas: int, **labels: str) -> dict[str, Any]:
        tree = workload("web", replicas, {"cpu": cpu})
        tree["metadata"]["labels"] = tree["metadata"]["labels"] | labels
        return tree

    assert "created" in do("apply", "-f-", stdin=changed("1", 2))
    assert "configured" in do("apply", "-f-", stdin=changed("1000m", 2, x="y"))
    assert "scaled" in do("scale", "deployment/web", "--replicas=4")
    assert "scaled" in do("scale", "deployment/web", "--replicas=1")
    assert acme.charged() == 1
    assert "configured" in do("apply", "-f-", stdin=changed("2000m", 1))
    assert "updated" in do("set", "env", "deployment/web", "A=b")
    assert acme.charged() == 2
    assert "serverside-applied" in do(
        "apply", "--server-side", "--force-conflicts", "-f-", stdin=changed("4", 1, z="1")
    )
    assert acme.charged() == 4
    assert "exceeded workspace quota" in (said := do("scale", "deployment/web", "--replicas=2"))
    assert "admission webhook" not in said, "Envoy comes first"
    assert "deleted" in do("delete", "deployment/web", "--wait=true")
    assert "created" in do("create", "-f-", stdin=changed("4", 1))
    assert acme.charged() == 4

    def asked() -> list[dict[str, Any]]:
        return [one for one in world.gate.events("decision") if f"/{acme.namespace}/" in one.get("workload", "")]

    eventually(lambda: sum("user" not in one for one in asked()) >= 9, asked)
    by_webhook = {one["reason"] for one in asked() if "user" in one}
    assert by_webhook == {"fits", "no-growth"}, "Envoy was asked first, and the webhook refused nothing"


DENIES_ALL = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "nobody-answers"},
    "webhooks": [
        {
            "name": "nobody-answers.example.dev",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "matchConditions": [{"name": "marked", "expression": "object.metadata.name == 'doomed'"}],
            "rules": [
                {
                    "apiGroups": ["apps"],
                    "apiVersions": ["*"],
                    "operations": ["UPDATE"],
                    "resources": ["deployments", "deployments/scale"],
                }
            ],
        }
    ],
}


def test_a_write_that_another_webhook_refuses_frees_its_room_by_the_end_of_the_window_only(world, workspace):
    acme = workspace({"requests.cpu": "4"})
    acme.create(workload("doomed", 1, {"cpu": "1"}))
    acme.create(workload("other", 1, {"cpu": "1"}))
    eventually(lambda: acme.used() == 2)
    world.api.create(world.configured(json.loads(json.dumps(DENIES_ALL)), *free_ports(1)))
    try:
        # Before the configuration is in force the write lands.
        eventually(lambda: "nobody-answers" in scale(acme, "doomed", 1, "--current-replicas=1") or _again(acme))
        eventually(lambda: acme.charged() == 2, within_s=3 * WINDOW_S)
        assert "nobody-answers" in scale(acme, "doomed", 3)
        assert acme.charged() == 4, "it was admitted here"
        assert "exceeded workspace quota" in scale(acme, "other", 2)
        eventually(lambda: acme.charged() == 2, within_s=3 * WINDOW_S)
        assert "scaled" in scale(acme, "other", 2)
    finally:
        world.api.call("DELETE", f"{CONFIGURATIONS}/nobody-answers")


CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def _again(acme: Workspace) -> bool:
    """One more and back to one: so the next try changes something."""
    acme.api.patch("Deployment", "doomed", acme.namespace, {"metadata": {"annotations": {"n": str(next(_NUMBERS))}}})
    return False


@pytest.mark.controlplane("kube-controller-manager")
def test_a_pod_that_is_resized_in_place_stops_at_the_edge_and_goes_on_when_the_limit_is_raised(world, workspace):
    assert world.manager.running
    acme = workspace({"requests.cpu": "4", "pods": "2"})
    acme.create(workload("web", 2, {"cpu": "1"}))
    acme.await_ready("web", 2)
    eventually(lambda: acme.used() == 2)
    first, second = [one["metadata"]["name"] for one in acme.api.list("Pod", acme.namespace)]

    def resize(name: str, cpu: str) -> None:
        spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
        path = f"/api/v1/namespaces/{acme.namespace}/pods/{name}/resize"
        acme.api.call("PATCH", path, {"spec": spec}, "application/strategic-merge-patch+json")

    resize(first, "3")
    assert acme.charged() == 4, "at once, and not only when it is observed"
    said = refused(lambda: resize(second, "2"))
    assert DENIED in said
    assert f'pods "{second}" is forbidden: exceeded workspace quota: {acme.name}, requested: requests.cpu=1' in said
    eventually(lambda: (acme.used(), acme.charged()) == (4, 4), lambda: (acme.used(), acme.charged()))
    assert world.gate.metric("extauthz_intents") == 0, "it ended with the version that it made"
    acme.set_hard({"requests.cpu": "5", "pods": "2"})
    eventually(lambda: acme.hard() == 5)
    resize(second, "2")
    eventually(lambda: acme.used() == 5)


@pytest.mark.controlplane("kube-controller-manager")
def test_a_dead_webhook_stops_growth_and_nothing_else(world, workspace):
    acme = workspace({"requests.cpu": "9"})
    acme.create(workload("web", 3, {"cpu": "1"}))
    assert world.manager.running
    acme.await_ready("web", 3)
    eventually(lambda: acme.used() == 3)
    world.gate.terminate()
    try:
        assert "failed calling webhook" in scale(acme, "web", 4)
        assert "scaled" in scale(acme, "web", 2)
        acme.api.patch("Deployment", "web", acme.namespace, {"metadata": {"annotations": {"x": "y"}}})
        acme.api.patch("Deployment", "web", acme.namespace, {"status": {"replicas": 9}}, sub="status")
        acme.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any"}})
        own = workload("gate", 1, {"cpu": "1"})
        own["metadata"]["namespace"] = "extauthz-system"
        acme.api.create(own)
        acme.api.patch("Deployment", "gate", "extauthz-system", {"spec": {"replicas": 2}}, sub="scale")
        before = world.manager.renewed()
        eventually(lambda: world.manager.renewed() != before)
    finally:
        world.gate.start()
    acme.api.delete("Deployment", "gate", "extauthz-system")
    eventually(lambda: "scaled" in scale(acme, "web", 4))


def test_the_gates_see_that_the_api_server_does_not_reach_them(world, workspace):
    """As behind a firewall."""

    def reached(value: float) -> bool:
        return f"extauthz_webhook_reached {value}" in world.gate.page("/metrics")

    path = path_of("ValidatingWebhookConfiguration", group="admissionregistration.k8s.io/v1") + "/extauthz"
    hooks = world.api.call("GET", path)["webhooks"]
    eventually(lambda: reached(1.0), within_s=60)
    blocked = [{**one, "clientConfig": {**one["clientConfig"], "url": "https://127.0.0.1:1/validate"}} for one in hooks]
    world.api.call("PATCH", path, {"webhooks": blocked}, MERGE)
    try:
        eventually(lambda: reached(0.0), within_s=60)
        assert "the API server reaches no gate: " in world.gate.page("/readyz")
    finally:
        world.api.call("PATCH", path, {"webhooks": hooks}, MERGE)
    eventually(lambda: reached(1.0), within_s=60)


def test_without_the_definition_nothing_is_limited_and_with_it_what_has_grown_counts(world, workspace):
    """docs/upgrade.md, disaster."""
    acme = workspace({"pods": "2"})
    acme.create(workload("web", 1, {"cpu": "1"}))
    eventually(lambda: acme.used("pods") == 1)
    assert "exceeded workspace quota" in scale(acme, "web", 3)
    world.kubectl("delete", "customresourcedefinition", "workspacequotas.extauthz.dev")
    eventually(lambda: "scaled" in scale(acme, "web", 3))
    world.kubectl("apply", f"--kustomize={DEPLOY}")
    eventually(lambda: world.api.serves("WorkspaceQuota"))
    eventually(lambda: world.api.create(quota(acme.name, {"pods": "2"})))
    more = itertools.count(4)
    eventually(lambda: "exceeded workspace quota" in scale(acme, "web", next(more)))
