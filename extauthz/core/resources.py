"""One table of quota keys: which keys ``hard`` may have, their names, and what the gate does about each.

The keys are ResourceQuota's (``pkg/apis/core/helper/helpers.go``, ``pkg/quota/v1/evaluator/core``). A key
that no write to a workload raises is refused in a quota rather than kept and never enforced (design.md rule 1).
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from enum import StrEnum
from typing import Final, NamedTuple

_DOMAIN: Final = r"[a-z0-9][-a-z0-9.]*/"
_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_COMPUTE: Final = "cpu|memory|ephemeral-storage"
_EXTENDED: Final = rf"(?:deviceclass\.resource\.kubernetes\.io/|(?!\S*kubernetes\.io/){_DOMAIN}){_NAME}"

DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
"""What follows a DeviceClass in the key of its devices (``ResourceClaimsPerClass`` in ``k8s.io/api/core/v1``)."""


class Treatment(StrEnum):
    """What the gate does about a quota key."""

    GATED = "gated"
    """A write that raises it is refused where there is no room."""
    OBSERVED = "observed"
    """What exists counts. Part of its growth is seen only afterwards, and acts like a cut of the quota."""
    NOT_COUNTED = "not counted"
    """Refused in a quota's ``hard``."""


class Family(NamedTuple):
    """Quota keys that are treated alike. The first one of ``TABLE`` that matches a key is its family."""

    title: str
    """As the documentation shows it."""
    pattern: re.Pattern[str]
    treatment: Treatment
    raised_by: str
    """What makes it grow; of a key that is not counted, why, as a sentence."""
    canonical: str = r"\g<0>"
    """Template over ``pattern``'s groups; of a key that is not counted, the cure."""


class ResourceKeyError(ValueError):
    """A key that ``hard`` cannot have. The administrator must fix it; trying again does not help."""

    def __init__(self, key: str, why: str, cure: str) -> None:
        super().__init__(f"{key!r}: {why}; {cure}")
        self.key = key
        self.why = why
        self.cure = cure


def _gated(title: str, pattern: str, raised_by: str, canonical: str = r"\g<0>") -> Family:
    return Family(title, re.compile(pattern), Treatment.GATED, raised_by, canonical)


def _not_counted(title: str, pattern: str, why: str, cure: str = "remove the key") -> Family:
    return Family(title, re.compile(pattern), Treatment.NOT_COUNTED, why, cure)


_REPLICAS: Final = "replicas and pod templates"
_CLAIMS: Final = "replicas with volume claims of their own"
_NO_OVERCOMMIT: Final = "its requests equal its limits"

