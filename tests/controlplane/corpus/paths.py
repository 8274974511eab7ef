"""Spellings of the path and the method: what reaches the same object, what another, what none."""

# ruff: noqa: E501 - a spelling reads best on one line

from __future__ import annotations

from collections.abc import Iterator

from tests.controlplane.corpus.base import (
    CREW,
    DB,
    GIZMO,
    JSON,
    KNOB,
    MERGE,
    OLD,
    PLAIN,
    SCALE,
    WEB,
    Spelling,
    dump,
    patch,
    path_of,
    post,
    put,
    scale,
    to,
)
from tests.controlplane.fixtures import deployment

NS = "/apis/apps/v1/namespaces/default"

TARGETS = {
    "plain": SCALE,
    "object": PLAIN,
    "trailing-slash": SCALE + "/",
    "object-trailing-slash": PLAIN + "/",
    "two-trailing-slashes": SCALE + "//",
    "leading-double-slash": "/" + SCALE,
    "leading-triple-slash": "//" + SCALE,
    "double-slash-group": "/apis//apps/v1/namespaces/default/deployments/web/scale",
    "double-slash-name": NS + "/deployments//web/scale",
    "double-slash-scale": NS + "/deployments/web//scale",
    "double-slash-object": NS + "//deployments/web",
    "dot-segment": NS + "/./deployments/web/scale",
    "dot-dot-segment": NS + "/pods/../deployments/web/scale",
    "dot-dot-version": "/apis/apps/v2/../v1/namespaces/default/deployments/web/scale",
    "dot-dot-root": "/../apis/apps/v1/namespaces/default/deployments/web/scale",
    "trailing-dot": SCALE + "/.",
    "trailing-dot-dot": SCALE + "/..",
    "escaped-dot-dot": NS + "/pods/%2e%2e/deployments/web/scale",
    "escaped-dot": NS + "/%2e/deployments/web/scale",
    "escaped-letter-name": NS + "/deployments/%77eb/scale",
    "escaped-letter-name-capital-hex": NS + "/deployments/we%62/scale",
    "escaped-whole-name": NS + "/deployments/%77%65%62/scale",
    "escaped-resource": NS + "/%64eployments/web/scale",
    "escaped-subresource": NS + "/deployments/web/%73cale",
    "escaped-subresource-tail": NS + "/deployments/web/scal%65",
    "escaped-namespaces": "/apis/apps/v1/%6eamespaces/default/deployments/web/scale",
    "escaped-namespace": "/apis/apps/v1/namespaces/d%65fault/deployments/web/scale",
    "escaped-group": "/apis/%61pps/v1/namespaces/default/deployments/web/scale",
    "escaped-version": "/apis/apps/%76%31/namespaces/default/deployments/web/scale",
    "escaped-apis": "/%61pis/apps/v1/namespaces/default/deployments/web/scale",
    "escaped-slash-before-scale": NS + "/deployments/web%2Fscale",
    "escaped-slash-before-scale-lower": NS + "/deployments/web%2fscale",
    "escaped-slash-in-group": "/apis%2Fapps/v1/namespaces/default/deployments/web/scale",
    "escaped-slash-in-namespace": "/apis/apps/v1/namespaces%2Fdefault/deployments/web/scale",
    "escaped-slash-trailing": SCALE + "%2F",
    "escaped-slash-object": NS + "%2Fdeployments%2Fweb",
    "double-escaped-name": NS + "/deployments/%2577eb/scale",
    "double-escaped-slash": NS + "/deployments/web%252Fscale",
    "escaped-percent": NS + "/deployments/web%25/scale",
    "bad-escape": NS + "/deployments/web%zz/scale",
    "bad-escape-short": NS + "/deployments/web/scale%2",
    "escaped-nul": NS + "/deployments/web%00/scale",
    "escaped-nul-after-scale": SCALE + "%00",
    "escaped-newline": SCALE + "%0A",
    "escaped-space": SCALE + "%20",
    "escaped-space-before": NS + "/deployments/web/%20scale",
    "escaped-tab": NS + "/deployments/web%09/scale",
    "escaped-question-mark": NS + "/deployments/web%3Fx/scale",
    "escaped-hash": NS + "/deployments/web%23x/scale",
    "escaped-backslash": NS + "/deployments%5Cweb/scale",
    "backslash": NS + "/deployments\\web\\scale",
    "overlong-slash": NS + "/deployments/web%c0%afscale",
    "full-width": NS + "/deployments/%EF%BD%97eb/scale",
    "raw-utf8": NS + "/deployments/wéb/scale",
    "plus": NS + "/deployments/web+/scale",
    "capital-deployments": NS + "/Deployments/web/scale",
    "capital-scale": NS + "/deployments/web/Scale",
    "capital-name": NS + "/deployments/WEB/scale",
    "capital-apis": "/APIS/apps/v1/namespaces/default/deployments/web/scale",
    "capital-namespaces": "/apis/apps/v1/Namespaces/default/deployments/web/scale",
    "capital-group": "/apis/Apps/v1/namespaces/default/deployments/web/scale",
    "singular": NS + "/deployment/web/scale",
    "short-name": NS + "/deploy/web/scale",
    "semicolon-name": NS + "/deployments/web;x=1/scale",
    "semicolon-scale": SCALE + ";x=1",
    "semicolon-resource": NS + "/deployments;v=1/web/scale",
    "comma": SCALE + ",x",
    "version-v1beta1": "/apis/apps/v1beta1/namespaces/default/deployments/web/scale",
    "version-v1beta2": "/apis/apps/v1beta2/namespaces/default/deployments/web/scale",
    "extensions-v1beta1": "/apis/extensions/v1beta1/namespaces/default/deployments/web/scale",
    "core-group": "/api/v1/namespaces/default/deployments/web/scale",
    "no-version": "/apis/apps/namespaces/default/deployments/web/scale",
    "no-namespace": "/apis/apps/v1/deployments/web/scale",
    "empty-namespace": "/apis/apps/v1/namespaces//deployments/web/scale",
    "no-namespace-object": "/apis/apps/v1/deployments/web",
    "watch-prefix": "/apis/apps/v1/watch/namespaces/default/deployments/web",
    "watch-prefix-scale": "/apis/apps/v1/watch/namespaces/default/deployments/web/scale",
    "proxy-prefix": "/apis/apps/v1/proxy/namespaces/default/deployments/web",
    "status": NS + "/deployments/web/status",
    "unknown-subresource": NS + "/deployments/web/scales",
    "deeper": SCALE + "/scale",
    "scale-then-status": SCALE + "/status",
    "collection": NS + "/deployments",
    "collection-trailing-slash": NS + "/deployments/",
    "other-namespace": "/apis/apps/v1/namespaces/scale/deployments/web/scale",
    "object-named-scale": NS + "/deployments/scale",
    "object-named-scale-scale": NS + "/deployments/scale/scale",
    "fragment": SCALE + "#x",
    "fragment-escape": SCALE + "%23",
    "query-empty": SCALE + "?",
    "query-noise": SCALE + "?a=b&c",
    "query-slash": SCALE + "?x=/status",
    "query-two-marks": SCALE + "?a?b",
    "query-before-scale": PLAIN + "?/scale",
    "query-bad-escape": SCALE + "?a=%zz",
    "query-semicolon": SCALE + "?a;b",
    "query-space-plus": SCALE + "?a=+",
    "query-raw-utf8": SCALE + "?a=é",
    "query-long": SCALE + "?a=" + "x" * 4000,
    "fieldmanager": SCALE + "?fieldManager=m",
    "fieldmanager-too-long": SCALE + "?fieldManager=" + "m" * 200,
    "fieldvalidation-strict": SCALE + "?fieldValidation=Strict",
    "fieldvalidation-odd": SCALE + "?fieldValidation=Loose",
    "pretty": SCALE + "?pretty=true",
    "timeout": SCALE + "?timeout=5s",
    "timeout-bad": SCALE + "?timeout=x",
    "timeout-too-long": SCALE + "?timeout=100h",
    "force-on-merge": SCALE + "?force=true",
    "force-odd": SCALE + "?force=maybe",
    "no-leading-slash": "apis/apps/v1/namespaces/default/deployments/web/scale",
    "absolute-form": "http://127.0.0.1" + SCALE,
    "absolute-form-https": "https://127.0.0.1" + SCALE,
    "absolute-form-other-host": "http://elsewhere.example" + SCALE,
    "absolute-form-userinfo": "http://a:b@127.0.0.1" + SCALE,
    "absolute-form-port": "http://127.0.0.1:443" + SCALE,
    "absolute-form-capital-scheme": "HTTP://127.0.0.1" + SCALE,
    "absolute-form-other-scheme": "ftp://127.0.0.1" + SCALE,
    "absolute-form-double-slash": "http://127.0.0.1/" + SCALE,
    "scheme-only": "http:" + SCALE,
    "opaque": "x:" + SCALE,
    "network-path": "//127.0.0.1" + SCALE,
    "asterisk": "*",
    "empty-last-query": SCALE + "??",
    "openapi-braces": NS + "/deployments/{name}/scale",
    "bracket": NS + "/deployments/web[0]/scale",
    "control-character": NS + "/deployments/web\x01/scale",
    "del-character": NS + "/deployments/web\x7f/scale",
    "space-in-target": NS + "/deployments/web /scale",
    "tab-in-target": NS + "/deployments/web\t/scale",
    "trailing-space": SCALE + " ",
}

