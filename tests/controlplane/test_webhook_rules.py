"""What a real API server asks a webhook about, by the configuration that ``extauthz render webhook`` prints.

Nobody listens where it points to. So what is asked about is refused, and what passes was not asked about. That is also
what happens while no gate lives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.kinds import POD_MAKERS
from extauthz.core.quota.selectors import LabelSelector, Requirement
from extauthz.serve.ledger_store.kubernetes import WORKSPACE_LEDGERS
from extauthz.serve.service import reaching
from extauthz.tools.render import webhook
from extauthz.tools.render.webhook import Custom, WebhookOptions
from tests.controlplane import fixtures
from tests.controlplane.api import MERGE, RefusedError, path_of
from tests.controlplane.plane import Plane, running_plane
from tests.support import objects
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

Tree = Any
LEDGERS = Path(__file__).parents[2] / "charts/extauthz/definitions/workspaceledgers.yaml"

DEAD = WebhookOptions(
    url="https://127.0.0.1:1",
    except_namespaces=("spared",),
    custom=(Custom("example.dev", "widgets"), Custom("example.dev", "gadgets")),
)
ASKED = 'failed calling webhook "workspacequotas.extauthz.dev"'
LOWERED = 'failed calling webhook "clamp.workspacequotas.extauthz.dev"'


def pod(**spec: Tree) -> Tree:
    containers = [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}]
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers} | spec}


def workload(kind: str, name: str = "web", namespace: str = "shop") -> Tree:
    more = {"serviceName": "x"} if kind == "StatefulSet" else {}
    selector = {"app": "web"} if kind == "ReplicationController" else {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "v1" if kind == "ReplicationController" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {"tier": "a"}},
        "spec": {"replicas": 2, "selector": selector, "template": pod(), **more},
    }


KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")

GADGET, WIDGET = "Gadget.example.dev/v1", "Widget.example.dev/v1"
NAMES = {GADGET: "gizmo", WIDGET: "knob"}
"""Of what is no ``web``."""


def custom(kind: str, name: str) -> Tree:
    tree = fixtures.custom(kind, name, 2)
    return tree | {
        "metadata": {"name": name, "namespace": "shop", "labels": {"tier": "a"}},
        "spec": tree["spec"] | {"template": pod(), "pause": True},
    }


CUSTOMS = {kind: custom(kind.partition(".")[0], name) for kind, name in NAMES.items()}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A control plane of its own, with workloads, and then with the configuration."""
    with running_plane(folder=tmp_path_factory.mktemp("guarded")) as plane:
        for name in ("shop", "spared"):
            plane.api.create(objects.namespace(name))
        for kind in KINDS:
            plane.api.create(workload(kind))
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "some", "controller": True}
        owned = workload("ReplicaSet", "owned")
        plane.api.create(owned | {"metadata": owned["metadata"] | {"ownerReferences": [owner]}})
        plane.api.create(JOB)
        for definition, (kind, made) in zip(fixtures.DEFINITIONS, CUSTOMS.items(), strict=True):
            plane.api.create(definition)
            eventually(lambda kind=kind: plane.api.serves(kind))
            plane.api.create(made)
        plane.api.create(workload("Deployment", "none") | {"spec": workload("Deployment")["spec"] | {"replicas": 0}})
        plane.api.create(webhook.configuration(DEAD))
        eventually(lambda: is_asked(plane, "Deployment", {"spec": {"replicas": 3}}))
        yield plane


def is_asked(plane: Plane, kind: str, patch: Tree, name: str = "", sub: str = "", by: str = ASKED) -> bool:
    """Whether the webhook is asked about a patch. It is sent as a dry run, so that each begins from the same object."""
    try:
        path = path_of(kind, "shop", name or NAMES.get(kind, "web"), sub)
        plane.api.call("PATCH", f"{path}?dryRun=All", patch, MERGE)
    except RefusedError as error:
        if ASKED not in str(error) and LOWERED not in str(error):
            raise
        return by in str(error)
    return False


def template(**spec: Tree) -> Tree:
    return {"spec": {"template": {"spec": spec}}}


