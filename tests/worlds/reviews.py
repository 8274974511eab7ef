"""What the simulated API server asks the webhook: an AdmissionReview of a write that it has worked out.

Written without the product's own readers and without what ``render`` makes: it is the other side of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from extauthz.core.model import Tree
from tests.worlds.judge import Key, Promise, State
from tests.worlds.objects import Kind, kind_of
from tests.worlds.reference import owner
from tests.worlds.server import Prepared

WRITER = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"


def may_grow(prepared: Prepared) -> bool:
    """Whether the webhook is asked, as the ``matchConditions`` of its configuration have it: a create, a higher count,
    or anything else than a count that pods cost by or are charged by."""
    before, after = prepared.before, prepared.after
    if before is None or after["spec"]["replicas"] > before["spec"]["replicas"]:
        return True
    return not prepared.sub and changed(before, after)


def may_be_lowered(prepared: Prepared) -> bool:
    """Whether the mutating webhook is asked: more replicas of what is there."""
    before, after = prepared.before, prepared.after
    return before is not None and bool(after["spec"]["replicas"] > before["spec"]["replicas"])


def lowered(prepared: Prepared, replicas: int) -> Prepared:
    """The write with the count that the mutating webhook has put in its place."""
    after = {**prepared.after, "spec": {**prepared.after["spec"], "replicas": replicas}}
    return prepared._replace(after=after)


def changed(before: Tree, after: Tree) -> bool:
    """Whether something else than a count differs that pods cost by or are charged by."""
    return bool(_costs(before) != _costs(after))


def _costs(tree: Tree) -> Tree:
    spec = {key: value for key, value in tree["spec"].items() if key != "replicas"}
    return spec, tree["metadata"].get("labels"), tree["metadata"].get("ownerReferences")


def promise(prepared: Prepared, after: State) -> Promise:
    """What may land if it is admitted: a count, or all of the object, and only on the version that it was worked out
    on."""
    key = prepared.key
    if prepared.before is None:
        return Promise(
            key, after.replicas, after.cpu_m, after.tier, creates=True, side_m=after.side_m, claim_gi=after.claim_gi
        )
    version = prepared.before["metadata"]["resourceVersion"]
    if prepared.sub:
        return Promise(key, after.replicas, None, only_on=version)
    had, has = (tree["metadata"].get("labels") for tree in (prepared.before, prepared.after))
    tier = after.tier if had != has else None  # of labels that it leaves as they are it says nothing
    return Promise(
        key, after.replicas, after.cpu_m, tier, side_m=after.side_m, only_on=version, joins=_joined(prepared)
    )


def _joined(prepared: Prepared) -> Key | None:
    """The owner that it is given to, or taken from; ``None``: it keeps the one that it has, or none."""
    had, has = owner(prepared.before), owner(prepared.after)
    name = has or had
    return (prepared.key[0], name) if name is not None and had != has else None


def review(prepared: Prepared, uid: str, *, dry: bool, kind: Kind | None = None, user: str = WRITER) -> bytes:
    """The bytes. ``uid`` is new for each call. ``kind``: its name does not say it."""
    kind = kind or kind_of(prepared.key)
    group, _, version = kind.api.rpartition("/")
    before, after = prepared.before, prepared.after
    if before is not None:
        kept = {name: before["metadata"][name] for name in ("uid", "resourceVersion")}
        after = {**after, "metadata": {**after["metadata"], **kept}}
    if prepared.sub == "scale":
        before, after = _scale(before), _scale(after)
    namespace, name = prepared.key
    request = {
        "uid": uid,
        "kind": {"group": group, "version": version, "kind": kind.kind},
        "resource": {"group": group, "version": version, "resource": kind.plural},
        "namespace": namespace,
        "name": name,
        "operation": "CREATE" if before is None else "UPDATE",
        "userInfo": {"username": user},
        "object": after,
        "oldObject": before,
        "dryRun": dry,
    }
    if prepared.sub:
        request["subResource"] = prepared.sub
    if prepared.sub == "scale":
        request["kind"] = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def _scale(tree: Tree) -> Mapping[str, Tree]:
    """A Scale leaves a count of zero out, and has no labels."""
    metadata = {name: tree["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion")}
    replicas = tree["spec"]["replicas"]
    spec = {"replicas": replicas} if replicas else {}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec}