METHODS = [
    "patch",
    "Patch",
    "PATCH ",
    "PUT",
    "POST",
    "DELETE",
    "GET",
    "HEAD",
    "OPTIONS",
    "MERGE",
    "CONNECT",
    "TRACE",
]


def spellings() -> Iterator[Spelling]:
    """Every target by PATCH, some by PUT and POST, and odd methods."""
    for name, target in TARGETS.items():
        ordinary = name in {"plain", "object", "fieldmanager", "pretty", "fieldvalidation-strict", "timeout"}
        yield patch(f"path-{name}", "a way to write the path", to(), target=target, ordinary=ordinary)
    for name in ("plain", "trailing-slash", "leading-double-slash", "double-slash-scale", "escaped-subresource",
                 "dot-dot-segment", "escaped-slash-before-scale", "absolute-form", "escaped-whole-name"):  # fmt: skip
        yield put(f"path-put-{name}", "the same by PUT", scale(), target=TARGETS[name], ordinary=name == "plain")
    for method in METHODS:
        yield Spelling(
            f"method-{method.strip().lower()}-{len(method)}{method[0]}", "a method on the scale",
            WEB, method, SCALE, (("content-type", MERGE),), dump(to()),
        )  # fmt: skip
    for header in ("x-http-method-override", "x-http-method", "x-method-override"):
        yield Spelling(
            f"method-{header}", "method override", WEB, "POST", SCALE,
            (("content-type", MERGE), (header, "PATCH")), dump(to()),
        )  # fmt: skip
    yield from _other_kinds()
    yield from _creates()
    yield from _framing()


