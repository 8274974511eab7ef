"""Use of a quota by the kind of who uses it: Deployments, Jobs, custom resources, pods by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from extauthz.core import quantities
from extauthz.core.resources import is_device

if TYPE_CHECKING:
    from extauthz.core.queries import WorkloadUse
    from extauthz.servers.api.shown import Json


@dataclass(slots=True)
class _Sum:
    """Of one kind, nano-units of one resource."""

    workloads: int = 0
    used: int = 0
    reserved: int = 0


class Kinds:
    """Adds up what workloads use.

    Args:
        keys: resources that are added up.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._sums: dict[str, dict[str, _Sum]] = {key: {} for key in keys}

    def add(self, use: WorkloadUse) -> None:
        """Count one workload, in each resource of which it uses something."""
        kind = use.ref.group_resource
        for key, of in self._sums.items():
            used, reserved = use.used.get(key, 0), use.reserved.get(key, 0)
            if used or reserved:
                found = of.setdefault(kind, _Sum())
                found.workloads += 1
                found.used += used
                found.reserved += reserved

    def shown(self) -> list[Json]:
        """A row for each resource and kind: devices first, and of each what uses most."""
        rows = [(key, kind, found) for key, of in self._sums.items() for kind, found in of.items()]
        rows.sort(key=lambda row: (not is_device(row[0]), row[0], -row[2].used - row[2].reserved, row[1]))
        return [
            {
                "resource": key,
                "kind": kind,
                "workloads": found.workloads,
                "used": quantities.format(found.used, key),
                "reserved": quantities.format(found.reserved, key),
                "device": is_device(key),
            }
            for key, kind, found in rows
        ]
