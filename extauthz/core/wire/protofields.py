"""Field numbers of the API's protobuf messages, as far as a workload's cost, ownership and selection go.

From ``generated.proto`` of ``k8s.io/apimachinery`` (``meta/v1``, ``runtime``, ``util/intstr``, ``api/resource``) and
``k8s.io/api`` (``apps/v1``, ``autoscaling/v1``, ``core/v1``). Numbers never change; what a table does not name is
stepped over.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple, TypeAlias


class Kind(Enum):
    """How a field is encoded, and what it becomes in JSON."""

    STRING = auto()
    STRINGS = auto()
    RAW = auto()
    INT32 = auto()
    BOOL = auto()
    MESSAGE = auto()
    MESSAGES = auto()
    STRING_MAP = auto()
    QUANTITY_MAP = auto()
    INT_OR_STRING = auto()


class Field(NamedTuple):
    """One field: its key in JSON, its encoding, and the type of a message."""

    key: str
    kind: Kind
    message: Mapping[int, Field] = {}


Message: TypeAlias = Mapping[int, Field]
"""A message type: field number to field."""


def _strings(**numbers: int) -> dict[int, Field]:
    return {number: Field(key, Kind.STRING) for key, number in numbers.items()}


UNKNOWN: Message = {
    1: Field("typeMeta", Kind.MESSAGE, _strings(apiVersion=1, kind=2)),
    2: Field("raw", Kind.RAW),
}

STRING_ENTRY: Message = _strings(key=1, value=2)
QUANTITY: Message = _strings(string=1)
QUANTITY_ENTRY: Message = {1: Field("key", Kind.STRING), 2: Field("value", Kind.MESSAGES, QUANTITY)}
INT_OR_STRING: Message = {
    1: Field("type", Kind.INT32),
    2: Field("intVal", Kind.INT32),
    3: Field("strVal", Kind.STRING),
}

_OWNER_REFERENCE: Message = {
    **_strings(kind=1, name=3, uid=4, apiVersion=5),
    6: Field("controller", Kind.BOOL),
    7: Field("blockOwnerDeletion", Kind.BOOL),
}

_METADATA = Field(
    "metadata",
    Kind.MESSAGE,
    {
        **_strings(name=1, generateName=2, namespace=3, uid=5, resourceVersion=6),
        11: Field("labels", Kind.STRING_MAP),
        13: Field("ownerReferences", Kind.MESSAGES, _OWNER_REFERENCE),
    },
)

_LABEL_SELECTOR: Message = {
    1: Field("matchLabels", Kind.STRING_MAP),
    2: Field("matchExpressions", Kind.MESSAGES, {**_strings(key=1, operator=2), 3: Field("values", Kind.STRINGS)}),
}

_RESOURCES: Message = {1: Field("limits", Kind.QUANTITY_MAP), 2: Field("requests", Kind.QUANTITY_MAP)}

_CONTAINER: Message = {**_strings(name=1, restartPolicy=24), 8: Field("resources", Kind.MESSAGE, _RESOURCES)}

_POD_SPEC: Message = {
    2: Field("containers", Kind.MESSAGES, _CONTAINER),
    20: Field("initContainers", Kind.MESSAGES, _CONTAINER),
    29: Field("runtimeClassName", Kind.STRING),
    32: Field("overhead", Kind.QUANTITY_MAP),
    40: Field("resources", Kind.MESSAGE, _RESOURCES),
}

_TEMPLATE = Field("template", Kind.MESSAGE, {1: _METADATA, 2: Field("spec", Kind.MESSAGE, _POD_SPEC)})

_CLAIM: Message = {
    1: _METADATA,
    2: Field(
        "spec",
        Kind.MESSAGE,
        {2: Field("resources", Kind.MESSAGE, _RESOURCES), 5: Field("storageClassName", Kind.STRING)},
    ),
}

_STRATEGY: Message = {
    1: Field("type", Kind.STRING),
    2: Field(
        "rollingUpdate",
        Kind.MESSAGE,
        {1: Field("maxUnavailable", Kind.INT_OR_STRING), 2: Field("maxSurge", Kind.INT_OR_STRING)},
    ),
}

_REPLICAS = Field("replicas", Kind.INT32)
_SELECTOR = Field("selector", Kind.MESSAGE, _LABEL_SELECTOR)


def _object(spec: Message) -> Message:
    return {1: _METADATA, 2: Field("spec", Kind.MESSAGE, spec)}


SCALE: Message = _object({1: _REPLICAS})

OBJECTS: Mapping[str, Message] = {
    "deployments": _object({1: _REPLICAS, 2: _SELECTOR, 3: _TEMPLATE, 4: Field("strategy", Kind.MESSAGE, _STRATEGY)}),
    "statefulsets": _object(
        {
            1: _REPLICAS,
            2: _SELECTOR,
            3: _TEMPLATE,
            4: Field("volumeClaimTemplates", Kind.MESSAGES, _CLAIM),
            11: Field("ordinals", Kind.MESSAGE, {1: Field("start", Kind.INT32)}),
        }
    ),
    "replicasets": _object({1: _REPLICAS, 2: _SELECTOR, 3: _TEMPLATE}),
    "replicationcontrollers": _object({1: _REPLICAS, 2: Field("selector", Kind.STRING_MAP), 3: _TEMPLATE}),
}
"""Resource to the type of its objects."""
