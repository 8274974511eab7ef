"""Specs of WorkspaceQuotas, good and bad: for the API server's rules and for our own reader."""

from __future__ import annotations

from typing import Any

from extauthz.core.model import Unknown
from extauthz.core.quota.spec import Mode

Tree = Any


def labels(**pairs: str) -> Tree:
    return {"namespaceSelector": {"matchLabels": pairs}}


def requirement(**fields: Tree) -> Tree:
    return {"workloadSelector": {"matchExpressions": [fields]}}


KEYS = (
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
    "limits.cpu", "limits.memory", "limits.ephemeral-storage", "hugepages-2Mi", "requests.hugepages-1Gi",
    "limits.hugepages-2Mi", "pods", "count/pods", "requests.nvidia.com/gpu", "requests.example.com/a_b.c-d",
    "requests.deviceclass.resource.kubernetes.io/gpu.example.com", "requests.kubernetes.io/batteries",
    "requests.storage", "storage", "limits.storage", "persistentvolumeclaims", "count/persistentvolumeclaims",
    "gold.storageclass.storage.k8s.io/requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
    "gold.storageclass.storage.k8s.io/cpu", "count/deployments.apps", "count/statefulsets.apps",
    "count/replicasets.apps", "count/deployments", "count/deployments.extensions", "count/replicationcontrollers",
    "replicationcontrollers",
    "gpu.deviceclass.resource.k8s.io/devices", "nvidia.com/gpu", "limits.nvidia.com/gpu", "configmaps", "secrets",
    "services", "services.loadbalancers", "services.nodeports", "resourcequotas", "count/jobs.batch",
    "count/widgets.example.com", "request.cpu", "requests.cpus", "CPU", "", "requests.", "requests.nvidia.com/",
    "requests./gpu", "requests.Nvidia.com/gpu", "requests.nvidia.com/gpu/a100", "requests.nvidia.com/-gpu", " pods",
    "pods ", "requests.cpu\n",
)  # fmt: skip

AMOUNTS: dict[str, Tree] = {
    key: {"hard": {"requests.cpu": amount}}
    for key, amount in {
        "whole": 10, "nothing": 0, "text": "10", "milli": "500m", "binary": "64Gi", "decimal": "1.5", "exponent": "1e3",
        "plus": "+1", "point": ".5", "nano": "1n", "below": "-1", "below-int": -1,
        "below-a-nano": "-1n", "empty": "", "word": "much", "unit": "10X", "spaced-unit": "10 Gi", "twice": "1.2.3",
        "lower-unit": "1gi", "bool": True, "list": [1], "huge": "9" * 40,
    }.items()
}  # fmt: skip

