"""Spellings of the query: what the server takes for a dry run, and what only looks like one."""

from __future__ import annotations

from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    APPLY,
    CREW,
    GIZMO,
    JSON_PATCH,
    OLD,
    PLAIN,
    SCALE,
    STRATEGIC,
    WEB,
    Spelling,
    patch,
    path_of,
    post,
    put,
    scale,
    to,
)
from tests.controlplane.fixtures import deployment

DRY = {
    "all": "dryRun=All",
    "lower": "dryRun=all",
    "upper": "dryRun=ALL",
    "true": "dryRun=true",
    "empty": "dryRun=",
    "bare": "dryRun",
    "none": "dryRun=None",
    "server": "dryRun=server",
    "two-all": "dryRun=All&dryRun=All",
    "all-then-none": "dryRun=All&dryRun=None",
    "none-then-all": "dryRun=None&dryRun=All",
    "all-then-empty": "dryRun=All&dryRun=",
    "empty-then-all": "dryRun=&dryRun=All",
    "bare-then-all": "dryRun&dryRun=All",
    "comma": "dryRun=All,All",
    "comma-none": "dryRun=All,None",
    "space": "dryRun=All%20",
    "plus": "dryRun=+All",
    "escaped-value": "dryRun=%41ll",
    "escaped-name": "%64ryRun=All",
    "escaped-equals": "dryRun%3DAll",
    "name-lower": "dryrun=All",
    "name-upper": "DRYRUN=All",
    "name-snake": "dry_run=All",
    "name-dash": "dry-run=All",
    "name-space": "dryRun%20=All",
    "name-bracket": "dryRun[]=All",
    "name-index": "dryRun%5B0%5D=All",
    "value-quoted": 'dryRun="All"',
    "value-json": "dryRun=%5B%22All%22%5D",
    "value-newline": "dryRun=All%0A",
    "value-nul": "dryRun=All%00",
    "semicolon-before": "a;dryRun=All",
    "semicolon-after": "dryRun=All;a",
    "semicolon-in-another": "a=b;c&dryRun=All",
    "bad-escape-value": "dryRun=All%zz",
    "bad-escape-other": "a=%zz&dryRun=All",
    "bad-escape-name": "dry%zzRun=All",
    "amp-leading": "&dryRun=All",
    "amp-double": "a=1&&dryRun=All",
    "amp-trailing": "dryRun=All&",
    "question": "?dryRun=All",
    "second-question": "a=1?dryRun=All",
    "fragment": "#dryRun=All",
    "fragment-after": "dryRun=All#x",
    "equals-double": "dryRun==All",
    "equals-trailing": "dryRun=All=",
    "amp-escaped": "a=1%26dryRun=All",
    "amp-html": "a=1&amp;dryRun=All",
    "full-width": "dryRun=%EF%BC%A1ll",
    "with-noise": "pretty=true&dryRun=All&fieldManager=x",
    "kind-noise": "kind=CreateOptions&apiVersion=v1&dryRun=All",
    "thousand-noise": "&".join(f"a{i}=1" for i in range(1000)) + "&dryRun=All",
    "after-bad-force": "force=maybe&dryRun=All",
    "bad-timeout": "timeout=abc&dryRun=All",
}


def spellings() -> Iterator[Spelling]:
    """Each dry-run spelling on the scale; those that matter elsewhere too."""
    for name, query in DRY.items():
        yield patch(f"query-{name}", "a way to write dryRun", to(), target=f"{SCALE}?{query}", ordinary=name == "all")
    elsewhere = (
        "all",
        "two-all",
        "empty",
        "bare",
        "all-then-empty",
        "semicolon-in-another",
        "escaped-value",
        "lower",
    )
    for name in elsewhere:
        query = DRY[name]
        yield put(f"query-put-{name}", "on PUT", scale(), target=f"{SCALE}?{query}", ordinary=name == "all")
        yield post(
            f"query-post-{name}",
            "on POST",
            deployment("fresh", 3),
            target=f"{PLAIN.rpartition('/')[0]}?{query}",
        )
        yield patch(f"query-object-{name}", "on the object", to(), target=f"{PLAIN}?{query}", ordinary=name == "all")
        yield patch(f"query-custom-{name}", "on a custom resource", to(), target=f"{path_of(GIZMO)}/scale?{query}",
                    before=GIZMO, ordinary=name == "all")  # fmt: skip
        yield patch(
            f"query-core-{name}",
            "on the core group",
            to(),
            target=f"{path_of(OLD)}/scale?{query}",
            before=OLD,
        )
        body = {"apiVersion": "apps/v1", "kind": "Deployment", **to(7)}
        yield patch(f"query-apply-{name}", "on server-side apply", body, APPLY,
                    target=f"{PLAIN}?fieldManager=m&force=true&{query}", ordinary=name == "all")  # fmt: skip
    for name in ("all", "empty"):
        operations = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
        yield patch(f"query-json-patch-{name}", "on JSON Patch", operations, JSON_PATCH, target=f"{SCALE}?{DRY[name]}")
        yield patch(f"query-strategic-{name}", "on strategic merge", to(), STRATEGIC, before=CREW,
                    target=f"{path_of(CREW)}?{DRY[name]}")  # fmt: skip
    yield put("query-put-custom", "a dry PUT of a custom scale", scale(name="gizmo"), before=GIZMO,
              target=f"{path_of(GIZMO)}/scale?dryRun=All", ordinary=True)  # fmt: skip
    yield patch("query-in-body", "dryRun in the body means nothing", {**to(), "dryRun": ["All"]}, before=WEB)
