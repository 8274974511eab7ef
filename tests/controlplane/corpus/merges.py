"""Merge patch and strategic merge patch: fields, nulls, directives and templates."""

# ruff: noqa: E501 - a spelling reads best on one line

from __future__ import annotations

from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    CREW,
    DB,
    GIZMO,
    LIMITS_ONLY,
    NAKED,
    OLD,
    PLAIN,
    SCALE,
    STRATEGIC,
    WEB,
    Spelling,
    patch,
    path_of,
    pods,
    to,
)
from tests.controlplane.fixtures import FIXTURES

APP = {"name": "app", "image": "app:1"}
BIG = {"resources": {"requests": {"cpu": "700m"}}}

BOTH: dict[str, object] = {
    "replicas": to(),
    "replicas-null": to(None),
    "spec-null": {"spec": None},
    "labels": {"metadata": {"labels": {"team": "b"}}},
    "labels-null": {"metadata": {"labels": None}},
    "label-null": {"metadata": {"labels": {"team": None}}},
    "labels-and-replicas": {"metadata": {"labels": {"team": "b"}}, **to()},
    "annotations": {"metadata": {"annotations": {"a": "b"}}},
    "rv-good": {"metadata": {"resourceVersion": "@rv@"}, **to()},
    "rv-old": {"metadata": {"resourceVersion": "1"}, **to()},
    "rv-empty": {"metadata": {"resourceVersion": ""}, **to()},
    "rv-zero": {"metadata": {"resourceVersion": "0"}, **to()},
    "rv-null": {"metadata": {"resourceVersion": None}, **to()},
    "rv-number": {"metadata": {"resourceVersion": 1}, **to()},
    "uid-good": {"metadata": {"uid": "@uid@"}, **to()},
    "uid-bad": {"metadata": {"uid": "x"}, **to()},
    "uid-null": {"metadata": {"uid": None}, **to()},
    "name-other": {"metadata": {"name": "other"}, **to()},
    "name-null": {"metadata": {"name": None}, **to()},
    "namespace-other": {"metadata": {"namespace": "scale"}, **to()},
    "kind-other": {"kind": "StatefulSet", **to()},
    "kind-null": {"kind": None, **to()},
    "version-other": {"apiVersion": "apps/v1beta1", **to()},
    "version-null": {"apiVersion": None, **to()},
    "containers": pods(containers=[{**APP, **BIG}]),
    "containers-empty": pods(containers=[]),
    "containers-null": pods(containers=None),
    "containers-new": pods(containers=[{"name": "x", "image": "x:1", **BIG}]),
    "init": pods(initContainers=[{"name": "seed", "image": "seed:1", **BIG}]),
    "init-null": pods(initContainers=None),
    "template-null": {"spec": {"template": None}},
    "pod-resources": pods(resources={"requests": {"cpu": "2"}}),
    "overhead": pods(overhead={"cpu": "1"}),
    "runtime-class": pods(runtimeClassName="absent"),
    "annotation-of-template": {"spec": {"template": {"metadata": {"annotations": {"restartedAt": "now"}}}}},
    "strategy": {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 5}}}},
    "owner": {"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}]}, **to()},
    "status": {"status": {"replicas": 9}},
    "status-and-replicas": {"status": {"replicas": 9}, **to()},
    "finalizers": {"metadata": {"finalizers": ["example.dev/x"]}},
    "paused": {"spec": {"paused": True}},
    "empty": {},
}  # fmt: skip

