"""What a source of the cluster's state has to tell the gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.model import Amounts, Observed, WorkloadRef


class ClusterPicture(Protocol):
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
