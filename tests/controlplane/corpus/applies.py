"""Server-side apply by one or several managers, on objects and on scales."""

# ruff: noqa: E501 - a spelling reads best on one line

from __future__ import annotations

from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    APPLIED,
    APPLY,
    CREW,
    DB,
    GIZMO,
    LIMITS_ONLY,
    NAKED,
    OLD,
    SHARED,
    WEB,
    Spelling,
    Tree,
    changed,
    patch,
    path_of,
    scale,
    to,
    with_meta,
)
from tests.controlplane.fixtures import deployment, of_kind

APPS = "/apis/apps/v1/namespaces/default/deployments"


def spellings() -> Iterator[Spelling]:
    """Applies over an applied object, elsewhere, and of scales."""
    yield from _applies()
    yield from _apply_scales()


def _config(name: str, **spec: Tree) -> Tree:
    tree: Tree = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
    return tree | {"spec": spec} if spec else tree


def _pods(*containers: Tree, **more: Tree) -> Tree:
    return {"metadata": {"labels": {"app": "applied"}}, "spec": {"containers": list(containers), **more}}


def _applies() -> Iterator[Spelling]:
    full = deployment("applied")
    big = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "800m"}}}
    cases: dict[str, Tree] = {
        "same": full,
        "replicas": changed(full, replicas=5),
        "replicas-shrink": changed(full, replicas=1),
        "replicas-left-out": changed(full, replicas=...),
        "replicas-null": changed(full, replicas=None),
        "spec-left-out": _config("applied"),
        "only-replicas": _config("applied", replicas=5),
        "cpu": changed(full, template=_pods(big, {"name": "log", "image": "log:1"})),
        "log-left-out": changed(full, template=_pods(big)),
        "container-new": changed(full, template=_pods(big, {"name": "x", "image": "x:1", "resources": {"requests": {"cpu": "1"}}})),
        "requests-left-out": changed(full, template=_pods({"name": "app", "image": "app:1"}, {"name": "log", "image": "log:1"})),
        "limits-only": changed(full, template=_pods({"name": "app", "image": "app:1", "resources": {"limits": {"cpu": "3"}}})),
        "init-left-out": changed(full, template=_pods(*full["spec"]["template"]["spec"]["containers"])),
        "labels-left-out": {**full, "metadata": {"name": "applied"}},
        "labels": with_meta(full, labels={"team": "b"}),
        "container-nameless": changed(full, template=_pods({"image": "x"})),
        "container-twice": changed(full, template=_pods(big, big)),
        "managed-fields": with_meta(full, managedFields=[]),
        "managed-fields-set": with_meta(full, managedFields=[{"manager": "x"}]),
        "name-other": with_meta(full, name="other"),
        "namespace-other": with_meta(full, namespace="scale"),
        "name-missing": {**changed(full, replicas=5), "metadata": {}},
        "rv": with_meta(changed(full, replicas=5), resourceVersion="@rv@"),
        "rv-old": with_meta(changed(full, replicas=5), resourceVersion="1"),
        "uid-bad": with_meta(changed(full, replicas=5), uid="x"),
        "kind-missing": {"apiVersion": "apps/v1", "metadata": {"name": "applied"}, **to()},
        "version-missing": {"kind": "Deployment", "metadata": {"name": "applied"}, **to()},
        "version-beta": changed(full, replicas=5) | {"apiVersion": "apps/v1beta1"},
        "unknown-field": changed(full, replicas=5, grow=9),
        "patch-directive": changed(full, replicas=5) | {"$patch": "replace"},
        "status": full | {"status": {"replicas": 9}},
        "replicas-string": changed(full, replicas="5"),
        "replicas-float": changed(full, replicas=5.0),
        "replicas-fraction": changed(full, replicas=5.5),
    }  # fmt: skip
    honest = {"same", "replicas", "replicas-shrink", "only-replicas", "cpu", "log-left-out", "container-new", "labels"}
    queries = {"own": "fieldManager=tool", "other": "fieldManager=x", "forced": "fieldManager=x&force=true"}
    for name, body in cases.items():
        for who, query in queries.items():
            if who == "other" and name not in (
                "same",
                "replicas",
                "only-replicas",
                "container-new",
                "labels",
                "spec-left-out",
            ):
                continue
            yield patch(f"apply-{who}-{name}", "server-side apply over an applied object", body, APPLY,
                        target=f"{path_of(APPLIED)}?{query}", before=APPLIED, ordinary=name in honest)  # fmt: skip
    for name in ("replicas-left-out", "replicas", "spec-left-out", "same", "requests-left-out"):
        body = with_meta(cases[name], name="shared", labels={"app": "shared"})
        if "spec" in body:
            body["spec"] |= {"selector": {"matchLabels": {"app": "shared"}}}
            body["spec"].get("template", {}).setdefault("metadata", {})["labels"] = {"app": "shared"}
        yield patch(f"apply-shared-{name}", "a field with two owners stays when one lets go", body, APPLY,
                    target=f"{path_of(SHARED)}?fieldManager=tool", before=SHARED, ordinary=name == "same")  # fmt: skip
    yield from _apply_targets(full)


