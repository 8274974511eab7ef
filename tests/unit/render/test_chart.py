"""``charts/extauthz``: ``deploy/`` is what it makes of its defaults, and each value changes what it says.

``tests/controlplane/test_deploy.py``, ``test_rendered.py`` and ``test_chart.py`` hold it against a real API server.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from extauthz import version
from extauthz.core.quota import selector_text
from extauthz.core.quota.selectors import LabelSelector
from extauthz.serve.service import settings
from extauthz.serve.service.loading import load
from extauthz.tools.render import webhook
from extauthz.tools.render.webhook import Custom, WebhookOptions
from tests import rendering

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "extauthz"
VALUES_TEXT = (CHART / "values.yaml").read_text()
VALUES = yaml.safe_load(VALUES_TEXT)
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
MADE = [file for file in rendering.shown() if rendering.words_of(file)[0] == "helm"]
PLACES = SCHEMA["properties"]["place"]["enum"]

Tree = Any


def made(*words: str, namespace: str = "extauthz-system") -> dict[str, Tree]:
    """What the chart makes, by kind and name."""
    text = rendering.helm("template", "extauthz", "charts/extauthz", "--namespace", namespace, *words)
    trees = [tree for tree in yaml.safe_load_all(text) if tree]
    return {f"{tree['kind']}/{tree['metadata']['name']}": tree for tree in trees}


def setting(*values: str) -> list[str]:
    """``key=value`` as flags; the value is JSON."""
    return [word for value in values for word in ("--set-json", value)]


def refusal(*values: str) -> str:
    with pytest.raises(RuntimeError) as error:
        made(*setting(*values))
    return str(error.value)


def container(objects: dict[str, Tree]) -> Tree:
    (only,) = objects["Deployment/extauthz"]["spec"]["template"]["spec"]["containers"]
    return only


def leaves(values: Tree, path: str = "") -> Iterator[str]:
    """The keys of values.yaml with dots; what an empty or a free mapping holds is the user's."""
    for key, value in values.items():
        here = f"{path}.{key}".lstrip(".")
        free = here.endswith(("resources", "podAnnotations"))
        if isinstance(value, dict) and value and not free:
            yield from leaves(value, here)
        else:
            yield here


def described(path: str) -> Tree:
    """The schema of a value."""
    tree = SCHEMA
    for key in path.split("."):
        tree = tree["properties"][key]
    return tree


def test_the_version_is_the_packages():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version(), version())


@pytest.mark.parametrize("path", [*leaves(VALUES)])
def test_every_value_has_a_comment_and_a_schema(path: str):
    assert described(path)
    *_, key = path.split(".")
    indent = "  " * path.count(".")
    before = re.findall(rf"^(.*)\n{indent}{key}:", VALUES_TEXT, re.MULTILINE)
    assert any(line.startswith(f"{indent}#") for line in before)


def test_the_schema_knows_no_value_that_is_not_in_the_file():
    def known(schema: Tree, path: str = "") -> Iterator[str]:
        for key, tree in schema["properties"].items():
            here = f"{path}.{key}".lstrip(".")
            yield from known(tree, here) if "properties" in tree else [here]

    assert {*known(SCHEMA)} - {"global"} == {*leaves(VALUES)}


def test_the_choices_are_those_of_the_gate_itself():
    properties = SCHEMA["properties"]
    assert set(properties["logLevel"]["enum"]) == set(settings.Level)
    for field in ("mode", "ledger"):
        for choice in properties[field]["enum"]:
            assert getattr(load({field: choice}, {}, None), field) == choice


def test_every_file_of_deploy_is_made_by_the_chart_or_written_by_hand():
    by_hand = {
        "kustomization.yaml",
        "namespace.yaml",
        "hpa-controller/kustomization.yaml",
    }
    files = {str(file.relative_to(ROOT / "deploy")) for file in (ROOT / "deploy").rglob("*.yaml")}
    assert {str(file.relative_to(ROOT / "deploy")) for file in MADE} == files - by_hand


@pytest.mark.helm
@pytest.mark.parametrize("file", MADE, ids=lambda file: file.stem)
def test_what_deploy_has_is_what_the_chart_makes(file: Path):
    assert file.read_text() == rendering.rendered(file), "run `make render`"


@pytest.mark.parametrize("file", sorted((CHART / "envoy").iterdir()), ids=lambda file: file.stem)
def test_the_bootstraps_in_the_chart_are_what_render_prints(file: Path):
    assert file.read_text() == rendering.rendered(file), "run `make render`"


