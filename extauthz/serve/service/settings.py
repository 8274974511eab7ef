"""All settings of the gate, each defined once. Flags, variables, the file and ``docs/settings.md`` are made from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args, get_origin, get_type_hints

from extauthz.core.decision.policy import GateMode, Objects, Policy
from extauthz.core.model import OnUnknown
from extauthz.serve.service.setting_types import (
    OFF,
    SECONDS,
    Before,
    File,
    Folder,
    HostNames,
    Listen,
    ListenOrOff,
    Mode,
    NamespacedName,
    PodGroups,
    Policies,
    Receivers,
    Size,
    Templates,
    Url,
    bounds_url,
    quotas_url,
    setting,
)

ENV_PREFIX = "EXTAUTHZ_"

CONFIG = "EXTAUTHZ_CONFIG"
"""The variable for ``--config``, which is no setting itself: a file names no other file."""

KUBERNETES: Literal["kubernetes"] = "kubernetes"
"""In place of a path: from the cluster. A file of that name is spelled ``./kubernetes``."""

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

    quotas: Annotated[Literal["kubernetes"] | Url | Path | None, Before(quotas_url)] = setting(
        None,
        description="Where quotas come from. `kubernetes`: the WorkspaceQuota objects of the cluster. A path: a file "
        "or directory of such objects in YAML or JSON, which is watched. `https://…`: your own service "
        "([http-source.md](http-source.md)).",
    )
    state: Literal["kubernetes"] | Path | None = setting(
        None,
        description="Where workloads come from. `kubernetes`: the cluster. A path: a file with a Kubernetes List, as "
        "`kubectl get ns,deploy,sts,rs,rc,jobs,pods -A -o yaml` prints it. The file is watched.",
    )
    kubeconfig: File | None = setting(
        None,
        description="Which cluster `kubernetes` means: the current context of this file. Without it, the cluster whose "
        "pod the gate runs in.",
    )
    write_status: bool = setting(
        True,
        description="Write used, reserved and conditions to the status of each WorkspaceQuota. Needs `quotas: "
        "kubernetes`.",
    )
    write_events: bool = setting(
        True,
        description="Write a Kubernetes event about a refused workload and its autoscaler: one for each episode. "
        "Needs `state: kubernetes`.",
    )
    near_limit: int = setting(
        0,
        ge=0,
        le=100,
        description="From how many percent of a limit on a quota is [near](status.md#before-a-refusal) it. 0: never, "
        "as GPUs that are used are no alarm.",
    )
    scaled_templates: Templates = setting(
        "",
        description="Where custom resources have their pod template, if it is not at `.spec.template`: "
        "`rollouts.argoproj.io=.spec.workload.template`, more after commas. A resource without template there is "
        "priced by the pods that its scale selects.",
    )
    pod_groups: PodGroups = setting(
        "",
        description="Where custom resources have several pod templates, and counts: YAML "
        "([internals/counting.md](internals/counting.md#objects-with-several-pod-templates)).",
    )
    quotas_every_s: float = setting(
        10.0,
        **SECONDS,
        description="How often your service is asked for quotas. With an ETag, if its last answer had one.",
    )
    quotas_timeout_s: float = setting(5.0, **SECONDS, description="How long it may take to answer that.")
    max_scale: Annotated[Url | None, Before(bounds_url)] = setting(
        None,
        description="`https://…`: your own service that says how many replicas a workload may have. It is asked "
        "before a workload grows ([http-source.md](http-source.md)).",
    )
    max_scale_ttl_s: float = setting(10.0, **SECONDS, description="How long its answer for a workload is used.")
    max_scale_keep_s: float = setting(
        300.0,
        ge=0,
        le=86400,
        allow_inf_nan=False,
        description="How old its last answer may be and still be used, while it gives no new one.",
    )
    max_scale_timeout_s: float = setting(
        0.5, gt=0, le=1, description="How long it may take to answer. The write waits meanwhile."
    )
    source_token_file: File | None = setting(
        None, description="File with the bearer token for your services. It is read again for each request."
    )
    source_ca: File | None = setting(
        None, description="Authorities that your services' certificates must come from, PEM. Default: the system's."
    )
    source_cert: File | None = setting(None, description="Client certificate chain for your services, PEM.")
    source_key: File | None = setting(None, description="Its private key, PEM. Both are read again when they change.")
    grpc: ListenOrOff = setting(
        "127.0.0.1:9191",
        description="Address for Envoy (ext_authz and access log): host:port, [v6]:port, :port or unix:/path. `off`: "
        "no Envoy asks this gate, only the API server (`webhook`).",
    )
    grpc_server: Literal["own", "grpcio"] = setting(
        "own",
        description="Which server listens there. `grpcio`: gRPC's own, for who must run a known one; it costs more "
        "([security.md](security.md)).",
    )
    http: Listen = setting(
        "127.0.0.1:9192", description="Address of /healthz, /readyz, /metrics and the [API](api.md)."
    )
    http_names: HostNames = setting(
        (),
        description="Names under which `http` may be asked, besides addresses, `localhost` and the host's own name, "
        "with commas or spaces between: those of a Service or an Ingress. Under other names a page in a browser could "
        "ask (DNS rebinding); they are answered 421.",
    )
    socket_mode: Mode = setting(
        "0660",
        description="Octal mode of a unix socket. With the default, only processes of the same group can connect, as "
        "Envoy in another container.",
    )
    tls_cert: File | None = setting(None, description="Certificate chain that the gate shows to Envoy, PEM.")
    tls_key: File | None = setting(None, description="Its private key, PEM.")
    tls_client_ca: File | None = setting(
        None,
        description="Authorities whose client certificates are accepted, PEM. Other clients are refused.",
    )
    reflection: bool = setting(False, description="Serve gRPC reflection. grpcurl then works without protos.")
    webhook: Listen | None = setting(
        None,
        description="Address of the admission webhook, HTTPS: `POST /validate` ([webhook.md](webhook.md)). Without it, "
        "there is none.",
    )
    webhook_cert: File | None = setting(
        None,
        description="Certificate chain that the webhook shows to the API server, PEM. The `caBundle` of its "
        "configuration must hold the authority.",
    )
    webhook_key: File | None = setting(None, description="Its private key, PEM. Both are read again when they change.")
    webhook_client_ca: File | None = setting(
        None,
        description="Authorities of the certificates that API servers show to the webhook, PEM. Without such a "
        "certificate nobody is answered there ([webhook.md](webhook.md#only-api-servers)).",
    )
    webhook_self_signed: bool = setting(
        False,
        description="In place of these files: the gates make the certificate and its authority themselves, keep them "
        "in a Secret, renew them, and write the `caBundle` of the webhook configurations ([webhook.md](webhook.md)).",
    )
    webhook_secret: NamespacedName = setting(
        "extauthz-webhook",
        description="That Secret: `NAME`, or `NAMESPACE/NAME`. Without a namespace: that of the gate's pod, and "
        "`extauthz-system` where the gate runs in no pod.",
    )
    webhook_configuration: str = setting(
        "extauthz",
        description="Name of the Validating- and MutatingWebhookConfiguration that call the gates. The certificate is "
        "for the names under which they call.",
    )
    webhook_cert_lifetime_s: float = setting(
        90 * 86400.0,
        ge=10,
        le=3650 * 86400.0,
        allow_inf_nan=False,
        description="How long a certificate that the gates make is valid: 90 days. Its authority is valid four times "
        "as long. Each is renewed when two thirds of its time are over.",
    )
    api: Listen | None = setting(
        None,
        description="Address of the [API](api.md) for others than this host, HTTPS. The API server says who asks, and "
        "what they may see. Without it, there is none.",
    )
    api_cert: File | None = setting(None, description="Certificate chain that the API shows, PEM.")
    api_key: File | None = setting(None, description="Its private key, PEM. Both are read again when they change.")
    api_client_ca: File | None = setting(
        None,
        description="Authorities whose client certificates name a user (CN) and groups (O), PEM. Without it, only "
        "bearer tokens do.",
    )
    api_audience: str = setting(
        "",
        description="Whom a bearer token must be made for (`kubectl create token --audience`). Without it, the API "
        "server: then a token that was given away to the gate could be used there too.",
    )
    notify: Receivers = setting(
        (),
        description="Where [notices](notices.md) are sent: `NAME=https://…`, for several repeated, or with spaces "
        "between them. Options stand after the name: `NAME,slack,grants,named,allow-http=…`. `NAME=file:PATH`: the URL "
        "is in a file, so that the command line does not show it. `spec.notify` of a quota names receivers.",
    )
    notify_keys: Folder | None = setting(
        None,
        description="Folder with a file `NAME.key` for each receiver: the key by which its notices are signed. Without "
        "it, they are not signed.",
    )
    notify_ca: File | None = setting(
        None, description="Authorities that receivers' certificates must come from, PEM. Default: the system's."
    )
    notify_source: str = setting(
        "/extauthz",
        pattern=r"^[!-~]{1,200}$",
        description="Who sends notices, as CloudEvents' attribute `source`: a URI reference, such as "
        "`/clusters/east/extauthz`.",
    )
    refusals: Literal["full", "terse"] = setting(
        "full",
        description="What a refused client is told. `full`: the quota and its numbers, which autoscalers show to the "
        "owner. `terse`: only that it was refused, and the decision's id. Log and events always say all. The gate "
        "refuses before the API server knows who the client is ([security.md](security.md)).",
    )
    mode: GateMode = setting(
        _POLICY.mode,
        description="`audit`: decide in full, report in log and metrics what would have been refused, and allow "
        "everything. For the first days of an installation.",
    )
    objects: Objects | None = setting(
        None,
        description="What Envoy is told about writes that may change more than a replica count: whole objects, "
        "templates, labels, owners. `webhook`: they pass, as the admission webhook of the same ledger decides them. "
        "`refuse`: 503 `not-a-count`. `observe`: they pass, and count once they are observed. Default: `webhook` with "
        "`--webhook`, else `refuse`.",
    )
    on_unreadable: OnUnknown = setting(
        _POLICY.on_unreadable,
        description="A write that may grow a workload and cannot be read. With `allow` a client can get around the "
        "quota by an odd spelling.",
    )
    on_unknown_workload: OnUnknown = setting(
        _POLICY.on_unknown_workload,
        description="A write to a workload that the gate does not know.",
    )
    on_unknown_footprint: OnUnknown = setting(
        _POLICY.on_unknown_footprint,
        description="A write to a workload whose pods have no known cost (no pod template).",
    )
    on_unspecified: OnUnknown = setting(
        _POLICY.on_unspecified,
        description="Growth of pods that do not state `requests` or `limits` of cpu or memory which a quota limits. "
        "`deny` refuses it as ResourceQuota does: `must specify requests.cpu for: c` (403). With `allow` they cost "
        "nothing.",
    )
    on_unknown_policy: OnUnknown = setting(
        _POLICY.on_unknown_policy,
        description="Growth about which a policy says nothing: it fails, is slow, or is missing.",
    )
    on_unsynced: OnUnknown = setting(
        _POLICY.on_unsynced,
        description="A write that comes before quotas and workloads are known, or during a recovery hold.",
    )
    on_stale: OnUnknown = setting(
        _POLICY.on_stale,
        description="A write that grows a workload while a source is stalled. With `allow` it is decided on what was "
        "known last.",
    )
    on_max_scale_unknown: OnUnknown = setting(
        _POLICY.on_max_scale_unknown,
        description="Growth of a workload for which the service of `max-scale` gives no answer, and gave none lately.",
    )
    policies: Policies = setting(
        (),
        description="Names of plug-ins that are asked about all growth ([policies.md](policies.md)), with commas or "
        "spaces between: the entry points of the group `extauthz.policies`. `NAME=Audit` refuses nothing and is "
        "reported.",
    )
    policy_timeout_s: float = setting(
        0.1,
        **SECONDS,
        description="How long a plug-in may take. A later answer is unknown, and who is late three times in a row is "
        "not asked for ten seconds.",
    )
    charge_surge: bool = setting(
        _POLICY.charge_surge,
        description="Reserve room for the extra pods of a rollout (`maxSurge`) of each Deployment. By default they "
        "are free, up to 25 %.",
    )
    stale_after_s: float = setting(
        150.0,
        **SECONDS,
        description="How long a watch may be silent before its source is stalled. The API server sends a bookmark "
        "about once a minute.",
    )
    window_s: float = setting(
        _POLICY.window_s,
        **SECONDS,
        description="The landing window: how long after its decision an allowed write may still land. It is the sum "
        "of the ext_authz timeout, the route timeout, the API server's request timeout and a margin for etcd.",
    )
    admitted_window_s: float | None = setting(
        None,
        **SECONDS,
        description="The same for objects and resizes, which the webhook alone decides: the API server's request "
        "timeout and a margin. Not set it is 70 s, or `window-s` where that is set.",
    )
    max_intents_per_workload: int = setting(
        _POLICY.max_intents_per_workload,
        ge=1,
        description="Pending writes of one workload at once. Identical retries count once.",
    )
    max_intents_per_source: int = setting(
        _POLICY.max_intents_per_source,
        ge=1,
        description="Pending writes of one client at once, by its TLS name or address.",
    )
    max_intents_per_tree: int = setting(
        _POLICY.max_intents_per_tree,
        ge=1,
        description="Pending writes at once under one root quota and all quotas below it.",
    )
    max_intents: int = setting(
        _POLICY.max_intents, ge=1, description="Pending writes at once in all. It bounds memory."
    )
    ledger: Literal["memory", "kubernetes"] | None = setting(
        None,
        description="Where pending writes are kept. `kubernetes`: in one WorkspaceLedger object of the cluster, for "
        "any number of gates; the default with `quotas: kubernetes` and `state: kubernetes`, and only with both. "
        "`memory`: in a single gate, for files, demos and tests.",
    )
    on_unclean_start: OnUnknown = setting(
        "deny",
        description="Growth during the recovery hold, which begins where nobody knows which writes were allowed "
        "before: with a new ledger object, and at each start on a cluster with `ledger: memory`. `allow` is right at "
        "a first installation. Else earlier writes may land on top of what is granted now.",
    )
    recount_every_s: float = setting(
        600.0,
        ge=0,
        le=86400,
        allow_inf_nan=False,
        description="How often all usage is counted from scratch, in small steps beside the work. Wrong numbers are "
        "logged and repaired. 0: never.",
    )
    record: Path | None = setting(
        None,
        description="Folder for the [record of growth](sizing.md). Without it, there is none.",
    )
    record_max_bytes: Size = setting("500Mi", description="What its files may take; the oldest go first.")
    record_max_days: float = setting(
        14.0, gt=0, le=3660, allow_inf_nan=False, description="How old its files may become."
    )
    grace_s: float = setting(10.0, **SECONDS, description="How long requests may take to finish after SIGTERM.")
    log_level: Level = setting(Level.INFO, description="`info` logs every decision, `warning` only refusals.")
    log_format: Literal["json", "text"] = setting("json", description="`json`: one object a line. `text`: for people.")
    metrics_max_quotas: int = setting(
        1000,
        ge=0,
        description="How many quotas get series of their own in /metrics. extauthz_quotas_left_out counts the rest. A "
        "scrape costs about 150 microseconds a quota.",
    )

    def __post_init__(self) -> None:
        """What must hold of several together.

        Raises:
            ValueError: with what does not, and the cure.
        """
        self._ledger_is_live()
        self._tls_pairs()
        self._webhook_has_tls()
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

    def _tls_pairs(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls-cert and tls-key go together; give both or neither")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls-client-ca needs tls-cert and tls-key")

    def _webhook_has_tls(self) -> None:
        files = [one is not None for one in (self.webhook_cert, self.webhook_key)]
        if self.webhook_self_signed and any(files):
            raise ValueError(
                "webhook-self-signed makes the certificate itself; leave webhook-cert and webhook-key out, or "
                "webhook-self-signed"
            )
        if self.webhook_client_ca is not None and self.webhook is None:
            raise ValueError("webhook-client-ca needs webhook: the address where API servers ask, such as :9443")
        if self.webhook_self_signed and self.webhook is None:
            raise ValueError("webhook-self-signed needs webhook: the address where API servers ask, such as :9443")
        if not self.webhook_self_signed and not len({self.webhook is not None, *files}) == 1:
            raise ValueError(
                "webhook, webhook-cert and webhook-key go together, as an API server asks over https only; give all "
                "three or none, or webhook with webhook-self-signed"
            )

    def _somebody_can_ask(self) -> None:
        if self.grpc == OFF and self.webhook is None:
            raise ValueError("grpc off: nobody could ask this gate; set webhook, or an address for grpc")
        if self.grpc == OFF and self.tls_cert is not None:
            raise ValueError("tls-cert is what grpc shows, and grpc is off; leave out tls-cert, tls-key, tls-client-ca")

    def _api_has_tls(self) -> None:
        given = [one is not None for one in (self.api, self.api_cert, self.api_key)]
        if any(given) and not all(given):
            raise ValueError(
                "api, api-cert and api-key go together, as tokens go over https only; give all three or none"
            )
        if self.api_client_ca is not None and self.api is None:
            raise ValueError("api-client-ca needs api, api-cert and api-key")
        if self.api_audience and self.api is None:
            raise ValueError("api-audience needs api, api-cert and api-key")

    def _source_credentials(self) -> None:
        if (self.source_cert is None) != (self.source_key is None):
            raise ValueError("source-cert and source-key go together; give both or neither")
        given = [path for path in (self.source_token_file, self.source_cert) if path is not None]
        plain = [url for url in (self.quotas, self.max_scale) if isinstance(url, str) and url.startswith("http:")]
        if given and plain:
            raise ValueError("credentials go over https only; write https:// or leave source-token-file and -cert out")

    @property
    def shares_ledger(self) -> bool:
        """Whether pending writes are kept in the cluster, for any number of gates."""
        return (self.ledger or (KUBERNETES if self.quotas == self.state == KUBERNETES else "memory")) == KUBERNETES

    @property
    def live(self) -> bool:
        """Whether a cluster is asked for anything."""
        return KUBERNETES in (self.quotas, self.state) or self.api is not None or self.webhook_self_signed


class Described(NamedTuple):
    """A setting, for those who show it."""

    annotation: object
    """Without checks of the whole value."""
    default: object
    description: str


def described() -> dict[str, Described]:
    """All settings by field name, in their order."""
    hints = get_type_hints(Settings, include_extras=True)
    kinds = {name: get_args(hint)[0] if get_origin(hint) is Annotated else hint for name, hint in hints.items()}
    return {
        one.name: Described(kinds[one.name], one.default, one.metadata["description"])
        for one in dataclasses.fields(Settings)
    }


def word(field: str) -> str:
    """A setting's name as flags and files spell it: ``tls-cert``."""
    return field.replace("_", "-")


