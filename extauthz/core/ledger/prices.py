"""What templates cost in a namespace, as far as it can be told, and what a rollout may add for free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extauthz.core.footprint import FootprintError
from extauthz.core.ledger.charge import highest
from extauthz.core.ledger.scope import Scope
from extauthz.core.model import Amounts, Observed, Template


class Prices:
    """What templates cost in one namespace, and whether some cannot be told."""

    __slots__ = ("_namespace", "_scope", "unknown")

    def __init__(self, namespace: str, scope: Scope) -> None:
        self._namespace = namespace
        self._scope = scope
        self.unknown = False

    def highest(self, templates: Iterable[Template | None]) -> Amounts:
        """The dearest, key by key, of those whose cost can be told."""
        return highest([self.one(template) for template in templates])

    def one(self, template: Template | None) -> Amounts:
        """The cost of one pod; nothing where it cannot be told."""
        if template is not None:
            try:
                return self._scope.per_pod(self._namespace, template)
            except FootprintError:
                pass
        self.unknown = True
        return {}

    def claims(self, template: Template | None) -> tuple[int, Mapping[str, Amounts]]:
        """A StatefulSet's first ordinal, and what one claim of each of its claim templates costs, by name."""
        if template is not None:
            try:
                return self._scope.claims(template)
            except FootprintError:
                pass
        self.unknown = True
        return 0, {}


MAX_SURGE_PERCENT = 25
"""Of the replicas: the default of ``maxSurge``. A Deployment's author sets it, so that what is more is charged."""


def surge(observed: Observed | None) -> int:
    """Pods that a rollout may add for a while, which are not charged: ``maxSurge``, percentages rounded up, bounded.

    By the observed count alone: by a higher one that only pends, the envelope would fall below what is there.
    Source: k8s.io/kubernetes/pkg/controller/deployment/util, ``ResolveFenceposts``.
    """
    allowed = observed.max_surge if observed is not None else None
    if observed is None or allowed is None:
        return 0
    bound = _percent_of(MAX_SURGE_PERCENT, observed.replicas)
    if isinstance(allowed, int):
        return min(max(allowed, 0), bound)
    digits = allowed.removesuffix("%")
    return min(_percent_of(int(digits), observed.replicas), bound) if digits.isdecimal() else 0


def _percent_of(percent: int, count: int) -> int:
    return -(-percent * count // 100)