@pytest.mark.helm
@pytest.mark.parametrize("place", [place for place in PLACES if place not in ("keda", "knative")])
def test_what_can_be_installed_is_linted_strictly(place: str):
    rendering.helm("lint", "--strict", "charts/extauthz", "--set", f"place={place}")


@pytest.mark.helm
def test_deploy_is_all_that_it_makes_but_for_the_namespace_and_the_test():
    names = yaml.safe_load((ROOT / "deploy" / "kustomization.yaml").read_text())["resources"]
    trees = [tree for name in names for tree in yaml.safe_load_all((ROOT / "deploy" / name).read_text())]
    deployed = {f"{tree['kind']}/{tree['metadata']['name']}": tree for tree in trees}
    namespace = deployed.pop("Namespace/extauthz-system")
    objects = made("--no-hooks")
    assert objects == deployed
    assert "labels" in namespace["metadata"]


@pytest.mark.helm
@pytest.mark.parametrize("place", PLACES)
def test_the_namespace_is_everywhere(place: str):
    objects = made("--set", f"place={place}", namespace="elsewhere")
    assert "extauthz-system" not in json.dumps(objects)
    for tree in objects.values():
        cluster_wide = tree["kind"].startswith(("ClusterRole", "CustomResourceDefinition"))
        known = {"kube-system"} if tree["metadata"]["name"].endswith(":authentication") else {"elsewhere"}
        assert cluster_wide or tree["metadata"]["namespace"] in known
        assert {subject["namespace"] for subject in tree.get("subjects", [])} <= {"elsewhere"}


@pytest.mark.helm
@pytest.mark.parametrize(
    ("values", "flags"),
    [
        (['mode="audit"'], {"--mode=audit"}),
        (['objects="observe"'], {"--objects=observe"}),
        (['logLevel="debug"'], {"--log-level=debug"}),
        (['ledger="memory"', "replicas=1"], {"--ledger=memory"}),
        (['settings={"window-s":60,"notify":"h"}'], {"--window-s=60", "--notify=h"}),
        (['settings={"pod-groups":{"a.b":[{"template":".t"}]}}'], {'--pod-groups={"a.b":[{"template":".t"}]}'}),
    ],
    ids=["mode", "objects", "log-level", "ledger", "settings", "a-mapping"],
)
def test_an_option_of_the_gate_is_a_flag_of_its_container(values: list[str], flags: set[str]):
    assert set(container(made(*setting(*values)))["args"]) - set(container(made())["args"]) == flags


@pytest.mark.helm
def test_values_land_where_they_belong():
    values = (
        'image={"repository":"registry.example.com/gate","tag":"2","pullPolicy":"Always"}',
        'imagePullSecrets=[{"name":"registry"}]',
        "replicas=5",
        'tls.secret="mine"',
        'service.trafficDistribution="PreferSameZone"',
        'networkPolicy.clients=["192.0.2.0/28"]',
        'podLabels={"team":"platform"}',
        'nodeSelector={"disk":"ssd"}',
        'tolerations=[{"operator":"Exists"}]',
        'affinity={"nodeAffinity":{}}',
        'priorityClassName="high"',
    )
    objects = made(*setting(*values))
    spec = objects["Deployment/extauthz"]["spec"]
    pod = spec["template"]["spec"]
    assert (container(objects)["image"], container(objects)["imagePullPolicy"]) == (
        "registry.example.com/gate:2",
        "Always",
    )
    assert spec["replicas"] == 5
    assert pod["volumes"] == [{"name": "tls", "secret": {"secretName": "mine"}}]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert (pod["nodeSelector"], pod["priorityClassName"]) == ({"disk": "ssd"}, "high")
    assert (pod["tolerations"], pod["affinity"]) == ([{"operator": "Exists"}], {"nodeAffinity": {}})
    assert spec["template"]["metadata"]["labels"]["team"] == "platform"
    assert spec["selector"]["matchLabels"] == {"app.kubernetes.io/name": "extauthz"}, "it can never be changed"
    assert objects["Service/extauthz"]["spec"]["trafficDistribution"] == "PreferSameZone"
    ask, _ = objects["NetworkPolicy/extauthz"]["spec"]["ingress"]
    assert {"ipBlock": {"cidr": "192.0.2.0/28"}} in ask["from"]


