"""``extauthz check -f``: objects of files, as the webhook would be shown them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli.asking_files import Files
from extauthz.serve.servers.api.rights import Problem
from extauthz.testing import pod
from tests.support.custom import RAY, RAY_CLUSTERS, raycluster, worker
from tests.support.custom import definition as crd
from tests.unit.test_cli_check import STATE, Check
from tests.worlds.objects import definition

SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: {name}{more}}}
spec:
  {replicas}
  template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "1", memory: 2Gi}}}}}}]}}}}
"""


ROLLOUT = """\
apiVersion: argoproj.io/{version}
kind: Rollout
metadata: {{name: {name}, namespace: shop, uid: u9, resourceVersion: "9"}}
spec:
  size: {replicas}
  template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "100m", memory: 1Gi}}}}}}]}}}}
"""
ROLLOUTS = {
    **definition("argoproj.io/v1alpha1", "rollouts", "Rollout", specReplicasPath=".spec.size"),
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
}


def rollout(name: str = "web", replicas: int = 1, version: str = "v1alpha1") -> str:
    return ROLLOUT.format(name=name, replicas=replicas, version=version)


def made(name: str = "db", replicas: str = "replicas: 4", more: str = ", namespace: shop") -> str:
    return SET.format(name=name, replicas=replicas, more=more)


class CheckFiles(Check):
    """Runs the command on objects."""

    def file(self, name: str, text: str) -> str:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    def asked(self, *words: str) -> tuple[int, str]:
        code, out, err = self.run("check", *self.places, *words)
        return code, out + err


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CheckFiles:
    return CheckFiles(tmp_path, capsys)


def test_each_object_with_replicas_gets_a_line_and_one_that_is_refused_its_sentence(check):
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n"
    check.file("app/a.yaml", f"{made()}---\n{service}---\n{made('new')}")
    check.file("app/b.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [STATE["items"][1]]}))
    code, said = check.asked("-f", str(check.directory / "app"))
    first, second, third = said.splitlines()
    assert code == 1
    assert first == "allow       statefulsets.apps shop/db, 3 → 4: fits"
    assert second.startswith(
        'deny        statefulsets.apps shop/new, new, 4: statefulsets.apps "new" is forbidden: exceeded'
    )
    assert "largest allowed replicas: 1" in second
    assert third.startswith("allow       statefulsets.apps shop/db, 3 → 3: ")


def test_a_count_that_a_manifest_leaves_out_stays_as_it_is(check):
    """As with an HPA beside ``kubectl apply``."""
    assert check.asked("-f", check.file("a.yaml", made(replicas="serviceName: db"))) == (
        0,
        "allow       statefulsets.apps shop/db, 3 → 3: no-growth\n",
    )


def test_standard_input_is_read_and_the_namespace_may_be_given(check, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(made(more="").encode())))
    assert check.asked("-f", "-", "-n", "shop")[0] == 0


def test_json_has_the_decisions_with_their_files(check):
    file = check.file("a.yaml", made("new"))
    code, said = check.asked("-f", file, "-o", "json")
    (found,) = json.loads(said)
    assert (code, found["file"], found["decision"]["verdict"], found["decision"]["fits"]) == (1, file, "deny", 1)


def test_what_cannot_be_decided_is_2_and_nothing_to_decide_is_0(check):
    code, said = check.asked("-f", check.file("a.yaml", made(replicas="replicas: many")))
    assert (code, said.split()[0]) == (2, "unavailable")
    assert "spec.replicas: must be a whole number" in said
    assert check.asked("-f", check.file("a.yaml", "apiVersion: v1\nkind: Service\n")) == (
        0,
        "no object with replicas\n",
    )