SPECS: dict[str, Tree] = {
    **{f"key {key!r}": {"hard": {key: "1"}} for key in KEYS},
    **{f"amount {name}": spec for name, spec in AMOUNTS.items()},
    **{
        f"guaranteed {name}": {
            "hard": {"requests.cpu": 4, "pods": "5", "limits.cpu": "1500m"},
            "guaranteed": guaranteed,
        }
        for name, guaranteed in {
            "nothing": {},
            "null": None,
            "some": {"requests.cpu": 3, "pods": "5", "limits.cpu": "1.5"},
            "text": {"pods": "4"},
            "number within text": {"pods": 5},
            "text within number": {"requests.cpu": "4000m"},
            "not limited": {"requests.memory": "1Gi"},
            "no such key": {"requests.cpus": 1},
            "no quantity": {"pods": "5x"},
            "negative": {"pods": -1},
            "list": [],
            "zero": {"pods": 0},
        }.items()
    },
    **{
        f"overrides {name}": {"hard": {"pods": "5"}, "overrides": [{"name": "a", "hard": {"pods": 6}} | fields]}
        for name, fields in {
            "good": {"from": "2027-02-01T00:00:00Z", "until": "2027-02-01T01:30:00+01:00"},
            "not after": {"from": "2027-02-01T00:00:00Z", "until": "2027-02-01T01:00:00+01:00"},
            "no zone": {"from": "2027-02-01T00:00:00", "until": "2027-02-02T00:00:00Z"},
            "no time": {"from": "soon", "until": "2027-02-02T00:00:00Z"},
            "no day": {"from": "2027-02-30T00:00:00Z", "until": "2027-03-02T00:00:00Z"},
            "no end": {"from": "2027-02-01T00:00:00Z"},
            "no quantity": {"from": "2027-02-01T00:00:00Z", "until": "2027-02-02T00:00:00Z", "hard": {"pods": "x"}},
            "not limited": {
                "from": "2027-02-01T00:00:00Z",
                "until": "2027-02-02T00:00:00Z",
                "hard": {"requests.cpu": 1},
            },
            "guaranteed": {"from": "2027-02-01T00:00:00Z", "until": "2027-02-02T00:00:00Z", "guaranteed": {"pods": 6}},
            "unknown": {"from": "2027-02-01T00:00:00Z", "until": "2027-02-02T00:00:00Z", "when": "now"},
        }.items()
    },
    **{
        f"sharing {name}": {"sharing": sharing, **more}
        for name, sharing, more in (
            ("nothing", {}, {}),
            ("turns", {"turns": "Share", "turnSeconds": 60}, {}),
            ("turns of none", {"turns": "FirstCome"}, {}),
            ("turns of a child", {"turns": "FirstCome"}, {"parent": "root"}),
            ("another order", {"turns": "Fair"}, {}),
            ("seconds without turns", {"turnSeconds": 60}, {}),
            ("seconds of who comes first", {"turns": "FirstCome", "turnSeconds": 60}, {}),
            ("no seconds", {"turns": "Share", "turnSeconds": 0}, {}),
            ("a weight", {"weight": 3}, {"parent": "big-corp"}),
            ("a weight of a root", {"turns": "Share", "weight": 3}, {}),
            ("too heavy", {"weight": 1001}, {"parent": "big-corp"}),
            ("unknown", {"turn": "Share"}, {}),
            ("a word", "Share", {}),
        )
    },
    **{f"{name} beside sharing": {name: 1} for name in ("turns", "turnSeconds", "weight")},
    "guaranteed without limits": {"guaranteed": {"pods": 1}},
    "guaranteed of a limit that is no quantity": {"hard": {"pods": "5x"}, "guaranteed": {"pods": 1}},
    "nothing": {},
    "no limits": {"hard": {}},
    "all of it": {
        "parent": "big-corp",
        "namespaceSelector": {"matchLabels": {"workspace": "acme"}},
        "workloadSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["system"]}]},
        "hard": {"requests.cpu": "10", "requests.memory": "64Gi", "requests.nvidia.com/gpu": "4", "pods": 100},
        "mode": "Clamp",
    },
    **{
        f"requesters {name}": {"requesters": requesters}
        for name, requesters in {
            "none": {},
            "include nobody": {"include": {}},
            "all": {"include": {"users": ["*"], "groups": ["system:*"]}, "except": {"podNames": ["keda-*"]}},
            "accounts": {"except": {"serviceAccounts": ["kube-system/hpa", "keda/*", "keda/op*"]}},
            "no namespace": {"except": {"serviceAccounts": ["hpa"]}},
            "any namespace": {"except": {"serviceAccounts": ["*/hpa"]}},
            "a path": {"except": {"serviceAccounts": ["a/b/c"]}},
            "a star within": {"include": {"users": ["a*b"]}},
            "two stars": {"include": {"groups": ["a**"]}},
            "an empty name": {"include": {"users": [""]}},
            "an empty list": {"include": {"users": []}},
            "a text": {"include": {"users": "a"}},
            "a number": {"include": {"users": [1]}},
            "unknown": {"include": {"user": ["a"]}},
            "not a mapping": ["a"],
        }.items()
    },
    "whole pods": {"hard": {"pods": "3"}},
    "thousandths that are whole pods": {"hard": {"pods": "2000m"}},
    "more pods than an int64 holds": {"hard": {"pods": "1e30"}},
    "half a processor": {"hard": {"requests.cpu": "0.5"}},
    "twice cpu": {"hard": {"cpu": "1", "requests.cpu": "1"}},
    "twice hugepages": {"hard": {"hugepages-2Mi": "1", "requests.hugepages-2Mi": "1"}},
    "twice controllers": {"hard": {"replicationcontrollers": "1", "count/replicationcontrollers": "1"}},
    "requests and limits": {"hard": {"cpu": "1", "limits.cpu": "1"}},
    "pods and count of pods": {"hard": {"pods": "1", "count/pods": "1"}},
    "own parent": {"parent": "acme"},
    "parent with capitals": {"parent": "Big"},
    "empty parent": {"parent": ""},
    "long parent": {"parent": "a" * 253},
    "too long a parent": {"parent": "a" * 254},
    "parent a number": {"parent": 7},
    **{f"mode {mode}": {"mode": str(mode)} for mode in Mode},
    "unknown mode": {"mode": "Warn"},
    "mode in small letters": {"mode": "audit"},
    "empty mode": {"mode": ""},
    **{f"on unknown {what}": {"onUnknown": {what: "Allow"}} for what in Unknown},
    "on unknown, nothing": {"onUnknown": {}},
    "on unknown, all": {"onUnknown": dict.fromkeys(Unknown, "Deny")},
    "on unknown, neither": {"onUnknown": {"stale": "deny"}},
    "on unknown, empty": {"onUnknown": {"stale": ""}},
    "on unknown, a boolean": {"onUnknown": {"stale": True}},
    "on unknown, unknown field": {"onUnknown": {"late": "Deny"}},
    "on unknown, a word": {"onUnknown": "Deny"},
    "all namespaces": {"namespaceSelector": {}},
    "label": labels(team="a"),
    "label with a prefix": {"namespaceSelector": {"matchLabels": {"example.com/team": "a_b.c-d"}}},
    "empty label value": labels(team=""),
    "label value with a space": labels(team="a b"),
    "label value ends badly": labels(team="a-"),
    "longest label value": labels(team="v" * 63),
    "too long a label value": labels(team="v" * 64),
    "label value a number": {"namespaceSelector": {"matchLabels": {"team": 1}}},
    "empty label key": {"namespaceSelector": {"matchLabels": {"": "a"}}},
    "label key with two slashes": {"namespaceSelector": {"matchLabels": {"a/b/c": "a"}}},
    "label key without a name": {"namespaceSelector": {"matchLabels": {"example.com/": "a"}}},
    "label key without a prefix": {"namespaceSelector": {"matchLabels": {"/team": "a"}}},
    "label key's prefix in capitals": {"namespaceSelector": {"matchLabels": {"Example.com/team": "a"}}},
    "label key in capitals": {"namespaceSelector": {"matchLabels": {"Team": "a"}}},
    "longest label key": {"namespaceSelector": {"matchLabels": {f"{'p' * 253}/{'n' * 63}": "a"}}},
    "too long a prefix": {"namespaceSelector": {"matchLabels": {f"{'p' * 254}/n": "a"}}},
    "too long a label name": {"namespaceSelector": {"matchLabels": {"n" * 64: "a"}}},
    "In": requirement(key="tier", operator="In", values=["a", ""]),
    "In without values": requirement(key="tier", operator="In"),
    "NotIn with no values": requirement(key="tier", operator="NotIn", values=[]),
    "Exists": requirement(key="tier", operator="Exists"),
    "Exists with no values": requirement(key="tier", operator="Exists", values=[]),
    "Exists with values": requirement(key="tier", operator="Exists", values=["a"]),
    "DoesNotExist with values": requirement(key="tier", operator="DoesNotExist", values=["a"]),
    "unknown operator": requirement(key="tier", operator="Gt", values=["1"]),
    "no operator": requirement(key="tier"),
    "no key": requirement(operator="Exists"),
    "bad key": requirement(key="a b", operator="Exists"),
    "too long a key": requirement(key="n" * 64, operator="Exists"),
    "too long a prefix of a key": requirement(key=f"{'p' * 254}/n", operator="Exists"),
    "bad value": requirement(key="tier", operator="In", values=["a b"]),
    "too long a value": requirement(key="tier", operator="In", values=["v" * 64]),
    "unknown field": {"hards": {"pods": 1}},
    "unknown field of a selector": {"namespaceSelector": {"matchlabels": {"a": "b"}}},
}