@pytest.mark.helm
@pytest.mark.parametrize(("version", "name"), [("1.30.0", "PreferClose"), ("1.34.0", "PreferSameZone")])
def test_the_gates_of_the_own_zone_are_preferred_by_the_name_that_the_version_knows(version: str, name: str):
    objects = made(f"--kube-version={version}")
    assert objects["Service/extauthz"]["spec"]["trafficDistribution"] == name


@pytest.mark.helm
def test_an_older_kubernetes_than_what_was_tried_is_refused():
    with pytest.raises(RuntimeError, match="incompatible with Kubernetes"):
        made("--kube-version=1.29.9")


@pytest.mark.helm
def test_what_can_be_left_out_is_left_out():
    values = ('service.trafficDistribution=""', "networkPolicy.enabled=false", "podDisruptionBudget.enabled=false")
    objects = made(*setting(*values, "crds.install=false", "rbac.create=false"), "--no-hooks")
    assert {*objects} == {"Deployment/extauthz", "Service/extauthz", "Service/extauthz-gates"}
    assert "trafficDistribution" not in objects["Service/extauthz"]["spec"]


@pytest.mark.helm
def test_an_hpa_of_the_gates_is_off_unless_it_is_wanted_and_then_has_the_count():
    assert "HorizontalPodAutoscaler/extauthz" not in made()
    objects = made(*setting("autoscaling.enabled=true", "replicas=4", "autoscaling.maxReplicas=9"))
    assert "replicas" not in objects["Deployment/extauthz"]["spec"], "an upgrade would put it back"
    spec = objects["HorizontalPodAutoscaler/extauthz"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"], spec["scaleTargetRef"]["name"]) == (4, 9, "extauthz")
    assert spec["metrics"][0]["resource"]["target"]["averageUtilization"] == 200


@pytest.mark.helm
def test_a_digest_goes_before_the_tag():
    digest = f"sha256:{'0' * 64}"
    assert container(made("--set", f"image.digest={digest}"))["image"] == f"extauthz@{digest}"


@pytest.mark.helm
def test_a_gate_with_a_ledger_of_its_own_is_never_run_twice():
    objects = made("--set", "ledger=memory,replicas=1")
    assert objects["Deployment/extauthz"]["spec"]["strategy"] == {"type": "Recreate"}
    (gate,) = objects["Deployment/extauthz"]["spec"]["template"]["spec"]["containers"]
    assert "lifecycle" not in gate, "nobody answers until the old one has ended"


@pytest.mark.helm
@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (['ledger="memory"'], "ledger: memory is for a single gate: add replicas: 1, or leave ledger out"),
        (['ledger="memory"', 'place="keda"'], "a rollout of keda runs two: leave it out"),
        (['ledger="memory"', 'place="hpa-controller"'], "a rollout of hpa-controller runs two"),
        (['place="keda"', "replicas=2"], "replicas: are the Deployment's own of keda: leave them out"),
        (["replicas=0"], "replicas"),
        (['replicas="3"'], "replicas"),
        (['mode="off"'], "mode"),
        (['objects="off"'], "objects"),
        (['place="node"'], "place"),
        (["replica=3"], "replica"),
        (['tls.secret="A"'], "secret"),
        (['image.repository="a b"'], "repository"),
        (['networkPolicy.clients=["192.0.2.1"]'], "clients"),
        (['settings={"grpc":":1"}'], "'grpc'"),
        (["webhook.enabled=true"], "add webhook.caBundle or webhook.injectCaFrom"),
        (["webhook.enabled=true", 'webhook.caBundle="QQ=="', 'place="keda"'], "webhook.enabled: is for place: service"),
        (
            ["webhook.enabled=true", 'webhook.caBundle="QQ=="', 'webhook.certificates="self-signed"'],
            "self-signed writes the authority itself: leave webhook.caBundle and webhook.injectCaFrom out",
        ),
        (["grpc.enabled=false"], "nobody could ask the gates: add webhook.enabled: true"),
        (['webhook.certificates="mine"'], "certificates"),
        (['webhook.custom=["rollouts"]'], "custom"),
        (["autoscaling.enabled=true", 'place="keda"'], "autoscaling.enabled: is for place: service"),
        (["autoscaling.enabled=true", "replicas=1", 'ledger="memory"'], "leave autoscaling or ledger out"),
        (["hostNetwork=true", 'place="keda"'], "hostNetwork: is for place: service"),
        (
            ["webhook.enabled=true", 'webhook.certificates="self-signed"', "hostNetwork=true"],
            "hostNetwork: no NetworkPolicy holds there, so that any pod could ask the webhook",
        ),
        (['webhook.url="gate.example.com"'], "url"),
        (["api.enabled=true", 'place="keda"'], "api.enabled: is for place: service"),
        (['api.clients=["192.0.2.1"]'], "clients"),
        (['settings={"stale after":1}'], "'stale after'"),
        (["record.enabled=true", 'place="keda"'], "record.enabled: is for place: service"),
        (['settings={"record":"/tmp"}'], "'record'"),
        (['record.maxBytes="500 MB"'], "maxBytes"),
    ],
)
def test_what_is_wrong_or_does_not_go_together_is_told(values: list[str], complaint: str):
    assert complaint in refusal(*values)