def test_all_that_is_wrong_is_told_with_file_line_and_field(check):
    file = check.file(
        "a.yaml",
        "---\n".join([made(more=""), made(name='""'), "kind: Deployment\n", "[1]\n", made(more=", namespace: other")])
        + "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, namespace: shop}}\n",
    )
    code, said = check.asked("-f", file)
    assert code == 65
    assert said.splitlines() == [
        f"extauthz: {file}:3: metadata.namespace: is missing, and no --namespace is given; correct it in the manifest",
        f"extauthz: {file}:10: metadata.name: is missing; correct it in the manifest",
        f"extauthz: {file}:15: apiVersion: is missing; correct it in the manifest",
        f"extauthz: {file}:17: kind: is missing: it is no object of Kubernetes; correct it in the manifest",
        f"extauthz: {file}:26: spec: must be an object; correct it in the manifest",
    ]
    assert "metadata.namespace: is 'other', and --namespace says 'shop'" in check.asked("-f", file, "-n", "shop")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("deploy/web",), "workload: leave it out where -f names files"),
        (("--replicas", "3"), "replicas: leave it out where -f names files"),
        (("--method", "PUT"), "method: leave it out where -f names files"),
    ],
)
def test_files_and_another_write_are_two_questions(check, words: tuple[str, ...], said: str):
    code, told = check.asked("-f", check.file("a.yaml", made()), *words)
    assert (code, told) == (64, f"extauthz: {said}\n")


ROLLOUTS_TOO = ("--custom", "rollouts.argoproj.io")


@pytest.fixture
def with_rollouts(check: CheckFiles) -> CheckFiles:
    """Whose state has the definition, behind a Rollout of 1 replica, which is charged."""
    there = yaml.safe_load(rollout())
    state = {**STATE, "items": [there, *STATE["items"], ROLLOUTS]}
    (check.directory / "state.json").write_text(json.dumps(state))
    return check


def test_a_custom_resource_is_weighed_where_it_is_named_and_its_definition_is_known(with_rollouts):
    file = with_rollouts.file("a.yaml", f"{rollout(replicas=2)}---\n{rollout(replicas=3)}---\n{rollout('new', 2)}")
    code, said = with_rollouts.asked("-f", file)
    assert (code, said.count("not weighed Rollout.argoproj.io shop/")) == (2, 3)
    code, said = with_rollouts.asked("-f", file, *ROLLOUTS_TOO)
    first, second, third = said.splitlines()
    assert (code, first) == (1, "allow       rollouts.argoproj.io shop/web, 1 → 2: fits")
    assert second.startswith("deny        rollouts.argoproj.io shop/web, 1 → 3: rollouts.argoproj.io")
    assert "requested: requests.memory=2Gi, used: requests.memory=7Gi" in second
    assert "new, 2: " in third
    assert third.startswith("deny")


def test_an_object_with_several_templates_is_weighed_whole(check):
    def ray(name: str, workers: int) -> dict[str, Any]:
        each = {"cpu": "1m", "memory": "256Mi"}
        made = raycluster(worker("a", workers, each), headGroupSpec={"template": pod(each)})
        return made | {"metadata": {"name": name, "namespace": "shop"}}

    state = {**STATE, "items": [*STATE["items"], RAY_CLUSTERS, ray("there", 1)]}
    (check.directory / "state.json").write_text(json.dumps(state))
    file = check.file("a.yaml", yaml.safe_dump_all([ray("small", 1), ray("large", 99), ray("there", 2)]))
    code, said = check.asked("-f", file, "--custom", "rayclusters.ray.io", "--pod-groups", RAY)
    small, large, there = said.splitlines()
    assert (code, small) == (1, "allow       rayclusters.ray.io shop/small, new: fits")
    assert there == "allow       rayclusters.ray.io shop/there, changed: fits"
    assert large.startswith('deny        rayclusters.ray.io shop/large, new: rayclusters.ray.io "large" is forbidden')
    assert "requested: requests.memory=25Gi" in large


def test_its_version_must_have_a_scale_and_its_definition_be_known(with_rollouts):
    code, said = with_rollouts.asked("-f", with_rollouts.file("a.yaml", rollout(version="v9")), *ROLLOUTS_TOO)
    assert code == 2
    assert "its version 'v9' has no scale subresource; write it in version v1alpha1" in said
    text = rollout().replace("kind: Rollout", "kind: Policy")
    code, said = with_rollouts.asked("-f", with_rollouts.file("b.yaml", text), "--custom", "policies.argoproj.io")
    assert code == 69
    assert said.endswith("or of a known definition with a scale, not 'Policy'\n")


