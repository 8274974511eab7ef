"""The gate's rights, as Kubernetes roles: what it reads, and the little that it writes."""

from __future__ import annotations

from typing import Any as Tree
from typing import NamedTuple

from .manifests import GATE, Part, named

RBAC = "rbac.authorization.k8s.io"
SCALED_KINDS = f"{GATE}-scaled-kinds"


class Rule(NamedTuple):
    """Verbs on resources of one API group."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


WATCH = ("list", "watch")
RULES = (
    # What is watched (extauthz/cluster/live.py). A consistent read is a list by name.
    Rule("", ("namespaces", "limitranges", "persistentvolumeclaims", "pods", "replicationcontrollers"), WATCH),
    Rule("apps", ("deployments", "statefulsets", "replicasets", "controllerrevisions"), WATCH),
    Rule("batch", ("jobs",), WATCH),
    Rule("node.k8s.io", ("runtimeclasses",), WATCH),
    Rule("storage.k8s.io", ("storageclasses",), WATCH),
    # Quotas.
    Rule("extauthz.dev", ("workspacequotas",), WATCH),
    Rule("extauthz.dev", ("workspacequotas/status",), ("patch",)),
    # The ledger that gates share.
    Rule("extauthz.dev", ("workspaceledgers",), ("get", "list", "watch", "create", "update")),
    # Events, and which autoscaler to write them on (one list in the namespace of a refused workload).
    Rule("events.k8s.io", ("events",), ("create", "patch")),
    Rule("autoscaling", ("horizontalpodautoscalers",), ("list",)),
    Rule("autoscaling.internal.knative.dev", ("podautoscalers",), ("list",)),
    Rule("keda.sh", ("scaledobjects",), ("list",)),
    # Which custom resources have a scale subresource.
    Rule("apiextensions.k8s.io", ("customresourcedefinitions",), WATCH),
)
READ_QUOTAS = ("get", "list", "watch")
WRITE_QUOTAS = (*READ_QUOTAS, "create", "update", "patch", "delete", "deletecollection")

SAYS = f"""\
What the gate reads, and the little that it writes: its ledger, the status of quotas, and events. Nothing else.

{SCALED_KINDS}: custom resources with a scale subresource. Whoever owns such a kind lets the gate see it with a
ClusterRole that has the label below and allows list and watch of it. What the gate cannot see, it refuses to grow.

{GATE}-quota-viewer, {GATE}-quota-editor: people who may see quotas, and who may set them, as
you bind them."""


def roles() -> Part:
    """The ClusterRoles. They are not bound to anybody yet."""
    aggregated = {"clusterRoleSelectors": [{"matchLabels": {"extauthz.dev/aggregate-to-gate": "true"}}]}
    return Part(
        SAYS,
        [
            _role(GATE, *RULES),
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRole",
                "metadata": named(SCALED_KINDS),
                "aggregationRule": aggregated,
            },
            _role(f"{GATE}-quota-viewer", Rule("extauthz.dev", ("workspacequotas",), READ_QUOTAS)),
            _role(f"{GATE}-quota-editor", Rule("extauthz.dev", ("workspacequotas",), WRITE_QUOTAS)),
        ],
    )


def own_account(namespace: str) -> Part:
    """The roles, and the service account of a gate in pods of its own."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": named(GATE, namespace),
        "automountServiceAccountToken": False,
    }
    gates = [bound(role, "ClusterRole", role, (namespace, GATE)) for role in (GATE, SCALED_KINDS)]
    return Part(SAYS, [account, *roles().objects, *gates])


def bound(name: str, kind: str, role: str, account: tuple[str, str], namespace: str | None = None) -> dict[str, Tree]:
    """A binding of a role to a service account (namespace, name): in one namespace if one is given, else in all."""
    subject_namespace, subject = account
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": named(name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": subject, "namespace": subject_namespace}],
    }


def _role(name: str, *rules: Rule) -> dict[str, Tree]:
    told = [{"apiGroups": [rule.group], "resources": list(rule.resources), "verbs": list(rule.verbs)} for rule in rules]
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": named(name), "rules": told}
