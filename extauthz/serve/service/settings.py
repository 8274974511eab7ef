"""All settings of the gate, each defined once. Flags, variables, the file and ``docs/settings.md`` are made from it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from extauthz.core.decision.policy import GateMode, Objects, Policy
from extauthz.core.model import OnUnknown
from extauthz.serve.service import setting_types as kinds
from extauthz.serve.service.numbers import Numbers
from extauthz.serve.service.setting_types import KUBERNETES, OFF, UNKNOWNS, Kind, one_of, setting

ENV_PREFIX = "EXTAUTHZ_"

CONFIG = "EXTAUTHZ_CONFIG"
"""The variable for ``--config``, which is no setting itself: a file names no other file."""

_POLICY = Policy()
"""Defaults of the decision. The core has them, with a reason for each."""


class Level(StrEnum):
    """How much is logged. Allowed requests are ``info``; refused ones, and refused files, ``warning``."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of ``extauthz serve``. A flag wins over the environment, the environment over the file.

    It takes values as they are. ``loading`` makes them of texts, and holds each to its type and bounds.
    """

    quotas: Path | str | None = setting(
        kinds.QUOTAS,
        description="Where quotas come from. `kubernetes`: the WorkspaceQuota objects of the cluster. A path: a file "
        "or directory of such objects in YAML or JSON, which is watched. `https://…`: your own service "
        "([http-source.md](http-source.md)).",
    )
    state: Literal["kubernetes"] | Path | None = setting(
        kinds.STATE,
        description="Where workloads come from. `kubernetes`: the cluster. A path: a file with a Kubernetes List, as "
        "`kubectl get ns,deploy,sts,rs,rc,jobs,pods -A -o yaml` prints it. The file is watched.",
    )
    kubeconfig: Path | None = setting(
        kinds.FILE,
        description="Which cluster `kubernetes` means: the current context of this file. Without it, the cluster whose "
        "pod the gate runs in.",
    )
    pod_groups: str = setting(
        kinds.POD_GROUPS,
        "",
        description="Where custom resources have their pod template, if it is not at `.spec.template`, or several, and "
        "counts: YAML, such as `{rollouts.argoproj.io: .spec.workload.template}` "
        "([internals/counting.md](internals/counting.md#objects-with-several-pod-templates)). A resource without "
        "template there is priced by the pods that its scale selects.",
    )
    source_token_file: Path | None = setting(
        kinds.FILE, description="File with the bearer token for your service. It is read again for each request."
    )
    source_cert: Path | None = setting(
        kinds.CERT_FILE,
        description="Client certificate chain for your service, PEM, with its key beside it as of `tls-cert`.",
    )
    ca: Path | None = setting(
        kinds.FILE,
        description="Authorities that certificates of your service must come from, PEM. Default: the system's.",
    )
    grpc: str = setting(
        kinds.LISTEN_OR_OFF,
        "127.0.0.1:9191",
        description="Address for Envoy (ext_authz and access log): host:port, [v6]:port, :port or unix:/path. `off`: "
        "no Envoy asks this gate, only the API server (`webhook`).",
    )
    http: str = setting(
        kinds.LISTEN, "127.0.0.1:9192", description="Address of /healthz, /readyz, /metrics and the [API](api.md)."
    )
    http_names: tuple[str, ...] = setting(
        kinds.HOST_NAMES,
        (),
        description="Names under which `http` may be asked, besides addresses, `localhost` and the host's own name, "
        "with commas or spaces between: those of a Service or an Ingress. Under other names a page in a browser could "
        "ask (DNS rebinding); they are answered 421.",
    )
    tls_cert: Path | None = setting(
        kinds.CERT_FILE,
        description="Certificate chain that the gate shows to Envoy, PEM. Its private key is in the file beside it "
        "that ends in `.key`, as `tls.key` is beside `tls.crt` in a Secret. Both are read again when they change.",
    )
    tls_client_ca: Path | None = setting(
        kinds.FILE,
        description="Authorities whose client certificates are accepted, PEM. Other clients are refused.",
    )
    webhook: str | None = setting(
        kinds.LISTEN,
        description="Address of the admission webhook, HTTPS: `POST /validate` ([webhook.md](webhook.md)). Without it, "
        "there is none.",
    )
    webhook_cert: Path | None = setting(
        kinds.CERT_FILE,
        description="Certificate chain that the webhook shows to the API server, PEM, with its key beside it as of "
        "`tls-cert`. The `caBundle` of its configuration must hold the authority. Without it, the gates make the "
        "certificate and its authority themselves, keep them in the Secret `extauthz-webhook`, renew them, and write "
        "the `caBundle` of the webhook configurations ([webhook.md](webhook.md)).",
    )
    webhook_client_ca: Path | None = setting(
        kinds.FILE,
        description="Authorities of the certificates that API servers show to the webhook, PEM. Without such a "
        "certificate nobody is answered there ([webhook.md](webhook.md#only-api-servers)).",
    )
    api: str | None = setting(
        kinds.LISTEN,
        description="Address of the [API](api.md) for others than this host, HTTPS. The API server says who asks, and "
        "what they may see. Without it, there is none.",
    )
    api_cert: Path | None = setting(
        kinds.CERT_FILE,
        description="Certificate chain that the API shows, PEM, with its key beside it as of `tls-cert`.",
    )
    api_client_ca: Path | None = setting(
        kinds.FILE,
        description="Authorities whose client certificates name a user (CN) and groups (O), PEM. Without it, only "
        "bearer tokens do.",
    )
    api_audience: str = setting(
        kinds.TEXT,
        "",
        description="Whom a bearer token must be made for (`kubectl create token --audience`). Without it, the API "
        "server: then a token that was given away to the gate could be used there too.",
    )
    refusals: Literal["full", "terse"] = setting(
        one_of("full", "terse"),
        "full",
        description="What a refused client is told. `full`: the quota and its numbers, which autoscalers show to the "
        "owner. `terse`: only that it was refused, and the decision's id. Log and events always say all. The gate "
        "refuses before the API server knows who the client is ([security.md](security.md)).",
    )
    mode: GateMode = setting(
        one_of(*get_args(GateMode)),
        _POLICY.mode,
        description="`audit`: decide in full, report in log and metrics what would have been refused, and allow "
        "everything. For the first days of an installation.",
    )
    objects: Objects | None = setting(
        one_of(*get_args(Objects)),
        description="What Envoy is told about writes that may change more than a replica count: whole objects, "
        "templates, labels, owners. `webhook`: they pass, as the admission webhook of the same ledger decides them. "
        "`refuse`: 503 `not-a-count`. `observe`: they pass, and count once they are observed. Default: `webhook` with "
        "`--webhook`, else `refuse`.",
    )
    allow_unknown: tuple[str, ...] = setting(
        kinds.NAMES_OF_UNKNOWNS,
        (),
        description="What passes although something about it is not known, with commas or spaces between. Else it "
        "is refused as unavailable. `unreadable`: a write that may grow a workload and cannot be read; then an odd "
        "spelling gets a client around the quota. `unknown-workload`, `unknown-footprint`: of a workload that the gate "
        "does not know, or whose pods have no known cost. `unspecified`: of pods that do not state `requests` or "
        "`limits` of cpu or memory which a quota limits; they cost nothing then. `unknown-policy`: a policy "
        "fails, is slow, or is missing. `unsynced`: before quotas and workloads are known, or during a recovery "
        "hold. `stale`: while a source is stalled; it is decided on what was known last. `unclean-start`: "
        "without a recovery hold after a start that does not know which writes an earlier run allowed; right at a "
        "first installation.",
    )
    policies: tuple[str, ...] = setting(
        kinds.POLICIES,
        (),
        description="Names of plug-ins that are asked about all growth ([policies.md](policies.md)), with commas or "
        "spaces between: the entry points of the group `extauthz.policies`. `NAME=Audit` refuses nothing and is "
        "reported.",
    )
    charge_surge: bool = setting(
        kinds.SWITCH,
        _POLICY.charge_surge,
        description="Reserve room for the extra pods of a rollout (`maxSurge`) of each Deployment. By default they "
        "are free, up to 25 %.",
    )
    window_s: float = setting(
        kinds.SECONDS,
        _POLICY.window_s,
        description="The landing window: how long after its decision an allowed write may still land. It is the sum "
        "of the ext_authz timeout, the route timeout, the API server's request timeout and a margin for etcd.",
    )
    ledger: Literal["memory", "kubernetes"] | None = setting(
        one_of("memory", KUBERNETES),
        description="Where pending writes are kept. `kubernetes`: in one WorkspaceLedger object of the cluster, for "
        "any number of gates; the default with `quotas: kubernetes` and `state: kubernetes`, and only with both. "
        "`memory`: in a single gate, for files, demos and tests.",
    )
    record: Path | None = setting(
        kinds.PATH,
        description="Folder for the [record of growth](sizing.md). Without it, there is none.",
    )
    record_max_bytes: str = setting(kinds.SIZE, "500Mi", description="What its files may take; the oldest go first.")
    log_level: Level = setting(
        one_of(*Level, metavar="LEVEL", made=Level),
        Level.INFO,
        description="`info` logs every decision, `warning` only refusals.",
    )
    numbers: Numbers = dataclasses.field(default_factory=Numbers)
    """No setting: nobody but a test gives others."""

    def __post_init__(self) -> None:
        """What must hold of several together.

        Raises:
            ValueError: with what does not, and the cure.
        """
        self._ledger_is_live()
        self._certificates()
        self._somebody_can_ask()
        self._api_has_tls()
        self._source_credentials()

    def _ledger_is_live(self) -> None:
        if self.ledger == KUBERNETES and self.state not in (KUBERNETES, None):
            raise ValueError("ledger kubernetes needs state kubernetes; set both, or ledger memory")
        if self.ledger == KUBERNETES and self.quotas not in (KUBERNETES, None):
            raise ValueError(
                "ledger kubernetes needs quotas kubernetes: with quotas from files or a service, no gate knows who has "
                "the newer ones; put them into the cluster, or run one gate with ledger memory"
            )

    def _certificates(self) -> None:
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls-client-ca needs tls-cert")
        for name in ("webhook_cert", "webhook_client_ca"):
            if getattr(self, name) is not None and self.webhook is None:
                raise ValueError(f"{word(name)} needs webhook: the address where API servers ask, such as :9443")

    def _somebody_can_ask(self) -> None:
        if self.grpc == OFF and self.webhook is None:
            raise ValueError("grpc off: nobody could ask this gate; set webhook, or an address for grpc")
        if self.grpc == OFF and self.tls_cert is not None:
            raise ValueError("tls-cert is what grpc shows, and grpc is off; leave out tls-cert and tls-client-ca")

    def _api_has_tls(self) -> None:
        if (self.api is None) != (self.api_cert is None):
            raise ValueError("api and api-cert go together, as tokens go over https only; give both or neither")
        if self.api_client_ca is not None and self.api is None:
            raise ValueError("api-client-ca needs api and api-cert")
        if self.api_audience and self.api is None:
            raise ValueError("api-audience needs api and api-cert")

    def _source_credentials(self) -> None:
        given = [path for path in (self.source_token_file, self.source_cert) if path is not None]
        if given and isinstance(self.quotas, str) and self.quotas.startswith("http:"):
            raise ValueError("credentials go over https only; write https:// or leave source-token-file and -cert out")

    def on(self, unknown: str) -> OnUnknown:
        """What becomes of growth where this is not known."""
        return "allow" if unknown in self.allow_unknown else "deny"

    @property
    def makes_certificate(self) -> bool:
        """Whether the gates make the certificate of the webhook."""
        return self.webhook is not None and self.webhook_cert is None

    @property
    def shares_ledger(self) -> bool:
        """Whether pending writes are kept in the cluster, for any number of gates."""
        return (self.ledger or (KUBERNETES if self.quotas == self.state == KUBERNETES else "memory")) == KUBERNETES

    @property
    def live(self) -> bool:
        """Whether a cluster is asked for anything."""
        return KUBERNETES in (self.quotas, self.state) or self.api is not None or self.makes_certificate


class Described(NamedTuple):
    """A setting, for those who show it."""

    kind: Kind
    default: object
    description: str


def described() -> dict[str, Described]:
    """All settings by field name, in their order."""
    fields = (one for one in dataclasses.fields(Settings) if one.name != "numbers")
    return {one.name: Described(one.metadata["kind"], one.default, one.metadata["description"]) for one in fields}


def word(field: str) -> str:
    """A setting's name as flags and files spell it: ``tls-cert``."""
    return field.replace("_", "-")


def variable(field: str) -> str:
    """A setting's name as the environment spells it: ``EXTAUTHZ_TLS_CERT``."""
    return ENV_PREFIX + field.upper()


def policy(settings: Settings) -> Policy:
    """The part of the settings that the core decides by."""
    numbers, has_default = settings.numbers, settings.window_s == _POLICY.window_s
    by_default: Objects = "webhook" if settings.webhook is not None else "refuse"
    allowed = (UNKNOWNS[name] for name in settings.allow_unknown)
    return Policy(
        allows=frozenset(one for one in allowed if one is not None),
        mode=settings.mode,
        objects=settings.objects or by_default,
        charge_surge=settings.charge_surge,
        window_s=settings.window_s,
        admitted_window_s=numbers.window_of_admitted_s if has_default else None,
        max_intents=numbers.pending_writes,
        max_intents_per_workload=numbers.pending_writes_per_workload,
        max_intents_per_source=numbers.pending_writes_per_source,
        max_intents_per_tree=numbers.pending_writes_per_tree,
    )