@pytest.mark.helm
def test_alerts_and_dashboard_are_the_files_that_the_chart_has():
    assert not {"PrometheusRule/extauthz", "ConfigMap/extauthz-dashboard"} & {*made()}
    labels = ('prometheusRule.labels={"release":"mine"}', 'dashboard.label="of_mine"')
    objects = made(*setting("prometheusRule.enabled=true", "dashboard.enabled=true", *labels))
    rule, board = objects["PrometheusRule/extauthz"], objects["ConfigMap/extauthz-dashboard"]
    assert rule["spec"] == yaml.safe_load((CHART / "observability" / "alerts.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "mine"
    assert json.loads(board["data"]["extauthz.json"]) == json.loads(
        (CHART / "observability" / "dashboard.json").read_text()
    )
    assert board["metadata"]["labels"]["of_mine"] == "1"


@pytest.mark.helm
def test_a_record_has_a_volume_with_bounds():
    assert "--record" not in json.dumps(made())
    values = ("record.enabled=true", 'record.maxBytes="2Gi"', "grpc.enabled=false")
    values = (*values, "webhook.enabled=true", 'webhook.certificates="self-signed"')
    objects = made(*setting(*values, 'record.sizeLimit="3Gi"'))
    args = container(objects)["args"]
    assert {"--record=/var/lib/extauthz/record", "--record-max-bytes=2Gi"} <= {*args}
    assert (
        load(
            {
                word[2:].partition("=")[0].replace("-", "_"): word.partition("=")[2]
                for word in args
                if word.startswith("--record")
            },
            {},
            None,
        ).record_max_bytes
        == "2Gi"
    )
    (mount,) = container(objects)["volumeMounts"]
    assert mount == {"name": "record", "mountPath": "/var/lib/extauthz"}
    pod = objects["Deployment/extauthz"]["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "record", "emptyDir": {"sizeLimit": "3Gi"}}]
    assert pod["securityContext"] == {"fsGroup": 65532}, "it may write there"
    claimed = made(*setting(*values, 'record.claim="growth"'))["Deployment/extauthz"]["spec"]["template"]["spec"]
    assert claimed["volumes"] == [{"name": "record", "persistentVolumeClaim": {"claimName": "growth"}}]


@pytest.mark.helm
def test_a_monitor_leads_to_the_port_of_the_service_that_has_metrics():
    assert "ServiceMonitor/extauthz" not in made()
    objects = made(
        *setting("serviceMonitor.enabled=true", 'serviceMonitor.labels={"release":"mine"}'),
        *setting('serviceMonitor.interval="30s"'),
    )
    monitor, service = objects["ServiceMonitor/extauthz"], objects["Service/extauthz"]
    assert monitor["metadata"]["labels"]["release"] == "mine"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = [each for each in service["spec"]["ports"] if each["name"] == endpoint["port"]]
    assert {"name": port["targetPort"], "containerPort": 9192} in container(objects)["ports"]
    assert (endpoint["path"], endpoint["interval"]) == ("/metrics", "30s")
    assert "serviceMonitor.enabled: is for place: service" in refusal("serviceMonitor.enabled=true", 'place="keda"')
    assert "interval" in refusal("serviceMonitor.enabled=true", 'serviceMonitor.interval="often"')


@pytest.mark.helm
def test_the_webhook_is_what_render_webhook_prints():
    values = (
        "webhook.enabled=true",
        'webhook.caBundle="QUJD"',
        'webhook.exceptNamespaces=["monitoring"]',
        'webhook.custom=["rollouts.argoproj.io"]',
        'webhook.clients=["192.0.2.0/28"]',
    )
    objects = made(*setting(*values), namespace="infra")
    options = WebhookOptions(
        ca=b"ABC", namespace="infra", except_namespaces=("monitoring",), custom=(Custom("argoproj.io", "rollouts"),)
    )
    shipped = objects["ValidatingWebhookConfiguration/extauthz"]
    assert shipped["webhooks"] == webhook.configuration(options)["webhooks"]
    may_watch = {"apiGroups": ["argoproj.io"], "resources": ["rollouts"], "verbs": ["list", "watch"]}
    assert may_watch in objects["ClusterRole/extauthz"]["rules"]
    assert "--webhook=:9443" in container(objects)["args"]
    assert {"name": "webhook", "port": 443, "targetPort": "webhook"} in objects["Service/extauthz"]["spec"]["ports"]
    ingress = objects["NetworkPolicy/extauthz"]["spec"]["ingress"]
    assert {
        "ports": [{"port": "webhook", "protocol": "TCP"}],
        "from": [{"ipBlock": {"cidr": "192.0.2.0/28"}}],
    } in ingress


@pytest.mark.helm
@pytest.mark.parametrize(
    ("values", "policy", "priority"),
    [
        pytest.param((), "Fail", "system-cluster-critical", id="default"),
        pytest.param(('webhook.failurePolicy="Ignore"',), "Ignore", None, id="ignore"),
        pytest.param(('priorityClassName="high"',), "Fail", "high", id="own-priority"),
    ],
)
def test_gates_that_growth_waits_for_are_critical_and_those_it_does_not_wait_for_are_not(
    values: tuple[str, ...], policy: str, priority: str | None
):
    objects = made(*setting("webhook.enabled=true", 'webhook.certificates="self-signed"', *values))
    (decides,) = objects["ValidatingWebhookConfiguration/extauthz"]["webhooks"]
    assert decides["failurePolicy"] == policy
    assert objects["Deployment/extauthz"]["spec"]["template"]["spec"].get("priorityClassName") == priority
    assert ("ResourceQuota/extauthz-critical-pods" in objects) == (priority == "system-cluster-critical")


@pytest.mark.helm
def test_a_control_plane_that_reaches_no_pods_asks_by_a_url_or_on_the_nodes_network():
    values = ("webhook.enabled=true", 'webhook.certificates="self-signed"')
    by_url = made(*setting(*values, 'webhook.url="https://gate.example.com/"'))
    for kind, path in (("Validating", "validate"), ("Mutating", "mutate")):
        (hook,) = by_url[f"{kind}WebhookConfiguration/extauthz"]["webhooks"]
        assert hook["clientConfig"] == {"url": f"https://gate.example.com/{path}"}
    spec = made(*setting(*values, "hostNetwork=true", 'webhook.clientCASecret="api"'))["Deployment/extauthz"]["spec"]
    assert (spec["template"]["spec"]["hostNetwork"], spec["template"]["spec"]["dnsPolicy"]) == (
        True,
        "ClusterFirstWithHostNet",
    )
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}, "a node has one such port"
    assert "hostNetwork" not in made(*setting(*values))["Deployment/extauthz"]["spec"]["template"]["spec"]


@pytest.mark.helm
def test_mode_clamp_has_a_mutating_webhook_beside_it():
    values = ("webhook.enabled=true", 'webhook.caBundle="QUJD"', 'webhook.custom=["rollouts.argoproj.io"]')
    assert "MutatingWebhookConfiguration/extauthz" not in made(*setting(*values, "webhook.clamp=false"))
    options = WebhookOptions(ca=b"ABC", namespace="infra", custom=(Custom("argoproj.io", "rollouts"),))
    assert_rendered(options, made(*setting(*values), namespace="infra"))


def assert_rendered(options: WebhookOptions, objects: dict[str, Tree]) -> None:
    for part in webhook.parts(options):
        (wanted,) = part.objects
        assert objects[f"{wanted['kind']}/extauthz"]["webhooks"] == wanted["webhooks"]


SCOPE = (
    'webhook.namespaceSelector={"matchLabels":{"zone":"1"},"matchExpressions":[{"key":"workspace","operator":"Exists"}]}',
    'webhook.objectSelector={"matchExpressions":[{"key":"by","operator":"NotIn","values":["hand"]}]}',
    'webhook.matchConditions=[{"name":"not-by-ci","expression":"request.userInfo.username != \'ci\'"}]',
)


@pytest.mark.helm
@pytest.mark.parametrize("labels", [None, (), ("tier", "example.com/team")], ids=["any", "none", "some"])
def test_the_webhook_asks_only_about_what_it_is_told_to(labels: tuple[str, ...] | None):
    values = ("webhook.enabled=true", 'webhook.caBundle="QUJD"', f"webhook.workloadLabels={json.dumps(labels)}", *SCOPE)
    options = WebhookOptions(
        ca=b"ABC",
        namespace_selector=selector_text.parsed("zone=1,workspace") or LabelSelector(),
        object_selector=selector_text.parsed("by!=hand") or LabelSelector(),
        conditions=(("not-by-ci", "request.userInfo.username != 'ci'"),),
        workload_labels=labels,
    )
    assert_rendered(options, made(*setting(*values)))


@pytest.mark.helm
def test_new_pods_are_asked_about_where_quotas_are_alone():
    values = ("webhook.enabled=true", 'webhook.caBundle="QUJD"', 'webhook.custom=["rayclusters.ray.io"]')
    selector = 'webhook.namespaceSelector={"matchExpressions":[{"key":"workspace","operator":"Exists"}]}'
    options = WebhookOptions(
        ca=b"ABC",
        namespace_selector=selector_text.parsed("workspace") or LabelSelector(),
        custom=(Custom("ray.io", "rayclusters"),),
        pods=True,
    )
    assert_rendered(options, made(*setting(*values, selector, "webhook.pods=true")))
    assert "webhook.pods: while no gate lives such pods fail" in refusal(*values, "webhook.pods=true")


@pytest.mark.helm
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('objectSelector={"matchLabels":{"tier":"paid"}}', "matchLabels would leave every autoscaler out"),
        (
            'objectSelector={"matchExpressions":[{"key":"tier","operator":"Exists"}]}',
            "Exists of tier would leave every",
        ),
        ('matchConditions=[{"name":"may-grow","expression":"true"}]', "at '/webhook/matchConditions/0/name'"),
    ],
)
def test_a_scope_that_would_leave_every_autoscaler_out_is_refused(value: str, why: str):
    assert why in refusal("webhook.enabled=true", 'webhook.caBundle="QUJD"', f"webhook.{value}")


