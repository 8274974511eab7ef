"""The configurations by which an API server asks the gate: one validates and, for mode Clamp, one mutates.

Sources: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/ and, for what
expressions may say, https://kubernetes.io/docs/reference/using-api/cel/.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any as Tree
from typing import TypeAlias

from extauthz.core.intake.admission import CLAMP_NAME, LEDGERS, MOVED_BY_STATUS, NAME
from extauthz.core.kinds import ADMITTED, GATED, POD_MAKERS
from extauthz.core.quota.selectors import LabelSelector
from extauthz.tools.render import filling
from extauthz.tools.render.manifests import Part

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that each namespace has."""

BREAK_GLASS = "extauthz.dev/break-glass"
"""A label of namespaces, with any value: nothing is asked about them. What applies the configurations from Git again
and again does not take it off."""

TIMEOUT_S = 2

Condition: TypeAlias = tuple[str, str]
"""Of ``matchConditions``: a name, and an expression in CEL."""

ANYTHING = LabelSelector()


@dataclass(frozen=True)
class Custom:
    """A custom resource with a scale subresource."""

    group: str
    plural: str


@dataclass(frozen=True)
class WebhookOptions:
    """Where the gate is, and what it is asked about."""

    ca: bytes = b""
    """PEM of the authority that the webhook's certificate is from."""
    service: str = "extauthz"
    namespace: str = "extauthz-system"
    port: int = 443
    url: str = ""
    """In place of a Service: ``https://host:port``."""
    except_namespaces: tuple[str, ...] = ()
    """Namespaces that nothing is asked about, besides kube-system and the gate's own."""
    namespace_selector: LabelSelector = ANYTHING
    """Labels of the namespaces that it is asked about. An empty one selects all."""
    object_selector: LabelSelector = ANYTHING
    """Labels of workloads that are left out: it must match what has no labels, as a Scale."""
    conditions: tuple[Condition, ...] = ()
    """What must hold too, each by a name and an expression in CEL."""
    workload_labels: tuple[str, ...] | None = None
    """Keys of the labels that a workload is selected by. A change of another one is not asked about. ``None``: each
    label may be one."""
    custom: tuple[Custom, ...] = ()
    pods: bool = False
    """Creates of pods too, but those of controllers."""
    clamp: bool = True
    """Counts may be lowered (mode Clamp)."""


SAYS = """\
The API server asks the gate before it writes what may grow a workload. What cannot grow one is not asked about, so it
passes also while no gate lives: fewer replicas, a new image, status, and what controllers make for a workload.
Nothing is asked about kube-system and the gate's own namespace: what is there must run for the gate to be repaired."""


SAYS_CLAMP = """\
Before that it asks by how much a growing count must be lowered to fit (mode Clamp). Nothing is charged here. Without an
answer the count stays as it is, and is decided upon."""


def parts(options: WebhookOptions) -> list[Part]:
    """The configurations as manifests."""
    clamp = [Part(SAYS_CLAMP, [clamp_configuration(options)])] if options.clamp else []
    return [Part(SAYS, [configuration(options)]), *clamp]


def configuration(options: WebhookOptions) -> dict[str, Tree]:
    """What decides."""
    webhook = {"name": NAME} | _about(options, "/validate", ["CREATE", "UPDATE"], conditions(options.workload_labels))
    webhook |= {"failurePolicy": "Fail", "sideEffects": "NoneOnDryRun", "timeoutSeconds": TIMEOUT_S}
    return _object("ValidatingWebhookConfiguration", webhook)


def clamp_configuration(options: WebhookOptions) -> dict[str, Tree]:
    """What lowers a count before that. A side effect is the event for the workload's owner."""
    webhook = {"name": CLAMP_NAME} | _about(options, "/mutate", ["UPDATE"], clamp_conditions())
    webhook |= {"failurePolicy": "Ignore", "sideEffects": "NoneOnDryRun", "timeoutSeconds": TIMEOUT_S}
    return _object("MutatingWebhookConfiguration", webhook | {"reinvocationPolicy": "IfNeeded"})


_NOT_LET_THROUGH = {"key": BREAK_GLASS, "operator": "DoesNotExist"}


