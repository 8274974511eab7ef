"""Which namespaces API servers ask the gates about, as the webhook configurations say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from extauthz.core.model import Tree
from extauthz.core.quota import selectors
from extauthz.core.quota.problems import Problems
from extauthz.core.quota.selectors import LabelSelector
from extauthz.inputs.kube.connection import get_or_none
from extauthz.inputs.kube.resource import Calls

Labels: TypeAlias = Mapping[str, str]

COLLECTION = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = "validatingwebhookconfigurations"
MUTATING = "mutatingwebhookconfigurations"

KUBE_SYSTEM = "kube-system"

NAME_LABEL = "kubernetes.io/metadata.name"
"""The API server gives it to each namespace."""


class Webhooks(NamedTuple):
    """What the two configurations ask about."""

    decides: LabelSelector | None = None
    """Labels of the namespaces where a growing write is decided; ``None``: no configuration says so."""
    lowers: LabelSelector | None = None
    """The same of the one that lowers counts (mode Clamp)."""
    never: frozenset[str] = frozenset({KUBE_SYSTEM})
    """Namespaces that are always left out: what runs there must run for the gate to be repaired."""
    unanswered: str = "Fail"
    """What is done about growth while no gate answers: its ``failurePolicy``, ``Fail`` or ``Ignore``."""

    def unasked(self, namespaces: Mapping[str, Labels]) -> tuple[str, ...]:
        """Which of these namespaces nothing is decided about."""
        return self._left_out(self.decides, namespaces)

    def unlowered(self, namespaces: Mapping[str, Labels]) -> tuple[str, ...]:
        """In which of these no count is lowered."""
        return self._left_out(self.lowers, namespaces)

    def _left_out(self, selector: LabelSelector | None, namespaces: Mapping[str, Labels]) -> tuple[str, ...]:
        return tuple(
            name
            for name, labels in namespaces.items()
            if name not in self.never and (selector is None or not selector.matches({NAME_LABEL: name, **labels}))
        )


async def read(api: Calls, configuration: str, is_ours: Callable[[str], bool], own: str = "") -> Webhooks:
    """As they are now. Raises ApiError and Unreachable.

    Args:
        configuration: the name of both.
        is_ours: whether a webhook of this name in them leads to the gates.
        own: the namespace of the gates. Else it is that of the Service, if they are asked by one.
    """
    validating = await _first(api, VALIDATING, configuration, is_ours)
    mutating = await _first(api, MUTATING, configuration, is_ours)
    return of(validating, mutating, own)


def of(validating: Tree | None, mutating: Tree | None, own: str = "") -> Webhooks:
    """The same of one webhook each; ``None``: there is none."""
    service = ((validating or {}).get("clientConfig") or {}).get("service") or {}
    never = Webhooks().never | {name for name in (own, service.get("namespace", "")) if name}
    unanswered = (validating or {}).get("failurePolicy") or "Fail"
    return Webhooks(_selector(validating), _selector(mutating), never, unanswered)


async def _first(api: Calls, plural: str, name: str, is_ours: Callable[[str], bool]) -> Tree | None:
    tree = await get_or_none(api, f"{COLLECTION}/{plural}/{name}") or {}
    return next((one for one in tree.get("webhooks") or () if is_ours(one.get("name", ""))), None)


def _selector(hook: Tree | None) -> LabelSelector | None:
    """The API server has checked it. It keeps ``matchLabels`` and ``matchExpressions`` alone."""
    if hook is None:
        return None
    return selectors.parse(hook.get("namespaceSelector") or {}, ("namespaceSelector",), Problems())
