"""Spellings of the number of replicas, and of JSON text around it."""

# ruff: noqa: E501 - a spelling reads best on one line

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    APPLY,
    DB,
    GIZMO,
    JSON,
    JSON_PATCH,
    KNOB,
    MERGE,
    NAKED,
    PLAIN,
    SCALE,
    STRATEGIC,
    WEB,
    Spelling,
    changed,
    patch,
    path_of,
    post,
    put,
    scale,
)
from tests.controlplane.fixtures import FIXTURES, deployment

LITERALS = {
    "five": "5",
    "same": "2",
    "zero": "0",
    "minus-zero": "-0",
    "minus-one": "-1",
    "float": "5.0",
    "float-long": "5.000000000000000000000000",
    "fraction": "5.5",
    "fraction-tiny": "5.0000000000000000000000001",
    "exponent": "5e0",
    "exponent-capital": "5E0",
    "exponent-plus": "5e+0",
    "exponent-big": "1e2",
    "exponent-down": "500e-2",
    "exponent-overflow": "1e400",
    "exponent-underflow": "1e-400",
    "minus-zero-float": "-0.0",
    "leading-zero": "05",
    "leading-plus": "+5",
    "leading-dot": ".5",
    "trailing-dot": "5.",
    "hex": "0x5",
    "underscore": "5_0",
    "comma": "5,000",
    "int32-max": "2147483647",
    "int32-over": "2147483648",
    "uint32-wrap": "4294967301",
    "int64-max": "9223372036854775807",
    "int64-over": "9223372036854775808",
    "uint64-wrap": "18446744073709551621",
    "huge": "1" + "0" * 400,
    "string": '"5"',
    "string-empty": '""',
    "true": "true",
    "null": "null",
    "nan": "NaN",
    "infinity": "Infinity",
    "list": "[5]",
    "object": '{"$numberInt":5}',
    "empty-object": "{}",
    "spaces": " \t\n\r5 ",
    "no-break-space": "\u00a05",
    "full-width-digit": "５",
    "comment": "/* */5",
    "missing": "",
}
LESSER = (
    "five",
    "float",
    "fraction",
    "exponent",
    "exponent-overflow",
    "int32-over",
    "int64-over",
    "uint32-wrap",
    "string",
    "true",
    "null",
    "zero",
    "minus-one",
    "minus-zero",
    "minus-zero-float",
    "empty-object",
    "list",
    "leading-zero",
    "hex",
)


def spellings() -> Iterator[Spelling]:
    """Literals in each kind of body, then odd JSON texts."""
    for name, literal in LITERALS.items():
        ordinary = name in {"five", "same", "zero", "spaces", "int32-max"}
        yield patch(f"value-scale-merge-{name}", "a value", f'{{"spec":{{"replicas":{literal}}}}}', ordinary=ordinary)
        body = json.dumps(scale("@")).replace('"@"', literal)
        yield put(f"value-scale-put-{name}", "a value", body, ordinary=ordinary)
    for name in LESSER:
        literal, ordinary = LITERALS[name], name in {"five", "zero"}
        body = f'[{{"op":"replace","path":"/spec/replicas","value":{literal}}}]'
        yield patch(f"value-json-patch-{name}", "a value", body, JSON_PATCH, ordinary=ordinary)
        body = f'{{"spec":{{"replicas":{literal}}}}}'
        yield patch(f"value-strategic-{name}", "a value", body, STRATEGIC, target=PLAIN, ordinary=ordinary)
        yield patch(f"value-merge-{name}", "a value", body, target=PLAIN, ordinary=ordinary)
        yield patch(f"value-custom-{name}", "a value", body, target=path_of(GIZMO) + "/scale", before=GIZMO)
        body = f'{{"apiVersion":"apps/v1","kind":"Deployment","spec":{{"replicas":{literal}}}}}'
        yield patch(
            f"value-apply-{name}",
            "a value",
            body,
            APPLY,
            target=f"{PLAIN}?fieldManager=m&force=true",
            ordinary=ordinary,
        )
        body = json.dumps(changed(FIXTURES[WEB], replicas="@")).replace('"@"', literal)
        yield put(f"value-put-{name}", "a value", body, target=PLAIN, ordinary=ordinary)
    body = json.dumps(changed(FIXTURES[DB], replicas="@")).replace('"@"', "null")
    yield put("value-put-set-null", "null is the default", body, target=path_of(DB), before=DB)
    yield from _texts()
    yield from _quantities()


