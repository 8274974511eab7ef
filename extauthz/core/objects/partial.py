"""Trees that are known in part: what a pruned object says about the one in the cluster."""

from __future__ import annotations

from enum import Enum
from typing import Final

from extauthz.core.model import Tree

KNOWN: Final[dict[str, frozenset[str]]] = {
    "object": frozenset({"metadata", "spec"}),
    "metadata": frozenset({"name", "namespace", "uid", "resourceVersion", "labels"}),
    "spec": frozenset({"ordinals", "replicas", "template", "volumeClaimTemplates"}),
    "template": frozenset({"spec"}),
    "pod": frozenset({"containers", "initContainers", "overhead", "resources", "runtimeClassName", "volumes"}),
    "container": frozenset({"name", "resources", "restartPolicy"}),
    "volume": frozenset({"name", "ephemeral"}),
    "claim": frozenset({"metadata", "spec"}),
    "claim-metadata": frozenset({"name", "annotations"}),
    "claim-spec": frozenset({"resources", "storageClassName"}),
}
"""For each kind of partial mapping: the keys that are known to be absent if they are missing."""


class Hidden(Enum):
    """Marks a value that the gate did not keep."""

    BASE = "base"
    """The object was never seen, or others change the value. If the mark stays where it is, nothing was changed
    there."""
    MOVED = "moved"
    """A patch copied it from a field that was not kept, or that others change."""


class Partial(dict[str, Tree]):
    """A mapping that has more keys in the cluster. A missing key that is not ``KNOWN`` may have any value."""

    __slots__ = ("of",)

    def __init__(self, of: str, content: dict[str, Tree]) -> None:
        super().__init__(content)
        self.of = of

    def hides(self, key: str) -> bool:
        """Whether the object in the cluster may have a value for a key that is not here."""
        return key not in self and key not in KNOWN[self.of]