ONLY_READ: dict[str, Tree] = {
    "a guarantee in another spelling than its limit": {"hard": {"requests.cpu": 4}, "guaranteed": {"cpu": 1}},
    "a fraction that is a JSON number: int-or-string has none": {"hard": {"requests.cpu": 1.5}},
    "space around a quantity: it is no part of the pattern": {"hard": {"requests.cpu": " 1 "}},
    "a sign before nothing: the pattern has none": {"hard": {"requests.cpu": "-0"}},
    "a quantity of more than 64 characters": {"hard": {"requests.cpu": "0" * 64 + "1"}},
    "more limits than 64: the cost of the rules": {"hard": {f"requests.example.com/r{n}": 1 for n in range(65)}},
    "more labels than 32: the cost of the rules": labels(**{f"l{n}": "" for n in range(33)}),
    "more requirements than 32: the cost of the rules": {
        "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}] * 33}
    },
    "more values than 64: the cost of the rules": requirement(
        key="a", operator="In", values=[str(n) for n in range(65)]
    ),
}
"""What files may say and the API server refuses, and why."""

ONLY_TAKEN: dict[str, Tree] = {
    "half a pod": {"hard": {"pods": "1.5"}},
    "half a claim": {"hard": {"gold.storageclass.storage.k8s.io/persistentvolumeclaims": "500m"}},
    "half a deployment": {"hard": {"count/deployments.apps": "0.5"}},
    "half a controller": {"hard": {"replicationcontrollers": "0.5"}},
    "half a guarantee": {"hard": {"pods": "5"}, "guaranteed": {"pods": "1.5"}},
    "a guarantee above its limit": {"hard": {"pods": 1}, "guaranteed": {"pods": 2}},
    "a guarantee in text above its limit": {"hard": {"limits.cpu": "1500m"}, "guaranteed": {"limits.cpu": "2"}},
}
"""What the API server takes and our reader does not: the condition Ready says so. A rule that compares amounts is too
costly for API servers before 1.34."""


