"""Spellings of the content type: which patch or format the server takes a body for."""

from __future__ import annotations

from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    APPLY,
    CBOR,
    JSON,
    JSON_PATCH,
    MERGE,
    PLAIN,
    PROTOBUF,
    SCALE,
    STRATEGIC,
    WEB,
    YAML,
    Spelling,
    dump,
    patch,
    put,
    scale,
    to,
)
from tests.controlplane.fixtures import deployment

OPERATIONS = [{"op": "replace", "path": "/spec/replicas", "value": 5}]

ON_PATCH = {
    "parameters": MERGE + "; charset=utf-8",
    "parameters-no-space": MERGE + ";charset=utf-8",
    "semicolon-only": MERGE + ";",
    "space-before-semicolon": MERGE + " ; charset=utf-8",
    "capital": "Application/Merge-Patch+JSON",
    "upper": MERGE.upper(),
    "leading-space": "  " + MERGE,
    "trailing-space": MERGE + "  ",
    "quoted": f'"{MERGE}"',
    "list": f"{MERGE}, {JSON_PATCH}",
    "list-json-first": f"{JSON_PATCH}, {MERGE}",
    "list-no-space": f"{MERGE},{MERGE}",
    "leading-semicolon": ";" + MERGE,
    "leading-comma": "," + MERGE,
    "json": JSON,
    "yaml": YAML,
    "empty": "",
    "star": "*/*",
    "application-star": "application/*",
    "unknown": "application/x-merge-patch+json",
    "no-suffix": "application/merge-patch",
    "text": "text/merge-patch+json",
    "yaml-suffix": "application/merge-patch+yaml",
    "bad-parameter": MERGE + "; charset",
    "duplicate-parameter": MERGE + "; a=1; a=2",
    "type-parameter": MERGE + "; type=json-patch",
    "tab-before-semicolon": MERGE + "\t;x=1",
    "utf16": MERGE + "; charset=utf-16",
    "strategic": STRATEGIC,
    "strategic-parameters": STRATEGIC + ";a=b",
    "strategic-capital": "application/Strategic-Merge-Patch+json",
    "json-patch-wrong-body": JSON_PATCH,
    "apply-wrong-body": APPLY,
    "form": "application/x-www-form-urlencoded",
}

ON_PUT = {
    "json": JSON,
    "parameters": JSON + "; charset=utf-8",
    "capital": "Application/JSON",
    "upper": "APPLICATION/JSON",
    "empty": "",
    "spaces": "   ",
    "leading-space": " " + JSON,
    "star": "*/*",
    "application-star": "application/*",
    "text": "text/json",
    "plain": "text/plain",
    "form": "application/x-www-form-urlencoded",
    "octets": "application/octet-stream",
    "list": f"{JSON}, {YAML}",
    "list-same": f"{JSON},{JSON}",
    "quoted": f'"{JSON}"',
    "semicolon": JSON + ";",
    "semicolons": JSON + ";;",
    "bad-parameter": JSON + "; charset",
    "bad-parameter-equals": JSON + "; =utf-8",
    "duplicate-parameter": JSON + "; a=1; a=2",
    "duplicate-parameter-same": JSON + "; a=1; a=1",
    "quoted-parameter": JSON + '; charset="utf-8"',
    "unclosed-quote": JSON + '; charset="utf-8',
    "space-in-type": "application /json",
    "space-before-semicolon": JSON + " ;x=y",
    "stream": JSON + ";stream=watch",
    "as-table": JSON + ";as=Table;g=meta.k8s.io;v=v1",
    "nul": "application/json;\x01",
    "merge": MERGE,
    "json-suffix": "application/vnd.api+json",
    "no-slash": "json",
    "slash-only": "application/",
    "two-slashes": "application/json/x",
    "yaml-type-json-body": YAML,
    "yaml-capital": "Application/YAML",
    "x-yaml": "application/x-yaml",
    "text-yaml": "text/yaml",
    "yaml-parameters": YAML + ";q=1",
    "cbor-type-json-body": CBOR,
    "protobuf-type-json-body": PROTOBUF,
    "protobuf-short": "application/protobuf",
    "encoded-word": "=?utf-8?q?application/json?=",
    "rfc2231": JSON + "; charset*=utf-8''utf-8",
    "continuation": JSON + "; a*0=x; a*1=y",
}


def spellings() -> Iterator[Spelling]:
    """Content types on PATCH and on PUT, missing ones, and doubled headers."""
    for name, value in ON_PATCH.items():
        yield patch(f"media-patch-{name}", "a content type of a patch", to(), value,
                    ordinary=name in {"parameters", "strategic"} and name != "strategic")  # fmt: skip
    for name in ("parameters", "capital", "list", "strategic", "strategic-parameters", "semicolon-only"):
        yield patch(f"media-object-{name}", "the same on the object", to(), ON_PATCH[name], target=PLAIN,
                    ordinary=name in {"parameters", "strategic"})  # fmt: skip
    for name, value in {
        "parameters": JSON_PATCH + "; charset=utf-8",
        "capital": "application/JSON-Patch+json",
        "list": f"{JSON_PATCH}, {MERGE}",
        "merge": MERGE,
        "semicolon-merge": f"{JSON_PATCH};{MERGE}",
    }.items():
        yield patch(f"media-json-patch-{name}", "a content type of a JSON Patch", OPERATIONS, value)
    for name, value in ON_PUT.items():
        yield put(
            f"media-put-{name}",
            "a content type of a PUT",
            scale(),
            value,
            ordinary=name in {"json", "parameters"},
        )
    for name in (
        "empty",
        "capital",
        "list",
        "text",
        "yaml-type-json-body",
        "semicolon",
        "space-before-semicolon",
    ):
        yield Spelling(f"media-post-{name}", "a content type of a POST", WEB, "POST", PLAIN.rpartition("/")[0],
                       (("content-type", ON_PUT[name]),), dump(deployment("fresh", 3)))  # fmt: skip
    yield Spelling("media-put-missing", "the HPA sends no content type", WEB, "PUT", SCALE, (), dump(scale()), True)
    yield Spelling("media-patch-missing", "a patch needs one", WEB, "PATCH", SCALE, (), dump(to()))
    yield Spelling("media-post-missing", "a create without one", WEB, "POST", PLAIN.rpartition("/")[0], (),
                   dump(deployment("fresh", 3)))  # fmt: skip
    yield from _doubled()


def _doubled() -> Iterator[Spelling]:
    for first, second, body in (
        (MERGE, JSON_PATCH, to()),
        (JSON_PATCH, MERGE, OPERATIONS),
        (MERGE, MERGE, to()),
        (MERGE, "", to()),
        ("", MERGE, to()),
    ):
        name = f"{first[12:18] or 'empty'}-{second[12:18] or 'empty'}"
        headers = (("content-type", first), ("Content-Type", second))
        yield Spelling(f"media-doubled-{name}", "two content-type headers", WEB, "PATCH", SCALE, headers, dump(body))
    yield Spelling("media-doubled-put", "two content-type headers", WEB, "PUT", SCALE,
                   (("content-type", JSON), ("content-type", YAML)), dump(scale()))  # fmt: skip
    yield Spelling("media-doubled-put-unknown-first", "two content-type headers", WEB, "PUT", SCALE,
                   (("content-type", "text/plain"), ("content-type", JSON)), dump(scale()))  # fmt: skip
