"""What templates cost in a namespace, as far as it can be told, what a rollout adds, and what comes once an object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extauthz.core.footprint import FootprintError
from extauthz.core.kinds import DEPLOYMENTS, PRICED_EACH
from extauthz.core.ledger.charge import highest
from extauthz.core.ledger.scope import Scope
from extauthz.core.model import Amounts, Observed, Template, WorkloadRef


class Prices:
    """What templates cost in one namespace, and whether some cannot be told."""

    __slots__ = ("_namespace", "scope", "unknown")

    def __init__(self, namespace: str, scope: Scope) -> None:
        self._namespace = namespace
        self.scope = scope
        self.unknown = False

    def highest(self, templates: Iterable[Template | None]) -> Amounts:
        """The dearest, key by key, of those whose cost can be told."""
        return highest([self.one(template) for template in templates])

    def one(self, template: Template | None) -> Amounts:
        """The cost of one pod; nothing where it cannot be told."""
        if template is not None:
            try:
                return self.scope.per_pod(self._namespace, template)
            except FootprintError:
                pass
        self.unknown = True
        return {}

    def claims(self, template: Template | None) -> tuple[int, Mapping[str, Amounts]]:
        """A StatefulSet's first ordinal, and what one claim of each of its claim templates costs, by name."""
        if template is not None:
            try:
                return self.scope.claims(template)
            except FootprintError:
                pass
        self.unknown = True
        return 0, {}


_COUNTS: dict[tuple[str, str], Amounts] = {}


def count_one(ref: WorkloadRef) -> Amounts:
    """``count/<resource>`` = 1, shared: there are few kinds."""
    found = _COUNTS.get(ref[:2])
    if found is None:
        found = _COUNTS[ref[:2]] = {} if ref[:2] in PRICED_EACH else {f"count/{ref.group_resource}": 10**9}
    return found


MAX_SURGE_PERCENT = 25
"""Of the replicas: the default of ``maxSurge``. A Deployment's author sets it, so that what is more is charged."""


def surge(observed: Observed | None, scope: Scope) -> int:
    """Pods that a rollout may add for a while, above what it shows by itself: ``maxSurge``, percentages rounded up.

    They are not charged, and so are bounded, unless the scope charges each before it is there. By the observed count
    alone: by a higher one that only pends, the envelope would fall below what is there.
    Source: k8s.io/kubernetes/pkg/controller/deployment/util, ``ResolveFenceposts``.
    """
    if observed is None or observed.max_surge is None:
        return 0
    allowed = _allowed(observed.max_surge, observed.replicas)
    return allowed if scope.charge_surge else min(allowed, _percent_of(MAX_SURGE_PERCENT, observed.replicas))


def with_surge(ref: WorkloadRef, observed: Observed | None, count: int, scope: Scope) -> int:
    """The most pods that ``count`` replicas are charged as: with those of a rollout, where these are charged.

    Of a Deployment that is not there yet, ``maxSurge`` is taken to be the default.
    """
    if not scope.charge_surge or not count or ref[:2] != DEPLOYMENTS:
        return count
    default = f"{MAX_SURGE_PERCENT}%"
    allowed = observed.max_surge if observed is not None else default
    return count + (_allowed(allowed, count) if allowed is not None else 0)


def _allowed(max_surge: int | str, count: int) -> int:
    if isinstance(max_surge, int):
        return max(max_surge, 0)
    digits = max_surge.removesuffix("%")
    return _percent_of(int(digits), count) if digits.isdecimal() else 0


def _percent_of(percent: int, count: int) -> int:
    return -(-percent * count // 100)
