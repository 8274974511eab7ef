"""Writes to the status subresource: the server keeps spec, but does it keep everything that counts?"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    APPLIED,
    APPLY,
    CREW,
    DB,
    GIZMO,
    JSON_PATCH,
    KNOB,
    MERGE,
    OLD,
    STRATEGIC,
    WEB,
    Spelling,
    Tree,
    changed,
    patch,
    path_of,
    put,
    with_meta,
)
from tests.controlplane.fixtures import FIXTURES, deployment


def spellings() -> Iterator[Spelling]:
    """Labels, replicas, template and owner by way of ``/status``, for each kind."""
    for ref in (WEB, DB, CREW, OLD, GIZMO, KNOB):
        kind, target = ref.split(".")[0].split(" ")[0], path_of(ref) + "/status"
        base = with_meta(FIXTURES[ref], resourceVersion="@rv@")
        labelled = with_meta(base, labels={"team": "b"})
        yield put(f"status-{kind}-put-labels", "labels by PUT of status", labelled, target=target, before=ref)
        body: Tree = changed(base, replicas=5, size={"count": 5}) | {"status": {"replicas": 5}}
        yield put(f"status-{kind}-put-replicas", "spec by PUT of status", body, target=target, before=ref)
        labels = {"metadata": {"labels": {"team": "b"}}}
        yield patch(f"status-{kind}-merge-labels", "labels by patch of status", labels, target=target, before=ref)
        body = [{"op": "add", "path": "/metadata/labels", "value": {"team": "b"}}]
        yield patch(f"status-{kind}-json-patch-labels", "labels", body, JSON_PATCH, target=target, before=ref)
        owner = {"apiVersion": "apps/v1", "kind": "X", "name": "x", "uid": "u", "controller": True}
        body = {"metadata": {"ownerReferences": [owner]}}
        yield patch(f"status-{kind}-merge-owner", "an owner by patch of status", body, MERGE, target=target, before=ref)
        if ref not in (GIZMO, KNOB):
            big = copy.deepcopy(base["spec"]["template"])
            big["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}}
            body = changed(base, template=big)
            yield put(f"status-{kind}-put-template", "template by PUT of status", body, target=target, before=ref)
            body = {"spec": {"template": big, "replicas": 5}, **labels}
            yield patch(f"status-{kind}-strategic", "spec and labels", body, STRATEGIC, target=target, before=ref)
        config = with_meta(FIXTURES[ref], labels={"team": "c"})
        query = "?fieldManager=m&force=true"
        yield patch(f"status-{kind}-apply", "apply to status", config, APPLY, target=target + query, before=ref)
        yield patch(f"status-{kind}-dry", "labels, dry", labels, target=target + "?dryRun=All", before=ref)
    body = with_meta(deployment("applied", 5), labels={"team": "c"})
    yield patch(
        "status-applied-own",
        "apply",
        body,
        APPLY,
        target=path_of(APPLIED) + "/status?fieldManager=tool",
        before=APPLIED,
    )