TEXTS = {
    "duplicate": '{"spec":{"replicas":1,"replicas":5}}',
    "duplicate-reversed": '{"spec":{"replicas":5,"replicas":1}}',
    "duplicate-outer": '{"spec":{"replicas":5},"spec":{}}',
    "duplicate-outer-reversed": '{"spec":{},"spec":{"replicas":5}}',
    "duplicate-outer-merge": '{"spec":{"replicas":5},"spec":{"x":1}}',
    "duplicate-null": '{"spec":{"replicas":5},"spec":null}',
    "duplicate-elsewhere": '{"metadata":{"labels":{"a":"1","a":"2"}},"spec":{"replicas":5}}',
    "duplicate-escaped": '{"spec":{"replicas":1,"\\u0072eplicas":5}}',
    "escaped-key": '{"spec":{"\\u0072eplicas":5}}',
    "escaped-key-outer": '{"\\u0073pec":{"replicas":5}}',
    "case-key": '{"spec":{"Replicas":5}}',
    "case-outer": '{"Spec":{"replicas":5}}',
    "case-both": '{"spec":{"replicas":1,"REPLICAS":5}}',
    "kelvin": '{"\u017fpec":{"replicas":5}}',
    "zero-width": '{"spec":{"replicas\u200b":5}}',
    "nul-in-key": '{"spec":{"replicas\\u0000":5}}',
    "unknown-fields": '{"spec":{"replicas":5,"x":{"y":[1]}},"z":null}',
    "bom": b'\xef\xbb\xbf{"spec":{"replicas":5}}',
    "utf16-le": '{"spec":{"replicas":5}}'.encode("utf-16"),
    "utf16-be": '{"spec":{"replicas":5}}'.encode("utf-16-be"),
    "utf32": '{"spec":{"replicas":5}}'.encode("utf-32"),
    "invalid-utf8-value": b'{"metadata":{"annotations":{"a":"\xff"}},"spec":{"replicas":5}}',
    "invalid-utf8-key": b'{"spec":{"replicas\xff":5}}',
    "invalid-utf8-outside": b'\xff{"spec":{"replicas":5}}',
    "surrogate-lone": '{"metadata":{"annotations":{"a":"\\ud800"}},"spec":{"replicas":5}}',
    "surrogate-pair": '{"metadata":{"annotations":{"a":"\\ud83d\\ude00"}},"spec":{"replicas":5}}',
    "surrogate-bytes": b'{"metadata":{"annotations":{"a":"\xed\xa0\x80"}},"spec":{"replicas":5}}',
    "control-in-string": b'{"metadata":{"annotations":{"a":"\x01"}},"spec":{"replicas":5}}',
    "newline-in-string": b'{"metadata":{"annotations":{"a":"\n"}},"spec":{"replicas":5}}',
    "del-in-string": b'{"metadata":{"annotations":{"a":"\x7f"}},"spec":{"replicas":5}}',
    "bad-escape": '{"metadata":{"annotations":{"a":"\\x41"}},"spec":{"replicas":5}}',
    "escaped-slash": '{"metadata":{"annotations":{"a":"\\/"}},"spec":{"replicas":5}}',
    "nul-byte-after": b'{"spec":{"replicas":5}}\x00',
    "nul-byte-before": b'\x00{"spec":{"replicas":5}}',
    "nul-byte-inside": b'{"spec":\x00{"replicas":5}}',
    "trailing-space": '{"spec":{"replicas":5}} \n\n',
    "trailing-form-feed": '{"spec":{"replicas":5}}\x0c',
    "trailing-text": '{"spec":{"replicas":5}}x',
    "trailing-brace": '{"spec":{"replicas":5}}}',
    "trailing-document": '{"spec":{"replicas":5}}{"spec":{"replicas":1}}',
    "trailing-document-growth": '{"spec":{"replicas":1}}{"spec":{"replicas":5}}',
    "trailing-comma": '{"spec":{"replicas":5,}}',
    "trailing-comma-outer": '{"spec":{"replicas":5},}',
    "comment": '{"spec":{"replicas":5}}//x',
    "comment-inside": '{/*x*/"spec":{"replicas":5}}',
    "single-quotes": "{'spec':{'replicas':5}}",
    "unquoted": "{spec:{replicas:5}}",
    "leading-vertical-tab": '\x0b{"spec":{"replicas":5}}',
    "leading-newlines": '\n\r\t {"spec":{"replicas":5}}',
    "truncated": '{"spec":{"replicas":5}',
    "truncated-number": '{"spec":{"replicas":5',
    "empty": "",
    "blank": "  ",
    "null": "null",
    "array": '[{"spec":{"replicas":5}}]',
    "string": '"{}"',
    "number": "5",
    "spec-null": '{"spec":null}',
    "spec-array": '{"spec":[{"replicas":5}]}',
    "spec-string": '{"spec":"replicas"}',
    "empty-key": '{"":1,"spec":{"replicas":5}}',
    "proto-key": '{"__proto__":{"replicas":9},"spec":{"replicas":5}}',
    "deep-100": '{"spec":{"replicas":5},"x":' + "[" * 100 + "]" * 100 + "}",
    "deep-5000": '{"spec":{"replicas":5},"x":' + "[" * 5000 + "]" * 5000 + "}",
    "deep-9990": '{"spec":{"replicas":5},"x":' + "[" * 9990 + "]" * 9990 + "}",
    "deep-20000": '{"spec":{"replicas":5},"x":' + "[" * 20000 + "]" * 20000 + "}",
    "deep-objects": '{"spec":{"replicas":5},"x":' + '{"a":' * 3000 + "1" + "}" * 3000 + "}",
    "float-elsewhere": '{"spec":{"replicas":5},"x":1.5}',
    "huge-elsewhere": '{"spec":{"replicas":5},"x":1e999}',
    "long-int-elsewhere": '{"spec":{"replicas":5},"x":' + "9" * 5000 + "}",
    "line-separator": '{"metadata":{"annotations":{"a":"\u2028"}},"spec":{"replicas":5}}',
}