CONTAINER = {"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}

GROWTH = {
    "more replicas": {"spec": {"replicas": 3}},
    "another request": template(containers=[CONTAINER | {"resources": {"requests": {"cpu": "2"}}}]),
    "a limit": template(containers=[CONTAINER | {"resources": {"limits": {"cpu": "2"}}}]),
    "no request": template(containers=[{"name": "main", "image": "a"}]),
    "a sidecar": template(containers=[CONTAINER, CONTAINER | {"name": "b"}]),
    "an init container": template(initContainers=[CONTAINER | {"name": "i"}]),
    "a runtime class": template(runtimeClassName="kata"),
    "a volume": template(volumes=[{"name": "v", "emptyDir": {}}]),
    "labels": {"metadata": {"labels": {"tier": "b"}}},
    "no labels": {"metadata": {"labels": None}},
    "an owner": {
        "metadata": {
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}]
        }
    },
}

HARMLESS = {
    "fewer replicas": {"spec": {"replicas": 1}},
    "none": {"spec": {"replicas": 0}},
    "as many": {"spec": {"replicas": 2}},
    "a new image": template(containers=[CONTAINER | {"image": "b"}]),
    "a variable": template(containers=[CONTAINER | {"env": [{"name": "A", "value": "b"}]}]),
    "a restart": {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}},
    "an annotation": {"metadata": {"annotations": {"a": "b"}}},
}


@pytest.mark.parametrize("kind", [*KINDS, WIDGET])
@pytest.mark.parametrize("what", GROWTH)
def test_what_may_grow_is_asked_about(guarded: Plane, kind: str, what: str):
    assert is_asked(guarded, kind, GROWTH[what])


@pytest.mark.parametrize("kind", [*KINDS, WIDGET])
@pytest.mark.parametrize("what", HARMLESS)
def test_what_cannot_grow_is_not_asked_about(guarded: Plane, kind: str, what: str):
    assert not is_asked(guarded, kind, HARMLESS[what])


@pytest.mark.parametrize("kind", [*KINDS, WIDGET])
def test_a_scale_is_asked_about_where_it_grows(guarded: Plane, kind: str):
    asked = [is_asked(guarded, kind, {"spec": {"replicas": count}}, sub="scale") for count in (0, 1, 2, 3)]
    assert asked == [False, False, False, True]


JOB = {
    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum", "namespace": "shop"},
    "spec": {"parallelism": 2, "completions": 4, "completionMode": "Indexed", "suspend": True,
             "template": pod(restartPolicy="Never")},
}  # fmt: skip


@pytest.mark.parametrize(
    ("patch", "asked"),
    [
        ({"spec": {"parallelism": 3}}, True),
        ({"spec": {"parallelism": 6, "completions": 6}}, True),
        ({"spec": {"suspend": False}}, True),
        ({"metadata": {"labels": {"tier": "b"}}}, True),
        ({"spec": {"parallelism": 1}}, False),
        ({"spec": {"suspend": True}}, False),
        ({"spec": {"activeDeadlineSeconds": 9}}, False),
        ({"metadata": {"annotations": {"a": "b"}}}, False),
    ],
)
def test_a_job_is_asked_about_where_more_pods_may_run(guarded: Plane, patch: Tree, asked: bool):
    assert is_asked(guarded, "Job", patch, "sum") is asked


def test_a_new_job_is_asked_about_and_its_status_is_not(guarded: Plane):
    with pytest.raises(RefusedError, match=ASKED):
        guarded.api.create(JOB | {"metadata": {"name": "new", "namespace": "shop"}})
    guarded.api.create(JOB | {"metadata": {"name": "new", "namespace": "spared"}})
    guarded.api.patch("Job", "sum", "shop", {"metadata": {"annotations": {"seen": "1"}}}, sub="status")


def test_a_pod_that_is_resized_is_asked_about_and_no_other_write_of_pods(guarded: Plane):
    lone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone", "namespace": "shop"}, "spec": pod()["spec"]}
    guarded.api.create(lone)
    more = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
    path = path_of("Pod", "shop", "lone", "resize")
    with pytest.raises(RefusedError, match=ASKED):
        guarded.api.call("PATCH", path, more, "application/strategic-merge-patch+json")
    guarded.api.patch("Pod", "lone", "shop", {"status": {"phase": "Running"}}, sub="status")
    guarded.api.patch("Pod", "lone", "shop", {"metadata": {"labels": {"a": "b"}}})


