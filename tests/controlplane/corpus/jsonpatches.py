"""JSON Patch: operations, pointers, and odd texts of them."""

# ruff: noqa: E501 - a spelling reads best on one line

from __future__ import annotations

from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    CREW,
    DB,
    GIZMO,
    JSON_PATCH,
    OLD,
    PLAIN,
    Spelling,
    patch,
    path_of,
    scale,
)

R = "/spec/replicas"
POD = "/spec/template/spec"
CPU = POD + "/containers/0/resources/requests/cpu"

ON_SCALE = {
    "add": [{"op": "add", "path": R, "value": 5}],
    "replace": [{"op": "replace", "path": R, "value": 5}],
    "remove": [{"op": "remove", "path": R}],
    "remove-spec": [{"op": "remove", "path": "/spec"}],
    "remove-add": [{"op": "remove", "path": R}, {"op": "add", "path": R, "value": 5}],
    "test-good": [{"op": "test", "path": R, "value": 2}, {"op": "replace", "path": R, "value": 5}],
    "test-bad": [{"op": "test", "path": R, "value": 3}, {"op": "replace", "path": R, "value": 5}],
    "test-after": [{"op": "replace", "path": R, "value": 5}, {"op": "test", "path": R, "value": 5}],
    "test-float": [{"op": "test", "path": R, "value": 2.0}, {"op": "replace", "path": R, "value": 5}],
    "test-missing": [{"op": "test", "path": "/x", "value": None}, {"op": "replace", "path": R, "value": 5}],
    "copy-status": [{"op": "copy", "from": "/status/replicas", "path": R}],
    "copy-own": [{"op": "add", "path": "/x", "value": 5}, {"op": "copy", "from": "/x", "path": R}],
    "move-own": [{"op": "add", "path": "/x", "value": 5}, {"op": "move", "from": "/x", "path": R}],
    "move-away": [{"op": "move", "from": R, "path": "/x"}],
    "copy-generation": [{"op": "copy", "from": "/metadata/name", "path": R}],
    "spec": [{"op": "replace", "path": "/spec", "value": {"replicas": 5}}],
    "spec-empty": [{"op": "replace", "path": "/spec", "value": {}}],
    "whole": [{"op": "replace", "path": "", "value": scale()}],
    "whole-add": [{"op": "add", "path": "", "value": scale()}],
    "whole-remove": [{"op": "remove", "path": ""}],
    "twice": [{"op": "replace", "path": R, "value": 9}, {"op": "replace", "path": R, "value": 5}],
    "empty": [],
    "trailing-slash": [{"op": "replace", "path": R + "/", "value": 5}],
    "no-slash": [{"op": "replace", "path": "spec/replicas", "value": 5}],
    "double-slash": [{"op": "replace", "path": "/spec//replicas", "value": 5}],
    "prefix": [{"op": "replace", "path": "x/spec/replicas", "value": 5}],
    "tilde-zero": [{"op": "add", "path": "/spec/~0replicas", "value": 5}],
    "tilde-odd": [{"op": "add", "path": "/~2/replicas", "value": 5}],
    "fragment": [{"op": "replace", "path": "#/spec/replicas", "value": 5}],
    "capital-op": [{"op": "Replace", "path": R, "value": 5}],
    "capital-keys": [{"Op": "replace", "Path": R, "Value": 5}],
    "unknown-op": [{"op": "set", "path": R, "value": 5}],
    "no-op": [{"path": R, "value": 5}],
    "no-value": [{"op": "replace", "path": R}],
    "null-value": [{"op": "replace", "path": R, "value": None}],
    "null-value-add": [{"op": "add", "path": R, "value": None}],
    "extra-member": [{"op": "replace", "path": R, "value": 5, "comment": "x"}],
    "single-object": {"op": "replace", "path": R, "value": 5},
    "wrapped": {"patch": [{"op": "replace", "path": R, "value": 5}]},
    "nested": [[{"op": "replace", "path": R, "value": 5}]],
    "null-operation": [None, {"op": "replace", "path": R, "value": 5}],
    "numeric-path": [{"op": "replace", "path": 5, "value": 5}],
    "path-array": [{"op": "replace", "path": ["spec", "replicas"], "value": 5}],
    "missing-parent": [{"op": "add", "path": "/spec/x/y", "value": 5}],
    "replace-missing": [{"op": "replace", "path": "/spec/x", "value": 5}],
    "add-then-fail": [{"op": "add", "path": R, "value": 5}, {"op": "remove", "path": "/nope"}],
    "resource-version": [{"op": "test", "path": "/metadata/resourceVersion", "value": "@rv@"}, *[{"op": "replace", "path": R, "value": 5}]],
    "set-resource-version": [{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}, {"op": "replace", "path": R, "value": 5}],
    "kind": [{"op": "replace", "path": "/kind", "value": "Deployment"}, {"op": "replace", "path": R, "value": 5}],
    "version": [{"op": "replace", "path": "/apiVersion", "value": "apps/v1"}, {"op": "replace", "path": R, "value": 5}],
    "many": [{"op": "replace", "path": R, "value": n % 7} for n in range(9000)] + [{"op": "add", "path": R, "value": 5}],
    "too-many": [{"op": "replace", "path": R, "value": 5}] * 10001,
}  # fmt: skip

