"""Sizes at the server's limits, and at the gate's."""

from __future__ import annotations

from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    APPLY,
    IDLE,
    JSON_PATCH,
    PLAIN,
    SCALE,
    STRATEGIC,
    YAML,
    Spelling,
    dump,
    patch,
    path_of,
    put,
    scale,
    to,
    with_meta,
)
from tests.controlplane.fixtures import deployment

BODY = 3 * 1024 * 1024
"""``MaxRequestBodyBytes``."""
PARAMETERS = 10_000
"""``net/url.defaultMaxParams``."""


def spellings() -> Iterator[Spelling]:
    """Bodies, queries and lists of the greatest size, and workloads that have no replicas yet."""
    for name, size in {"most": BODY, "over": BODY + 1}.items():
        yield patch(f"limit-merge-{name}", "the longest body", dump(to()).ljust(size))
        yield put(f"limit-put-{name}", "the longest body", dump(scale()).ljust(size))
        yield patch(
            f"limit-apply-{name}",
            "the longest body",
            _config().ljust(size),
            APPLY,
            target=PLAIN + "?fieldManager=m&force=true",
        )
        yield put(f"limit-yaml-{name}", "the longest body", dump(scale()).ljust(size), YAML)
    for count in (PARAMETERS - 2, PARAMETERS - 1, PARAMETERS):
        query = "a&" * count + "dryRun=All"
        yield patch(f"limit-query-{count}", "the most parameters", to(), target=f"{SCALE}?{query}")
        query = "dryRun=All" + "&" * count
        yield patch(f"limit-query-ampersands-{count}", "the most separators", to(), target=f"{SCALE}?{query}")
    for first in ("dryRun=None;x", "dryRun=%zz", "dryRun=All;", ";dryRun=x"):
        yield patch(f"limit-query-dropped-{first}", "a pair that Go drops", to(), target=f"{SCALE}?{first}&dryRun=All")
        yield patch(
            f"limit-query-dropped-after-{first}", "a pair that Go drops", to(), target=f"{SCALE}?dryRun=All&{first}"
        )
    many = {"spec": {"replicas": 5}, "x": [{}] * 150_000}
    yield patch("limit-values", "many small values", many, target=PLAIN)
    pods = [{"name": f"c{n}", "image": "i:1", "resources": {"requests": {"cpu": "1m"}}} for n in range(300)]
    yield patch(
        "limit-containers",
        "many containers",
        {"spec": {"template": {"spec": {"containers": pods}}}},
        STRATEGIC,
        target=PLAIN,
        ordinary=True,
    )
    yield from _from_zero()


def _config() -> bytes:
    return dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, **to()})


def _from_zero() -> Iterator[Spelling]:
    target, scale_target = path_of(IDLE), path_of(IDLE) + "/scale"
    config = deployment("idle", None)
    yield patch(
        "zero-apply-left-out",
        "letting go of zero means one",
        config,
        APPLY,
        target=target + "?fieldManager=tool",
        before=IDLE,
    )
    yield patch(
        "zero-apply-other",
        "another manager leaves it out",
        config,
        APPLY,
        target=target + "?fieldManager=x&force=true",
        before=IDLE,
    )
    yield patch(
        "zero-apply-dry", "the same, dry", config, APPLY, target=target + "?fieldManager=tool&dryRun=All", before=IDLE
    )
    yield patch("zero-merge-null", "null means one", to(None), target=target, before=IDLE)
    yield patch("zero-strategic-null", "null means one", to(None), STRATEGIC, target=target, before=IDLE)
    remove = [{"op": "remove", "path": "/spec/replicas"}]
    yield patch("zero-json-patch-remove", "removal means one", remove, JSON_PATCH, target=target, before=IDLE)
    yield put(
        "zero-put-absent",
        "absence means one",
        with_meta(config, resourceVersion="@rv@"),
        target=target,
        before=IDLE,
        ordinary=True,
    )
    yield patch("zero-scale-merge", "from zero to one", to(1), target=scale_target, before=IDLE, ordinary=True)
    add = [{"op": "add", "path": "/spec/replicas", "value": 1}]
    yield patch(
        "zero-scale-add",
        "a Scale of zero prints no replicas",
        add,
        JSON_PATCH,
        target=scale_target,
        before=IDLE,
        ordinary=True,
    )
    replace = [{"op": "replace", "path": "/spec/replicas", "value": 1}]
    yield patch("zero-scale-replace", "so what can be replaced?", replace, JSON_PATCH, target=scale_target, before=IDLE)
    test = [{"op": "test", "path": "/spec/replicas", "value": 0}, *add]
    yield patch("zero-scale-test", "or tested?", test, JSON_PATCH, target=scale_target, before=IDLE)
    copy = [{"op": "add", "path": "/x", "value": 3}, {"op": "copy", "from": "/x", "path": "/spec/replicas"}]
    yield patch("zero-scale-copy", "or copied to?", copy, JSON_PATCH, target=scale_target, before=IDLE)
    yield patch("zero-scale-remove", "or removed?", remove, JSON_PATCH, target=scale_target, before=IDLE)
    yield patch("zero-object-replace", "the object prints its zero", replace, JSON_PATCH, target=target, before=IDLE)
    yield put(
        "zero-scale-put", "from zero to one", scale(1, name="idle"), target=scale_target, before=IDLE, ordinary=True
    )
    yield patch(
        "zero-labels", "labels only", {"metadata": {"labels": {"team": "b"}}}, target=target, before=IDLE, ordinary=True
    )
