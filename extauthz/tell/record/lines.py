"""The lines of a record, as they are written and as they are read (docs/internals/record.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

from msgspec import Raw, Struct, ValidationError, field
from msgspec.json import Decoder, Encoder

from extauthz.core import quantities
from extauthz.core.ledger.accounts import Shared
from extauthz.core.model import Amounts, Labels, WorkloadRef
from extauthz.core.objects.fields import labels_dict
from extauthz.core.quota.amounts import spelled

SCHEMA: Final = 1


class Costs(Shared):
    """Amounts, nano-units by key. In a line they are Kubernetes quantities."""

    __slots__ = ()


class LabelText(str):
    """Labels as the core has them: ``a=1,b=2``. In a line they are an object."""

    __slots__ = ()


NO_COSTS: Final = Costs()
NO_LABELS: Final = LabelText()


class Line(Struct, tag_field="k", omit_defaults=True):
    """One line. ``at_s``: when, in seconds since 1970."""

    at_s: float = field(name="t")


class Start(Line, tag="start", kw_only=True):
    """A file begins."""

    schema: int
    gate: str
    version: str = ""
    run: str = ""
    """Of one process."""
    settings: dict[str, Any]
    """Those that decide."""
    state: int
    """How many lines follow that are the whole state."""


class Quota(Line, tag="quota", kw_only=True):
    """A quota is in force."""

    name: str = field(name="quota")
    spec: Any
    is_illegible: bool = field(default=False, name="illegible")


class Labelled(Line, tag="ns", kw_only=True):
    """A namespace has these labels."""

    name: str = field(name="ns")
    labels: dict[str, str]


class Load(Line, tag="load", kw_only=True):
    """What a workload costs now."""

    workload: str
    replicas: int
    most: int = 0
    """The highest count that may still land, where that is higher."""
    pod: Costs
    """What each replica costs."""
    beside: Costs = NO_COSTS
    """What it costs besides."""
    covers: Costs = NO_COSTS
    """The part of ``beside`` that the next replicas take up."""
    may: Costs = NO_COSTS
    """What each replica may come to cost by objects that may still land; empty: no more than ``pod``."""
    labels: LabelText = NO_LABELS
    version: str = ""
    """The resourceVersion."""
    is_unknown: bool = field(default=False, name="unknown")
    """Its cost is not known."""

    @property
    def ref(self) -> WorkloadRef:
        return ref_of(self.workload)


class Gone(Line, tag="gone", kw_only=True):
    """One of these is gone."""

    workload: str = ""
    quota: str = ""
    namespace: str = field(default="", name="ns")


class Ask(Line, tag="ask"):
    """A decided write, with all equal retries if it was refused."""

    id: str
    workload: str
    verdict: str
    reason: str
    operation: str = ""
    before: int | None = field(default=None, name="from")
    to: int | None = None
    asker: str = ""
    """``NAMESPACE/NAME`` of the service account that asked; empty: somebody else, or not known."""
    pod: Costs | None = None
    """Of a template that it brings; ``None``: it brings none, or its cost is not known."""
    labels: LabelText | None = None
    """Of an object that it brings; ``None``: it brings a count alone."""
    by: tuple[str, ...] = ()
    """Paths of the quotas that refused it, or would have."""
    would: str | None = None
    """What a gate in mode audit would have answered."""
    n: int = 1
    last_s: float = field(default=0.0, name="last")
    """When the last of ``n`` was asked; 0: it is the only one."""

    @property
    def ref(self) -> WorkloadRef:
        return ref_of(self.workload)

    @property
    def is_allowed(self) -> bool:
        return self.verdict == "allow"

    @property
    def would_refuse(self) -> bool:
        """A gate in mode audit allows it and would have refused it."""
        return self.would not in (None, "allow")

    @property
    def ends_s(self) -> float:
        """When it was asked last."""
        return self.last_s or self.at_s


class Gap(Line, tag="gap", kw_only=True):
    """Between two times it is not known what happened. Its line comes at the end of it."""

    from_s: float = field(name="from")
    until_s: float = field(name="to")
    lost: int = 0


AnyLine: TypeAlias = Start | Quota | Labelled | Load | Gone | Ask | Gap


@cache
def ref_of(text: str) -> WorkloadRef:
    """The workload of ``deployments.apps/shop/web``.

    Raises:
        ValueError: it names none.
    """
    resource, namespace, name = text.split("/", 2)
    plural, _, group = resource.partition(".")
    return WorkloadRef(group, plural, namespace, name)


@lru_cache(1 << 17)
def text_of(ref: WorkloadRef) -> str:
    """What ``ref_of`` reads."""
    return f"{ref.group_resource}/{ref.namespace}/{ref.name}"


@cache
def _costs(items: tuple[tuple[str, str], ...]) -> Costs:
    """Equal ones are one object."""
    return Costs({key: quantities.parse(amount) for key, amount in items})


@cache
def _labels(items: tuple[tuple[str, str], ...]) -> LabelText:
    return LabelText(",".join(f"{name}={value}" for name, value in sorted(items)))


def _of_json(kind: type, given: Any) -> Costs | LabelText:  # noqa: ANN401 (JSON)
    items = tuple(dict(given).items())
    return _costs(items) if kind is Costs else _labels(items)


def read(text: bytes) -> AnyLine | None:
    """A line; ``None``: it is of a kind of a later release.

    Raises:
        ValueError: it does not belong to a record.
    """
    try:
        return _decode(text)
    except ValidationError as error:
        if error.args[0].endswith(" - at `$.k`"):
            return None
        raise


_decode: Final[Callable[[bytes], AnyLine]] = Decoder(AnyLine, dec_hook=_of_json).decode
encode = Encoder().encode
encode_lines = Encoder().encode_lines


def costs_text(given: Amounts) -> Any:  # noqa: ANN401 (what msgspec writes in the place of Costs)
    """Amounts for a line. What only the gate itself counts has a space in its key."""
    if not given:
        return NO_COSTS
    return _shared_text(given) if isinstance(given, Shared) else _text(given)


@lru_cache(65_536)
def _shared_text(given: Shared) -> Raw:
    return _text(given)


def _text(given: Amounts) -> Raw:
    return Raw(encode(spelled({key: one for key, one in given.items() if " " not in key})))


def label_text(labels: Labels) -> Any:  # noqa: ANN401 (what msgspec writes in the place of LabelText)
    """Labels for a line."""
    return labels_dict(labels)