def test_a_webhook_is_shown_the_next_generation_of_a_pod_that_is_resized(guarded: Plane):
    """So that what a kubelet has said of the one before is not taken for said of this one."""
    lone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "l", "namespace": "spared"}, "spec": pod()["spec"]}
    guarded.api.create(lone)
    asks = webhook.configuration(WebhookOptions(url="https://127.0.0.1:1"))
    asks["metadata"] = {"name": "generation"}
    expression = "object.metadata.generation == oldObject.metadata.generation + 1"
    hook = asks["webhooks"][0]
    hook["rules"] = [rule for rule in hook["rules"] if "pods/resize" in rule["resources"]]
    hook["matchConditions"] = [{"name": "next", "expression": expression}]
    guarded.api.create(asks)

    def is_next(cpu: str) -> bool:
        wanted = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
        path = path_of("Pod", "spared", "l", "resize") + "?dryRun=All"
        try:
            guarded.api.call("PATCH", path, wanted, "application/strategic-merge-patch+json")
        except RefusedError as error:
            return ASKED in str(error)
        return False

    try:
        eventually(lambda: is_next("2"))
        assert not is_next("1"), "nothing changes"
    finally:
        guarded.api.delete("ValidatingWebhookConfiguration.admissionregistration.k8s.io/v1", "generation")
        eventually(lambda: not is_next("2"))


def test_a_scale_from_zero_is_asked_about(guarded: Plane):
    """A Scale leaves a count of zero out."""
    asked = [is_asked(guarded, "Deployment", {"spec": {"replicas": n}}, "none", "scale") for n in (0, 1)]
    assert asked == [False, True]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_object_is_asked_about_but_where_it_is_left_out(guarded: Plane, kind: str):
    with pytest.raises(RefusedError, match=ASKED):
        guarded.api.create(workload(kind, "new"))
    guarded.api.create(workload(kind, "new", "spared"))
    guarded.api.create(workload(kind, "new", "kube-system"))


def test_status_and_deletion_and_leases_pass(guarded: Plane):
    web = guarded.api.get("Deployment", "web", "shop")
    guarded.api.patch("Deployment", "web", "shop", {"status": {"observedGeneration": 1}}, sub="status")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "shop"}}
    guarded.api.create(lease)
    assert guarded.api.get("Deployment", "web", "shop")["spec"] == web["spec"]


MOVES = {
    "labels": {"metadata": {"labels": {"tier": "b"}}},
    "an owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}]}},
}


@pytest.mark.parametrize("what", MOVES)
@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet", "ReplicationController"])
def test_a_status_that_moves_a_workload_is_asked_about(guarded: Plane, kind: str, what: str):
    """It keeps ``spec``, and takes labels and owners along."""
    assert is_asked(guarded, kind, MOVES[what], sub="status")
    assert not is_asked(guarded, kind, {"status": {"observedGeneration": 1, "replicas": 2}}, sub="status")
    assert not is_asked(guarded, kind, {"metadata": {"annotations": {"seen": "1"}}}, sub="status")


def test_a_status_of_a_deployment_keeps_its_labels(guarded: Plane):
    found = guarded.api.call("PATCH", path_of("Deployment", "shop", "web", "status"), MOVES["labels"], MERGE)
    assert found["metadata"]["labels"]["tier"] == "a"


def test_a_replica_set_passes_where_the_deployment_controller_writes_it_and_not_where_it_names_an_owner(guarded: Plane):
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}
    owned = workload("ReplicaSet", "web-1")
    owned["metadata"]["ownerReferences"] = [owner]
    create = ("create", "--filename=-", "--dry-run=server")
    refused = guarded.kubectl.run(*create, stdin=json.dumps(owned))
    assert ASKED in refused.stderr
    controller = "--as=system:serviceaccount:kube-system:deployment-controller"
    guarded.kubectl(*create, controller, "--as-group=system:masters", stdin=json.dumps(owned))
    lone = guarded.kubectl.run(
        *create, controller, "--as-group=system:masters", stdin=json.dumps(workload("Deployment", "lone"))
    )
    assert ASKED in lone.stderr, "whoever it is, a Deployment is asked about"


