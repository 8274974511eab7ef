"""Whole objects and scales by PUT and POST."""

# ruff: noqa: E501 - a spelling reads best on one line

from __future__ import annotations

import copy
from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    CREW,
    DB,
    GIZMO,
    KNOB,
    OLD,
    PLAIN,
    SCALE,
    WEB,
    Spelling,
    Tree,
    changed,
    path_of,
    post,
    put,
    scale,
    with_meta,
)
from tests.controlplane.fixtures import FIXTURES, custom, deployment, of_kind

APPS = "/apis/apps/v1/namespaces/default/deployments"


def spellings() -> Iterator[Spelling]:
    """Whole objects, scales and creates."""
    for ref in (WEB, DB, CREW, OLD):
        yield from _puts(ref)
    yield from _odd_puts()
    yield from _scales()
    yield from _creates()


def _puts(ref: str) -> Iterator[Spelling]:
    base, kind = FIXTURES[ref], ref.split(".")[0].split(" ")[0]
    grown = copy.deepcopy(base["spec"]["template"])
    grown["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "900m"
    two = copy.deepcopy(base["spec"]["template"])
    two["spec"]["containers"].append({"name": "x", "image": "x:1", "resources": {"limits": {"cpu": "1"}}})
    cases: dict[str, tuple[Tree, bool]] = {
        "replicas": (changed(base, replicas=5), True),
        "same": (base, True),
        "shrink": (changed(base, replicas=1), True),
        "absent": (changed(base, replicas=...), True),
        "null": (changed(base, replicas=None), False),
        "template": (changed(base, template=grown), True),
        "both": (changed(base, template=grown, replicas=3), True),
        "container": (changed(base, template=two), True),
        "labels": (with_meta(base, labels={"team": "b"}), True),
        "labels-null": (with_meta(base, labels=None), False),
        "label-null": (with_meta(base, labels={"team": None}), False),
        "containers-null": (_with_containers(base, None), False),
        "container-null": (_with_containers(base, [None, *base["spec"]["template"]["spec"]["containers"]]), False),
        "resources-null": (_with_containers(base, [{"name": "app", "image": "a:1", "resources": None}]), False),
        "request-null": (_with_containers(base, [_app({"requests": {"cpu": None}, "limits": {"cpu": "2"}})]), False),
        "requests-null": (_with_containers(base, [_app({"requests": None, "limits": {"cpu": "2"}})]), False),
        "rv": (with_meta(changed(base, replicas=5), resourceVersion="@rv@"), True),
        "rv-old": (with_meta(changed(base, replicas=5), resourceVersion="1"), False),
        "rv-empty": (with_meta(changed(base, replicas=5), resourceVersion=""), True),
        "rv-number": (with_meta(changed(base, replicas=5), resourceVersion=1), False),
        "uid": (with_meta(changed(base, replicas=5), uid="@uid@"), True),
        "uid-bad": (with_meta(changed(base, replicas=5), uid="x"), False),
        "status": (changed(base, replicas=5) | {"status": {"replicas": 9}}, True),
        "no-spec": ({k: v for k, v in base.items() if k != "spec"}, False),
    }
    for name, (body, ordinary) in cases.items():
        yield put(f"put-{kind}-{name}", "the whole object", body, target=path_of(ref), before=ref, ordinary=ordinary)


def _app(resources: Tree) -> Tree:
    return {"name": "app", "image": "app:1", "resources": resources}


def _with_containers(tree: Tree, containers: Tree) -> Tree:
    out = copy.deepcopy(tree)
    out["spec"]["template"]["spec"]["containers"] = containers
    return out


def _odd_puts() -> Iterator[Spelling]:
    base = changed(FIXTURES[WEB], replicas=5)
    cases: dict[str, Tree] = {
        "kind-lower": base | {"kind": "deployment"},
        "kind-other": base | {"kind": "StatefulSet"},
        "kind-replicaset": base | {"kind": "ReplicaSet"},
        "kind-scale": scale(),
        "kind-list": {"kind": "DeploymentList", "apiVersion": "apps/v1", "items": [base]},
        "kind-core-list": {"kind": "List", "apiVersion": "v1", "items": [base]},
        "kind-empty": base | {"kind": ""},
        "kind-missing": {k: v for k, v in base.items() if k != "kind"},
        "kind-number": base | {"kind": 5},
        "version-missing": {k: v for k, v in base.items() if k != "apiVersion"},
        "version-both-missing": {k: v for k, v in base.items() if k not in ("apiVersion", "kind")},
        "version-beta": base | {"apiVersion": "apps/v1beta1"},
        "version-beta2": base | {"apiVersion": "apps/v1beta2"},
        "version-extensions": base | {"apiVersion": "extensions/v1beta1"},
        "version-case": base | {"apiVersion": "Apps/V1"},
        "version-slash": base | {"apiVersion": "/apps/v1"},
        "version-core": base | {"apiVersion": "v1"},
        "version-internal": base | {"apiVersion": "apps/__internal"},
        "name-other": with_meta(base, name="other"),
        "name-missing": with_meta(base, name=""),
        "name-null": with_meta(base, name=None),
        "generate-name": with_meta(base, name="", generateName="web"),
        "namespace-other": with_meta(base, namespace="scale"),
        "namespace-same": with_meta(base, namespace="default"),
        "metadata-missing": {k: v for k, v in base.items() if k != "metadata"},
        "metadata-null": base | {"metadata": None},
        "selector-other": changed(base, selector={"matchLabels": {"app": "x"}}),
        "strategy": changed(base, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%"}}),
        "paused": changed(base, paused=True),
        "items": base | {"items": [changed(base, replicas=9)]},
        "nested-spec": base | {"Spec": {"replicas": 9}},
        "owner": with_meta(
            base, ownerReferences=[{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u", "controller": True}]
        ),
        "managed-fields": with_meta(base, managedFields=[]),
        "deletion": with_meta(base, deletionTimestamp="2020-01-01T00:00:00Z"),
    }
    for name, body in cases.items():
        yield put(f"put-odd-{name}", "an odd whole object", body, target=PLAIN,
                  ordinary=name in {"namespace-same", "strategy", "paused", "owner", "managed-fields"})  # fmt: skip
    yield put("put-object-to-scale", "a Deployment where a Scale is due", base)
    yield put("put-status", "the status subresource", base | {"status": {"replicas": 9}}, target=PLAIN + "/status")
    for ref in (GIZMO, KNOB):
        kind = "Gadget" if ref == GIZMO else "Widget"
        name = ref.rpartition("/")[2]
        tree = with_meta(custom(kind, name, 5), resourceVersion="@rv@")
        yield put(f"put-custom-{kind.lower()}", "a custom resource itself", tree, target=path_of(ref), before=ref)


def _scales() -> Iterator[Spelling]:
    base = scale()
    cases: dict[str, Tree] = {
        "rv": scale(resourceVersion="@rv@"),
        "rv-old": scale(resourceVersion="1"),
        "rv-empty": scale(resourceVersion=""),
        "uid": scale(uid="@uid@"),
        "uid-bad": scale(uid="x"),
        "status": base | {"status": {"replicas": 2, "selector": "app=web"}},
        "kind-missing": {k: v for k, v in base.items() if k != "kind"},
        "version-missing": {k: v for k, v in base.items() if k != "apiVersion"},
        "type-missing": {k: v for k, v in base.items() if k in ("metadata", "spec")},
        "version-extensions": base | {"apiVersion": "extensions/v1beta1"},
        "version-apps-beta1": base | {"apiVersion": "apps/v1beta1"},
        "version-apps-beta2": base | {"apiVersion": "apps/v1beta2"},
        "version-apps": base | {"apiVersion": "apps/v1"},
        "version-v2": base | {"apiVersion": "autoscaling/v2"},
        "kind-lower": base | {"kind": "scale"},
        "name-other": scale(name="other"),
        "name-empty": scale(name=""),
        "namespace-other": scale(namespace="scale"),
        "namespace-missing": {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {"name": "web"},
            "spec": {"replicas": 5},
        },
        "metadata-missing": {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 5}},
        "spec-missing": {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web"}},
        "spec-empty": {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web"}, "spec": {}},
        "spec-null": {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web"}, "spec": None},
        "count-path": base | {"spec": {"size": {"count": 5}}},
        "labels": scale(labels={"team": "b"}),
        "extra": base | {"spec": {"replicas": 5, "x": 1}},
    }
    for name, body in cases.items():
        honest = name in {"rv", "rv-empty", "uid", "status", "extra", "labels"}
        yield put(f"scale-put-{name}", "a Scale", body, ordinary=honest)
        tree = copy.deepcopy(body)
        if tree.get("metadata", {}).get("name") == "web":
            tree["metadata"]["name"] = "gizmo"
        yield put(f"scale-custom-{name}", "a Scale of a custom resource", tree, target=path_of(GIZMO) + "/scale",
                  before=GIZMO, ordinary=honest)  # fmt: skip
        if tree.get("metadata", {}).get("name") == "gizmo":
            tree = copy.deepcopy(body)
            tree["metadata"]["name"] = "old"
        yield put(f"scale-core-{name}", "a Scale of a ReplicationController", tree, target=path_of(OLD) + "/scale", before=OLD,
                  ordinary=honest)  # fmt: skip


def _creates() -> Iterator[Spelling]:
    fresh = deployment("fresh", 3)
    cases: dict[str, Tree] = {
        "replicas-absent": deployment("fresh", None),
        "replicas-null": changed(fresh, replicas=None),
        "replicas-zero": deployment("fresh", 0),
        "generate-name": {**fresh, "metadata": {"generateName": "fresh-"}},
        "generate-and-name": with_meta(fresh, generateName="x-"),
        "no-name": {**fresh, "metadata": {}},
        "namespace-other": with_meta(fresh, namespace="scale"),
        "namespace-same": with_meta(fresh, namespace="default"),
        "type-missing": {k: v for k, v in fresh.items() if k not in ("apiVersion", "kind")},
        "kind-missing": {k: v for k, v in fresh.items() if k != "kind"},
        "version-missing": {k: v for k, v in fresh.items() if k != "apiVersion"},
        "version-beta": fresh | {"apiVersion": "apps/v1beta1"},
        "kind-other": fresh | {"kind": "ReplicaSet"},
        "list": {"kind": "DeploymentList", "apiVersion": "apps/v1", "items": [fresh]},
        "existing": deployment("web", 9),
        "resource-version": with_meta(fresh, resourceVersion="1"),
        "resource-version-zero": with_meta(fresh, resourceVersion="0"),
        "uid": with_meta(fresh, uid="x"),
        "name-capital": deployment("Fresh", 3),
        "name-scale": deployment("status", 3),
        "owner": with_meta(
            fresh, ownerReferences=[{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u", "controller": True}]
        ),
        "labels-null": with_meta(fresh, labels=None),
        "container-twice": changed(
            fresh,
            template={
                "metadata": {"labels": {"app": "fresh"}},
                "spec": {"containers": [{"name": "a", "image": "a"}, {"name": "a", "image": "a"}]},
            },
        ),
        "status": fresh | {"status": {"replicas": 9}},
    }
    for name, body in cases.items():
        yield post(f"post-{name}", "a create", body,
                   ordinary=name in {"replicas-absent", "replicas-zero", "generate-name", "namespace-same", "owner", "status"})  # fmt: skip
    for ref, kind in ((DB, "StatefulSet"), (CREW, "ReplicaSet"), (OLD, "ReplicationController")):
        tree = of_kind(kind, "fresh", 3)
        yield post(f"post-{kind.lower()}", "a create of another kind", tree, before=ref, ordinary=True)
        yield post(
            f"post-{kind.lower()}-absent", "replicas defaulted", changed(tree, replicas=...), before=ref, ordinary=True
        )
        yield post(f"post-{kind.lower()}-null", "replicas null", changed(tree, replicas=None), before=ref)
    bare = of_kind("ReplicationController", "fresh", 3)
    yield post(
        "post-rc-no-selector",
        "selector and labels default from the template",
        changed(bare, selector=...) | {"metadata": {"name": "fresh"}},
        before=OLD,
    )
    bare = of_kind("ReplicaSet", "fresh", 3)
    yield post(
        "post-rs-no-labels", "labels may default from the template", bare | {"metadata": {"name": "fresh"}}, before=CREW
    )
    yield post("post-binding", "a subresource that creates", scale(), target=SCALE)
    yield post("post-gadget", "a create of a custom resource", custom("Gadget", "fresh", 9), before=GIZMO)
