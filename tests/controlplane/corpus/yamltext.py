"""The YAML dialect: server-side apply, and whole objects as application/yaml."""

# ruff: noqa: E501 - a spelling reads best on one line

from __future__ import annotations

from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    APPLY,
    GIZMO,
    PLAIN,
    SCALE,
    YAML,
    Spelling,
    patch,
    path_of,
    post,
    put,
)

SCALARS = {
    "five": "5",
    "octal": "010",
    "octal-eight": "08",
    "octal-new": "0o10",
    "hex": "0x10",
    "binary": "0b101",
    "underscore": "1_0",
    "sexagesimal": "1:30",
    "float": "5.0",
    "float-exponent": "5e0",
    "float-exponent-dot": "5.e+0",
    "exponent-10": "1e1",
    "plus": "+5",
    "minus": "-5",
    "inf": ".inf",
    "nan": ".nan",
    "string": '"5"',
    "single": "'5'",
    "tag-int": "!!int 5",
    "tag-int-string": '!!int "5"',
    "tag-float": "!!float 5",
    "tag-str": "!!str 5",
    "tag-binary": "!!binary NQ==",
    "tag-own": "!grow 5",
    "tag-bang": "! 5",
    "tag-verbatim": "!<tag:yaml.org,2002:int> 5",
    "yes": "yes",
    "tilde": "~",
    "null": "null",
    "null-capital": "NULL",
    "empty": "",
    "comment": "5 # six",
    "hash": "5#6",
    "folded": ">-\n    5",
    "literal": "|-\n    5",
    "date": "2001-01-01",
    "big": "2147483648",
    "int64-over": "9223372036854775808",
    "uint64": "18446744073709551615",
    "anchor": "&a 5",
    "trailing-colon": "5:",
    "comma": "5,6",
    "thousand": "1,000",
    "full-width": "５",
}

APPLY_HEAD = "apiVersion: apps/v1\nkind: Deployment\n"