@pytest.mark.parametrize(("to", "asked"), [(5, False), (6, True), (0, False)])
def test_the_deployment_controller_is_asked_where_one_replica_set_gets_more_than_its_deployment_may_have(
    guarded: Plane, to: int, asked: bool
):
    """Its own rollouts never do that: the annotation is written with the count."""
    controller = ("--as=system:serviceaccount:kube-system:deployment-controller", "--as-group=system:masters")
    found = guarded.api.get("ReplicaSet", "web", "shop")
    found["spec"]["replicas"] = to
    found["metadata"]["annotations"] = {"deployment.kubernetes.io/max-replicas": "5"}
    said = guarded.kubectl.run("replace", "--filename=-", "--dry-run=server", *controller, stdin=json.dumps(found))
    assert (ASKED in said.stderr) == asked


@pytest.fixture(scope="module")
def with_pods(guarded: Plane) -> Iterator[Plane]:
    """The same, which is also asked about pods where a label says so."""
    selector = LabelSelector((("workspace", "acme"),))
    made = webhook.configuration(replace(DEAD, pods=True, namespace_selector=selector))
    guarded.api.create(made | {"metadata": {"name": "pods"}})
    guarded.api.create(objects.namespace("acme", workspace="acme"))
    eventually(lambda: said_of_a_pod(guarded, "acme") != "")
    yield guarded
    guarded.kubectl("delete", "validatingwebhookconfiguration", "pods")


def said_of_a_pod(plane: Plane, namespace: str, user: str = "", group: str = "system:masters", owner: str = "") -> str:
    """What is said against a new pod; empty: it is made."""
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": "u", "controller": True}] if owner else []
    metadata = {"name": "one", "namespace": namespace, "ownerReferences": owners}
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod()["spec"]}
    groups = {group, "system:masters"}
    who = [f"--as={user}", *(f"--as-group={one}" for one in groups)] if user else []
    done = plane.kubectl.run("create", "--filename=-", "--dry-run=server", *who, stdin=json.dumps(tree))
    return done.stderr


def test_a_pod_is_asked_about_where_quotas_are_and_no_controller_makes_it(with_pods: Plane):
    """What stops while no gate lives."""
    assert ASKED in said_of_a_pod(with_pods, "acme")
    assert ASKED in said_of_a_pod(with_pods, "acme", owner="ReplicaSet")
    assert ASKED in said_of_a_pod(with_pods, "acme", "system:serviceaccount:ray-system:kuberay-operator")
    for name in ("shop", "spared", "kube-system"):
        assert ASKED not in said_of_a_pod(with_pods, name)


@pytest.mark.parametrize("user", POD_MAKERS)
def test_a_pod_of_a_workload_passes_where_its_controller_makes_it(with_pods: Plane, user: str):
    assert ASKED not in said_of_a_pod(with_pods, "acme", user, owner="ReplicaSet")
    assert ASKED in said_of_a_pod(with_pods, "acme", f"{user}-x", owner="ReplicaSet")


def test_a_mirror_of_a_static_pod_passes(with_pods: Plane):
    assert ASKED not in said_of_a_pod(with_pods, "acme", "system:node:n1", "system:nodes")


COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"


@pytest.mark.parametrize(("user", "is_asked"), [(COLLECTOR, False), (COLLECTOR + "-x", True)])
def test_what_the_garbage_collector_takes_off_passes(guarded: Plane, user: str, is_asked: bool):
    """Were it refused, ``kubectl delete --cascade=orphan`` would never end."""
    patch = json.dumps(GROWTH["an owner"])
    found = guarded.kubectl.run(
        *("patch", "rs", "web", "-n=shop", "--type=merge", f"--patch={patch}", "--dry-run=server"),
        *(f"--as={user}", "--as-group=system:masters"),
    )
    assert (ASKED in found.stderr, "patched" in found.stdout) == (is_asked, not is_asked)


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"size": {"count": 3}}},
        {"spec": {"size": None}},
        {"spec": {"pause": None}},
        {"spec": {"more": 1}},
        {"spec": {"template": {"spec": None, "count": 1}}},
    ],
    ids=["its count", "no count", "a key less", "a key more", "no pod template"],
)
def test_where_else_a_custom_resource_may_have_its_count_and_template_is_asked_about(guarded: Plane, patch: Tree):
    assert is_asked(guarded, GADGET, patch)