def variable(field: str) -> str:
    """A setting's name as the environment spells it: ``EXTAUTHZ_TLS_CERT``."""
    return ENV_PREFIX + field.upper()


ADMITTED_S = 70.0
"""The API server's request timeout is 60 s, unless somebody has changed it. Then the landing window is another too."""


def policy(settings: Settings) -> Policy:
    """The part of the settings that the core decides by."""
    found = {field.name: getattr(settings, field.name) for field in dataclasses.fields(Policy)}
    by_default: Objects = "webhook" if settings.webhook is not None else "refuse"
    if settings.window_s == _POLICY.window_s and settings.admitted_window_s is None:
        found["admitted_window_s"] = ADMITTED_S
    return Policy(**found | {"objects": settings.objects or by_default})


MATTER = (
    "quotas",
    "state",
    "ledger",
    "mode",
    "grpc",
    "http",
    "tls_cert",
    "tls_key",
    "tls_client_ca",
    "window_s",
)
"""The settings that every installation should know. ``docs/settings.md`` shows them first."""


def markdown() -> str:
    """The two lists of ``docs/settings.md``: the settings that matter most, and the rest."""
    rest = [field for field in described() if field not in MATTER]
    return f"### The ten that matter\n\n{_list(MATTER)}\n### All others\n\n{_list(rest)}"


def _list(fields: Iterable[str]) -> str:
    lines = []
    known = described()
    for field in fields:
        info = known[field]
        default = "" if info.default in (None, "", ()) else f" (`{info.default}`)"
        lines.append(f"- `--{word(field)}`{default}: {info.description}")
    return "\n".join(lines) + "\n"
