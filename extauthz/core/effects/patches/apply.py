"""Server-side apply (KEP-555), bounded from above: the gate does not keep ``metadata.managedFields``.

A field that the configuration sets has its value. A field that it leaves out stays where another manager owns it,
and goes where this one did; then defaulting may give it a higher value: requests that go become the limits, requests
and limits that go become a LimitRange's. So several templates are given, and for each resource the highest of their
footprints is at least that of whatever the server makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, product
from math import prod
from typing import Final, NamedTuple, NoReturn, TypeAlias

from extauthz.core import quantities
from extauthz.core.budget import CHOICE, LEFT_OUT, OPEN, Work
from extauthz.core.errors import PatchError
from extauthz.core.model import Tree

MAX_TEMPLATES: Final = 256
"""The most results that one configuration may have. Ten containers with two resources have up to 41."""

_PLACE: Final = "the templates that the configuration may leave"
_CURE: Final = "set the containers' resources in the configuration"

_CONTAINERS: Final = ("containers", "initContainers")
_LEFT_OUT_IF_EMPTY: Final = frozenset({"requests", "limits", "resources"})
_KINDS: Final = ("requests", "limits")
_Map: TypeAlias = dict[str, Tree]
_Path: TypeAlias = tuple[str | int, ...]
_Removal: TypeAlias = tuple[_Path, ...]


class _Open(NamedTuple):
    """A resource of a container whose request or limit, or both, the configuration leaves out."""

    container: tuple[str, int]
    resource: str
    kinds: tuple[str, ...]
    request: int
    """The most that is requested while one of both stays, in nano-units."""
    limit: int

    @property
    def paths(self) -> _Removal:
        return tuple((*self.container, "resources", kind, self.resource) for kind in self.kinds)


def templates(live: _Map, applied: _Map, work: Work) -> list[_Map]:
    """Pruned trees that bound what remains after the pruned ``applied`` is applied to the pruned ``live``. Both
    arguments are changed.

    Both are used up. Raises MeaningError where there are too many, or where a quantity cannot be read.
    """
    pod = applied["template"]["spec"]
    listed = sum(_size(tree["template"]["spec"]) for tree in (live, applied))
    work.spend(OPEN * listed, _PLACE, "send the whole object by PUT")
    merged = _merged(live["template"]["spec"], pod)
    fields = list(_open_fields(merged, pod, work))
    _raise_requests(merged, fields)
    choices = [
        _removals(fields, work),
        _pod_level(merged, pod),
        _overhead(merged, pod),
        _storage_classes(merged, pod),
    ]
    if prod(map(len, choices)) > MAX_TEMPLATES:
        _too_ambiguous()
    work.spend(CHOICE * prod(map(len, choices)) * (_size(merged) + 1), _PLACE, _CURE)
    claims = applied.get("volumeClaimTemplates") or live.get("volumeClaimTemplates")
    rest = {"volumeClaimTemplates": claims} if claims else {}
    pods = (_without(merged, chain.from_iterable(choice)) for choice in product(*choices))
    return [{"template": {"spec": pod}} | rest | start for pod in pods for start in _starts(live, applied)]


def _starts(live: _Map, applied: _Map) -> list[_Map]:
    """The first ordinal of a StatefulSet: the given one. If none is given, the old one stays or goes."""
    given = [{"ordinals": tree["ordinals"]} for tree in (applied, live) if "ordinals" in tree]
    return given[:1] if "ordinals" in applied else [*given, {}]


def _merged(live: Tree, applied: Tree) -> Tree:
    """The result if everything that is left out stays. A pod's lists are maps by name (``+listMapKey=name``)."""
    if isinstance(live, list) and isinstance(applied, list):
        return _merged_list(live, applied)
    if not isinstance(live, dict) or not isinstance(applied, dict):
        return applied
    return live | {key: _merged(live.get(key), value) for key, value in applied.items()}


def _merged_list(live: list[_Map], applied: list[_Map]) -> list[_Map]:
    known = {item["name"]: item for item in live}
    named = {item["name"] for item in applied}
    own = [_merged(known.get(item["name"]), item) for item in applied]
    rest = [item for item in live if item["name"] not in named]
    # Sidecars that start first weigh on every init container: the most that any order of both can come to.
    return sorted(own + rest, key=lambda item: item.get("restartPolicy") != "Always") if rest else own


def _open_fields(merged: _Map, applied: _Map, work: Work) -> Iterator[_Open]:
    for key in _CONTAINERS:
        given = {item["name"]: item.get("resources", {}) for item in applied.get(key, [])}
        for index, item in enumerate(merged.get(key, [])):
            for field in _open_of(item, given.get(item["name"], {}), (key, index)):
                work.spend(LEFT_OUT, _PLACE, _CURE)
                yield field