def test_a_count_that_it_leaves_out_stays_as_it_is(with_rollouts):
    file = with_rollouts.file("a.yaml", rollout().replace("size: 1", "paused: false"))
    assert (
        with_rollouts.asked("-f", file, *ROLLOUTS_TOO)[1]
        == "allow       rollouts.argoproj.io shop/web, 1 → 1: no-growth\n"
    )


def test_a_template_elsewhere_is_found_by_the_setting_and_one_that_is_nowhere_is_unknown(with_rollouts):
    file = with_rollouts.file("a.yaml", rollout("new").replace("template:", "pods:"))
    state = json.dumps({**STATE, "items": [*STATE["items"], ROLLOUTS]})
    (with_rollouts.directory / "state.json").write_text(state)
    code, said = with_rollouts.asked("-f", file, *ROLLOUTS_TOO)
    assert (code, "does not know what one of its pods costs" in said) == (2, True), said
    elsewhere = ("--pod-groups", "{rollouts.argoproj.io: .spec.pods}")
    assert with_rollouts.asked("-f", file, *ROLLOUTS_TOO, *elsewhere)[1].endswith("new, 1: fits\n")


POD = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}
ROLES = {role: {"replicas": count, "template": POD} for role, count in (("Master", 1), ("Launcher", 1), ("Worker", 3))}
KNOWN = {
    "rayclusters.ray.io": (
        "v1",
        "RayCluster",
        {
            "headGroupSpec": {"template": POD},
            "workerGroupSpecs": [{"groupName": "a", "replicas": 3, "template": POD}],
        },
    ),
    "jobsets.jobset.x-k8s.io": (
        "v1alpha2",
        "JobSet",
        {
            "replicatedJobs": [
                {"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": POD}}},
            ]
        },
    ),
    "pytorchjobs.kubeflow.org": ("v1", "PyTorchJob", {"pytorchReplicaSpecs": ROLES}),
    "mpijobs.kubeflow.org": ("v2beta1", "MPIJob", {"mpiReplicaSpecs": ROLES}),
    "tfjobs.kubeflow.org": ("v1", "TFJob", {"tfReplicaSpecs": ROLES}),
    "xgboostjobs.kubeflow.org": ("v1", "XGBoostJob", {"xgbReplicaSpecs": ROLES}),
    "paddlejobs.kubeflow.org": ("v1", "PaddleJob", {"paddleReplicaSpecs": ROLES}),
    "jaxjobs.kubeflow.org": ("v1", "JAXJob", {"jaxReplicaSpecs": {"Worker": {"replicas": 4, "template": POD}}}),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_kind_that_is_known_is_weighed_by_its_groups_without_a_setting(check, name: str):
    version, kind, spec = KNOWN[name]
    plural, _, group = name.partition(".")
    tree = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": "x", "namespace": "shop"}}
    state = STATE | {"items": [*STATE["items"], crd(group, version, plural, kind)]}
    (check.directory / "state.json").write_text(json.dumps(state))
    file = check.file("a.yaml", json.dumps(tree | {"spec": spec}))
    code, said = check.asked("-f", file, "--custom", name)
    assert (code, said.split()[0]) == (1, "deny"), said
    assert "requests.cpu=4, used: requests.memory=6Gi,requests.cpu=3" in said
    assert f"not weighed {kind}.{group} shop/x" in check.asked("-f", file)[1], "nobody gates it"


@pytest.mark.parametrize(
    ("kind", "field", "more", "expected"),
    [
        ("RayJob", "rayClusterSpec", {}, (1, "deny")),
        ("RayJob", "rayClusterSpec", {"suspend": True}, (0, "allow")),
        ("RayService", "rayClusterConfig", {}, (1, "deny")),
        ("RayJob", "clusterSelector", {}, (2, "not weighed RayJob.ray.io shop/x")),
    ],
)
def test_what_kuberay_makes_a_cluster_of_is_weighed_as_that(check, kind: str, field: str, more, expected):
    """Where RayClusters are weighed. One that goes to a cluster that is there makes none."""
    spec = {field: KNOWN["rayclusters.ray.io"][2], **more}
    tree = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "x", "namespace": "shop"}, "spec": spec}
    state = STATE | {"items": [*STATE["items"], RAY_CLUSTERS]}
    (check.directory / "state.json").write_text(json.dumps(state))
    file = check.file("a.yaml", json.dumps(tree))
    code, said = check.asked("-f", file, "--custom", "rayclusters.ray.io")
    assert (code, said.startswith(expected[1])) == (expected[0], True), said
    assert f"not weighed {kind}.ray.io shop/x" in check.asked("-f", file)[1], "nobody gates RayClusters"


