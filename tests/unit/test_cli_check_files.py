"""``extauthz check -f``: objects of files, as the webhook would be shown them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def test_a_refusal_weighs_more_than_what_is_not_weighed(check):
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: bare, namespace: shop}\n"
    code, said = check.asked("-f", check.file("a.yaml", f"{pod}---\n{made('new')}"))
    assert (code, "not weighed Pod shop/bare" in said) == (1, True)


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
    many = check.file("many.yaml", made(replicas="replicas: many"))
    code, said = check.asked("-f", many)
    assert (code, said.split()[0]) == (2, "unavailable")
    assert "spec.replicas: must be a whole number" in said
    assert check.asked("-f", many, "--allow-unknown", "unreadable")[0] == 0, "as the gate is set"
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
