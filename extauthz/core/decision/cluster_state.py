"""What the gate knows of quotas and of the cluster, and how sources report it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from extauthz.core.decision.policy import Policy
from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.model import Amounts, Kind, Observed, Template, WorkloadRef
from extauthz.core.objects.custom import Customs, Shape
from extauthz.core.objects.groups import Groups
from extauthz.core.policies import Policies
from extauthz.core.quota.tree import QuotaTree


@dataclass(slots=True)
class Snapshot:
    """What the cluster runs at one moment, as the gate keeps it."""

    namespaces: Mapping[str, Mapping[str, str]]
    """Name to labels."""
    workloads: Sequence[tuple[WorkloadRef, Observed]]
    """Pods and volume claims among them, each of one replica; the ledger tells whose they are."""
    limit_ranges: Mapping[str, Sequence[LimitRangeDefaults]] = field(default_factory=dict)
    """By namespace."""
    overheads: Mapping[str, Amounts] = field(default_factory=dict)
    """RuntimeClass to what it adds to each of its pods, nano-units."""
    claim_templates: Mapping[str, Mapping[str, Template]] = field(default_factory=dict)
    """ResourceClaimTemplates by namespace and name, with the devices that each of their claims may take."""
    device_classes: Mapping[str, str] = field(default_factory=dict)
    """DeviceClass to the extended resource that its devices are too; empty: none."""
    default_storage_class: str = ""
    """What claims get that name no class; empty where there is no default."""
    kinds: Iterable[tuple[str, str, str, Mapping[str, Shape]]] = ()
    """Custom resources that count, as ``observe_kind`` takes them."""
    not_counted: Mapping[str, int] = field(default_factory=dict)
    """``Kind.group`` of objects that do not matter here, and how many there were."""


class ClusterState:
    """A ledger, and whether its content is reliable."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy if policy is not None else Policy()
        self.ledger = Ledger()
        self.ledger.pod_costs.charge_surge = self.policy.charge_surge
        self.quotas_known = False
        self.state_known = False
        """Everything in the cluster was observed at least once."""
        self.stale_why: str | None = None
        """Why quotas or state may be out of date; ``None``: they are not."""
        self.coverage_is_stale = False
        """Quotas or namespaces may be out of date. Then it is not known which quotas cover a namespace."""
        self.clock_why: str | None = None
        """Why the date may be wrong by more than overrides allow for; ``None``: it is not."""
        self.checked_until_s = math.inf
        self.hold_until_s: float | None = None
        """Until about when no growth is granted; ``None``: there is no recovery hold."""
        self.policies = Policies()
        """Those that are asked about all growth, beside those of quotas. Set it by ``enlist``."""
        self.shapes: dict[Kind, Mapping[str, Shape]] = {}
        """Custom resources with a scale subresource: by API version, where their objects have what counts."""
        self._plurals: dict[tuple[str, str], str] = {}
        self.customs = Customs(self._plurals, self.shapes)
        self.epoch_s = 0.0
        """What to add to the gate's clock to get the seconds since 1970. Policies and overrides look at it."""
        self.written = self.ledger.coverage.tree
        """The quotas as they were loaded. In force are their amounts of now."""
        self._lasts: tuple[float, float] | None = None
        # What sources report, and to whom.
        observations, usage = self.ledger.observations, self.ledger.usage
        self.observe = observations.observe
        self.observe_all = observations.observe_all
        self.observing_all = observations.observing_all
        self.reached = observations.reached
        self.observe_namespace = usage.observe_namespace
        self.observe_limit_ranges = usage.observe_limit_ranges
        self.observe_claim_templates = usage.observe_claim_templates
        self.observe_device_class = usage.observe_device_class
        self.observe_runtime_class = usage.observe_runtime_class
        self.observe_default_storage_class = usage.observe_default_storage_class
        self.usage = usage.rows

    @property
    def synced(self) -> bool:
        """Quotas and state are both known."""
        return self.quotas_known and self.state_known

    def load_quotas(self, tree: QuotaTree, now_s: float) -> None:
        """Put a quota tree in force. A cut below what is used is no error: it is zero growth."""
        self.written = tree
        if self.ledger.usage.witness is not None:
            self.ledger.usage.witness.limited(tree)
        self._put_in_force(now_s)
        self.quotas_known = True
        self.tick(now_s)

    def _put_in_force(self, now_s: float) -> None:
        tree = self.written.at(now_s + self.epoch_s)
        self._lasts = tree.lasts
        self.ledger.usage.set_tree(tree, self.ledger.pending.with_objects())
        self.ledger.turns.under(tree)

    def turn(self, now_s: float) -> None:
        """Put those amounts of overrides in force that hold now."""
        if self._lasts is not None and not self._lasts[0] <= now_s + self.epoch_s < self._lasts[1]:
            self._put_in_force(now_s)

    def enlist(self, policies: Policies) -> None:
        """Ask these policies from now on. They are told what becomes of what is granted from now on."""
        self.policies = policies
        self.ledger.pending.on_end = policies.ended

    def hold(self, about_until_s: float) -> None:
        """Grant no growth before ``release``: writes of an earlier run may still land (design.md L5).

        ``about_until_s`` is only said to those who are refused. No clock ends a hold.
        """
        self.hold_until_s = about_until_s

    def release(self) -> None:
        """End the hold: every write of an earlier run has landed or cannot, and everything was listed since."""
        self.hold_until_s = None

    def tick(self, now_s: float) -> None:
        """Let time pass."""
        self.ledger.pending.tick(now_s)

    def load_state(self, state: Snapshot, now_s: float) -> None:
        """Take everything that the cluster has."""
        ledger = self.ledger
        for custom in state.kinds:
            self.observe_kind(*custom)
        for runtime_class in {*ledger.pod_costs.overheads, *state.overheads}:
            self.observe_runtime_class(runtime_class, state.overheads.get(runtime_class))
        for device_class in {*ledger.pod_costs.extended, *state.device_classes}:
            self.observe_device_class(device_class, state.device_classes.get(device_class))
        self.observe_default_storage_class(state.default_storage_class)
        known = {*ledger.coverage.namespaces, *ledger.pod_costs.namespaces}
        for name in {*known, *state.namespaces, *state.limit_ranges, *state.claim_templates}:
            self.observe_limit_ranges(name, state.limit_ranges.get(name, ()))
            self.observe_claim_templates(name, state.claim_templates.get(name, {}))
            self.observe_namespace(name, state.namespaces.get(name))
        ledger.observations.replace(state.workloads)
        self.state_synced(True)
        self.tick(now_s)

    def load(self) -> None:
        """All objects will come, one by one; ``state_synced`` tells when they have. Until then no usage is counted."""
        self.ledger.load()

    def state_synced(self, is_synced: bool) -> None:
        """Whether everything in the cluster has been observed at least once."""
        self.ledger.loaded()
        self.state_known = is_synced

    def stale(self, why: str | None, *, coverage: bool = True, until_s: float = math.inf) -> None:
        """Report that quotas or state may be out of date, and why; ``None``: they are not. Growth waits (design.md
        rule 6).

        Args:
            coverage: quotas or namespaces are among them.
            until_s: when this must have been told anew. A process that was suspended has not.
        """
        self.stale_why = why
        self.coverage_is_stale = why is not None and coverage
        self.checked_until_s = until_s

    @property
    def is_stale(self) -> bool:
        """Whether what is known may be outdated."""
        return self.stale_why is not None

    def observe_kind(self, group: str, kind: str, resource: str, shapes: Mapping[str, Shape] | None = None) -> None:
        """Note a kind of custom resource that counts. It covers what it has created.

        Args:
            shapes: by API version, where its objects have what counts.
        """
        where = [one.template for one in (shapes or {}).values()]
        through_pods = any(isinstance(one, Groups) and one.through_pods for one in where)
        self.ledger.observations.observe_kind(group, kind, resource, through_pods=through_pods)
        self.shapes[group, resource] = shapes or {}
        self._plurals[group, kind] = resource