DIRECTIVES: dict[str, object] = {
    "container-merge": pods(containers=[{"name": "app", **BIG}]),
    "container-new": pods(containers=[{"name": "x", "image": "x:1", **BIG}]),
    "container-no-name": pods(containers=[BIG]),
    "container-delete": pods(containers=[{"name": "log", "$patch": "delete"}]),
    "container-delete-other-fields": pods(containers=[{"name": "log", "$patch": "delete", **BIG}]),
    "containers-replace": pods(containers=[{"$patch": "replace"}, {**APP, **BIG}]),
    "containers-replace-last": pods(containers=[{**APP, **BIG}, {"$patch": "replace"}]),
    "container-replace": pods(containers=[{**APP, **BIG, "$patch": "replace"}]),
    "container-merge-directive": pods(containers=[{"name": "app", **BIG, "$patch": "merge"}]),
    "container-unknown-directive": pods(containers=[{"name": "app", **BIG, "$patch": "grow"}]),
    "container-twice": pods(containers=[{"name": "app", **BIG}, {"name": "app", "resources": {"requests": {"cpu": "9"}}}]),
    "spec-replace": {"spec": {**FIXTURES[WEB]["spec"], "replicas": 5, "$patch": "replace"}},
    "spec-replace-no-replicas": {"spec": {**{k: v for k, v in FIXTURES[WEB]["spec"].items() if k != "replicas"}, "$patch": "replace"}},
    "spec-delete": {"spec": {"$patch": "delete"}},
    "spec-delete-with-replicas": {"spec": {"$patch": "delete", "replicas": 5}},
    "spec-merge": {"spec": {"$patch": "merge", "replicas": 5}},
    "root-replace": {**FIXTURES[WEB], **to(), "$patch": "replace"},
    "root-delete": {"$patch": "delete", **to()},
    "pod-replace": pods(**{"$patch": "replace"}, containers=[{**APP, **BIG}]),
    "resources-replace": pods(containers=[{"name": "app", "resources": {"$patch": "replace", "requests": {"cpu": "1"}}}]),
    "resources-delete": pods(containers=[{"name": "app", "resources": {"$patch": "delete"}}]),
    "requests-replace": pods(containers=[{"name": "app", "resources": {"requests": {"$patch": "replace", "cpu": "1"}}}]),
    "requests-null": pods(containers=[{"name": "app", "resources": {"requests": None}}]),
    "limits-null": pods(containers=[{"name": "app", "resources": {"limits": None}}]),
    "cpu-null": pods(containers=[{"name": "app", "resources": {"requests": {"cpu": None}}}]),
    "set-element-order": pods(**{"$setElementOrder/containers": [{"name": "log"}, {"name": "app"}]}, containers=[{"name": "app", **BIG}]),
    "set-element-order-alone": pods(**{"$setElementOrder/containers": [{"name": "log"}, {"name": "app"}]}),
    "set-element-order-missing": pods(**{"$setElementOrder/containers": [{"name": "log"}]}, containers=[{"name": "app", **BIG}]),
    "set-element-order-bad": pods(**{"$setElementOrder/containers": "x"}, containers=[{"name": "app", **BIG}]),
    "retain-keys": {"spec": {"$retainKeys": ["replicas", "selector", "template"], "replicas": 5}},
    "retain-keys-strategy": {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    "retain-keys-drops-replicas": {"spec": {"$retainKeys": ["selector", "template"]}},
    "retain-keys-odd": {"spec": {"$retainKeys": "replicas", "replicas": 5}},
    "retain-keys-container": pods(containers=[{"name": "app", "$retainKeys": ["name", "image"]}]),
    "delete-primitive": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}, **to()},
    "delete-primitive-odd": {"spec": {"$deleteFromPrimitiveList/replicas": [2], "replicas": 5}},
    "order-odd": {"spec": {"$setElementOrder/replicas": [2], "replicas": 5}},
    "unknown-dollar": {"spec": {"$grow": 5, "replicas": 5}},
    "labels-replace": {"metadata": {"labels": {"$patch": "replace", "z": "1"}}},
    "labels-delete": {"metadata": {"labels": {"$patch": "delete"}}},
    "init-merge": pods(initContainers=[{"name": "proxy", **BIG}]),
    "init-restart-policy": pods(initContainers=[{"name": "seed", "restartPolicy": "Always"}]),
    "init-delete": pods(initContainers=[{"name": "proxy", "$patch": "delete"}]),
    "ephemeral": pods(ephemeralContainers=[{"name": "e", "image": "e:1"}]),
    "patch-null": {"spec": {"$patch": None, "replicas": 5}},
    "patch-number": {"spec": {"$patch": 1, "replicas": 5}},
    "patch-capital": {"spec": {"$Patch": "replace", "replicas": 5}},
    "null-in-list": pods(containers=[None, {"name": "app", **BIG}]),
    "string-in-list": pods(containers=["app"]),
    "containers-object": pods(containers={"name": "app"}),
    "name-number": pods(containers=[{"name": 5, **BIG}]),
}  # fmt: skip