def _open_of(container: _Map, given: Mapping[str, _Map], at: tuple[str, int]) -> Iterator[_Open]:
    resources = container.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name in requests | limits:
        kinds = tuple(kind for kind in _KINDS if name in resources.get(kind, {}) and name not in given.get(kind, {}))
        if kinds:
            limit = _nanos(limits.get(name, "0"))
            yield _Open(at, name, kinds, max(_nanos(requests.get(name, "0")), limit), limit)


def _raise_requests(merged: _Map, fields: list[_Open]) -> None:
    """If a request goes, the limit takes its place, if there is one (``SetDefaults_Pod``)."""
    for field in fields:
        key, index = field.container
        resources = merged[key][index]["resources"]
        if "requests" in field.kinds and field.request == field.limit and "limits" in resources:
            resources["requests"][field.resource] = resources["limits"].get(field.resource, "0")


def _removals(fields: list[_Open], work: Work) -> list[_Removal]:
    """Which fields go, so that a LimitRange's default, which is not known here, takes their place.

    The default is the same for every container, and takes the place of what is lower: so for each resource it is
    enough to look at the lowest one gone, the two lowest, and so on.
    """
    by_resource: dict[str, list[_Open]] = {}
    for field in fields:
        by_resource.setdefault(field.resource, []).append(field)
    result = {frozenset[tuple[str, int]](): ()}
    for own in by_resource.values():
        for ranked in (sorted(own, key=lambda field: field.request), sorted(own, key=lambda field: field.limit)):
            gone = [field.container for field in ranked]
            for count in range(1, len(ranked) + 1):
                work.spend(1 + count // 2, _PLACE, _CURE)
                result.setdefault(frozenset(gone[:count]), ())
                if len(result) > MAX_TEMPLATES:
                    _too_ambiguous()
    work.spend(len(result) * len(fields), _PLACE, _CURE)
    return [tuple(path for field in fields if field.container in gone for path in field.paths) for gone in result]


def _too_ambiguous() -> NoReturn:
    raise PatchError("apply-too-ambiguous", f"the result depends on who owns which fields; {_CURE}")


def _size(pod: _Map) -> int:
    return sum(len(pod.get(key, ())) for key in (*_CONTAINERS, "volumes"))


def _pod_level(merged: _Map, applied: _Map) -> list[_Removal]:
    """Pod-level requests that go become the limits or the containers' sum; where both go, only the sum is left."""
    given = applied.get("resources", {})
    requests, limits = (
        tuple(
            ("resources", kind, name)
            for name in merged.get("resources", {}).get(kind, {})
            if name not in given.get(kind, {})
        )
        for kind in _KINDS
    )
    return list(dict.fromkeys(((), requests, limits, requests + limits)))


def _overhead(merged: _Map, applied: _Map) -> list[_Removal]:
    """If overhead goes, that of the RuntimeClass takes its place."""
    return [()] if "overhead" in applied or "overhead" not in merged else [(), (("overhead",),)]


def _storage_classes(merged: _Map, applied: _Map) -> list[_Removal]:
    """If the class of an ephemeral volume goes, the default class takes its place."""
    given = {volume["name"]: volume for volume in applied.get("volumes", [])}
    removal = tuple(
        ("volumes", index, "ephemeral", "volumeClaimTemplate", "spec", "storageClassName")
        for index, volume in enumerate(merged.get("volumes", []))
        if _has_class(volume) and not _has_class(given.get(volume["name"], {}))
    )
    return [(), removal] if removal else [()]


def _has_class(volume: Mapping[str, Tree]) -> bool:
    return "ephemeral" in volume and "storageClassName" in volume["ephemeral"]["volumeClaimTemplate"]["spec"]


def _without(pod: _Map, removals: Iterator[_Path]) -> _Map:
    """A copy without some fields, and without maps that are empty then. Equal parts are shared with ``pod``."""
    result = dict(pod)
    own: dict[_Path, Tree] = {(): result}
    for path in removals:
        for depth in range(1, len(path)):
            above = own[path[: depth - 1]]
            if path[:depth] not in own:
                own[path[:depth]] = above[path[depth - 1]] = above[path[depth - 1]].copy()
        del own[path[:-1]][path[-1]]
    for path in sorted(own, key=len, reverse=True):
        if path and path[-1] in _LEFT_OUT_IF_EMPTY and not own[path]:
            del own[path[:-1]][path[-1]]
    return result


def _nanos(amount: str) -> int:
    try:
        return quantities.parse(amount)
    except quantities.QuantityError as error:
        raise PatchError("bad-quantity", str(error)) from error
