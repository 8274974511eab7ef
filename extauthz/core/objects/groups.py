"""Objects that make several groups of pods, each of a template of its own: what all of them cost together.

Of such an object there is one, which costs the sum: so it is weighed, and covers what it makes, like any workload of
one replica. Where its kind has a scale, the sum is what one replica costs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from extauthz.core.errors import ObjectError
from extauthz.core.model import Template, Tree
from extauthz.core.objects.fields import MAX_REPLICAS, at, replicas, wrong
from extauthz.core.objects.workloads import intern, prune

Path: TypeAlias = tuple[str, ...]
"""Where a field is, as keys from the root; ``EACH`` after a list stands for all that are in it."""

EACH: Final = "*"


class Group(NamedTuple):
    """One group of pods, or, below lists, one for each element."""

    template: Path
    instead: Path = ()
    """Where the template is if there is none; empty: nowhere."""
    counts: tuple[Path, ...] = ()
    """How many pods: their product. One that is missing is 1. Each is outside of lists, or in those of ``template``."""
    least: Path = ()
    """The first count is no less than this, and this where it is missing; empty: there is no such field."""
    most: Path = ()
    """The first count is no more than this, but no less than the least; empty: there is no such field."""
    minus: int = 0
    """So many fewer pods."""
    unless: tuple[Path, ...] = ()
    """While one of these is true, or a text that is not empty, there are no pods."""


class Groups(NamedTuple):
    """All groups of a kind, in place of one template."""

    each: tuple[Group, ...]
    through_pods: bool = False
    """StatefulSets that its pods own are its too: those of a pod ``NAME-0`` are of the object ``NAME``."""


def template(groups: Groups, root: Tree) -> Template | None:
    """What the pods of an object cost together; ``None``: it has no template at all. Raises ObjectError."""
    counts: Counter[Template] = Counter()
    has_any = False
    for group in groups.each:
        for indices in _elements(root, group.template):
            pod = _pod(root, _filled(group.template, indices))
            if pod is None and group.instead:
                pod = _pod(root, _filled(group.instead, indices))
            has_any = has_any or pod is not None
            count = _count(group, root, indices)
            if pod is not None and count:
                counts[pod] += count
    if not has_any:
        return None
    several = sorted((one.text, count) for one, count in counts.items())
    return intern({"groups": [json.loads(text) | {"count": count} for text, count in several]})


def _elements(root: Tree, path: Path) -> Iterator[tuple[int, ...]]:
    """Where lists on the way have elements, as an index a list. Raises ObjectError."""
    if EACH not in path:
        yield ()
        return
    before = path.index(EACH)
    listed = at(root, *path[:before])
    if listed is not None and not isinstance(listed, list):
        wrong(listed, ".".join(path[:before]), "a list")
    for index, element in enumerate(listed or ()):
        for more in _elements(element, path[before + 1 :]):
            yield index, *more


def _filled(path: Path, indices: tuple[int, ...]) -> tuple[str | int, ...]:
    left = iter(indices)
    return tuple(next(left) if key == EACH else key for key in path)


def _shown(keys: tuple[str | int, ...]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def _pod(root: Tree, keys: tuple[str | int, ...]) -> Template | None:
    """The pod template at a place, pruned; ``None``: an object leaves it out. Raises ObjectError."""
    tree = at(root, *keys)
    if tree is None and int not in map(type, keys):
        return None
    if not isinstance(at(tree, "spec", "containers"), list):
        raise ObjectError(_shown(keys), "is no pod template, as it has no spec.containers; correct it, or `pod-groups`")
    try:
        return intern(prune({"template": tree}))
    except ObjectError as error:  # which takes it to be in its usual place
        path = f"{_shown(keys)}{error.path.removeprefix('spec.template')}"
        raise ObjectError(path, error.detail.removeprefix(f"{error.path}: "), error.code) from None


def _count(group: Group, root: Tree, indices: tuple[int, ...]) -> int:
    """How many pods. Raises ObjectError."""
    for path in group.unless:
        value = at(root, *_filled(path, indices))
        if value is True or (isinstance(value, str) and value):
            return 0
    count, *others = [_number(root, path, indices) for path in group.counts] or [None]
    if group.least:  # of an object that is not stored yet the API server has set neither, and the default is zero
        count = count or 0
    count = 1 if count is None else count
    if (most := _number(root, group.most, indices)) is not None:
        count = min(count, most)
    count = max(count, _number(root, group.least, indices) or 0)
    for other in others:
        count *= 1 if other is None else other
    if count > MAX_REPLICAS:
        raise ObjectError(_shown(_filled(group.template, indices)), f"has more than {MAX_REPLICAS} pods")
    return max(count - group.minus, 0)


def _number(root: Tree, path: Path, indices: tuple[int, ...]) -> int | None:
    """A count; ``None``: it is missing. Raises ObjectError."""
    keys = _filled(path, indices)
    found = at(root, *keys) if path else None
    return None if found is None else replicas(found, 0, _shown(keys))
