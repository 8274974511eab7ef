"""Pod template → what one pod of it costs, per quota key, by the scheduler's and ResourceQuota's formula.

The formula is ``PodRequests`` and ``PodLimits`` of ``k8s.io/component-helpers/resource/helpers.go`` (KEP-753
sidecars, KEP-2837 pod-level resources), on a pod defaulted as the API server does it
(``pkg/apis/core/v1/defaults.go``) and as the admission plugins LimitRanger, RuntimeClass and
DefaultStorageClass do. Pod-level resources are on by default since Kubernetes 1.34.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from extauthz.core import quantities
from extauthz.core.model import Amounts, Tree
from extauthz.core.quantities import NANO

MAX_ITEMS: Final = 1_000
"""Longest list of containers, volumes, claims or resources. The API server bounds only the body."""

_MILLI: Final = NANO // 1000
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_POD_LEVEL: Final = ("cpu", "memory")
_HUGEPAGES: Final = "hugepages-"
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_NONE: Final[Mapping[str, Amounts]] = MappingProxyType({})

_Amounts: TypeAlias = dict[str, int]


class FootprintError(ValueError):
    """A template that the API server would refuse, or an absurdly large one.

    ``code`` is stable: ``bad-quantity``, ``negative-quantity``, ``fractional-quantity``, ``wrong-type``,
    ``too-many``, ``no-template``.
    """

    def __init__(self, code: str, path: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.code = code
        self.path = path
        self.detail = detail


@dataclass(frozen=True, slots=True)
class LimitRangeDefaults:
    """What a LimitRange gives to containers that say nothing: (resource, nano-units), sorted by resource."""

    requests: tuple[tuple[str, int], ...] = ()
    limits: tuple[tuple[str, int], ...] = ()


class _Container(NamedTuple):
    requests: _Amounts
    limits: _Amounts
    sidecar: bool = False


class _Pod(NamedTuple):
    containers: list[_Container]
    inits: list[_Container]

    def requests(self) -> _Amounts:
        return _aggregate(
            (c.requests for c in self.containers), ((c.requests, c.sidecar) for c in self.inits)
        )

    def limits(self) -> _Amounts:
        return _aggregate((c.limits for c in self.containers), ((c.limits, c.sidecar) for c in self.inits))


def per_pod(
    template: Tree,
    limit_ranges: Sequence[LimitRangeDefaults] = (),
    *,
    overheads: Mapping[str, Amounts] = _NONE,
    default_storage_class: str = "",
) -> dict[str, int]:
    """Nano-units per quota key that one pod of ``{"template": …, "volumeClaimTemplates": […]}`` costs.

    ``overheads`` maps a RuntimeClass to what ``parse_runtime_class`` said of it. Fields that cost nothing are
    ignored, so the tree may be pruned. Raises FootprintError. Limits below requests, unknown resource names
    and the like are not looked for: the API server refuses them, so that counting them takes nothing from
    anyone.
    """
    tree = _mapping(template, "")
    if tree.get("template") is None:
        raise FootprintError("no-template", "template", "there is no pod template")
    path = "template.spec"
    spec = _mapping(_mapping(tree["template"], "template").get("spec"), path)
    result = _compute(spec, path, limit_ranges, overheads)
    result["pods"] = result["count/pods"] = NANO
    for claim, at in _claims(tree, spec, path):
        _add(result, _claim(claim, at, default_storage_class))
    return result


def parse_limit_range(tree: Tree) -> LimitRangeDefaults:
    """The container defaults of a LimitRange object, defaulted themselves as the API server does
    (``SetDefaults_LimitRangeItem``). Raises FootprintError."""
    requests: _Amounts = {}
    limits: _Amounts = {}
    spec = _mapping(_mapping(tree, "").get("spec"), "spec")
    for item, path in _items(spec.get("limits"), "spec.limits"):
        if item.get("type") != "Container":
            continue
        given = {
            key: _amounts(item.get(key), f"{path}.{key}")
            for key in ("max", "min", "default", "defaultRequest")
        }
        default = given["max"] | given["default"]
        _raise_to(limits, default)
        _raise_to(requests, given["min"] | default | given["defaultRequest"])
    return LimitRangeDefaults(tuple(sorted(requests.items())), tuple(sorted(limits.items())))


def parse_runtime_class(tree: Tree) -> dict[str, int]:
    """The overhead in nano-units that a RuntimeClass adds to each of its pods. Raises FootprintError."""
    overhead = _mapping(_mapping(tree, "").get("overhead"), "overhead")
    return _amounts(overhead.get("podFixed"), "overhead.podFixed")


def _compute(
    spec: Mapping[str, Tree],
    path: str,
    limit_ranges: Sequence[LimitRangeDefaults],
    overheads: Mapping[str, Amounts],
) -> _Amounts:
    pod = _Pod(
        [_container(item, at) for item, at in _items(spec.get("containers"), f"{path}.containers")],
        [_container(item, at) for item, at in _items(spec.get("initContainers"), f"{path}.initContainers")],
    )
    own = _pod_level(spec, path, pod)  # API defaulting comes before admission, so before LimitRanger
    pod = _with_limit_ranges(pod, limit_ranges)
    requests = pod.requests() | own.requests
    limits = pod.limits() | own.limits
    overhead = _overhead(spec, path, overheads)
    _add(requests, overhead)
    _add(limits, {name: amount for name, amount in overhead.items() if limits.get(name)})
    result = {f"requests.{name}": amount for name, amount in requests.items() if _is_counted(name)}
    return result | {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}


def _container(item: Mapping[str, Tree], path: str) -> _Container:
    requests, limits = _requirements(item, path)
    policy = item.get("restartPolicy")
    if not isinstance(policy, str | None):
        raise _wrong_type(f"{path}.restartPolicy", "text", policy)
    return _Container(limits | requests, limits, policy == "Always")


def _requirements(item: Mapping[str, Tree], path: str) -> tuple[_Amounts, _Amounts]:
    resources = _mapping(item.get("resources"), f"{path}.resources")
    return (
        _amounts(resources.get("requests"), f"{path}.resources.requests"),
        _amounts(resources.get("limits"), f"{path}.resources.limits"),
    )


def _aggregate(containers: Iterable[_Amounts], inits: Iterable[tuple[_Amounts, bool]]) -> _Amounts:
    """The larger of containers and sidecars summed, and an init container beside the sidecars before it."""
    total: _Amounts = {}
    for amounts in containers:
        _add(total, amounts)
    started: _Amounts = {}
    peak: _Amounts = {}
    for amounts, sidecar in inits:
        use = {name: started.get(name, 0) + amount for name, amount in amounts.items()}
        _raise_to(peak, use)
        if sidecar:
            started |= use
            _add(total, amounts)
    _raise_to(total, peak)
    return total


def _pod_level(spec: Mapping[str, Tree], path: str, pod: _Pod) -> _Container:
    """Pod-level resources after ``defaultHugePagePodLimits`` and ``defaultPodRequests``, in this order."""
    requests, limits = _requirements(spec, path)
    if requests or limits:
        huge = {name: amount for name, amount in pod.limits().items() if name.startswith(_HUGEPAGES)}
        limits = {name: amount for name, amount in huge.items() if name not in requests} | limits
    if limits:
        summed = {name: amount for name, amount in pod.requests().items() if name in _POD_LEVEL}
        requests = limits | summed | requests
    return _Container(_pod_level_only(requests), _pod_level_only(limits))


def _pod_level_only(amounts: _Amounts) -> _Amounts:
    return {
        name: amount for name, amount in amounts.items() if name in _POD_LEVEL or name.startswith(_HUGEPAGES)
    }


def _with_limit_ranges(pod: _Pod, limit_ranges: Sequence[LimitRangeDefaults]) -> _Pod:
    """LimitRanger goes through several LimitRanges in any order and the first wins: so take the highest."""
    if not limit_ranges:
        return pod
    requests: _Amounts = {}
    limits: _Amounts = {}
    for defaults in limit_ranges:
        _raise_to(requests, dict(defaults.requests))
        _raise_to(limits, dict(defaults.limits))

    def fill(containers: list[_Container]) -> list[_Container]:
        return [_Container(requests | c.requests, limits | c.limits, c.sidecar) for c in containers]

    return _Pod(fill(pod.containers), fill(pod.inits))


def _overhead(spec: Mapping[str, Tree], path: str, overheads: Mapping[str, Amounts]) -> Amounts:
    """The pod's own, else its RuntimeClass's: admission refuses a pod where both are given and differ."""
    own = _amounts(spec.get("overhead"), f"{path}.overhead")
    name = spec.get("runtimeClassName")
    if not isinstance(name, str | None):
        raise _wrong_type(f"{path}.runtimeClassName", "text", name)
    return own or overheads.get(name or "", {})


def _is_counted(name: str) -> bool:
    """Whether ResourceQuota counts requests of it (``podComputeUsageHelper``)."""
    return name in _COMPUTE or name.startswith((_HUGEPAGES, _DEVICE_CLASS)) or _is_extended(name)


def _is_extended(name: str) -> bool:
    """``IsExtendedResourceName`` of ``pkg/apis/core/v1/helper``: qualified, and not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _claims(
    tree: Mapping[str, Tree], spec: Mapping[str, Tree], path: str
) -> Iterator[tuple[Mapping[str, Tree], str]]:
    """Claims made for each pod: of a StatefulSet's ordinals, and of generic ephemeral volumes (KEP-1698)."""
    yield from _items(tree.get("volumeClaimTemplates"), "volumeClaimTemplates")
    for volume, at in _items(spec.get("volumes"), f"{path}.volumes"):
        at = f"{at}.ephemeral"
        claim = _mapping(volume.get("ephemeral"), at).get("volumeClaimTemplate")
        if claim is not None:
            yield _mapping(claim, f"{at}.volumeClaimTemplate"), f"{at}.volumeClaimTemplate"


