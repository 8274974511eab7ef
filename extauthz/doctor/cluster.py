"""Is what the gate needs of the cluster there: version, definitions, rights?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from . import names
from .rows import Row, fail, judged, ok, skipped, warn

Tree: TypeAlias = Any

NAMES = ("server version", "definitions", "rights")
OLDEST = (1, 34)
"""docs/install.md."""

APPLY = "kubectl apply -k deploy, of this version of extauthz"


class Right(NamedTuple):
    """A verb on a resource: everywhere, or on one object, or in one namespace."""

    group: str
    resource: str
    """With its subresource: ``workspacequotas/status``."""
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        one = f" {self.name}" if self.name else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}{one}{where}"


class Rights(NamedTuple):
    """Which of the gate's rights an account has."""

    whose: str
    whole: bool
    """The answer is about the gate's own account."""
    allowed: Mapping[Right, bool]


_LIST_WATCH = ("list", "watch")
_NEEDED: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("", ("namespaces", "limitranges", "persistentvolumeclaims", "pods", "replicationcontrollers"), _LIST_WATCH),
    ("apps", ("deployments", "statefulsets", "replicasets", "controllerrevisions"), _LIST_WATCH),
    ("batch", ("jobs",), _LIST_WATCH),
    ("node.k8s.io", ("runtimeclasses",), _LIST_WATCH),
    ("resource.k8s.io", ("deviceclasses", "resourceclaims", "resourceclaimtemplates"), _LIST_WATCH),
    ("storage.k8s.io", ("storageclasses",), _LIST_WATCH),
    (names.GROUP, ("workspacequotas",), _LIST_WATCH),
    (names.GROUP, ("workspacequotas/status",), ("patch",)),
    (names.GROUP, ("workspaceledgers",), ("get", "list", "watch", "create", "update")),
    ("events.k8s.io", ("events",), ("create", "patch")),
    ("autoscaling", ("horizontalpodautoscalers",), ("list",)),
    ("autoscaling.internal.knative.dev", ("podautoscalers",), ("list",)),
    ("keda.sh", ("scaledobjects",), ("list",)),
    ("apiextensions.k8s.io", ("customresourcedefinitions",), _LIST_WATCH),
)
RIGHTS = tuple(
    Right(group, resource, verb) for group, resources, verbs in _NEEDED for resource in resources for verb in verbs
)
"""The rights of ``deploy/rbac.yaml``. A test compares them."""


def version(told: Tree) -> Row:
    """The row of ``/version``."""
    numbers = [re.match(r"\d+", str(told.get(name, ""))) for name in ("major", "minor")]
    found = str(told.get("gitVersion", "unknown"))
    if not all(numbers):
        return warn(NAMES[0], f"{found}: it cannot be told how old it is", "see docs/install.md for what is needed")
    has = tuple(int(number[0]) for number in numbers if number)
    if has < OLDEST:
        return fail(NAMES[0], f"{found}, {OLDEST[0]}.{OLDEST[1]} or later is needed", "upgrade the cluster")
    return ok(NAMES[0], found)


def definitions(there: Mapping[str, Tree]) -> Row:
    """``there``: CustomResourceDefinitions by name; those that are missing are left out."""
    problems = []
    for name in names.DEFINITIONS:
        if name not in there:
            problems.append(f"{name} is not there")
            continue
        served = [each["name"] for each in there[name]["spec"]["versions"] if each.get("served")]
        if names.VERSION not in served:
            problems.append(f"{name} is served as {', '.join(served) or 'nothing'}, not {names.VERSION}")
        if not _established(there[name]):
            problems.append(f"{name} is not established")
    return judged(NAMES[1], f"{', '.join(names.DEFINITIONS)} are served as {names.VERSION}", problems, APPLY)


def rights(whose: str, allowed: Mapping[Right, bool], *, whole: bool) -> Row:
    """Whether ``whose`` may do all that the gate does.

    Args:
        whose: in words.
        whole: the gate's own account was asked about, as against the one that asks.
    """
    found = f"{whose} may do all {len(RIGHTS)} things that the gate does"
    return may(NAMES[2], whose, {right: bool(allowed.get(right)) for right in RIGHTS}, found, APPLY, whole=whole)


def may(name: str, whose: str, allowed: Mapping[Right, bool], found: str, cure: str, *, whole: bool) -> Row:
    """Whether ``whose`` may do all of ``allowed``; ``found`` if so."""
    missing = [str(right) for right, is_allowed in allowed.items() if not is_allowed]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        return fail(name, f"{whose} may not {', '.join(missing[:5])}{more}", cure)
    if whole:
        return ok(name, found)
    return warn(name, found, "for the gate's own account, use a --kubeconfig that may create subjectaccessreviews")


def unknown(names_: Sequence[str], why: str) -> list[Row]:
    """The API server was asked and did not answer."""
    cure = "see that --kubeconfig is of this cluster, reaches it, and may read what the row is about"
    return [fail(name, why, cure) for name in names_]


def not_given() -> list[Row]:
    return [skipped(name, "not told which cluster", "--kubeconfig") for name in NAMES]


def _established(definition: Tree) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