def test_a_custom_resource_that_leaves_its_count_to_the_default_is_asked_about(guarded: Plane):
    assert is_asked(guarded, WIDGET, {"spec": {"replicas": None}})


def test_a_new_object_of_a_custom_kind_is_asked_about_and_its_status_is_not(guarded: Plane):
    with pytest.raises(RefusedError, match=ASKED):
        guarded.api.create(custom("Widget", "new"))
    guarded.api.patch(WIDGET, "knob", "shop", {"status": {"replicas": 2}}, sub="status")


def test_of_labels_only_those_are_asked_about_that_a_workload_is_selected_by(guarded: Plane):
    """So that a label which costs nothing passes while no gate lives."""
    scoped = replace(DEAD, workload_labels=("tier", "example.com/team"), url="https://127.0.0.1:2")
    path = path_of("ValidatingWebhookConfiguration", group="admissionregistration.k8s.io/v1") + "/extauthz"
    guarded.api.call("PATCH", path, {"webhooks": webhook.configuration(scoped)["webhooks"]}, MERGE)
    patches = [{"metadata": {"labels": {key: "b"}}} for key in ("tier", "example.com/team", "app.kubernetes.io/name")]
    try:
        eventually(lambda: [is_asked(guarded, "Deployment", one) for one in patches] == [True, True, False])
        assert is_asked(guarded, "Deployment", {"metadata": {"labels": None}}), "the one that counts goes too"
        assert is_asked(guarded, "Deployment", {"spec": {"replicas": 3}})
        assert not is_asked(guarded, "ReplicaSet", patches[2])
        assert is_asked(guarded, "ReplicaSet", patches[2], "owned"), "its owner may let go of it"
    finally:
        guarded.api.call("PATCH", path, {"webhooks": webhook.configuration(DEAD)["webhooks"]}, MERGE)
        eventually(lambda: is_asked(guarded, "Deployment", patches[2]))


def test_nothing_is_asked_about_namespaces_without_the_label_that_it_selects(guarded: Plane):
    selector = LabelSelector((), (Requirement("workspace", "Exists"),))
    path = path_of("ValidatingWebhookConfiguration", group="admissionregistration.k8s.io/v1") + "/extauthz"
    hooks = webhook.configuration(replace(DEAD, namespace_selector=selector))["webhooks"]
    guarded.api.call("PATCH", path, {"webhooks": hooks}, MERGE)
    more = {"spec": {"replicas": 3}}
    try:
        eventually(lambda: not is_asked(guarded, "Deployment", more))
        guarded.api.patch("Namespace", "shop", None, {"metadata": {"labels": {"workspace": "acme"}}})
        eventually(lambda: is_asked(guarded, "Deployment", more))
    finally:
        guarded.api.call("PATCH", path, {"webhooks": webhook.configuration(DEAD)["webhooks"]}, MERGE)
        guarded.api.patch("Namespace", "shop", None, {"metadata": {"labels": {"workspace": None}}})
        eventually(lambda: is_asked(guarded, "Deployment", more))


def test_namespaces_with_the_label_that_breaks_the_glass_are_not_asked_about(guarded: Plane):
    more = {"spec": {"replicas": 3}}
    assert is_asked(guarded, "Deployment", more)
    guarded.kubectl("label", "namespaces", "--all", "extauthz.dev/break-glass=")
    try:
        eventually(lambda: not is_asked(guarded, "Deployment", more))
    finally:
        guarded.kubectl("label", "namespaces", "--all", "extauthz.dev/break-glass-")
        eventually(lambda: is_asked(guarded, "Deployment", more))


