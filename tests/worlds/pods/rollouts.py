"""What the controller of a Deployment does next with its ReplicaSets.

Source: ``pkg/controller/deployment/{sync,rolling}.go`` of Kubernetes, with the defaults of ``RollingUpdate``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from extauthz.core.model import Tree
from tests.worlds.pods.objects import cpu_of

Scaled = list[tuple[Tree, int]]
"""ReplicaSets with what their count becomes."""


class Step(NamedTuple):
    """What is done now."""

    scaled: Scaled
    new: int | None = None
    """A ReplicaSet is made for the template, with so many replicas."""


class _Fences(NamedTuple):
    """``ResolveFenceposts``."""

    wanted: int
    most: int
    least: int
    """Pods that must be available."""


def surge_of(replicas: int, percent: str = "25%") -> int:
    """Pods that a rollout may add for a while: a part of the replicas, rounded up."""
    return -(-replicas * int(percent[:-1]) // 100)


def max_surge(deployment: Tree) -> str:
    """Of a Deployment."""
    percent: str = deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"]
    return percent


def count(one: Tree) -> int:
    """What a ReplicaSet or a Deployment asks for."""
    replicas: int = one["spec"]["replicas"]
    return replicas


def available(one: Tree) -> int:
    """How many pods of a ReplicaSet run, as its own controller has said last."""
    ready: int = one["status"].get("readyReplicas", 0)
    return ready


def marked(one: Tree, deployment: Tree) -> Tree:
    """A ReplicaSet with the count of its Deployment noted, by which another count is known later."""
    fences = _fences(deployment)
    annotations = {"desired": str(fences.wanted), "most": str(fences.most)}
    return {**one, "metadata": {**one["metadata"], "annotations": annotations}}


def step(deployment: Tree, sets: Sequence[Tree]) -> Step:
    """The next step (``syncDeployment``). ``sets``: its ReplicaSets, the oldest first."""
    fences = _fences(deployment)
    new = next((one for one in sets if cpu_of(one) == cpu_of(deployment)), None)
    active = [one for one in sets if count(one)]
    if deployment["spec"].get("paused"):
        return Step(_paused(fences, new, active, sets))
    if any(_noted(one, "desired", fences.wanted) != fences.wanted for one in active):
        return Step(_changed(_scaled(fences, new, active), fences))
    if new is None:
        return Step([], _new_count(fences, sets, 0))
    if count(new) != fences.wanted:
        grown = min(count(new), fences.wanted) if count(new) > fences.wanted else _new_count(fences, sets, count(new))
        if grown != count(new):
            return Step([(new, grown)])
    return Step(_changed(_shrunk(fences, new, [one for one in active if one is not new]), fences))


def _paused(fences: _Fences, new: Tree | None, active: Sequence[Tree], sets: Sequence[Tree]) -> Scaled:
    """Nothing is made. The one that is active, or else the newest, comes to the count (``FindActiveOrLatest``)."""
    if len(active) > 1:
        return _changed(_scaled(fences, new, active), fences)
    one = next(iter([*active, *([new] if new is not None else []), *reversed(sets)]), None)
    return [(one, fences.wanted)] if one is not None and count(one) != fences.wanted else []


def _fences(deployment: Tree) -> _Fences:
    wanted = count(deployment)
    return _Fences(wanted, wanted + surge_of(wanted, max_surge(deployment)), wanted - wanted // 4)


def _noted(one: Tree, what: str, default: int) -> int:
    return int(one["metadata"].get("annotations", {}).get(what, default))


def _changed(scaled: Scaled, fences: _Fences) -> Scaled:
    return [(one, to) for one, to in scaled if to != count(one) or _noted(one, "desired", -1) != fences.wanted]


def _new_count(fences: _Fences, sets: Sequence[Tree], now: int) -> int:
    """``NewRSNewReplicas``: as far as the surge lets it."""
    room = fences.most - sum(map(count, sets))
    return now + max(min(room, fences.wanted - now), 0)


def _scaled(fences: _Fences, new: Tree | None, active: Sequence[Tree]) -> Scaled:
    """``scale``: the count of the Deployment has changed. In a rollout all grow or shrink in proportion."""
    if len(active) == 1:
        return [(active[0], fences.wanted)]
    if new is not None and count(new) == _noted(new, "desired", -1) == available(new) == fences.wanted:
        return [(one, 0) for one in active if one is not new]
    add = fences.most - sum(map(count, active))
    at = {id(one): place for place, one in enumerate(active)}
    largest = sorted(active, key=lambda one: (-count(one), -at[id(one)] if add > 0 else at[id(one)]))
    added, sizes = 0, []
    for one in largest:
        part = _fraction(fences, one) if add and add != added else 0
        part = min(part, add - added) if add > 0 else max(part, add - added)
        added += part
        sizes.append(count(one) + part)
    sizes[0] = max(sizes[0] + add - added, 0)
    return list(zip(largest, sizes, strict=True))


def _fraction(fences: _Fences, one: Tree) -> int:
    """``getReplicaSetFraction``: what one ReplicaSet gets of a change of the whole."""
    if not fences.wanted:
        return -count(one)
    before = _noted(one, "most", 0)
    return math.floor(count(one) * fences.most / before + 0.5) - count(one) if before else 0


def _shrunk(fences: _Fences, new: Tree, old: Sequence[Tree]) -> Scaled:
    """``reconcileOldReplicaSets``: first pods that do not run, then as many as may be missing.

    While more pods run than a ReplicaSet asks for, it is tried again later.
    """
    sizes = {id(one): count(one) for one in old}
    spare = count(new) + sum(sizes.values()) - fences.least - (count(new) - available(new))
    if not old or spare <= 0 or any(available(one) > count(one) for one in old):
        return []
    for one in old:
        less = min(spare, max(count(one) - available(one), 0))
        sizes[id(one)] -= less
        spare -= less
    # What runs now: what was taken did not.
    excess = sum(available(one) for one in (*old, new)) - fences.least
    for one in old:
        less = max(min(sizes[id(one)], excess), 0)
        sizes[id(one)] -= less
        excess -= less
    return [(one, sizes[id(one)]) for one in old]