TEXTS = {
    "flow": "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 5}}",
    "tabs": "apiVersion: apps/v1\nkind: Deployment\nspec:\n\treplicas: 5\n",
    "duplicate": APPLY_HEAD + "spec:\n  replicas: 1\n  replicas: 5\n",
    "duplicate-outer": APPLY_HEAD + "spec:\n  replicas: 5\nspec: {}\n",
    "merge-key": "x: &x {replicas: 5}\n" + APPLY_HEAD + "spec:\n  <<: *x\n",
    "merge-key-override": "x: &x {replicas: 9}\n" + APPLY_HEAD + "spec:\n  replicas: 5\n  <<: *x\n",
    "merge-key-override-after": "x: &x {replicas: 9}\n" + APPLY_HEAD + "spec:\n  <<: *x\n  replicas: 5\n",
    "merge-key-list": "x: &x {replicas: 5}\ny: &y {replicas: 9}\n" + APPLY_HEAD + "spec:\n  <<: [*x, *y]\n",
    "merge-key-quoted": "x: &x {replicas: 5}\n" + APPLY_HEAD + 'spec:\n  "<<": *x\n',
    "merge-key-inline": APPLY_HEAD + "spec:\n  <<: {replicas: 5}\n",
    "merge-key-scalar": APPLY_HEAD + "spec:\n  <<: 5\n  replicas: 5\n",
    "alias": "x: &x 5\n" + APPLY_HEAD + "spec:\n  replicas: *x\n",
    "alias-spec": "x: &x\n  replicas: 5\n" + APPLY_HEAD + "spec: *x\n",
    "alias-redefined": "x: &x 1\ny: &x 5\n" + APPLY_HEAD + "spec:\n  replicas: *x\n",
    "alias-unknown": APPLY_HEAD + "spec:\n  replicas: *x\n",
    "alias-key": "x: &x replicas\n" + APPLY_HEAD + "spec:\n  *x : 5\n",
    "bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9))
    + APPLY_HEAD
    + "spec:\n  replicas: 5\n",
    "small-expansion": "a: &a {b: c}\nx: [*a, *a, *a]\n" + APPLY_HEAD + "spec:\n  replicas: 5\n",
    "self-alias": "x: &x [*x]\n" + APPLY_HEAD + "spec:\n  replicas: 5\n",
    "document-start": "---\n" + APPLY_HEAD + "spec:\n  replicas: 5\n",
    "document-end": APPLY_HEAD + "spec:\n  replicas: 5\n...\n",
    "two-documents": APPLY_HEAD + "spec:\n  replicas: 1\n---\n" + APPLY_HEAD + "spec:\n  replicas: 5\n",
    "two-documents-growth-first": APPLY_HEAD + "spec:\n  replicas: 5\n---\n" + APPLY_HEAD + "spec:\n  replicas: 1\n",
    "empty-then-document": "---\n---\n" + APPLY_HEAD + "spec:\n  replicas: 5\n",
    "comment-then-document": "# hello\n---\n" + APPLY_HEAD + "spec:\n  replicas: 5\n",
    "directive": "%YAML 1.1\n---\n" + APPLY_HEAD + "spec:\n  replicas: 5\n",
    "directive-12": "%YAML 1.2\n---\n" + APPLY_HEAD + "spec:\n  replicas: 010\n",
    "directive-tag": "%TAG !i! tag:yaml.org,2002:\n---\n" + APPLY_HEAD + "spec:\n  replicas: !i!int 5\n",
    "trailing-garbage": APPLY_HEAD + "spec:\n  replicas: 5\n}\n",
    "quoted-key": APPLY_HEAD + '"spec":\n  "replicas": 5\n',
    "escaped-key": APPLY_HEAD + 'spec:\n  "\\x72eplicas": 5\n',
    "question-key": APPLY_HEAD + "spec:\n  ? replicas\n  : 5\n",
    "tagged-key": APPLY_HEAD + "spec:\n  !!str replicas: 5\n",
    "tagged-map": APPLY_HEAD + "spec: !!map\n  replicas: 5\n",
    "tagged-set": APPLY_HEAD + "spec: !!set {replicas}\n",
    "tagged-omap": APPLY_HEAD + "spec: !!omap\n- replicas: 5\n",
    "number-key": APPLY_HEAD + "1: 2\nspec:\n  replicas: 5\n",
    "bool-key": APPLY_HEAD + "yes: 2\nspec:\n  replicas: 5\n",
    "null-key": APPLY_HEAD + "~: 2\nspec:\n  replicas: 5\n",
    "float-key": APPLY_HEAD + "1.5: 2\nspec:\n  replicas: 5\n",
    "list-key": APPLY_HEAD + "[a]: 2\nspec:\n  replicas: 5\n",
    "case-key": APPLY_HEAD + "spec:\n  Replicas: 5\n",
    "colon-no-space": APPLY_HEAD + "spec:\n  replicas:5\n",
    "crlf": (APPLY_HEAD + "spec:\n  replicas: 5\n").replace("\n", "\r\n"),
    "cr": (APPLY_HEAD + "spec:\n  replicas: 5\n").replace("\n", "\r"),
    "nel": (APPLY_HEAD + "spec:\n  replicas: 5\n").replace("\n", "\x85"),
    "line-separator": (APPLY_HEAD + "spec:\n  replicas: 5\n").replace("\n", "\u2028"),
    "bom": "\ufeff" + APPLY_HEAD + "spec:\n  replicas: 5\n",
    "utf16": (APPLY_HEAD + "spec:\n  replicas: 5\n").encode("utf-16"),
    "utf16-be": ("\ufeff" + APPLY_HEAD + "spec:\n  replicas: 5\n").encode("utf-16-be"),
    "invalid-utf8": (APPLY_HEAD + "x: ").encode() + b"\xff\nspec:\n  replicas: 5\n",
    "nul": (APPLY_HEAD + "spec:\n  replicas: 5\n").encode() + b"\x00",
    "control": (APPLY_HEAD + "x: ").encode() + b"\x01\nspec:\n  replicas: 5\n",
    "emoji": APPLY_HEAD + "x: 😀\nspec:\n  replicas: 5\n",
    "deep": APPLY_HEAD + "spec:\n  replicas: 5\nx: " + "[" * 3000 + "]" * 3000 + "\n",
    "deep-block": APPLY_HEAD + "spec:\n  replicas: 5\n" + "".join(" " * n + "x:\n" for n in range(300)),
    "json-duplicate": '{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":1,"replicas":5}}',
    "json-trailing": '{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":5}} x',
    "json-two": '{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":1}}\n---\n{"spec":{"replicas":5}}',
    "json-trailing-comma": '{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":5,},}',
    "json-single-quotes": "{'apiVersion':'apps/v1','kind':'Deployment','spec':{'replicas':5}}",
    "json-tab": '{\t"apiVersion":"apps/v1",\n\t"kind":"Deployment","spec":{"replicas":5}}',
    "json-escapes": '{"apiVersion":"apps\\/v1","kind":"Deployment","spec":{"\\u0072eplicas":5}}',
    "json-surrogates": '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"a":"\\ud83d\\ude00"}},"spec":{"replicas":5}}',
    "json-no-space": '{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":5.0}}',
    "json-exponent": '{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":5e0}}',
    "json-leading-zero": '{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":010}}',
    "empty": "",
    "null": "null",
    "list": "- apiVersion: apps/v1\n",
    "scalar": "5",
    "comment-only": "# x\n",
}