def _about(options: WebhookOptions, path: str, operations: list[str], asked: tuple[Condition, ...]) -> dict[str, Tree]:
    """Where the gate is, and what it is asked about."""
    left_out = ["kube-system", options.namespace, *options.except_namespaces]
    spared = {"key": NAMESPACE_NAME, "operator": "NotIn", "values": list(dict.fromkeys(left_out))}
    objects = _selector(options.object_selector)
    return {
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client(options, path),
        "rules": _rules(options, operations),
        "matchPolicy": "Equivalent",
        "namespaceSelector": _selector(options.namespace_selector, spared, _NOT_LET_THROUGH),
        **({"objectSelector": objects} if objects else {}),
        "matchConditions": [{"name": name, "expression": text} for name, text in (*asked, *options.conditions)],
    }


def _selector(selector: LabelSelector, *more: dict[str, Tree]) -> dict[str, Tree]:
    expressions = [
        {"key": one.key, "operator": one.operator} | ({"values": sorted(one.values)} if one.values else {})
        for one in selector.requirements
    ]
    found: dict[str, Tree] = {"matchLabels": dict(selector.match_labels)} if selector.match_labels else {}
    return found | ({"matchExpressions": [*more, *expressions]} if more or expressions else {})


def _object(kind: str, webhook: dict[str, Tree]) -> dict[str, Tree]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "extauthz", "labels": {"app.kubernetes.io/name": "extauthz"}},
        "webhooks": [webhook],
    }


def _client(options: WebhookOptions, path: str) -> dict[str, Tree]:
    where: dict[str, Tree] = {"url": options.url.rstrip("/") + path}
    if not options.url:
        service = {"name": options.service, "namespace": options.namespace, "port": options.port, "path": path}
        where = {"service": service}
    return where | ({"caBundle": base64.b64encode(options.ca).decode()} if options.ca else {})


def _rules(options: WebhookOptions, operations: list[str]) -> list[dict[str, Tree]]:
    """Parents and their scales: a write of a scale does not pass its parent's rules."""
    groups: dict[str, list[str]] = {}
    for kind in GATED:
        groups.setdefault(kind.key[0], []).append(kind.key[1])
    rules = [
        _rule([group], ["v1"], [name for one in plurals for name in (one, f"{one}/scale")], operations)
        for group, plurals in sorted(groups.items(), reverse=True)
    ]
    if "CREATE" in operations:  # here is no count that could be lowered
        rules += [TRIAL_RULE]
        rules += [_rule([group], ["v1"], status, ["UPDATE"]) for group, status in _moved_by_status()]
        rules += [_rule([""], ["v1"], ["pods/resize"], ["UPDATE"])]
        rules += [_rule([kind.key[0]], ["v1"], [kind.key[1]], operations) for kind in ADMITTED]
    rules += [_rule([one.group], ["*"], [one.plural, f"{one.plural}/scale"], operations) for one in options.custom]
    return [*rules, POD_RULE] if options.pods and "CREATE" in operations else rules


def _moved_by_status() -> list[tuple[str, list[str]]]:
    """By group, the status of what is moved by one. The conditions let all pass that moves nothing."""
    found: dict[str, list[str]] = {}
    for kind in GATED:
        if kind.key[1] in MOVED_BY_STATUS:
            found.setdefault(kind.key[0], []).append(f"{kind.key[1]}/status")
    return sorted(found.items(), reverse=True)


def _rule(
    groups: list[str], versions: list[str], resources: list[str], operations: list[str], scope: str = "Namespaced"
) -> dict[str, Tree]:
    return {
        "apiGroups": groups,
        "apiVersions": versions,
        "resources": resources,
        "operations": operations,
        "scope": scope,
    }


TRIAL_RULE = _rule([LEDGERS[0]], ["*"], [LEDGERS[1]], ["CREATE"], "Cluster")
"""By it gates try whether the API server reaches them (``serve.service.reaching``)."""

POD_RULE = _rule([""], ["v1"], ["pods"], ["CREATE"])


_NEVER_LOWERED = ("no-pod-of-a-workload", "no-ledger", "may-grow")


def conditions(labels: tuple[str, ...] | None = None) -> tuple[Condition, ...]:
    """All that must hold for a write to be decided upon.

    Args:
        labels: as ``WebhookOptions.workload_labels``.
    """
    return tuple(one for one in _expressions(labels) if one[0] != "asks-for-more-replicas")


def clamp_conditions() -> tuple[Condition, ...]:
    """All that must hold for a count to be lowered."""
    return tuple(one for one in _expressions(None) if one[0] not in _NEVER_LOWERED)


def _expressions(labels: tuple[str, ...] | None) -> Iterable[Condition]:
    groups = sorted({kind.key[0] for kind in (*GATED, *ADMITTED)})
    lists = {"groups": str(groups), "pod_makers": str(list(POD_MAKERS))}
    return filling.tree("conditions.yaml", labels=labels, **lists).items()