RAW = {"annotations": {"serving.kserve.io/deploymentMode": "RawDeployment"}}
EXTERNAL = {"annotations": {**RAW["annotations"], "serving.kserve.io/autoscalerClass": "external"}}
SMALL = {"cpu": "100m", "memory": "1Gi"}
WHOLE = {"name": "kserve-container", "resources": {"requests": SMALL, "limits": SMALL}}
LIMITED = {"name": "kserve-container", "resources": {"limits": {"cpu": "64"}}}
MODEL = {"model": {"modelFormat": {"name": "onnx"}, "resources": {"requests": SMALL}}}
RUNTIME, SETTINGS, QUEUE = (
    "its ServingRuntime adds",
    "what inferenceservice-config says",
    "Knative adds its queue-proxy",
)


def scales(**notes: str) -> dict[str, Any]:
    """A Knative Service with these annotations, whose pods need 1Gi."""
    template = {
        "metadata": {"annotations": {f"autoscaling.knative.dev/{name}": value for name, value in notes.items()}},
        "spec": {"containers": [{"image": "hello", "resources": {"requests": SMALL}}]},
    }
    return {"template": template}


@pytest.mark.parametrize(
    ("metadata", "spec", "expected", "beyond"),
    [
        (RAW, {"predictor": {"minReplicas": 3, **MODEL}}, "deny predictor 3", [RUNTIME]),
        (RAW, {"predictor": {"minReplicas": 2, **MODEL}}, "allow predictor 2", [RUNTIME]),
        ({}, {"predictor": {"minReplicas": 3, **MODEL}}, "deny predictor 3", [RUNTIME, QUEUE]),
        (RAW, {"predictor": {"model": {"modelFormat": {"name": "onnx"}}}}, "allow predictor 1", [RUNTIME]),
        (RAW, {"predictor": {"minReplicas": 0, **MODEL}}, "allow predictor 1", [RUNTIME]),
        (RAW, {"predictor": {"minReplicas": 2, "containers": [WHOLE]}}, "allow predictor 2", []),
        (RAW, {"predictor": {"minReplicas": 3, "containers": [WHOLE]}}, "deny predictor 3", []),
        (RAW, {"predictor": {"containers": [{"name": "c"}]}}, "allow predictor 1", [SETTINGS]),
        (RAW, {"predictor": {"containers": [LIMITED]}}, "allow predictor 1", [SETTINGS]),
        (RAW, {"predictor": {"containers": [WHOLE, WHOLE, WHOLE]}}, "deny predictor 1", []),
        ({}, {"predictor": {"containers": [WHOLE]}}, "allow predictor 1", [QUEUE]),
        (
            RAW,
            {"predictor": {"containers": [WHOLE]}, "transformer": {"minReplicas": 3, "containers": [WHOLE]}},
            "deny transformer 3",
            ["its components are weighed one by one"],
        ),
        (
            {"annotations": {"serving.kserve.io/deploymentMode": "ModelMesh"}},
            {"predictor": MODEL},
            "",
            ["is weighed when"],
        ),
        ({"annotations": {"serving.kserve.io/stop": "true"}}, {"predictor": MODEL}, "", ["is weighed when"]),
    ],
)
def test_an_inference_service_is_weighed_by_what_its_manifest_says_and_the_rest_is_named(
    check, metadata, spec, expected: str, beyond: list[str]
):
    """What it leaves out is no reason to refuse: a ServingRuntime may say it."""
    code, said = weighed(check, "serving.kserve.io/v1beta1", "InferenceService", metadata, spec)
    assert (code, expected in said) == (1 if "deny" in expected else 2 if beyond else 0, True), said
    assert ("deployments.apps" in said) == bool(expected)
    assert [part for part in beyond if part in said] == beyond
    assert ("not weighed InferenceService.serving.kserve.io shop/x: " in said) == bool(beyond)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (scales(**{"min-scale": "3", "max-scale": "10"}), "deny 3"),
        (scales(minScale="3"), "deny 3"),
        (scales(**{"min-scale": "2"}), "allow 2"),
        (scales(), "allow 1"),
        (scales(**{"initial-scale": "3"}), "deny 3"),
    ],
)
def test_a_knative_service_is_weighed_by_its_first_scale(check, spec, expected: str):
    code, said = weighed(check, "serving.knative.dev/v1", "Service", {}, spec)
    verdict, count = expected.split()
    assert (code, said.split()[0]) == (1 if verdict == "deny" else 2, verdict), said
    assert f"deployments.apps shop/x-<new>-deployment, new, {count}: " in said
    assert (
        "not weighed Service.serving.knative.dev shop/x: weighed as a new revision, to whose pods Knative adds" in said
    )