FORCED = ("--server-side", "--force-conflicts")
SYNCS = {
    "argo-cd": (),
    "argo-cd-server-side": (*FORCED, "--field-manager=argocd-controller"),
    "flux": (*FORCED, "--field-manager=kustomize-controller"),
}
"""How each applies a manifest, again and again."""


@pytest.mark.parametrize("sync", SYNCS.values(), ids=SYNCS)
def test_a_sync_that_puts_a_namespace_right_leaves_the_label_that_breaks_the_glass(
    guarded: Plane, sync, tmp_path: Path
):
    (tmp_path / "namespace.json").write_text(json.dumps(objects.namespace("healed", workspace="acme")))
    apply = ("apply", *sync, f"--filename={tmp_path / 'namespace.json'}")
    guarded.kubectl(*apply)
    guarded.kubectl("label", "namespaces", "healed", "extauthz.dev/break-glass=", "workspace=drifted", "--overwrite")
    guarded.kubectl(*apply)
    found = guarded.api.get("Namespace", "healed", None)["metadata"]["labels"]
    ours = {"extauthz.dev/break-glass": "", "kubernetes.io/metadata.name": "healed"}
    assert found == {"workspace": "acme"} | ours
    guarded.kubectl("label", "namespaces", "healed", "extauthz.dev/break-glass-")


def test_of_a_ledger_only_a_trial_is_asked_about(guarded: Plane):
    """Gates need one before they can answer."""
    guarded.kubectl("apply", "--server-side", f"--filename={LEDGERS}")

    def said(query: str) -> str:
        try:
            guarded.api.call("POST", WORKSPACE_LEDGERS.collection() + query, reaching.TRIAL)
        except RefusedError as error:
            return str(error)
        return ""

    eventually(lambda: ASKED in said("?dryRun=All"))
    assert said("") == ""


@pytest.fixture(scope="module")
def clamped(guarded: Plane) -> Iterator[Plane]:
    """With the mutating one too. It refuses here where nobody answers, so that it shows what is asked about."""
    tree = webhook.clamp_configuration(DEAD)
    tree["webhooks"][0]["failurePolicy"] = "Fail"
    guarded.api.create(tree)
    eventually(lambda: is_lowered(guarded, "Deployment", {"spec": {"replicas": 3}}))
    yield guarded
    guarded.api.call("DELETE", path_of("MutatingWebhookConfiguration", group=tree["apiVersion"]) + "/extauthz")


def is_lowered(plane: Plane, kind: str, patch: Tree, sub: str = "") -> bool:
    """Whether the mutating webhook is asked. It comes first."""
    return is_asked(plane, kind, patch, sub=sub, by=LOWERED)


@pytest.mark.parametrize("sub", ["", "scale"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_growing_count_is_asked_about_before(clamped: Plane, kind: str, sub: str):
    assert is_lowered(clamped, kind, {"spec": {"replicas": 3}}, sub=sub)
    assert not is_lowered(clamped, kind, {"spec": {"replicas": 2}}, sub=sub)
    assert not is_lowered(clamped, kind, {"spec": {"replicas": 1}}, sub=sub)


@pytest.mark.parametrize("patch", [GROWTH[name] for name in GROWTH if name != "more replicas"])
def test_growth_that_is_no_count_is_not_lowered(clamped: Plane, patch: Tree):
    assert not is_lowered(clamped, "Deployment", patch)


def test_a_create_and_a_custom_resources_scale(clamped: Plane):
    with pytest.raises(RefusedError) as error:
        clamped.api.create(workload("Deployment", "new"))
    assert ASKED in str(error.value), "only what decides is asked about it"
    assert is_lowered(clamped, WIDGET, {"spec": {"replicas": 3}}, "scale")


def test_the_count_of_a_custom_resource_is_asked_about_before_wherever_it_is(clamped: Plane):
    assert is_lowered(clamped, WIDGET, {"spec": {"replicas": 3}})
    assert is_lowered(clamped, GADGET, {"spec": {"size": {"count": 3}}})
    assert not is_lowered(clamped, WIDGET, {"spec": {"replicas": 1}})
    assert not is_lowered(clamped, WIDGET, GROWTH["another request"])
