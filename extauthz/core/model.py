"""The words of the product as types: requests, writes, what a write leads to, what is observed, decisions.

Every amount is an exact integer count of *nano-units* (one CPU is ``10**9``, one byte is ``10**9``), because a nano is
the smallest step a Kubernetes quantity can take (``k8s.io/apimachinery/pkg/api/resource``). ``None`` means "not given"
or "no limit"; no number stands for either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Tree: TypeAlias = Any
"""A decoded body: dict, list, str, int, float, bool or None, as JSON has them."""

Amounts: TypeAlias = Mapping[str, int]
"""Quota key (ResourceQuota's spelling, such as ``requests.cpu``) to nano-units."""


class Request(NamedTuple):
    """An HTTP request as it came over the wire. Nothing is decoded yet."""

    method: str
    target: str
    """The request target with its query, byte for byte (Envoy's ``:path``)."""
    headers: Mapping[str, str]
    """Lower-case names."""
    body: bytes
    truncated: bool = False
    """The body is only a part."""
    source: str = ""
    """Who sent it, as the proxy vouches: a mutual TLS principal, or else a peer address. Empty: not known."""
    requester: str = ""
    """The user whose writes come this way, as the proxy's configuration says. Empty: it does not say."""
    timeout_s: float | None = None
    """How long the proxy waits for an answer. ``None``: not known."""


Kind: TypeAlias = tuple[str, str]
"""(API group, plural), such as ``("apps", "deployments")``."""


class WorkloadRef(NamedTuple):
    """Names a workload whatever the API version (design.md L6)."""

    group: str
    """API group, ``""`` for the core group."""
    resource: str
    """Plural, lower case: ``deployments``."""
    namespace: str
    name: str

    @property
    def group_resource(self) -> str:
        """``deployments.apps``, as the API server's own sentences spell it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def __str__(self) -> str:
        return f"{self.group_resource} {self.namespace}/{self.name}"


class Operation(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"


class Precondition(NamedTuple):
    """What the API server must verify before it writes."""

    resource_version: str | None = None
    uid: str | None = None
    """Of a create: the uid that its object gets, which nothing has before."""


NO_PRECONDITION = Precondition()


class Write(NamedTuple):
    """What a request means: a replica count and nothing else, or a whole object."""

    ref: WorkloadRef
    """``name`` is empty for a create with ``metadata.generateName``."""
    operation: Operation
    scale: bool
    """It is a write of the ``scale`` subresource."""
    dry_run: bool
    replicas: int
    """The count that it leaves."""
    object: Observed | None = None
    """What the API server is about to store, if that differs in more than the count from what is stored; ``None``: a
    count and nothing else."""
    precondition: Precondition = NO_PRECONDITION


@dataclass(frozen=True, slots=True)
class NotAWrite:
    """The request cannot grow a workload."""

    code: str
    """Stable, kebab-case, also a metric label: ``read``, ``other-resource``, ``status`` …"""
    why: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The request may grow a workload, and cannot be understood. The gate never guesses (design.md rule 6)."""

    code: str
    """Stable, kebab-case, also a metric label: ``json-syntax``, ``duplicate-key``, ``truncated`` …"""
    detail: str
    """Names the place and the cure."""
    ref: WorkloadRef | None = None


@dataclass(frozen=True, slots=True)
class NotACount:
    """A request at Envoy that may change more than a replica count. Nobody reads it there: the webhook is shown the
    object that comes of it (design.md rule 15)."""

    ref: WorkloadRef
    why: str


class Resize(NamedTuple):
    """A pod is resized in place (``pods/resize``), on exactly one version of it."""

    ref: WorkloadRef
    """The Pod."""
    before: Template
    """What it holds now."""
    after: Template
    """What it may come to hold."""
    version: str
    """The resourceVersion that it is stored on."""
    dry_run: bool


Reading: TypeAlias = Write | Resize | NotAWrite | NotACount | Unreadable


class Requester(NamedTuple):
    """Who sent a write, as whoever asks the gate vouches for it: the API server, or the configuration of an Envoy."""

    user: str
    groups: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    """Names of pods that the token is of: one, or none."""


class Question(NamedTuple):
    """A request that its server has read itself."""

    reading: Reading
    user: str = ""
    """Who sent it, as the API server has authenticated him; cut for logs. Empty: not known."""
    requester: Requester | None = None
    """The same, whole. ``None``: not known."""
    timeout_s: float | None = None
    """How long its asker waits for an answer. ``None``: not known."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Template:
    """What replicas multiply: a pod template and, for a StatefulSet, its volume claim templates.

    Pruned to what costs: ``resources`` of containers with their names, ``restartPolicy`` of init containers,
    ``overhead``, ``runtimeClassName``, ``resourceClaims``, pod-level ``resources``; of volume claims
    the name, ``resources.requests.storage`` and ``storageClassName``. Equal templates are one object
    (``objects.workloads``).
    """

    text: bytes
    """Canonical JSON: ``{"template": {...}, "volumeClaimTemplates": [...], "ordinals": {"start": 1}, "maxSurge": 2,
    "paused": true}``, the last three of what differs from the default; or of a volume claim ``{"claim": {...}}``; of
    several groups of pods (``objects.groups``) ``{"groups": [{"count": 2, "template": {...}}]}``; or what a pod that is
    resized takes besides, ``{"resize": {"requests.cpu": 1}}``, in nano-units. A Job has ``completions`` and ``retries``
    beside its template; a pod that has finished is ``{"finished": {"volumes": [...]}}``, the ephemeral ones."""


class OwnerRef(NamedTuple):
    """The ``controller: true`` entry of ``metadata.ownerReferences``."""

    group: str
    kind: str
    name: str
    uid: str


Labels: TypeAlias = str
"""Labels as one compact string, ``a=1,b=2``, sorted by key. It takes a tenth of a dict's memory, and equal ones are
shared."""

ANY_LABELS: Final[Labels] = "*=*"
"""Stands for labels that nobody can tell: in what a write may leave, and of who shares a claim. No object has them, as
they are not valid. What may have any labels counts in every quota that may cover its namespace."""


@dataclass(slots=True)
class Observed:
    """One workload as last seen in the cluster. Compact: a gate holds a million of them."""

    replicas: int
    """``spec.replicas`` after defaulting."""
    template: Template | None
    """``None``: this kind declares no template (footprint unknown)."""
    labels: Labels = ""
    uid: str = ""
    resource_version: str = ""
    owner: OwnerRef | None = None
    selector: Labels | None = None
    """``spec.selector.matchLabels`` of a controller; ``None`` where it has none or uses expressions;
    ``fields.EVERYTHING`` of what makes groups of pods."""
    kept: Mapping[str, str] | None = None
    """What policies keep of its pod template, by their names; ``None``: nothing, as no policy wants to."""
    acted_on: bool | None = None
    """Its controller has acted on this very spec, as its status says (``observedGeneration``); ``None``: it has no
    status."""
    by_pods: bool = False
    """It says nothing of its pods: ``template`` is what the dearest of those costs that are there."""


# Decisions.

OnUnknown: TypeAlias = Literal["deny", "allow"]
"""What is done about a write where something is not known (design.md rule 6)."""


class Unknown(StrEnum):
    """What a gate may not know. Each has a setting, and a field of the same name in ``spec.onUnknown`` of a quota."""

    STALE = "stale"
    """Whether quotas or state are current, and what a quota limits."""
    UNSYNCED = "unsynced"
    """What exists, before all lists are read; and what may still land after an unclean start."""
    UNREADABLE = "unreadable"
    """What a write says."""
    WORKLOAD = "unknownWorkload"
    """A workload or namespace that no source has shown."""
    FOOTPRINT = "unknownFootprint"
    """What a pod costs."""
    UNSPECIFIED = "unspecified"
    """A container names no request or limit of a compute resource that a quota limits."""
    POLICY = "unknownPolicy"
    """The answer of a policy: it failed, was slow, or the policy is missing."""


class Verdict(StrEnum):
    ALLOW = "allow"
    DENY = "deny"
    UNAVAILABLE = "unavailable"
    """Refused because the gate does not know, never because of quota (design.md rule 6)."""


class Refusal(StrEnum):
    """Why a write is refused, in words that stay (docs/status.md). ``Decision.reason`` says it more exactly."""

    EXCEEDS_HARD = "ExceedsHard"
    """It never fits: what it asks for is by itself more than the limit."""
    WAITING_FOR_ROOM = "WaitingForRoom"
    """It fits once others use less, or the limit is higher."""
    WAITING_FOR_TURN = "WaitingForTurn"
    """Others are before it in the line for the room that there is."""
    MISCONFIGURED = "Misconfigured"
    """Somebody has to mend the workload or a quota first."""
    FORBIDDEN_BY_POLICY = "ForbiddenByPolicy"
    """A policy does not let it grow, or not so far."""
    HELD_BY_POLICY = "HeldByPolicy"
    """A policy does not let it grow yet: it may be asked again."""
    UNKNOWN = "Unknown"
    """The gate does not know enough to decide it."""


WOULD_REFUSE: Final = "would-refuse"
"""Reason: allowed, and quotas in mode Audit would have refused it."""

NOT_ITS_TURN: Final = "not-its-turn"
"""Reason: what is left of a quota is kept for another one (``spec.sharing.turns``)."""

MISCONFIGURED: Final = frozenset({"must-specify", "illegible-quota"})
"""Reasons of decisions that mean ``Refusal.MISCONFIGURED``."""

POLICY_REFUSED: Final = "policy-refused"
POLICY_NOT_YET: Final = "policy-not-yet"
POLICY_UNKNOWN: Final = "policy-unknown"
"""Reasons of decisions that policies make."""

_BY_REASON: Final = {
    POLICY_REFUSED: Refusal.FORBIDDEN_BY_POLICY,
    POLICY_NOT_YET: Refusal.HELD_BY_POLICY,
    NOT_ITS_TURN: Refusal.WAITING_FOR_TURN,
}


class Fetch(Enum):
    """What a decision may need that is not in memory."""

    WORKLOAD = "workload"
    """The object itself: it may have been made a moment ago, and the watch is behind."""
    COUNT = "count"
    """What quotas have in use: it is being counted anew."""


class NeedsFetch(NamedTuple):
    """What to fetch, and of which workload."""

    what: Fetch
    ref: WorkloadRef


class Shortage(NamedTuple):
    """One resource of one quota that a write does not fit."""

    quota: str
    """Name of the WorkspaceQuota."""
    path: tuple[str, ...]
    """From the root of its tree down to it."""
    resource: str
    requested: int
    """Growth of the workload's envelope in nano-units. The next three are in nano-units too."""
    used: int
    reserved: int
    hard: int
    kept: int = 0
    """What guarantees keep of it for others, where that is why it does not fit."""


class Unspecified(NamedTuple):
    """A compute resource that one quota limits, and that some containers do not specify (design.md rule 12)."""

    quota: str
    """Name of the WorkspaceQuota."""
    path: tuple[str, ...]
    """From the root of its tree down to it."""
    resource: str
    containers: tuple[str, ...]
    """Their names, the first few."""
    audits: bool = False
    """The quota only audits: it refuses nothing."""


class Growth(NamedTuple):
    """A write that would grow a workload."""

    id: str
    """Of the decision. Two looks at one write have the same."""
    ref: WorkloadRef
    operation: str
    """``create``, ``update``, ``patch``, or ``resize`` of a pod in place."""
    before: int
    """Replicas that are observed."""
    to: int
    """Replicas that it may come to; as before where it leaves the count as it is."""
    rises: Amounts
    """What it raises above what is observed or was granted, nano-units by quota key, whatever quotas limit."""
    observed: Observed | None
    """The object as last seen; of a create what it makes; ``None``: not known."""
    templates: tuple[Template, ...]
    """Those that it brings; empty: it leaves the template as it is."""
    requester: Requester | None
    """``None``: not known."""
    now_s: float
    """The gate's clock, which never goes back and has no date."""
    wall_s: float
    """Seconds since 1970."""
    kept: Mapping[str, str] | None = None
    """What policies keep of its pod template (``GrowthPolicy.keep``), by their names; ``None``: it is not known."""


class PolicyAnswer(NamedTuple):
    """What one policy has against a write."""

    policy: str
    """Its name."""
    step: str
    """``filter``, ``limit`` or ``permit``."""
    result: Literal["refused", "unknown"]
    message: str
    """For the owner; of an unknown: what went wrong."""
    audits: bool = False
    """It refuses nothing: this is only reported."""
    replicas: int | None = None
    """The most that it allows (``limit``)."""
    again_s: float | None = None
    """After how many seconds it is worth to ask again (``permit``)."""


class Place(NamedTuple):
    """The place in the line of a tree that a refused write may take (``spec.sharing.turns``)."""

    tree: str
    """Name of the root quota."""
    children: tuple[str, ...]
    """The quotas right below it that the workload counts in; of one that counts in none, the root."""
    needs: Mapping[str, Amounts]
    """By quota that refused, what it needs of it: one replica in mode Clamp, else all that it asked for. Nano-units."""
    at_zero: bool
    """It has no replicas, and none may land."""
    replicas: int
    """Asked for."""
    rank: int
    """As a policy gives it (``GrowthPolicy.rank``)."""
    of_count: bool = True
    """It waits for a count alone, and not for a template too."""


class Turn(NamedTuple):
    """Whose turn it is not."""

    quota: str
    """The WorkspaceQuota whose room is kept for another one."""
    place: int
    """In the line for that; the first has 1."""
    again_s: float
    """After how many seconds its client is expected to ask again."""


class Evidence(NamedTuple):
    """What an answer was found on."""

    shortages: tuple[Shortage, ...] = ()
    """Every quota and resource that refused, or would have (``Decision.would``)."""
    audit: tuple[Shortage, ...] = ()
    """What quotas in mode Audit would have refused for want of room."""
    fits: int | None = None
    """Largest replica count that fits; ``None``: not asked for, or no bound."""
    never_fits: bool = False
    """It is denied, and would be if nobody else used anything: what it asks for is by itself more than a limit."""
    unspecified: tuple[Unspecified, ...] = ()
    """What pods have to state for quotas that refused because of it, would have, or only audit."""
    policies: tuple[PolicyAnswer, ...] = ()
    """What policies have against it: those that refused, would have, are not known, or only audit."""
    grows: bool = False
    """It was allowed and raises something that a quota limits, or may with a count that an earlier run has allowed."""
    afterwards: bool = False
    """Other gates are told afterwards: no quota that may cover its namespace refuses anything."""
    places: tuple[Place, ...] = ()
    """Where it stands in line from now on, unless it was a question."""
    turn: Turn | None = None
    """It is refused because it is not its turn."""


NO_EVIDENCE: Final = Evidence()


@dataclass(frozen=True, slots=True)
class Commit:
    """It was allowed and may still land, so gates that share a ledger agree on it. Its pending write is recorded, or
    would be if it were charged."""


COMMIT: Final = Commit()


class Lower(NamedTuple):
    """Ask for another count in its place (mode Clamp). The answer to that question decides nothing."""

    to: int
    version: str
    """The resourceVersion that the write with that count must be bound to."""


class Held(NamedTuple):
    """Tell policies that do not let it go yet."""

    growth: Growth


Todo: TypeAlias = NeedsFetch | Commit | Lower | Held
"""What is to be done about a decision. What needs to be fetched comes first: then the write is decided again."""


class Decision(NamedTuple):
    """The answer to one request, with its evidence and what is to be done. Decided exactly once (design.md rule 3)."""

    id: str
    verdict: Verdict
    reason: str
    """Stable code, also a metric label: ``fits``, ``exceeded-quota``, ``not-a-write`` …"""
    sentence: str
    """For the owner; names quota, resource and numbers."""
    ref: WorkloadRef | None = None
    operation: Operation | None = None
    scale: bool = False
    dry_run: bool = False
    replicas: int | None = None
    """Asked for."""
    replicas_before: int | None = None
    """Observed."""
    pending_write: str | None = None
    """The id of the pending write that was recorded, if one was."""
    would: Verdict | None = None
    """What the answer would have been without mode audit (``Policy.mode``)."""
    evidence: Evidence = NO_EVIDENCE
    todo: Todo | None = None
    """``None``: it is done."""
    of_count: bool = False
    """It is about a count alone, and not about a template too."""

    @property
    def refusal(self) -> Refusal | None:
        """Why it is refused, or would be (``would``); ``None``: it is not."""
        answer = self.would or self.verdict
        if answer is Verdict.ALLOW:
            return None
        if self.reason in MISCONFIGURED:
            return Refusal.MISCONFIGURED
        if answer is Verdict.UNAVAILABLE:
            return Refusal.UNKNOWN
        if self.reason in _BY_REASON:
            return _BY_REASON[self.reason]
        return Refusal.EXCEEDS_HARD if self.evidence.never_fits else Refusal.WAITING_FOR_ROOM