SCALE_YAML = (
    "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {{name: {}, namespace: default}}\nspec:\n  replicas: {}\n"
)
FORCED = "?fieldManager=m&force=true"


def spellings() -> Iterator[Spelling]:
    """Scalars in three places, texts by apply, and some of them as PUT and POST."""
    for name, scalar in SCALARS.items():
        ordinary = name in {"five", "comment"}
        body = APPLY_HEAD + f"spec:\n  replicas: {scalar}\n"
        yield patch(f"yaml-apply-{name}", "a YAML scalar", body, APPLY, target=PLAIN + FORCED, ordinary=ordinary)
        yield put(f"yaml-put-{name}", "a YAML scalar", SCALE_YAML.format("web", scalar), YAML, ordinary=ordinary)
    for name in (
        "five",
        "octal",
        "hex",
        "underscore",
        "float",
        "tag-int",
        "string",
        "null",
        "sexagesimal",
        "empty",
    ):
        body = SCALE_YAML.format("gizmo", SCALARS[name])
        yield put(f"yaml-custom-{name}", "a YAML scalar", body, YAML, target=path_of(GIZMO) + "/scale", before=GIZMO)
        body = SCALE_YAML.format("web", SCALARS[name])
        yield patch(
            f"yaml-apply-scale-{name}",
            "a YAML scalar",
            body,
            APPLY,
            target=SCALE + FORCED,
            ordinary=name == "five",
        )
    for name, text in TEXTS.items():
        ordinary = name in {
            "flow",
            "document-start",
            "crlf",
            "quoted-key",
            "alias",
            "json-tab",
            "emoji",
            "json-surrogates",
        }
        yield patch(f"yaml-text-{name}", "a YAML text", text, APPLY, target=PLAIN + FORCED, ordinary=ordinary)
    scale_head = "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: web, namespace: default}\n"
    for name in ("duplicate", "duplicate-outer", "merge-key", "merge-key-override", "alias", "two-documents", "document-start",
                 "two-documents-growth-first", "directive-12", "tagged-map", "number-key", "bool-key", "list-key", "case-key", "crlf", "bom",
                 "utf16", "invalid-utf8", "bomb", "question-key", "trailing-garbage", "null-key", "empty-then-document"):  # fmt: skip
        text = TEXTS[name]
        head = APPLY_HEAD.replace("\n", "\r\n") if name == "crlf" else APPLY_HEAD
        if isinstance(text, bytes):
            new = text.replace(head.encode(), scale_head.encode())
        else:
            new = text.replace(head, scale_head).encode()
        yield put(f"yaml-put-text-{name}", "a YAML text as a PUT", new, YAML)
    body = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: fresh}\nspec:\n  replicas: 3\n  selector: {matchLabels: {app: f}}\n"
    body += "  template:\n    metadata: {labels: {app: f}}\n    spec:\n      containers:\n      - {name: a, image: a, resources: {requests: {cpu: 1}}}\n"
    yield post("yaml-post", "a create in YAML", body, YAML, ordinary=True)
    yield post("yaml-post-octal", "a create in YAML", body.replace("replicas: 3", "replicas: 010"), YAML)
    yield post("yaml-post-cpu-octal", "a quantity as a YAML number", body.replace("cpu: 1", "cpu: 010"), YAML)
    yield post("yaml-post-cpu-exponent", "a quantity as a YAML number", body.replace("cpu: 1", "cpu: 1e3"), YAML)
    yield post("yaml-post-cpu-half", "a quantity as a YAML number", body.replace("cpu: 1", "cpu: 0.5"), YAML)
    yield post("yaml-post-two", "a second document", body + "---\n" + body.replace("3", "9"), YAML)