TEXTS = {
    "duplicate-value": f'[{{"op":"replace","path":"{R}","value":1,"value":5}}]',
    "duplicate-path": f'[{{"op":"replace","path":"/metadata/x","path":"{R}","value":5}}]',
    "duplicate-op": f'[{{"op":"test","op":"replace","path":"{R}","value":5}}]',
    "case-value": f'[{{"op":"replace","path":"{R}","value":1,"Value":5}}]',
    "case-path": f'[{{"op":"replace","path":"/x","PATH":"{R}","value":5}}]',
    "escaped-path": '[{"op":"replace","path":"\\/spec\\/\\u0072eplicas","value":5}]',
    "escaped-op": f'[{{"op":"\\u0072eplace","path":"{R}","value":5}}]',
    "trailing": f'[{{"op":"replace","path":"{R}","value":5}}] x',
    "trailing-list": f'[{{"op":"replace","path":"{R}","value":5}}][]',
    "bom": b'\xef\xbb\xbf[{"op":"replace","path":"/spec/replicas","value":5}]',
    "invalid-utf8": b'[{"op":"add","path":"/x","value":"\xff"},{"op":"replace","path":"/spec/replicas","value":5}]',
    "value-duplicate-inside": '[{"op":"replace","path":"/spec","value":{"replicas":1,"replicas":5}}]',
    "value-case-inside": '[{"op":"replace","path":"/spec","value":{"Replicas":5}}]',
    "null": "null",
    "comment": f'[{{"op":"replace","path":"{R}","value":5}}]#',
}

APP = {"name": "app", "image": "app:1"}
BIG = {"resources": {"requests": {"cpu": "700m"}}}