def _texts() -> Iterator[Spelling]:
    ordinary = {"escaped-slash", "surrogate-pair", "trailing-space", "leading-newlines", "unknown-fields"}
    for name, text in TEXTS.items():
        yield patch(f"text-merge-{name}", "a JSON text", text, ordinary=name in ordinary)
        yield patch(f"text-object-{name}", "a JSON text on the object", text, target=PLAIN, ordinary=name in ordinary)
    for name in ("duplicate", "duplicate-outer", "duplicate-outer-merge", "duplicate-null", "case-key", "case-both", "bom", "kelvin",
                 "trailing-document", "trailing-text", "invalid-utf8-value", "utf16-le", "deep-5000", "escaped-key",
                 "surrogate-lone", "null", "spec-null", "nul-byte-after", "trailing-comma"):  # fmt: skip
        yield patch(f"text-strategic-{name}", "a JSON text", TEXTS[name], STRATEGIC, target=PLAIN)
        yield put(f"text-put-{name}", "a JSON text as a PUT", _as_scale(TEXTS[name], "web"))
        target = path_of(KNOB) + "/scale"
        body = _as_scale(TEXTS[name], "knob")
        yield put(f"text-custom-{name}", "a JSON text as a PUT of a custom scale", body, target=target, before=KNOB)
        target = SCALE + "?fieldValidation=Strict"
        yield put(f"text-strict-{name}", "strict field validation", _as_scale(TEXTS[name], "web"), target=target)


def _as_scale(text: str | bytes, name: str) -> bytes:
    """The text with what a Scale needs besides put in front, and into its metadata."""
    raw = text if isinstance(text, bytes) else text.encode()
    identity = b'"name":"%b","namespace":"default"' % name.encode()
    kind = b'"kind":"Scale","apiVersion":"autoscaling/v1"'
    if b'"metadata":{' in raw:
        return raw.replace(b'"metadata":{', b'%b,"metadata":{%b,' % (kind, identity), 1)
    return raw.replace(b"{", b'{%b,"metadata":{%b},' % (kind, identity), 1)


QUANTITIES: dict[str, object] = {
    "plain": "200m", "number": 1, "float": 0.5, "exponent": "1e3", "exponent-capital": "1E3", "exa": "1E",
    "kibi": "1Ki", "milli-memory": "100m", "nano": "1n", "sub-nano": "0.0000000001", "empty": "", "null": None,
    "plus": "+1", "minus": "-1", "leading-dot": ".5", "trailing-dot": "5.", "space": " 1", "trailing-space": "1 ",
    "big": "9223372036854775808", "huge": "1e40", "capital-k": "1K", "small-k": "1k", "true": True, "list": ["1"],
    "decimal-binary": "1.5Gi", "exponent-suffix": "1e3Ki", "hex": "0x10", "underscore": "1_0", "nan": "NaN",
}  # fmt: skip


def _quantities() -> Iterator[Spelling]:
    for name, value in QUANTITIES.items():
        for resource in ("cpu", "memory"):
            container = {"name": "app", "resources": {"requests": {resource: value}, "limits": None}}
            body = {"spec": {"template": {"spec": {"containers": [container]}}}}
            yield patch(f"quantity-{resource}-{name}", "a quantity", body, STRATEGIC, target=path_of(NAKED), before=NAKED,
                        ordinary=name in {"plain", "number", "exponent", "kibi", "small-k"} and (resource, name) != ("cpu", "kibi"))  # fmt: skip
    tree = deployment("fresh", 3)
    tree["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": 2, "nvidia.com/gpu": "1"}}
    yield post("quantity-gpu", "limits alone default the requests", tree, ordinary=True)
    tree = deployment("fresh", 3)
    tree["spec"]["template"]["spec"]["resources"] = {"requests": {"cpu": "3"}}
    yield post("quantity-pod-level", "resources of the whole pod", tree, ordinary=True)
    yield post("quantity-merge-type", "a POST with a patch's content type", tree, MERGE)
    yield post("quantity-json-type", "a POST with the plain content type", tree, JSON, ordinary=True)
