"""The schema of deploy/crd.yaml, held against a real API server and against our own reader of WorkspaceQuota."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extauthz.core import resources
from extauthz.core.quota.spec import Mode, QuotaSpecError, parse
from extauthz.core.quota.tree import QuotaTree, QuotaTreeError
from tests.controlplane import parts
from tests.controlplane.plane import Plane
from tests.controlplane.wire import Reply, Wire

Tree = Any
ROOT = Path(__file__).parents[2]
QUOTAS = "/apis/extauthz.dev/v1alpha1/workspacequotas"
ESTABLISHED_WITHIN_S = 30.0

pytestmark = pytest.mark.controlplane


def kubectl(plane: Plane, *arguments: str, stdin: str = "") -> str:
    """What kubectl prints; it must succeed."""
    command = [str(parts.find("kubectl")), "--kubeconfig", str(plane.kubeconfig), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=60, check=False)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def server(plane: Plane) -> Iterator[Wire]:
    """An API server that serves WorkspaceQuotas."""
    kubectl(plane, "apply", "--server-side", "-f", str(ROOT / "deploy/crd.yaml"))
    with contextlib.closing(Wire(plane)) as wire:
        deadline = time.monotonic() + ESTABLISHED_WITHIN_S
        while wire.json("GET", QUOTAS).status != 200:
            assert time.monotonic() < deadline, "WorkspaceQuotas are not served"
            time.sleep(0.1)
        yield wire


def quota(spec: Tree, name: str = "acme") -> Tree:
    return {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": name}, "spec": spec}


def tried(server: Wire, spec: Tree) -> Reply:
    """The answer to creating such a quota, without creating it."""
    return server.json("POST", f"{QUOTAS}?dryRun=All&fieldValidation=Strict", quota(spec))


def is_taken(server: Wire, spec: Tree) -> bool:
    reply = tried(server, spec)
    assert reply.status in (201, 400, 422), reply
    return reply.status == 201


def is_read(spec: Tree) -> bool:
    """Whether our own reader, and the tree that the quota stands in, take it."""
    try:
        read = parse(quota(spec))
        QuotaTree.build([read, *(parse(quota({}, name)) for name in ("big-corp", "a" * 253) if name != read.name)])
    except (QuotaSpecError, QuotaTreeError):
        return False
    return True


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
    "gold.storageclass.storage.k8s.io/cpu", "count/deployments.apps", "count/statefulsets.apps", "count/replicasets.apps",
    "count/deployments", "count/deployments.extensions", "count/replicationcontrollers", "replicationcontrollers",
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
        "plus": "+1", "point": ".5", "nano": "1n", "zero-signed": "-0", "below": "-1", "below-int": -1,
        "below-a-nano": "-1n", "empty": "", "word": "much", "unit": "10X", "spaced-unit": "10 Gi", "twice": "1.2.3",
        "lower-unit": "1gi", "bool": True, "list": [1], "huge": "9" * 40,
    }.items()
}  # fmt: skip

SPECS: dict[str, Tree] = {
    **{f"key {key!r}": {"hard": {key: "1"}} for key in KEYS},
    **{f"amount {name}": spec for name, spec in AMOUNTS.items()},
    "nothing": {},
    "no limits": {"hard": {}},
    "all of it": {
        "parent": "big-corp",
        "namespaceSelector": {"matchLabels": {"workspace": "acme"}},
        "workloadSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["system"]}]},
        "hard": {"requests.cpu": "10", "requests.memory": "64Gi", "requests.nvidia.com/gpu": "4", "pods": 100},
        "mode": "Clamp",
    },
    "whole pods": {"hard": {"pods": "3"}},
    "half a pod": {"hard": {"pods": "1.5"}},
    "half a claim": {"hard": {"gold.storageclass.storage.k8s.io/persistentvolumeclaims": "500m"}},
    "half a deployment": {"hard": {"count/deployments.apps": "0.5"}},
    "half a controller": {"hard": {"replicationcontrollers": "0.5"}},
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
    "a fraction that is a JSON number: int-or-string has none": {"hard": {"requests.cpu": 1.5}},
    "a whole number of thousandths: CEL's isInteger wants an integer's own spelling": {"hard": {"pods": "2000m"}},
    "more than an int64 holds: CEL's isInteger": {"hard": {"pods": "1e30"}},
    "space around a quantity: CEL's quantity() does not trim": {"hard": {"requests.cpu": " 1 "}},
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
"""What files may say and the API server refuses, and why. Nothing is the other way round."""


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_the_api_server_takes_what_our_reader_takes_and_nothing_else(server: Wire, spec: Tree):
    reply = tried(server, spec)
    assert is_taken(server, spec) == is_read(spec), reply.tree()


@pytest.mark.parametrize("spec", ONLY_READ.values(), ids=ONLY_READ.keys())
def test_where_the_schema_is_stricter_than_our_reader_it_is_for_a_reason(server: Wire, spec: Tree):
    assert (is_taken(server, spec), is_read(spec)) == (False, True)


def test_every_family_of_keys_is_tried():
    untried = [family.title for family in resources.TABLE if not any(map(family.pattern.fullmatch, KEYS))]
    assert not untried, "name a key of each in KEYS"


MESSAGES: dict[str, tuple[Tree, str]] = {
    "extended resource": ({"hard": {"nvidia.com/gpu": 4}}, '"nvidia.com/gpu" is not counted; use "requests.nvidia.com/gpu"'),
    "its limit": ({"hard": {"limits.nvidia.com/gpu": 4}}, '"limits.nvidia.com/gpu" is not counted; use "requests.nvidia.com/gpu"'),
    "storage": ({"hard": {"storage": "1Ti"}}, '"storage" is not counted; use "requests.storage"'),
    "huge pages": ({"hard": {"limits.hugepages-2Mi": 1}}, 'use "requests.hugepages-2Mi"'),
    "no group": ({"hard": {"count/deployments": 1}}, 'write the API group, as in "count/deployments.apps"'),
    "typing error": ({"hard": {"request.cpu": 1}}, '"request.cpu" is not counted; known are requests.cpu, limits.memory'),
    "configmaps": ({"hard": {"configmaps": 1}}, '"configmaps" is not counted; known are requests.cpu'),
    "twice": ({"hard": {"cpu": 1, "requests.cpu": 1}}, "the same resource twice, with and without requests.; keep one"),
    "not a quantity": ({"hard": {"requests.cpu": "4x"}}, 'not a quantity: write for example "10", 500m or 64Gi'),
    "negative": ({"hard": {"requests.cpu": "-1"}}, "negative: write 0 or more, or remove the key for no limit"),
    "half a pod": ({"hard": {"pods": "1.5"}}, "pods, claims and count/... are whole numbers; write an integer"),
    "own parent": ({"parent": "acme"}, "a quota cannot be its own parent; name another one, or remove parent"),
    "bad parent": ({"parent": "Big Corp"}, "not an object name: use lower-case letters"),
    "mode": ({"mode": "Warn"}, 'supported values: "Enforce", "Clamp", "Audit"'),
    "label key": ({"namespaceSelector": {"matchLabels": {"a b": "c"}}}, "not a label key: write name or example.com/name"),
    "label value": (labels(team="a b"), "not a label value: use letters, digits"),
    "no values": (requirement(key="a", operator="In"), "In and NotIn need values; list at least one"),
    "values": (requirement(key="a", operator="Exists", values=["b"]), "remove them, or use In or NotIn"),
    "operator": (requirement(key="a", operator="Gt", values=["1"]), 'supported values: "In", "NotIn", "Exists"'),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "message"), MESSAGES.values(), ids=MESSAGES.keys())
def test_a_refusal_says_what_to_write_instead(server: Wire, spec: Tree, message: str):
    assert message in tried(server, spec).tree()["message"]


def test_the_mode_is_enforce_where_none_is_given(server: Wire):
    assert tried(server, {"hard": {"pods": 1}}).tree()["spec"]["mode"] == Mode.ENFORCE


def test_the_largest_object_that_the_schema_allows_is_within_the_budget_of_its_rules(server: Wire):
    key, values = f"{'p' * 253}/{'n' * 63}", ["v" * 60 + f"{n:03}" for n in range(64)]
    selector = {
        "matchLabels": {f"{'p' * 253}/{n:063}": "v" * 63 for n in range(32)},
        "matchExpressions": [{"key": key, "operator": "In", "values": values}] * 32,
    }
    hard = {f"requests.{'d' * 200}/{n:063}": "9" * 64 for n in range(64)}
    assert is_taken(server, {"namespaceSelector": selector, "workloadSelector": selector, "hard": hard})


STATUS = {
    "observedGeneration": 1,
    "used": {"requests.cpu": "3", "pods": 12},
    "reserved": {"requests.cpu": "500m"},
    "summary": {"cpu": "3/10", "memory": "12Gi/64Gi", "gpu": "4/4", "pods": "12/100", "storage": "1Ti/2Ti"},
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "InForce",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
}


@pytest.fixture
def shown(server: Wire) -> Iterator[None]:
    spec = {"parent": "big-corp", "hard": {"requests.cpu": "10"}}
    assert server.json("POST", QUOTAS, quota(spec, "shown")).status == 201
    reply = server.json("PATCH", f"{QUOTAS}/shown/status", {"status": STATUS}, "application/merge-patch+json")
    assert reply.status == 200, reply
    yield
    server.json("DELETE", f"{QUOTAS}/shown")


@pytest.mark.usefixtures("shown")
def test_get_shows_used_and_hard_of_the_main_resources(plane: Plane):
    heading, row = kubectl(plane, "get", "wsq", "shown").splitlines()
    assert heading.split() == ["NAME", "CPU", "MEMORY", "GPU", "PODS", "MODE", "READY", "AGE"]
    assert row.split()[:7] == ["shown", "3/10", "12Gi/64Gi", "4/4", "12/100", "Enforce", "True"]


@pytest.mark.usefixtures("shown")
def test_get_wide_shows_storage_parent_and_reason_besides(plane: Plane):
    heading, row = kubectl(plane, "get", "wsq", "shown", "-o", "wide").splitlines()
    pairs = dict(zip(heading.split(), row.split(), strict=True))
    assert (pairs["STORAGE"], pairs["PARENT"], pairs["REASON"]) == ("1Ti/2Ti", "big-corp", "InForce")


@pytest.mark.usefixtures("shown")
def test_a_write_of_the_object_leaves_its_status_alone_and_the_reverse(server: Wire):
    reply = server.json("PATCH", f"{QUOTAS}/shown", {"status": {"used": {"pods": 0}}}, "application/merge-patch+json")
    assert reply.tree()["status"]["used"]["pods"] == 12
    path = f"{QUOTAS}/shown/status"
    reply = server.json("PATCH", path, {"spec": {"hard": {"requests.cpu": "99"}}}, "application/merge-patch+json")
    assert reply.tree()["spec"]["hard"] == {"requests.cpu": "10"}


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("spec.hard", "ResourceQuota's keys: requests.cpu"),
        ("spec.namespaceSelector", "Without it the quota selects nothing itself"),
        ("spec.mode", "Enforce refuses"),
        ("status.reserved", "A grant needs used + reserved"),
        ("status.conditions", "Ready: the limits are in force as written"),
    ],
    ids=lambda text: text.split()[0],
)
@pytest.mark.usefixtures("server")
def test_explain_says_what_a_field_is_for(plane: Plane, field: str, says: str):
    assert says in " ".join(kubectl(plane, "explain", f"workspacequotas.{field}").split())
