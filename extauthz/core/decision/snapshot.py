"""What a source of the cluster's state has to tell the gate, where it knows all of it at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.model import Amounts, Observed, WorkloadRef


class ClusterSnapshot(Protocol):
    """What a state source knows of the cluster."""

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]: ...
    @property
    def limit_ranges(self) -> Mapping[str, Sequence[LimitRangeDefaults]]: ...
    @property
    def overheads(self) -> Mapping[str, Amounts]:
        """RuntimeClass to what each of its pods costs besides its containers."""

    @property
    def default_storage_class(self) -> str:
        """What claims get that name no class; empty where there is no default."""

    @property
    def workloads(self) -> Iterable[tuple[WorkloadRef, Observed]]: ...


def load(ledger: Ledger, state: ClusterSnapshot) -> None:
    """Have ``ledger`` observe all that is in ``state``, and that nothing else is."""
    for runtime_class in {*ledger.pod_costs.overheads, *state.overheads}:
        ledger.usage.observe_runtime_class(runtime_class, state.overheads.get(runtime_class))
    ledger.usage.observe_default_storage_class(state.default_storage_class)
    for name in {*ledger.coverage.namespaces, *state.namespaces, *state.limit_ranges}:
        ledger.usage.observe_limit_ranges(name, state.limit_ranges.get(name, ()))
        ledger.usage.observe_namespace(name, state.namespaces.get(name))
    ledger.observations.replace(state.workloads)