def _apply_targets(full: Tree) -> Iterator[Spelling]:
    fresh = deployment("fresh", 3)
    yield patch(
        "apply-creates",
        "apply creates what is absent",
        fresh,
        APPLY,
        target=f"{APPS}/fresh?fieldManager=m",
        ordinary=True,
    )
    yield patch(
        "apply-creates-default",
        "with one replica when left out",
        deployment("fresh", None),
        APPLY,
        target=f"{APPS}/fresh?fieldManager=m",
        ordinary=True,
    )
    yield patch(
        "apply-creates-dry", "unless dry", fresh, APPLY, target=f"{APPS}/fresh?fieldManager=m&dryRun=All", ordinary=True
    )
    yield patch(
        "apply-creates-elsewhere",
        "the path's namespace rules",
        with_meta(fresh, namespace="scale"),
        APPLY,
        target=f"{APPS}/fresh?fieldManager=m",
    )
    yield patch(
        "apply-creates-uid", "not with a uid", with_meta(fresh, uid="x"), APPLY, target=f"{APPS}/fresh?fieldManager=m"
    )
    yield patch(
        "apply-creates-rv",
        "not with a resourceVersion",
        with_meta(fresh, resourceVersion="5"),
        APPLY,
        target=f"{APPS}/fresh?fieldManager=m",
    )
    yield patch(
        "apply-no-manager",
        "a field manager is needed",
        changed(full, replicas=5),
        APPLY,
        target=path_of(APPLIED),
        before=APPLIED,
    )
    yield patch(
        "apply-empty-manager",
        "a field manager is needed",
        changed(full, replicas=5),
        APPLY,
        target=path_of(APPLIED) + "?fieldManager=",
        before=APPLIED,
    )
    yield patch(
        "apply-force-false",
        "conflicts refuse",
        changed(full, replicas=5),
        APPLY,
        target=path_of(APPLIED) + "?fieldManager=x&force=false",
        before=APPLIED,
    )
    yield patch(
        "apply-force-one",
        "force=1",
        changed(full, replicas=5),
        APPLY,
        target=path_of(APPLIED) + "?fieldManager=x&force=1",
        before=APPLIED,
    )
    yield patch(
        "apply-force-bare",
        "force without a value",
        changed(full, replicas=5),
        APPLY,
        target=path_of(APPLIED) + "?fieldManager=x&force",
        before=APPLIED,
    )
    for ref, kind in ((DB, "StatefulSet"), (CREW, "ReplicaSet"), (OLD, "ReplicationController")):
        tree = {
            "apiVersion": "v1" if ref == OLD else "apps/v1",
            "kind": kind,
            "metadata": {"name": ref.rpartition("/")[2]},
            **to(),
        }
        yield patch(
            f"apply-{kind.lower()}",
            "another kind",
            tree,
            APPLY,
            target=path_of(ref) + "?fieldManager=m&force=true",
            before=ref,
            ordinary=True,
        )
        tree = of_kind(kind, "fresh", 3)
        yield patch(f"apply-creates-{kind.lower()}", "another kind", tree, APPLY,
                    target=f"{path_of(ref).rpartition('/')[0]}/fresh?fieldManager=m", before=ref, ordinary=True)  # fmt: skip
    tree = _config(
        "limits-only", template={"spec": {"containers": [{"name": "app", "resources": {"limits": {"cpu": "3"}}}]}}
    )
    yield patch(
        "apply-raised-limits",
        "requests were defaulted once and stay",
        tree,
        APPLY,
        target=path_of(LIMITS_ONLY) + "?fieldManager=m&force=true",
        before=LIMITS_ONLY,
    )
    tree = _config("naked", template={"spec": {"containers": [{"name": "app", "resources": {"limits": {"cpu": "3"}}}]}})
    yield patch(
        "apply-first-limits",
        "limits default requests",
        tree,
        APPLY,
        target=path_of(NAKED) + "?fieldManager=m&force=true",
        before=NAKED,
    )


def _apply_scales() -> Iterator[Spelling]:
    for ref in (WEB, GIZMO, OLD, APPLIED):
        kind, name = ref.split(".")[0].split(" ")[0] + ref[-1], ref.rpartition("/")[2]
        for case, body in {
            "replicas": scale(name=name),
            "no-replicas": {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}},
            "null": scale(None, name=name),
            "wrong-kind": _config(name, replicas=5),
        }.items():
            for who, query in {"forced": "fieldManager=x&force=true", "own": "fieldManager=tool"}.items():
                yield patch(f"apply-scale-{kind}-{case}-{who}", "server-side apply of a Scale", body, APPLY,
                            target=f"{path_of(ref)}/scale?{query}", before=ref, ordinary=case == "replicas")  # fmt: skip