ON_OBJECT = {
    "replicas": [{"op": "replace", "path": R, "value": 5}],
    "remove": [{"op": "remove", "path": R}],
    "null": [{"op": "add", "path": R, "value": None}],
    "cpu": [{"op": "replace", "path": CPU, "value": "700m"}],
    "cpu-number": [{"op": "replace", "path": CPU, "value": 2}],
    "cpu-and-replicas": [{"op": "replace", "path": CPU, "value": "700m"}, {"op": "replace", "path": R, "value": 4}],
    "cpu-remove": [{"op": "remove", "path": CPU}],
    "limit-add": [{"op": "add", "path": POD + "/containers/1/resources/limits", "value": {"memory": "1Gi"}}],
    "container-add": [{"op": "add", "path": POD + "/containers/-", "value": {"name": "x", "image": "x:1", **BIG}}],
    "container-insert": [{"op": "add", "path": POD + "/containers/0", "value": {"name": "x", "image": "x:1", **BIG}}],
    "container-replace": [{"op": "replace", "path": POD + "/containers/1", "value": {"name": "x", "image": "x:1", **BIG}}],
    "container-remove": [{"op": "remove", "path": POD + "/containers/1"}],
    "container-copy": [
        {"op": "copy", "from": POD + "/containers/0", "path": POD + "/containers/-"},
        {"op": "replace", "path": POD + "/containers/2/name", "value": "app2"},
    ],
    "container-move-to-init": [{"op": "move", "from": POD + "/containers/1", "path": POD + "/initContainers/-"}],
    "containers": [{"op": "replace", "path": POD + "/containers", "value": [{**APP, **BIG}]}],
    "resources-copy": [{"op": "copy", "from": POD + "/containers/0/resources", "path": POD + "/containers/1/resources"}],
    "negative-index": [{"op": "replace", "path": POD + "/containers/-1/resources", "value": BIG["resources"]}],
    "leading-zero-index": [{"op": "replace", "path": POD + "/containers/00/resources", "value": BIG["resources"]}],
    "plus-index": [{"op": "replace", "path": POD + "/containers/+1/resources", "value": BIG["resources"]}],
    "index-beyond": [{"op": "add", "path": POD + "/containers/9", "value": {**APP, **BIG}}],
    "dash-replace": [{"op": "replace", "path": POD + "/containers/-", "value": {**APP, **BIG}}],
    "template": [{"op": "replace", "path": "/spec/template", "value": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{**APP, **BIG}]}}}],
    "label-add": [{"op": "add", "path": "/metadata/labels/team", "value": "b"}],
    "label-remove": [{"op": "remove", "path": "/metadata/labels/team"}],
    "labels": [{"op": "replace", "path": "/metadata/labels", "value": {"z": "1"}}],
    "label-escaped": [{"op": "add", "path": "/metadata/labels/example.dev~1team", "value": "b"}],
    "labels-remove": [{"op": "remove", "path": "/metadata/labels"}],
    "annotation": [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}],
    "copy-unseen": [{"op": "copy", "from": "/spec/progressDeadlineSeconds", "path": R}],
    "copy-unseen-history": [{"op": "copy", "from": "/spec/revisionHistoryLimit", "path": R}],
    "copy-generation": [{"op": "copy", "from": "/metadata/generation", "path": R}],
    "move-unseen": [{"op": "move", "from": "/spec/revisionHistoryLimit", "path": R}],
    "test-unseen": [{"op": "test", "path": "/spec/revisionHistoryLimit", "value": 10}, {"op": "replace", "path": R, "value": 5}],
    "test-image": [{"op": "test", "path": POD + "/containers/0/image", "value": "app:1"}, {"op": "replace", "path": R, "value": 5}],
    "image": [{"op": "replace", "path": POD + "/containers/0/image", "value": "app:2"}],
    "gpu": [{"op": "add", "path": POD + "/containers/0/resources/limits/nvidia.com~1gpu", "value": "1"}],
    "swap-via-unseen": [
        {"op": "add", "path": "/metadata/annotations", "value": {"a": "5"}},
        {"op": "copy", "from": "/metadata/annotations/a", "path": CPU},
    ],
    "restart-policy": [{"op": "add", "path": POD + "/initContainers/0/restartPolicy", "value": "Always"}],
    "overhead": [{"op": "add", "path": POD + "/overhead", "value": {"cpu": "1"}}],
    "status": [{"op": "add", "path": "/status/replicas", "value": 9}],
    "resource-version": [{"op": "replace", "path": "/metadata/resourceVersion", "value": "@rv@"}, {"op": "replace", "path": R, "value": 5}],
    "name": [{"op": "replace", "path": "/metadata/name", "value": "other"}, {"op": "replace", "path": R, "value": 5}],
    "from-escaped": [{"op": "copy", "from": "/spec/template/spec/containers/0/resources", "path": "/spec/template/spec/containers/1/resources"}, {"op": "add", "path": R, "value": 3}],
}  # fmt: skip


def spellings() -> Iterator[Spelling]:
    """JSON Patch on the scale and on the object."""
    ordinary = {"add", "replace", "test-good", "spec", "whole", "twice"}
    for name, body in ON_SCALE.items():
        yield patch(f"json-patch-scale-{name}", "operations", body, JSON_PATCH, ordinary=name in ordinary)
    for name, text in TEXTS.items():
        yield patch(f"json-patch-text-{name}", "a JSON text of operations", text, JSON_PATCH)
    strange = {"copy-unseen", "copy-unseen-history", "copy-generation", "move-unseen", "negative-index", "leading-zero-index",
               "plus-index", "index-beyond", "dash-replace", "null", "remove", "status", "name", "overhead"}  # fmt: skip
    for name, body in ON_OBJECT.items():
        yield patch(
            f"json-patch-object-{name}",
            "operations",
            body,
            JSON_PATCH,
            target=PLAIN,
            ordinary=name not in strange,
        )
    for ref in (DB, CREW, OLD):
        for name in ("replicas", "remove", "cpu", "labels", "cpu-and-replicas"):
            kind = ref.split(".")[0].split(" ")[0]
            yield patch(f"json-patch-{kind}-{name}", "operations on another kind", ON_OBJECT[name], JSON_PATCH,
                        target=path_of(ref), before=ref, ordinary=name != "remove")  # fmt: skip
    for name in ("add", "remove", "spec", "copy-own", "remove-spec", "null-value-add", "copy-status"):
        yield patch(f"json-patch-custom-{name}", "operations on a custom scale", ON_SCALE[name], JSON_PATCH,
                    target=path_of(GIZMO) + "/scale", before=GIZMO, ordinary=name in ordinary)  # fmt: skip