TABLE: Final[tuple[Family, ...]] = (
    _gated(
        "`requests.cpu`, `requests.memory`, `requests.ephemeral-storage` (also without `requests.`)",
        rf"(?:requests\.)?({_COMPUTE})",
        _REPLICAS,
        r"requests.\1",
    ),
    _gated("`limits.cpu`, `limits.memory`, `limits.ephemeral-storage`", rf"limits\.(?:{_COMPUTE})", _REPLICAS),
    _gated(
        "`requests.hugepages-<size>` (also without `requests.`)",
        r"(?:requests\.)?(hugepages-[0-9A-Za-z.]+)",
        _REPLICAS,
        r"requests.\1",
    ),
    _gated("`pods`, `count/pods`", r"(?:count/)?pods", _REPLICAS),
    _gated("`requests.<domain>/<name>`, such as `requests.nvidia.com/gpu`", rf"requests\.{_EXTENDED}", _REPLICAS),
    _gated("`requests.storage`", r"requests\.storage", _CLAIMS),
    _gated("`persistentvolumeclaims`, `count/persistentvolumeclaims`", r"(?:count/)?persistentvolumeclaims", _CLAIMS),
    _gated(
        "`<class>.storageclass.storage.k8s.io/requests.storage`, `<class>.…/persistentvolumeclaims`",
        r"[a-z0-9][-a-z0-9.]*\.storageclass\.storage\.k8s\.io/(?:requests\.storage|persistentvolumeclaims)",
        f"{_CLAIMS}, where they name the class",
    ),
    _gated(
        f"`<class>{DEVICES}`",
        rf"[a-z0-9][-a-z0-9.]*{re.escape(DEVICES)}",
        "replicas with claims of devices of their own",
    ),
    _gated(
        "`count/deployments.apps`, `count/statefulsets.apps`",
        r"count/(?:deployments|statefulsets)\.apps",
        "creating one",
    ),
    _gated(
        "`count/replicationcontrollers` (also `replicationcontrollers`)",
        r"(?:count/)?(replicationcontrollers)",
        "creating one",
        r"count/\1",
    ),
    Family(
        "`count/replicasets.apps`",
        re.compile(r"count/replicasets\.apps"),
        Treatment.OBSERVED,
        "creating one; those that a Deployment's rollout creates are seen afterwards",
    ),
    _not_counted(
        "`limits.hugepages-<size>`",
        r"limits\.(hugepages-\S+)",
        f"ResourceQuota has no limits of huge pages: {_NO_OVERCOMMIT}",
        r'use "requests.\1"',
    ),
    _not_counted(
        "any other `<class>.storageclass.storage.k8s.io/<name>`",
        r"(\S+\.storageclass\.storage\.k8s\.io/)\S+",
        "of a storage class only requests.storage and persistentvolumeclaims are counted",
        r'use "\1requests.storage"',
    ),
    _not_counted(
        "`<domain>/<name>`, `limits.<domain>/<name>`, such as `nvidia.com/gpu`",
        rf"(?:limits\.)?(?!count/)({_EXTENDED})",
        f"an extended resource is counted by its requests alone: {_NO_OVERCOMMIT}",
        r'use "requests.\1"',
    ),
    _not_counted(
        "`storage`, `limits.storage`",
        r"(?:limits\.)?storage",
        "claims are counted by the storage they request",
        'use "requests.storage"',
    ),
    _not_counted(
        "`count/deployments`, `count/statefulsets`, `count/replicasets`",
        r"count/(deployments|statefulsets|replicasets)(?:\.\S+)?",
        "the API group is part of the key",
        r'use "count/\1.apps"',
    ),
    _not_counted(
        "`configmaps`, `secrets`, `services`, `services.loadbalancers`, `services.nodeports`, `resourcequotas`",
        r"configmaps|secrets|services(?:\.loadbalancers|\.nodeports)?|resourcequotas",
        "no write to a workload raises it",
        "remove the key, and keep the ResourceQuota of each namespace for it",
    ),
    _not_counted(
        "any other `count/<resource>.<group>`",
        r"count/\S+",
        "no write to a workload raises it",
        "remove the key, and keep the ResourceQuota of each namespace for it",
    ),
)

_SPELLINGS: Final = (
    *(f"{side}.{name}" for side in ("requests", "limits") for name in _COMPUTE.split("|")),
    *("requests.storage", "requests.nvidia.com/gpu", "requests.hugepages-2Mi", "pods", "persistentvolumeclaims"),
    *("count/pods", "count/deployments.apps", "count/statefulsets.apps", "count/replicationcontrollers"),
)


def canonical(key: str) -> str:
    """The one spelling of a quota key that the gate counts by. Raises ResourceKeyError with the cure."""
    family, match = _family(key)
    if family.treatment is Treatment.NOT_COUNTED:
        raise ResourceKeyError(key, family.raised_by, match.expand(family.canonical))
    return match.expand(family.canonical)


def is_device(key: str) -> bool:
    """Whether claims of devices may raise a key: it is of a device class, or of an extended resource."""
    return key.endswith(DEVICES) or (key.startswith("requests.") and "/" in key)


def treatment(key: str) -> Treatment:
    """What the gate does about a key. Raises ResourceKeyError for what is no quota key at all."""
    return _family(key)[0].treatment


def _family(key: str) -> tuple[Family, re.Match[str]]:
    for family in TABLE:
        if match := family.pattern.fullmatch(key):
            return family, match
    near = get_close_matches(key, _SPELLINGS, 1) or get_close_matches(f"requests.{key}", _SPELLINGS, 1, 0.9)
    cure = f'did you mean "{near[0]}"?' if near else "see the table of quota keys in the documentation"
    raise ResourceKeyError(key, "ResourceQuota knows no such key", cure)
