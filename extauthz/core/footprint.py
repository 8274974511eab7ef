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

from extauthz.core.errors import ObjectError
from extauthz.core.model import Amounts, Tree
from extauthz.core.objects.fields import is_extended, items, mapping, read_amounts, read_quantity, text
from extauthz.core.quantities import NANO
from extauthz.core.resources import DEVICES

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_POD_LEVEL: Final = ("cpu", "memory")
_HUGEPAGES: Final = "hugepages-"
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Begins the extended resource that each DeviceClass has (``ResourceDeviceClassPrefix``)."""
_BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_NONE: Final[Mapping[str, Amounts]] = MappingProxyType({})

_Amounts: TypeAlias = dict[str, int]

UNSPECIFIED: Final[Mapping[str, str]] = MappingProxyType(
    {f"{side}.{name}": f"unspecified {side}.{name}" for side in ("limits", "requests") for name in _POD_LEVEL}
)
"""Quota keys that each container has to speak of where a quota limits them, as ResourceQuota has it (``validationSet``
in ``pkg/quota/v1/evaluator/core/pods.go``), and the keys under which pods that do not are counted."""

UNKNOWN_DEVICES: Final = "unknown devices"
"""The key under which pods are counted that claim devices of which it is not known what they are."""


UNSEEN_CLASS: Final = "unseen RuntimeClass"
"""The key under which pods are counted whose RuntimeClass was not seen: it may come, and its overhead with it."""


@dataclass(frozen=True, slots=True)
class LimitRangeDefaults:
    """What a LimitRange gives to containers that set nothing: (resource, nano-units), sorted by resource."""

    requests: tuple[tuple[str, int], ...] = ()
    limits: tuple[tuple[str, int], ...] = ()


class DeviceTerms(NamedTuple):
    """What bears on the devices that pods of one namespace take."""

    claims: Mapping[str, Tree] = MappingProxyType({})
    """ResourceClaimTemplate to what a claim made from it may take (``objects.devices``)."""
    extended: Mapping[str, str] = MappingProxyType({})
    """DeviceClass to the extended resource that its devices are too; empty: none. One that is not here was not seen."""
    for_admins: bool = False
    """Claims may have administrators' access, which takes a device from nobody."""


NO_TERMS: Final = DeviceTerms()


class _Container(NamedTuple):
    requests: _Amounts
    limits: _Amounts
    sidecar: bool = False
    name: str = ""


class _Pod(NamedTuple):
    containers: list[_Container]
    inits: list[_Container]

    def requests(self) -> _Amounts:
        inits = ((c.requests, c.sidecar) for c in self.inits)
        return _aggregate((c.requests for c in self.containers), inits)

    def limits(self) -> _Amounts:
        inits = ((c.limits, c.sidecar) for c in self.inits)
        return _aggregate((c.limits for c in self.containers), inits)


def per_pod(
    template: Tree,
    limit_ranges: Sequence[LimitRangeDefaults] = (),
    *,
    overheads: Mapping[str, Amounts] = _NONE,
    default_storage_class: str = "",
    terms: DeviceTerms = NO_TERMS,
) -> dict[str, int]:
    """Nano-units per quota key that one pod of ``{"template": …, "volumeClaimTemplates": […]}`` costs.

    ``{"claim": …}`` costs what such a volume claim does, ``{"devices": …}`` what such a claim of devices does,
    ``{"finished": …}`` what a pod leaves, ``{"resize": …}`` what it says. ``overheads`` maps a RuntimeClass to what
    ``parse_runtime_class`` said of it. Fields that cost nothing are ignored, so the tree may be
    pruned. Raises ObjectError. Limits below requests, unknown resource names and the like are not looked for: the
    API server refuses them, so that counting them takes nothing from anyone.
    """
    tree = mapping(template, "(root)")
    if "resize" in tree:
        return dict(tree["resize"])
    if "finished" in tree:
        left: _Amounts = {"count/pods": NANO}
        for claim, at, _ in _claims({}, tree["finished"], "finished"):
            _add(left, _claim(claim, at, default_storage_class))
        return left
    if "claim" in tree:
        return _claim(mapping(tree["claim"], "claim"), "claim", default_storage_class)
    if "devices" in tree:
        return _device_claim(tree, terms)
    if tree.get("template") is None:
        raise ObjectError("template", "there is no pod template", "no-template")
    path = "template.spec"
    spec = mapping(mapping(tree["template"], "template").get("spec"), path)
    result = _compute(spec, path, limit_ranges, overheads)
    result["pods"] = result["count/pods"] = NANO
    for claim, at, _ in _claims(tree, spec, path):
        _add(result, _claim(claim, at, default_storage_class))
    _add(result, _as_devices(result, terms))
    for claim in _device_claims(spec, path, terms).values():
        _add(result, claim)
    return result