MESSAGES: dict[str, tuple[Tree, str]] = {
    "extended resource": ({"hard": {"nvidia.com/gpu": 4}}, 'is not counted; use "requests.nvidia.com/gpu"'),
    "its limit": ({"hard": {"limits.nvidia.com/gpu": 4}}, '"limits.nvidia.com/gpu" is not counted; use "requests.nv'),
    "storage": ({"hard": {"storage": "1Ti"}}, '"storage" is not counted; use "requests.storage"'),
    "huge pages": ({"hard": {"limits.hugepages-2Mi": 1}}, 'use "requests.hugepages-2Mi"'),
    "no group": ({"hard": {"count/deployments": 1}}, 'write the API group, as in "count/deployments.apps"'),
    "typing error": ({"hard": {"request.cpu": 1}}, '"request.cpu" is not counted; known are requests.cpu'),
    "configmaps": ({"hard": {"configmaps": 1}}, '"configmaps" is not counted; known are requests.cpu'),
    "twice": ({"hard": {"cpu": 1, "requests.cpu": 1}}, "the same resource twice, with and without requests.; keep one"),
    "not a quantity": ({"hard": {"requests.cpu": "4x"}}, "spec.hard.requests.cpu in body should match"),
    "negative": ({"hard": {"requests.cpu": -1}}, "spec.hard.requests.cpu in body should be greater than or equal to 0"),
    "guaranteed, not limited": ({"guaranteed": {"pods": 1}}, "hard does not limit it: write a limit of the same key"),
    "turns of a child": ({"sharing": {"turns": "Share"}, "parent": "root"}, "the root of its tree says it: write it"),
    "seconds without turns": ({"sharing": {"turnSeconds": 60}}, "it has no turns: write turns: Share, or remove it"),
    "a weight of a root": ({"sharing": {"weight": 2}}, "a root shares with nobody: write it on its children"),
    "own parent": ({"parent": "acme"}, "a quota cannot be its own parent; name another one, or remove parent"),
    "bad parent": ({"parent": "Big Corp"}, "not an object name: use lower-case letters"),
    "on unknown": ({"onUnknown": {"stale": "maybe"}}, 'supported values: "Deny", "Allow"'),
    "mode": ({"mode": "Warn"}, 'supported values: "Enforce", "Clamp", "Audit"'),
    "label key": ({"namespaceSelector": {"matchLabels": {"a b": "c"}}}, "not a label key: write name or"),
    "label value": (labels(team="a b"), "not a label value: use letters, digits"),
    "no values": (requirement(key="a", operator="In"), "In and NotIn need values; list at least one"),
    "values": (requirement(key="a", operator="Exists", values=["b"]), "remove them, or use In or NotIn"),
    "operator": (requirement(key="a", operator="Gt", values=["1"]), 'supported values: "In", "NotIn", "Exists"'),
}  # fmt: skip