def _other_kinds() -> Iterator[Spelling]:
    for ref in (DB, CREW, OLD, GIZMO, KNOB):
        kind, name = ref.split(".")[0].split(" ")[0], ref.rpartition("/")[2]
        target = path_of(ref) + "/scale"
        yield patch(f"kind-{kind}-scale-merge", "another kind", to(), target=target, before=ref, ordinary=True)
        yield put(
            f"kind-{kind}-scale-put",
            "another kind",
            scale(name=name),
            target=target,
            before=ref,
            ordinary=True,
        )
        operations = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
        yield patch(f"kind-{kind}-scale-json-patch", "another kind", operations, "application/json-patch+json",
                    target=target, before=ref, ordinary=True)  # fmt: skip
        yield patch(f"kind-{kind}-merge", "another kind", to(), target=path_of(ref), before=ref,
                    ordinary=ref in (DB, CREW, OLD))  # fmt: skip
        yield patch(f"kind-{kind}-status", "status is not growth", {"status": {"replicas": 5}, **to()},
                    target=path_of(ref) + "/status", before=ref)  # fmt: skip
        yield patch(f"kind-{kind}-escaped", "another kind, escaped", to(), before=ref,
                    target=path_of(ref).replace(kind, f"%{ord(kind[0]):x}{kind[1:]}") + "/sc%61le")  # fmt: skip
        yield patch(f"kind-{kind}-shrink", "less is never refused", to(1), target=target, before=ref, ordinary=True)
        yield patch(f"kind-{kind}-zero", "nothing is never refused", to(0), target=target, before=ref, ordinary=True)
    yield patch("kind-rc-under-apis", "no such group", to(), target="/apis/v1/namespaces/default/replicationcontrollers/old/scale", before=OLD)  # fmt: skip
    yield patch("kind-rc-extensions", "gone since 1.20", to(), target="/apis/extensions/v1beta1/namespaces/default/replicationcontrollers/old/scale", before=OLD)  # fmt: skip