@pytest.mark.helm
def test_the_recommended_values_ask_about_workspaces_alone():
    objects = made("--values", str(CHART / "values-webhook.yaml"))
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        (hook,) = objects[f"{kind}/extauthz"]["webhooks"]
        assert {"key": "workspace", "operator": "Exists"} in hook["namespaceSelector"]["matchExpressions"]
    assert "--grpc=off" in container(objects)["args"]


@pytest.mark.helm
def test_cert_manager_may_write_the_authority_of_the_webhook():
    shipped = made(*setting("webhook.enabled=true", 'webhook.injectCaFrom="infra/extauthz"'))
    configuration = shipped["ValidatingWebhookConfiguration/extauthz"]
    assert configuration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "infra/extauthz"}
    assert "caBundle" not in configuration["webhooks"][0]["clientConfig"]


SELF_SIGNED = ("webhook.enabled=true", 'webhook.certificates="self-signed"')


@pytest.mark.helm
def test_gates_that_make_the_certificate_of_the_webhook_have_the_rights_for_that_alone():
    objects = made(*setting(*SELF_SIGNED), namespace="infra")
    assert "caBundle" not in objects["ValidatingWebhookConfiguration/extauthz"]["webhooks"][0]["clientConfig"]
    arguments = container(objects)["args"]
    assert "--webhook=:9443" in arguments
    assert not any(each.startswith("--webhook-cert") for each in arguments)
    role, cluster_role = objects["Role/extauthz-webhook"], objects["ClusterRole/extauthz-webhook"]
    assert role["metadata"]["namespace"] == "infra"
    assert [(each["resources"], each.get("resourceNames"), each["verbs"]) for each in role["rules"]] == [
        (["secrets"], ["extauthz-webhook"], ["get", "update"])
    ]
    secret = objects["Secret/extauthz-webhook"]
    assert not {"data", "stringData", "type"} & set(secret), "applied again, it takes nothing of what gates wrote"
    assert (secret["metadata"]["namespace"], "annotations" in secret["metadata"]) == ("infra", False)
    read, patched = cluster_role["rules"]
    assert (read["resourceNames"], read["verbs"]) == (["extauthz"], ["get"])
    validating, mutating = "validatingwebhookconfigurations", "mutatingwebhookconfigurations"
    assert (patched["resourceNames"], patched["verbs"], patched["resources"]) == (
        ["extauthz"],
        ["patch"],
        [validating, mutating],
    )
    lowers_nothing = made(*setting(*SELF_SIGNED, "webhook.clamp=false"))["ClusterRole/extauthz-webhook"]["rules"][1]
    assert lowers_nothing["resources"] == [validating]
    for binding in ("RoleBinding/extauthz-webhook", "ClusterRoleBinding/extauthz-webhook"):
        assert objects[binding]["subjects"] == [{"kind": "ServiceAccount", "name": "extauthz", "namespace": "infra"}]
    without = made(*setting("webhook.enabled=true", 'webhook.caBundle="QUJD"'))
    assert {name for name in without if "/extauthz-webhook" in name} == {
        "ClusterRole/extauthz-webhook",
        "ClusterRoleBinding/extauthz-webhook",
    }
    (rule,) = without["ClusterRole/extauthz-webhook"]["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["extauthz"], ["get"])


@pytest.mark.helm
def test_gates_that_no_envoy_asks_need_no_secret_and_have_no_port_for_it():
    objects = made(*setting(*SELF_SIGNED, "grpc.enabled=false"))
    gate = container(objects)
    assert "--grpc=off" in gate["args"]
    assert not any("tls" in each for each in gate["args"])
    assert "volumeMounts" not in gate
    assert {port["name"] for port in gate["ports"]} == {"http", "webhook"}
    assert {port["name"] for port in objects["Service/extauthz"]["spec"]["ports"]} == {"http", "webhook"}
    assert "Service/extauthz-gates" not in objects
    ports = [each["ports"][0]["port"] for each in objects["NetworkPolicy/extauthz"]["spec"]["ingress"]]
    assert ports == ["http", "webhook"]
    mounted = container(made(*setting("webhook.enabled=true", 'webhook.caBundle="QUJD"', "grpc.enabled=false")))
    assert "volumeMounts" in mounted, "files come from the Secret"


@pytest.mark.helm
def test_the_api_for_others_has_a_port_and_the_rights_to_judge_people():
    assert "ClusterRoleBinding/extauthz-auth-delegator" not in made()
    objects = made(*setting("api.enabled=true", 'api.clientCASecret="people"', 'api.clients=["192.0.2.0/28"]'))
    binding = objects["ClusterRoleBinding/extauthz-auth-delegator"]
    assert binding["roleRef"]["name"] == "system:auth-delegator"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "extauthz", "namespace": "extauthz-system"}]
    args = container(objects)["args"]
    assert {"--api=:9444", "--api-client-ca=/etc/extauthz/api/ca.crt"} <= set(args)
    assert {"name": "api", "containerPort": 9444} in container(objects)["ports"]
    assert {"name": "api", "port": 9443, "targetPort": "api"} in objects["Service/extauthz"]["spec"]["ports"]
    (volume,) = [
        one for one in objects["Deployment/extauthz"]["spec"]["template"]["spec"]["volumes"] if one["name"] == "api"
    ]
    assert volume["secret"]["secretName"] == "people"
    rule = {"ports": [{"port": "api", "protocol": "TCP"}], "from": [{"ipBlock": {"cidr": "192.0.2.0/28"}}]}
    assert rule in objects["NetworkPolicy/extauthz"]["spec"]["ingress"]