def _claim(claim: Mapping[str, Tree], path: str, default_class: str) -> _Amounts:
    """What ``pkg/quota/v1/evaluator/core/persistent_volume_claims.go`` charges; storage in whole bytes."""
    requests, _ = _requirements(_mapping(claim.get("spec"), f"{path}.spec"), f"{path}.spec")
    storage = -(-requests.get("storage", 0) // NANO) * NANO
    result = {
        "persistentvolumeclaims": NANO,
        "count/persistentvolumeclaims": NANO,
        "requests.storage": storage,
    }
    storage_class = _storage_class(claim, path, default_class)
    if storage_class:
        prefix = f"{storage_class}.storageclass.storage.k8s.io/"
        result |= {f"{prefix}persistentvolumeclaims": NANO, f"{prefix}requests.storage": storage}
    return result


def _storage_class(claim: Mapping[str, Tree], path: str, default_class: str) -> str:
    """The annotation goes first (``GetPersistentVolumeClaimClass``); an empty name asks for no class."""
    metadata = _mapping(claim.get("metadata"), f"{path}.metadata")
    annotations = _mapping(metadata.get("annotations"), f"{path}.metadata.annotations")
    name = annotations.get(_BETA_STORAGE_CLASS)
    if name is None:
        name = _mapping(claim.get("spec"), f"{path}.spec").get("storageClassName")
    if not isinstance(name, str | None):
        raise _wrong_type(f"{path}.spec.storageClassName", "text", name)
    return default_class if name is None else name


def _amounts(tree: Tree, path: str) -> _Amounts:
    """A ResourceList, each entry rounded up to a thousandth as ``SetDefaults_ResourceList`` does."""
    listed = _mapping(tree, path)
    if len(listed) > MAX_ITEMS:
        raise FootprintError("too-many", path, f"more than {MAX_ITEMS} resources")
    return {name: _amount(name, value, f"{path}[{name}]") for name, value in listed.items()}


def _amount(name: str, value: Tree, path: str) -> int:
    if value is None:
        return 0  # Quantity.UnmarshalJSON: null is a zero that was given
    try:
        nanos = quantities.parse(value)
    except quantities.QuantityError as error:
        raise FootprintError("bad-quantity", path, str(error)) from error
    if nanos < 0:
        raise FootprintError("negative-quantity", path, f"{value!r} is below zero")
    nanos = -(-nanos // _MILLI) * _MILLI
    if nanos % NANO and _is_extended(name):
        raise FootprintError("fractional-quantity", path, f"{value!r} is not a whole number")
    return nanos


def _items(tree: Tree, path: str) -> Iterator[tuple[Mapping[str, Tree], str]]:
    if tree is None:
        return
    if not isinstance(tree, list | tuple):
        raise _wrong_type(path, "a list", tree)
    if len(tree) > MAX_ITEMS:
        raise FootprintError("too-many", path, f"more than {MAX_ITEMS} entries")
    for index, item in enumerate(tree):
        yield _mapping(item, f"{path}[{index}]"), f"{path}[{index}]"


def _mapping(tree: Tree, path: str) -> Mapping[str, Tree]:
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise _wrong_type(path, "an object", tree)
    return tree


def _wrong_type(path: str, wanted: str, found: Tree) -> FootprintError:
    return FootprintError("wrong-type", path or "(root)", f"must be {wanted}, not {type(found).__name__}")


def _add(total: _Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(highest: _Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        highest[name] = max(highest.get(name, 0), amount)