def unspecified(template: Tree, limit_ranges: Sequence[LimitRangeDefaults] = ()) -> dict[str, tuple[str, ...]]:
    """Keys of ``UNSPECIFIED`` that some containers of a pod say nothing of, and the names of these; both sorted.

    A request of zero is one. What the pod itself asks for speaks for all of its containers; ResourceQuota lets such a
    pod pass whatever else it leaves out (``Constraints`` in pods.go), and would so make memory free for whoever asks
    for CPU. Raises ObjectError.
    """
    tree = mapping(template, "(root)")
    if "groups" in tree:
        return _unspecified_in(tree["groups"], limit_ranges)
    if not tree.keys().isdisjoint({"claim", "devices", "finished", "resize"}):
        return {}
    path = "template.spec"
    pod, own = _pod(mapping(mapping(tree.get("template"), "template").get("spec"), path), path, limit_ranges)
    missing: dict[str, tuple[str, ...]] = {}
    for key in sorted(UNSPECIFIED):
        side, name = key.split(".")
        if name not in getattr(own, side):
            silent = {one.name for one in (*pod.containers, *pod.inits) if name not in getattr(one, side)}
            if silent:
                missing[key] = tuple(sorted(silent))
    return missing


def _unspecified_in(groups: Iterable[Tree], limit_ranges: Sequence[LimitRangeDefaults]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for one in groups:
        for key, names in unspecified(one, limit_ranges).items():
            found.setdefault(key, set()).update(names)
    return {key: tuple(sorted(found[key])) for key in sorted(found)}


def per_claim(
    template: Tree, default_storage_class: str = "", terms: DeviceTerms = NO_TERMS
) -> dict[str, dict[str, int]]:
    """What each claim that is made for one pod costs.

    By name of the claim template; where there is none, of the ephemeral volume or, as ``of_devices`` has it, of the
    claim of devices. Raises ObjectError.
    """
    tree = mapping(template, "(root)")
    path = "template.spec"
    spec = tree.get("finished") or mapping(mapping(tree.get("template"), "template").get("spec"), path)
    spec = {} if tree.get("volumeClaimTemplates") else spec
    found = {name: _claim(claim, at, default_storage_class) for claim, at, name in _claims(tree, spec, path)}
    extended = _extended(spec, path, terms)
    return found | _device_claims(spec, path, terms) | ({of_devices(""): extended} if extended else {})


def of_devices(name: str) -> str:
    """How ``per_claim`` names a claim of devices of a pod; no volume has such a name. The empty one is that which the
    scheduler makes for extended resources."""
    return f"resourceClaims/{name}"


def parse_limit_range(tree: Tree) -> LimitRangeDefaults:
    """The container defaults of a LimitRange object, defaulted themselves (``SetDefaults_LimitRangeItem``).

    Raises ObjectError for what the API server cannot have stored. It does store negative defaults, and then
    refuses the pods that get them: those are zero here, since ``_raise_to`` starts there.
    """
    requests: _Amounts = {}
    limits: _Amounts = {}
    spec = mapping(mapping(tree, "(root)").get("spec"), "spec")
    for item, path in items(spec.get("limits"), "spec.limits"):
        if item.get("type") == "Container":
            default = _defaults(item, path, "max") | _defaults(item, path, "default")
            _raise_to(limits, default)
            request = _defaults(item, path, "min") | default | _defaults(item, path, "defaultRequest")
            _raise_to(requests, request)
    return LimitRangeDefaults(tuple(sorted(requests.items())), tuple(sorted(limits.items())))


def _defaults(item: Mapping[str, Tree], path: str, field: str) -> _Amounts:
    at = f"{path}.{field}"
    return {name: read_quantity(value, f"{at}[{name}]") for name, value in mapping(item.get(field), at).items()}


def parse_runtime_class(tree: Tree) -> dict[str, int]:
    """The overhead in nano-units that a RuntimeClass adds to each of its pods. Raises ObjectError."""
    overhead = mapping(mapping(tree, "(root)").get("overhead"), "overhead")
    return read_amounts(overhead.get("podFixed"), "overhead.podFixed")


def _compute(
    spec: Mapping[str, Tree],
    path: str,
    limit_ranges: Sequence[LimitRangeDefaults],
    overheads: Mapping[str, Amounts],
) -> _Amounts:
    pod, own = _pod(spec, path, limit_ranges)
    requests = pod.requests() | own.requests
    limits = pod.limits() | own.limits
    overhead = _overhead(spec, path, overheads)
    _add(requests, overhead)
    _add(limits, {name: amount for name, amount in overhead.items() if limits.get(name)})
    result = {f"requests.{name}": amount for name, amount in requests.items() if _is_counted(name)}
    name = text(spec.get("runtimeClassName"), f"{path}.runtimeClassName")
    if name and name not in overheads and not overhead:
        result[UNSEEN_CLASS] = NANO
    return result | {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}


def _pod(spec: Mapping[str, Tree], path: str, limit_ranges: Sequence[LimitRangeDefaults]) -> tuple[_Pod, _Container]:
    """Its containers, and what it asks for itself, both defaulted."""
    pod = _Pod(
        [_container(item, at) for item, at in items(spec.get("containers"), f"{path}.containers")],
        [_container(item, at) for item, at in items(spec.get("initContainers"), f"{path}.initContainers")],
    )
    own = _pod_level(spec, path, pod)  # API defaulting comes before admission, so before LimitRanger
    return _with_limit_ranges(pod, limit_ranges), own


def _container(item: Mapping[str, Tree], path: str) -> _Container:
    requests, limits = _requirements(item, path)
    sidecar = text(item.get("restartPolicy"), f"{path}.restartPolicy") == "Always"
    return _Container(limits | requests, limits, sidecar, text(item.get("name"), f"{path}.name"))


def _requirements(item: Mapping[str, Tree], path: str) -> tuple[_Amounts, _Amounts]:
    resources = mapping(item.get("resources"), f"{path}.resources")
    return (
        read_amounts(resources.get("requests"), f"{path}.resources.requests"),
        read_amounts(resources.get("limits"), f"{path}.resources.limits"),
    )


def _aggregate(containers: Iterable[_Amounts], inits: Iterable[tuple[_Amounts, bool]]) -> _Amounts:
    """The larger of two: containers and sidecars summed, or an init container with the sidecars before it."""
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
    """Without what ``IsSupportedPodLevelResource`` leaves out."""
    return {k: amount for k, amount in amounts.items() if k in _POD_LEVEL or k.startswith(_HUGEPAGES)}


def _with_limit_ranges(pod: _Pod, limit_ranges: Sequence[LimitRangeDefaults]) -> _Pod:
    """Several LimitRanges apply in any order, and the first one wins. So take the highest."""
    if not limit_ranges:
        return pod
    requests: _Amounts = {}
    limits: _Amounts = {}
    for defaults in limit_ranges:
        _raise_to(requests, dict(defaults.requests))
        _raise_to(limits, dict(defaults.limits))

    def fill(containers: list[_Container]) -> list[_Container]:
        return [_Container(requests | c.requests, limits | c.limits, c.sidecar, c.name) for c in containers]

    return _Pod(fill(pod.containers), fill(pod.inits))


def _overhead(spec: Mapping[str, Tree], path: str, overheads: Mapping[str, Amounts]) -> Amounts:
    """The pod's own overhead, else its RuntimeClass's. Admission refuses a pod whose own overhead differs."""
    own = read_amounts(spec.get("overhead"), f"{path}.overhead")
    return own or overheads.get(text(spec.get("runtimeClassName"), f"{path}.runtimeClassName"), {})


def _is_counted(name: str) -> bool:
    """Whether ResourceQuota counts requests of it (``podComputeUsageHelper``)."""
    return name in _COMPUTE or name.startswith((_HUGEPAGES, _DEVICE_CLASS)) or is_extended(name)


def _claims(
    tree: Mapping[str, Tree], spec: Mapping[str, Tree], path: str
) -> Iterator[tuple[Mapping[str, Tree], str, str]]:
    """Claims made for each pod, with path and name: of a StatefulSet's ordinals, and of generic ephemeral volumes
    (KEP-1698)."""
    for claim, at in items(tree.get("volumeClaimTemplates"), "volumeClaimTemplates"):
        name = mapping(claim.get("metadata"), f"{at}.metadata").get("name")
        yield claim, at, text(name, f"{at}.metadata.name")
    for volume, outer in items(spec.get("volumes"), f"{path}.volumes"):
        at = f"{outer}.ephemeral"
        made = mapping(volume.get("ephemeral"), at).get("volumeClaimTemplate")
        if made is not None:
            at = f"{at}.volumeClaimTemplate"
            yield mapping(made, at), at, text(volume.get("name"), f"{outer}.name")


def _claim(claim: Mapping[str, Tree], path: str, default_class: str) -> _Amounts:
    """What ``pkg/quota/v1/evaluator/core/persistent_volume_claims.go`` charges; storage in whole bytes."""
    requests, _ = _requirements(mapping(claim.get("spec"), f"{path}.spec"), f"{path}.spec")
    cost = {"persistentvolumeclaims": NANO}
    held = read_amounts(claim.get("allocated"), f"{path}.allocated")
    if "storage" in requests:
        cost["requests.storage"] = -(-max(requests["storage"], held.get("storage", 0)) // NANO) * NANO
    storage_class = _storage_class(claim, path, default_class)
    prefix = f"{storage_class}.storageclass.storage.k8s.io/"
    by_class = {f"{prefix}{name}": amount for name, amount in cost.items()}
    return cost | {"count/persistentvolumeclaims": NANO} | (by_class if storage_class else {})


# Devices.


def _device_claims(spec: Mapping[str, Tree], path: str, terms: DeviceTerms) -> dict[str, _Amounts]:
    """What the claims cost that are made for each pod. One that is there already counts by itself, once."""
    made = _made_for_pods(spec, path)
    return {of_devices(name): _device_claim(terms.claims.get(template, _UNSEEN), terms) for name, template in made}


def _made_for_pods(spec: Mapping[str, Tree], path: str) -> Iterator[tuple[str, str]]:
    """The name of each claim that is made for a pod, and the ResourceClaimTemplate that it is made from."""
    for claim, at in items(spec.get("resourceClaims"), f"{path}.resourceClaims"):
        if template := text(claim.get("resourceClaimTemplateName"), f"{at}.resourceClaimTemplateName"):
            yield text(claim.get("name"), f"{at}.name"), template


_UNSEEN: Final[Tree] = {"devices": {}, "unknown": True}


def unknown_devices(template: Tree, terms: DeviceTerms) -> list[str]:
    """The ResourceClaimTemplates of a pod of which it is not known what devices they take. Raises ObjectError."""
    path, tree = "template.spec", mapping(template, "(root)")
    if "groups" in tree:
        return [name for one in tree["groups"] for name in unknown_devices(one, terms)]
    spec = mapping(mapping(tree.get("template"), "template").get("spec"), path)
    made = {template: terms.claims.get(template, _UNSEEN) for _, template in _made_for_pods(spec, path)}
    return [template for template, claim in made.items() if UNKNOWN_DEVICES in _device_claim(claim, terms)]


def _device_claim(claim: Mapping[str, Tree], terms: DeviceTerms) -> _Amounts:
    """What such a claim of devices costs (``Usage`` in resource_claims.go)."""
    cost: _Amounts = {UNKNOWN_DEVICES: NANO} if claim.get("unknown") else {}
    for kind in ("devices",) if terms.for_admins else ("devices", "admin"):
        for device_class, count in claim.get(kind, {}).items():
            _add(cost, dict.fromkeys(_keys(device_class, terms), count * NANO))
            if device_class not in terms.extended:
                cost[UNKNOWN_DEVICES] = NANO
    return cost


def _keys(device_class: str, terms: DeviceTerms) -> list[str]:
    """Under which keys devices of a class count (``addExtendedResourceQuota`` in resource_claims.go, KEP-5004)."""
    name = terms.extended.get(device_class)
    extended = [f"requests.{name}", f"requests.{_DEVICE_CLASS}{device_class}"] if name else []
    return [f"{device_class}{DEVICES}", *extended]


def _as_devices(requests: Mapping[str, int], terms: DeviceTerms) -> _Amounts:
    """What a pod that requests extended resources costs besides, where these are devices of a class (KEP-5004)."""
    more: _Amounts = {}
    prefix = f"requests.{_DEVICE_CLASS}"
    named = {key.removeprefix(prefix) for key in requests if key.startswith(prefix)}
    if not named <= terms.extended.keys():
        more[UNKNOWN_DEVICES] = NANO
    for device_class in sorted({*named, *terms.extended}):
        keys = _keys(device_class, terms)
        asked = {key: requests.get(key, 0) for key in {f"{prefix}{device_class}", *keys[1:2]}}
        total = sum(asked.values())
        _add(more, {key: above for key in keys if (above := total - asked.get(key, 0))})
    return more


def _extended(spec: Mapping[str, Tree], path: str, terms: DeviceTerms) -> _Amounts:
    """What a pod requests of extended resources, as devices too."""
    pod, _ = _pod(spec, path, ())
    requests = {f"requests.{name}": amount for name, amount in pod.requests().items() if is_extended(name)}
    _add(requests, _as_devices(requests, terms))
    return requests


def _storage_class(claim: Mapping[str, Tree], path: str, default_class: str) -> str:
    """The annotation goes first (``GetPersistentVolumeClaimClass``); an empty name asks for no class."""
    at = f"{path}.metadata.annotations"
    annotations = mapping(mapping(claim.get("metadata"), f"{path}.metadata").get("annotations"), at)
    name = annotations.get(_BETA_STORAGE_CLASS)
    if name is None:
        name = mapping(claim.get("spec"), f"{path}.spec").get("storageClassName")
    return default_class if name is None else text(name, f"{path}.spec.storageClassName")


def _add(total: _Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(highest: _Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        highest[name] = max(highest.get(name, 0), amount)
