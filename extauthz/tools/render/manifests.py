"""Writes Kubernetes objects as text, with a comment about the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any as Tree
from typing import NamedTuple

import yaml

GATE = "extauthz"
"""The name of whatever the gate owns."""


class _Plain(yaml.SafeDumper):
    """No anchors: equal values are written twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _literal(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A file in a value is shown as lines."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _literal)


class Part(NamedTuple):
    """Objects that belong together, and what a reader of them must know."""

    says: str
    objects: Sequence[dict[str, Tree]]


def to_yaml(parts: Sequence[Part]) -> str:
    """One document for each object."""
    return "---\n".join(text for part in parts for text in _documents(part))


def to_json(parts: Sequence[Part]) -> str:
    objects = [tree for part in parts for tree in part.objects]
    tree = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
    return json.dumps(tree, indent=2) + "\n"


def _documents(part: Part) -> list[str]:
    comment = "".join(f"# {line}".rstrip() + "\n" for line in part.says.splitlines())
    first, *rest = (text_of(tree) for tree in part.objects)
    return [comment + first, *rest]


def text_of(tree: dict[str, Tree]) -> str:
    """One object as YAML."""
    return yaml.dump(tree, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


FORMATS: dict[str, Callable[[Sequence[Part]], str]] = {"yaml": to_yaml, "json": to_json}
"""By the words of ``--output``."""


def named(name: str, namespace: str | None = None) -> dict[str, Tree]:
    return {"name": name} | ({"namespace": namespace} if namespace else {})


def folder(file: str) -> str:
    return file.rpartition("/")[0]


def mount(name: str, path: str) -> dict[str, Tree]:
    """A volume that its container only reads."""
    return {"name": name, "mountPath": path, "readOnly": True}


# How pods reach the API server: what the API server's own admission gives them, and what to give them in its place.


API_ACCESS = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where client-go looks for token and authority (``rest.InClusterConfig``)."""

TOKEN_LIFE_S = 3607
"""What the API server's own admission asks for (``WarnOnlyBoundTokenExpirationSeconds`` in
``k8s.io/kubernetes/pkg/serviceaccount/claims.go``); the kubelet renews it in time."""


def api_access(config_map: str) -> dict[str, Tree]:
    """The volume that admission adds (``TokenVolumeSource`` there), with the authority in a ConfigMap's ``ca.crt``."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_LIFE_S}},
        {"configMap": {"name": config_map, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": "extauthz-api-access", "projected": {"defaultMode": 0o644, "sources": sources}}
