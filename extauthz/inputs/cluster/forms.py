"""The fields of objects that ``object_readers`` look at: a watch makes nothing of the others.

What is not of this form, as no API server prints it, is read whole, so that the readers say what is wrong with it.
``tests/unit/cluster/test_forms.py`` holds these against the readers.
"""

from __future__ import annotations

from typing import TypeAlias, TypedDict

from extauthz.core.model import Tree

_Texts: TypeAlias = dict[str, str] | None


class _Owner(TypedDict, total=False):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool


class _Metadata(TypedDict, total=False):
    annotations: _Texts
    deletionTimestamp: str
    generation: int
    labels: _Texts
    name: str
    namespace: str
    ownerReferences: list[_Owner]
    resourceVersion: str
    uid: str


class _Resources(TypedDict, total=False):
    limits: _Texts
    requests: _Texts


class _Container(TypedDict, total=False):
    name: str
    resources: _Resources
    restartPolicy: str


class _Volume(TypedDict, total=False):
    ephemeral: Tree
    name: str


class _DeviceClaim(TypedDict, total=False):
    name: str
    resourceClaimName: str | None
    resourceClaimTemplateName: str | None


class _Pod(TypedDict, total=False):
    containers: list[_Container]
    initContainers: list[_Container]
    overhead: _Texts
    resourceClaims: list[_DeviceClaim]
    resources: _Resources
    runtimeClassName: str
    volumes: list[_Volume]


class _Labelled(TypedDict, total=False):
    labels: _Texts


class _Template(TypedDict, total=False):
    metadata: _Labelled
    spec: _Pod


class _Spec(_Pod, total=False):
    """Of a Pod, of what has a template of one, or of a claim of a volume or of devices."""

    backoffLimit: int | None
    backoffLimitPerIndex: int | None
    completionMode: str
    completions: int | None
    devices: Tree
    managedBy: str | None
    ordinals: Tree
    parallelism: int | None
    paused: bool | None
    replicas: int | None
    selector: Tree
    storageClassName: str | None
    strategy: Tree
    suspend: bool | None
    template: _Template
    volumeClaimTemplates: list[Tree]


class _Condition(TypedDict, total=False):
    observedGeneration: int
    reason: str | None
    status: str
    type: str


class _Held(TypedDict, total=False):
    allocatedResources: _Texts
    name: str
    resources: _Resources | None


class _Status(TypedDict, total=False):
    active: int
    allocatedResources: _Texts
    completedIndexes: str | None
    conditions: list[_Condition] | None
    containerStatuses: list[_Held] | None
    currentRevision: str
    failedIndexes: str | None
    initContainerStatuses: list[_Held] | None
    observedGeneration: int
    phase: str
    resources: _Resources | None
    succeeded: int
    updateRevision: str


class Counted(TypedDict, total=False):
    """An object of any kind in ``object_readers.COUNTED``."""

    apiVersion: str
    kind: str
    metadata: _Metadata
    spec: _Spec
    status: _Status