def one_more(name: str, replicas: int, namespace: str = "shop") -> dict[str, Any]:
    """A Deployment, whose pods need 1Gi."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": "7"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [WHOLE]}},
        },
    }


def with_objects(check: CheckFiles, *objects: dict[str, Any]) -> None:
    """In the state, beside a StatefulSet of one pod, which has 2Gi of 8Gi and 1 of 4 cores."""
    namespace, db = STATE["items"]
    db = {**db, "spec": {**db["spec"], "replicas": 1}}
    (check.directory / "state.json").write_text(json.dumps({**STATE, "items": [namespace, db, *objects]}))


@pytest.mark.parametrize(
    ("metadata", "least", "cpu", "expected"),
    [
        (RAW, 1, "1100m", "1 deny        deployments.apps shop/x-predictor, 3 → 3: "),
        (RAW, 1, "900m", "0 allow       deployments.apps shop/x-predictor, 3 → 3: fits"),
        (RAW, 4, "900m", "1 deny        deployments.apps shop/x-predictor, 3 → 4: "),
        (EXTERNAL, 1, "2", "0 allow       deployments.apps shop/x-predictor, 3 → 1: fits"),
    ],
)
def test_an_inference_service_that_is_there_keeps_the_count_of_its_autoscaler(
    check, metadata, least: int, cpu: str, expected: str
):
    """KServe leaves it alone where it makes an autoscaler, which brings it to minReplicas."""
    with_objects(check, one_more("x-predictor", 3))
    each = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "kserve-container", "resources": {"requests": each, "limits": each}}
    spec = {"predictor": {"minReplicas": least, "containers": [container]}}
    code, said = weighed(check, "serving.kserve.io/v1beta1", "InferenceService", metadata, spec)
    assert f"{code} {said}".startswith(expected), said


KSERVICE = ("serving.knative.dev/v1", "Service", scales(**{"min-scale": "4"}))
PREDICTOR = ("serving.kserve.io/v1beta1", "InferenceService", {"predictor": {"minReplicas": 4, "containers": [WHOLE]}})


@pytest.mark.parametrize(
    ("asked", "there", "code"),
    [
        (KSERVICE, one_more("x-00001-deployment", 3), 2),
        (KSERVICE, one_more("x-00002-deployment", 3), 2),
        (KSERVICE, one_more("x-00001-deployment", 0), 2),
        (KSERVICE, one_more("x-y-00001-deployment", 3), 1),
        (KSERVICE, one_more("x-00001", 3), 1),
        (PREDICTOR, one_more("x-predictor-00001-deployment", 3), 2),
        (PREDICTOR, one_more("x-predictor", 3), 2),
        (PREDICTOR, one_more("x-00001-deployment", 3), 1),
    ],
)
def test_a_refused_revision_of_a_service_that_is_there_is_no_verdict(check, asked, there: dict[str, Any], code: int):
    """It need not be new. The pods of the one that is there go on."""
    with_objects(check, there, one_more("other", 3 - there["spec"]["replicas"]))
    found, said = weighed(check, asked[0], asked[1], {}, asked[2])
    assert (found, said.split()[0]) == (code, "deny"), said
    assert ("if its template changed, deployments.apps" in said) == (code == 2)
    assert "requested: requests.memory=4Gi, used: requests.memory=5Gi" in said


def test_a_revision_is_no_verdict_where_nobody_may_see_what_is_there(check, monkeypatch):
    """Nor where the list of it is cut."""
    with_objects(check, one_more("other", 3))
    listed = Files.workloads
    monkeypatch.setattr(Files, "workloads", lambda *given: listed(*given[:-1], 1))
    assert weighed(check, *KSERVICE[:2], {}, KSERVICE[2])[0] == 2

    def hidden(*_: object) -> dict[str, Any]:
        raise Problem(403, "you may not get it")

    monkeypatch.setattr(Files, "workloads", hidden)
    assert weighed(check, *KSERVICE[:2], {}, KSERVICE[2])[0] == 2


@pytest.mark.parametrize(("requests", "verdict"), [({}, "deny"), ({"cpu": "1"}, "deny"), (SMALL, "allow")])
def test_a_knative_service_asks_for_its_limits_where_it_says_no_requests(check, requests, verdict: str):
    resources = {"limits": {"cpu": "1", "memory": "64Gi"}, "requests": requests}
    spec = {"template": {"spec": {"containers": [{"image": "hello", "resources": resources}]}}}
    assert weighed(check, "serving.knative.dev/v1", "Service", {}, spec)[1].startswith(verdict)


def weighed(check: CheckFiles, version: str, kind: str, metadata: Any, spec: Any) -> tuple[int, str]:
    """The exit code, and what is printed: of a Deployment ``deny predictor 3``."""
    tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "shop", **metadata}}
    code, said = check.asked("-f", check.file("a.yaml", json.dumps(tree | {"spec": spec})))
    return code, re.sub(
        r"(\w+) +(deployments\.apps) shop/x-([a-z]+)(?:-<new>-deployment)?, new, (\d+):", r"\1 \3 \4 \2 ", said
    )


C = {"name": "c", "image": "x"}
PUBLIC: dict[str, Any] = {
    "apps.kruise.io/v1alpha1 CloneSet": {"replicas": 2, "template": {"spec": {"containers": [C]}}},
    "apps.kruise.io/v1beta1 StatefulSet": {"replicas": 2, "template": {"spec": {"containers": [C]}}},
    "argoproj.io/v1alpha1 Rollout": {"template": {"spec": {"containers": [C]}}},
    "argoproj.io/v1alpha1 Workflow": {"entrypoint": "a", "templates": [{"name": "a", "container": C}]},
    "argoproj.io/v1alpha1 CronWorkflow": {"schedule": "0 0 * * *", "workflowSpec": {"templates": [{"script": C}]}},
    "batch.volcano.sh/v1alpha1 Job": {"tasks": [{"replicas": 4, "template": {"spec": {"containers": [C]}}}]},
    "cassandra.datastax.com/v1beta1 CassandraDatacenter": {"size": 3, "storageConfig": {}},
    "druid.apache.org/v1alpha1 Druid": {"nodes": {"brokers": {"replicas": 2}}},
    "elasticsearch.k8s.elastic.co/v1 Elasticsearch": {"nodeSets": [{"name": "default", "count": 3}]},
    "flink.apache.org/v1beta1 FlinkDeployment": {"taskManager": {"resource": {"memory": "2048m", "cpu": 1}}},
    "jobset.x-k8s.io/v1alpha2 JobSet": {"replicatedJobs": [{"name": "a", "replicas": 2}]},
    "k8s.mariadb.com/v1alpha1 MariaDB": {"replicas": 3},
    "kafka.strimzi.io/v1beta2 KafkaNodePool": {"replicas": 3, "roles": ["broker"]},
    "keda.sh/v1alpha1 ScaledJob": {"jobTargetRef": {"template": {"spec": {"containers": [C]}}}},
    "kubeflow.org/v1 PyTorchJob": {"pytorchReplicaSpecs": {"Worker": {"replicas": 4}}},
    "kubeflow.org/v1 Notebook": {"template": {"spec": {"containers": [C]}}},
    "kubevirt.io/v1 VirtualMachine": {"runStrategy": "Always", "template": {"spec": {"domain": {"cpu": {"cores": 4}}}}},
    "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": {"replicas": 2, "leaderWorkerTemplate": {"size": 4}},
    "machinelearning.seldon.io/v1 SeldonDeployment": {"predictors": [{"replicas": 1}]},
    "milvus.io/v1beta1 Milvus": {"components": {"resources": {"limits": {"cpu": "2"}}}},
    "minio.min.io/v2 Tenant": {"pools": [{"servers": 4, "volumesPerServer": 4}]},
    "monitoring.coreos.com/v1 Prometheus": {"serviceAccountName": "p"},
    "monitoring.coreos.com/v1 Alertmanager": {"replicas": 3},
    "mongodbcommunity.mongodb.com/v1 MongoDBCommunity": {"members": 3, "type": "ReplicaSet"},
    "opentelemetry.io/v1beta1 OpenTelemetryCollector": {"mode": "deployment", "config": {}},
    "postgresql.cnpg.io/v1 Cluster": {"instances": 3, "storage": {"size": "1Gi"}},
    "acid.zalan.do/v1 postgresql": {"numberOfInstances": 2, "volume": {"size": "1Gi"}},
    "ray.io/v1 RayCluster": {"headGroupSpec": {"template": {"spec": {"containers": [C]}}}},
    "ray.io/v1 RayService": {"rayClusterConfig": {"headGroupSpec": {}}},
    "redis.redis.opstreelabs.in/v1beta2 RedisCluster": {"clusterSize": 3},
    "serving.kserve.io/v1beta1 InferenceService": {"predictor": {"model": {"modelFormat": {"name": "onnx"}}}},
    "serving.kserve.io/v1alpha1 LLMInferenceService": {"model": {"uri": "hf://x"}},
    "serving.knative.dev/v1 Service": {"template": {"spec": {"containers": [C]}}},
    "sparkoperator.k8s.io/v1beta2 SparkApplication": {"driver": {"cores": 1}, "executor": {"instances": 3, "cores": 1}},
    "tekton.dev/v1 TaskRun": {"taskSpec": {"steps": [C]}},
    "tekton.dev/v1 PipelineRun": {"pipelineRef": {"name": "p"}},
    "trainer.kubeflow.org/v1alpha1 TrainJob": {"trainer": {"numNodes": 4}},
    "zookeeper.pravega.io/v1beta1 ZookeeperCluster": {"replicas": 3},
}
"""Kinds of public manifests of which pods come, as short as they may be."""


@pytest.mark.parametrize("name", PUBLIC)
def test_no_public_kind_of_which_pods_come_is_passed_over(check, name: str):
    """No definition is there, and no setting: what is not weighed is named, and nothing is green."""
    version, kind = name.split()
    tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "shop"}, "spec": PUBLIC[name]}
    code, said = check.asked("-f", check.file("a.yaml", json.dumps(tree)))
    assert (code, f"not weighed {kind}.{version.partition('/')[0]} shop/x: " in said) == (2, True), said


HARMLESS: dict[str, Any] = {
    "argoproj.io/v1alpha1 Application": {"source": {"helm": {"values": "replicas: 3"}}},
    "autoscaling.k8s.io/v1 VerticalPodAutoscaler": {"resourcePolicy": {"containerPolicies": []}},
    "cert-manager.io/v1 Certificate": {"secretName": "s", "privateKey": {"size": 2048}},
    "cilium.io/v2 CiliumNetworkPolicy": {"endpointSelector": {}},
    "external-secrets.io/v1 ExternalSecret": {"data": [{"secretKey": "k"}]},
    "gateway.networking.k8s.io/v1 HTTPRoute": {"rules": [{"backendRefs": [{"name": "a", "weight": 1}]}]},
    "keda.sh/v1alpha1 ScaledObject": {"minReplicaCount": 1, "scaleTargetRef": {"name": "x"}},
    "monitoring.coreos.com/v1 ServiceMonitor": {"endpoints": [{"port": "http"}]},
    "monitoring.coreos.com/v1 PrometheusRule": {"groups": [{"rules": [{"expr": "up"}]}]},
    "networking.istio.io/v1 VirtualService": {"http": [{"route": [{"weight": 90}]}]},
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_kind_of_which_no_pods_come_is_no_matter(check, name: str):
    version, kind = name.split()
    tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "shop"}, "spec": HARMLESS[name]}
    assert check.asked("-f", check.file("a.yaml", json.dumps(tree))) == (0, "no object with replicas\n")