def _creates() -> Iterator[Spelling]:
    fresh = deployment("fresh", 3)
    for name, target in {
        "plain": NS + "/deployments",
        "trailing-slash": NS + "/deployments/",
        "double-slash": NS + "//deployments",
        "escaped": NS + "/%64eployments",
        "no-namespace": "/apis/apps/v1/deployments",
        "on-the-object": NS + "/deployments/fresh",
        "on-the-object-named-scale": NS + "/deployments/fresh/scale",
        "other-namespace": "/apis/apps/v1/namespaces/scale/deployments",
        "absent-namespace": "/apis/apps/v1/namespaces/absent/deployments",
        "empty-namespace": "/apis/apps/v1/namespaces//deployments",
        "watch": "/apis/apps/v1/watch/namespaces/default/deployments",
    }.items():
        yield post(f"create-{name}", "where a create is sent", fresh, target=target, ordinary=name == "plain")
    yield put("create-by-put", "PUT does not create Deployments", fresh, target=NS + "/deployments/fresh")
    yield patch("create-by-merge-patch", "nor does a merge patch", fresh, target=NS + "/deployments/fresh")


def _framing() -> Iterator[Spelling]:
    for version in ("1.0", "1.1", "1.2", "2.0", "0.9"):
        yield patch(f"http-{version}", "the protocol version", to(), version=version)
    yield patch("http-chunked", "a chunked body", to(), chunked=True, ordinary=True)
    yield put("http-chunked-put", "a chunked body", scale(), chunked=True)
    extra = {
        "expect": ("expect", "100-continue"),
        "expect-odd": ("expect", "something"),
        "gzip": ("content-encoding", "gzip"),
        "identity": ("content-encoding", "identity"),
        "deflate-empty": ("content-encoding", ""),
        "accept-protobuf": ("accept", "application/vnd.kubernetes.protobuf"),
        "accept-odd": ("accept", "image/png"),
        "accept-table": ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
        "original-uri": ("x-original-url", "/healthz"),
        "forwarded-prefix": ("x-forwarded-prefix", "/healthz"),
        "rewrite": ("x-rewrite-url", "/healthz"),
        "dryrun-header": ("dryrun", "All"),
        "if-match": ("if-match", '"1"'),
    }
    for name, header in extra.items():
        yield Spelling(f"header-{name}", "a header that should not matter", WEB, "PATCH", SCALE,
                       (("content-type", MERGE), header), dump(to()))  # fmt: skip
    yield Spelling("header-gzip-body", "is a compressed body read?", WEB, "PUT", SCALE,
                   (("content-type", JSON), ("content-encoding", "gzip")), _gzip(dump(scale())))  # fmt: skip


def _gzip(data: bytes) -> bytes:
    import gzip

    return gzip.compress(data, mtime=0)