def spellings() -> Iterator[Spelling]:
    """Both kinds on the object and the scale, and directives."""
    honest = {
        "replicas", "labels", "labels-null", "label-null", "labels-and-replicas", "annotations", "rv-good", "uid-good",
        "containers", "containers-new", "init", "init-null", "annotation-of-template", "strategy", "paused", "empty",
        "finalizers",
    }  # fmt: skip
    for name, body in BOTH.items():
        yield patch(f"merge-{name}", "a merge patch", body, target=PLAIN, ordinary=name in honest)
        yield patch(
            f"strategic-{name}",
            "a strategic merge patch",
            body,
            STRATEGIC,
            target=PLAIN,
            ordinary=name in honest,
        )
    for name in ("replicas-null", "spec-null", "labels", "labels-and-replicas", "rv-good", "rv-old", "rv-empty", "uid-bad",
                 "name-other", "namespace-other", "kind-other", "kind-null", "version-other", "version-null", "status-and-replicas",
                 "containers", "empty"):  # fmt: skip
        yield patch(f"merge-scale-{name}", "a merge patch of the scale", BOTH[name], target=SCALE)
        yield patch(
            f"strategic-scale-{name}",
            "a strategic merge patch of the scale",
            BOTH[name],
            STRATEGIC,
            target=SCALE,
        )
        yield patch(
            f"merge-custom-{name}",
            "a merge patch of a custom scale",
            BOTH[name],
            target=path_of(GIZMO) + "/scale",
            before=GIZMO,
        )
    yield patch(
        "strategic-custom",
        "not for custom resources",
        to(),
        STRATEGIC,
        target=path_of(GIZMO) + "/scale",
        before=GIZMO,
    )
    yield patch("strategic-custom-directive", "directives on a custom scale", {"spec": {"$patch": "replace", "replicas": 5}},
                STRATEGIC, target=path_of(GIZMO) + "/scale", before=GIZMO)  # fmt: skip
    for name, body in DIRECTIVES.items():
        yield patch(f"directive-{name}", "strategic directives", body, STRATEGIC, target=PLAIN,
                    ordinary=name in {"container-merge", "container-new", "container-delete", "set-element-order", "requests-null", "cpu-null", "retain-keys-strategy", "init-merge", "containers-replace"})  # fmt: skip
    for name in ("spec-merge", "spec-delete", "container-delete", "retain-keys"):
        yield patch(
            f"directive-as-merge-{name}",
            "directives mean nothing in a merge patch",
            DIRECTIVES[name],
            target=PLAIN,
        )
    for name in ("spec-merge", "spec-delete", "spec-delete-with-replicas", "retain-keys", "root-delete"):
        yield patch(f"directive-scale-{name}", "directives on the scale", DIRECTIVES[name], STRATEGIC)
    claims = [
        {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
        }
    ]
    for kind, media in (("merge", "application/merge-patch+json"), ("strategic", STRATEGIC)):
        yield patch(
            f"{kind}-claims",
            "claims are immutable",
            {"spec": {"volumeClaimTemplates": claims}},
            media,
            target=path_of(DB),
            before=DB,
        )
        yield patch(
            f"{kind}-set-template",
            "a template change",
            pods(containers=[{**APP, **BIG}]),
            media,
            target=path_of(DB),
            before=DB,
            ordinary=True,
        )
        yield patch(
            f"{kind}-crew-template",
            "a template change",
            pods(containers=[{**APP, **BIG}]),
            media,
            target=path_of(CREW),
            before=CREW,
            ordinary=True,
        )
        yield patch(
            f"{kind}-old-template",
            "a template change",
            pods(containers=[{**APP, **BIG}]),
            media,
            target=path_of(OLD),
            before=OLD,
            ordinary=True,
        )
        yield patch(f"{kind}-old-null", "null is the default", to(None), media, target=path_of(OLD), before=OLD)
        yield patch(f"{kind}-set-null", "null is the default", to(None), media, target=path_of(DB), before=DB)
        drop = pods(containers=[{"name": "app", "image": "a:1", "resources": {"limits": {"cpu": "3"}}}])
        yield patch(
            f"{kind}-limits-only",
            "do requests follow raised limits?",
            drop,
            media,
            target=path_of(LIMITS_ONLY),
            before=LIMITS_ONLY,
            ordinary=True,
        )
        add = pods(containers=[{"name": "app", "image": "a:1", "resources": {"limits": {"cpu": "3"}}}])
        yield patch(
            f"{kind}-naked-limits",
            "limits default requests",
            add,
            media,
            target=path_of(NAKED),
            before=NAKED,
            ordinary=True,
        )