@pytest.mark.helm
def test_who_may_view_a_namespace_may_see_the_quotas_that_cover_it():
    role = made()["ClusterRole/extauthz-quota-viewer"]
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def volumes(objects: dict[str, Tree]) -> dict[str, str]:
    """Names of volumes to those of their Secrets."""
    pod = objects["Deployment/extauthz"]["spec"]["template"]["spec"]
    return {one["name"]: one["secret"]["secretName"] for one in pod.get("volumes", [])}


@pytest.mark.helm
def test_uninstalling_leaves_the_quotas():
    definitions = [tree for tree in made().values() if tree["kind"] == "CustomResourceDefinition"]
    assert [tree["metadata"]["annotations"] for tree in definitions] == [{"helm.sh/resource-policy": "keep"}] * 2


@pytest.mark.helm
def test_the_test_of_a_release_is_the_doctor_with_an_account_of_its_own():
    hooks = {name: tree for name, tree in made().items() if "helm.sh/hook" in tree["metadata"].get("annotations", {})}
    assert {tree["metadata"]["name"] for tree in hooks.values()} == {"extauthz-doctor"}
    pod = hooks["Pod/extauthz-doctor"]["spec"]
    command = shlex.join([*pod["containers"][0]["command"], *pod["containers"][0]["args"]])
    assert command == "extauthz doctor --gate-account=extauthz-system/extauthz"
    assert pod["serviceAccountName"] == "extauthz-doctor"
    assert "volumes" not in pod, "its account says where the API server is: no DNS is asked"
    verbs = {verb for rule in hooks["ClusterRole/extauthz-doctor"]["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "create"}
    (creates,) = [rule for rule in hooks["ClusterRole/extauthz-doctor"]["rules"] if "create" in rule["verbs"]]
    assert creates["resources"] == ["subjectaccessreviews"]


@pytest.mark.helm
def test_every_container_of_the_gates_image_is_pulled_as_the_values_say():
    objects = made(*setting('image.pullPolicy="Never"'))
    specs = [tree["spec"].get("template", tree).get("spec", {}) for tree in objects.values() if "spec" in tree]
    containers = [each for spec in specs for each in spec.get("containers", ())]
    assert [each["name"] for each in containers if each.get("imagePullPolicy") == "Never"] == ["gate", "doctor"]
    assert len(containers) == 2


@pytest.mark.helm
def test_the_install_command_of_the_readme_makes_a_gate_that_the_api_server_asks():
    (command,) = re.findall(r"^helm install (.*?)\nkubectl", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    words = shlex.split(command.replace("\\\n", " "))
    values = words[words.index("--set") + 1].replace("<yours>", "registry.test/extauthz")
    objects = made("--values", str(ROOT / words[words.index("-f") + 1]), "--set", values)
    assert "ValidatingWebhookConfiguration/extauthz" in objects
    arguments = container(objects)["args"]
    assert "--webhook=:9443" in arguments
    assert "--grpc=off" in arguments


CODE = ROOT / "extauthz"
ROOMS = ("cluster", "kube", "ledger_store", "observe", "selfsigned", "servers", "sources")
"""Those that ask the API server as the gate."""
ALL = ("webhook.enabled=true", "webhook.certificates=self-signed", "api.enabled=true")
OWN = ("ClusterRole/extauthz", "ClusterRole/extauthz-webhook", "Role/extauthz-webhook")


class Right(NamedTuple):
    resource: str
    """``deployments.apps``."""
    verb: str
    name: str


def rows() -> list[tuple[list[Right], list[str]]]:
    """Of the table: rights, and the files that need them."""
    text = (ROOT / "docs" / "internals" / "security.md").read_text()
    table = text[text.index("## The gate's rights") :].split("\n\n")[2]
    found = []
    for line in table.splitlines()[2:]:
        resources, verbs, files, _ = (cell.strip() for cell in line.strip("|").split("|"))
        resources, _, name = resources.partition(" named ")
        plurals = [one for one in re.findall(r"`([^`]+)`", resources) if not one.startswith("system:")]
        rights = [Right(one, verb, name.strip("`")) for one in plurals for verb in verbs.split(", ")]
        found.append((rights, re.findall(r"`([^`]+)`", files)))
    return found


@pytest.mark.helm
def test_the_table_has_the_rights_of_the_chart():
    text = rendering.helm("template", "extauthz", "charts/extauthz", "--set", ",".join(ALL))
    objects = {f"{one['kind']}/{one['metadata']['name']}": one for one in yaml.safe_load_all(text) if one}
    chart = [
        Right(f"{resource}.{group}".rstrip("."), verb, name)
        for role in OWN
        for rule in objects[role]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]
    assert objects["ClusterRoleBinding/extauthz-auth-delegator"]["roleRef"]["name"] == "system:auth-delegator"
    delegated = [right for rights, _ in rows() for right in rights if "reviews." in right.resource]
    assert {right.verb for right in delegated} == {"create"}
    assert sorted(chart) == sorted(right for rights, _ in rows() for right in rights if right not in delegated)
    assert not [right for right in chart if right.resource == "secrets" and right.verb not in ("get", "update")]


def test_each_right_is_needed_by_the_code_that_its_row_names():
    for rights, files in rows():
        text = "".join(there.read_text() for file in files for there in CODE.rglob(file)).lower()
        for plural in {right.resource.split(".")[0].split("/")[-1] for right in rights}:
            word = "validatingwebhookconfiguration" if plural.startswith("validating") else plural
            assert word in text, (plural, files)


def test_no_code_reads_a_kind_without_a_row():
    listed = {right.resource.split("/")[0].split(".")[0] for rights, _ in rows() for right in rights}
    known = re.compile(r'Resource\(\s*"[^"]*", "v[^"]*", "([a-z]+)"')
    for room in ROOMS:
        for file in CODE.glob(f"*/{room}/**/*.py"):
            for plural in known.findall(file.read_text()):
                assert plural in listed, (plural, file)
