"""The settings that a PodAutoscaler is decided by: its annotations, over the config map ``config-autoscaler``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from extauthz.core import numbers
from extauthz.core.model import Tree
from extauthz.core.numbers import INT32
from extauthz.core.objects.fields import at
from extauthz.explain.objects import Objects, seconds

GROUP: Final = "autoscaling.knative.dev"

_INTEGER: Final = re.compile(r"([+-]?)([0-9]+)")
_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def annotation(annotations: Mapping[str, str], *names: str) -> str | None:
    """The first of these that is there, under ``autoscaling.knative.dev/``."""
    return next((annotations[f"{GROUP}/{name}"] for name in names if f"{GROUP}/{name}" in annotations), None)


def integer(text: str | None) -> int | None:
    """An int32.

    >>> integer("3"), integer("3.5"), integer("99999999999"), integer(None)
    (3, None, None, None)
    """
    if text is None or (found := _INTEGER.fullmatch(text)) is None:
        return None
    value = numbers.whole(found[2], INT32 + (found[1] == "-"))
    return -value if value is not None and found[1] == "-" else value


def number(text: str | None) -> float | None:
    """A float.

    >>> number("0.5"), number("1e2"), number("many"), number(None)
    (0.5, 100.0, None, None)
    """
    return float(text) if text is not None and _FLOAT.fullmatch(text) else None


def duration(text: str | None) -> float | None:
    """A duration of Go, in seconds.

    >>> duration("1m30s"), duration("0"), duration("soon"), duration(None)
    (90.0, 0.0, None, None)
    """
    if text is None or text == "0":
        return None if text is None else 0.0
    try:
        return seconds(text)
    except ValueError:
        return None


def truth(text: str | None) -> bool | None:
    """A boolean: the config map says true, or something else."""
    return None if text is None else text.lower() == "true"


NAMESPACE: Final = "knative-serving"
CONFIG: Final = "config-autoscaler"
DEPLOYMENTS: Final = "config-deployment"
KPA: Final = "kpa.autoscaling.knative.dev"
TARGET_LEAST: Final = 0.01
ACTIVATION_BUFFER_S: Final = 30.0
RETENTION: Final = "scale-to-zero-pod-retention-period"

Parse: TypeAlias = Callable[[str | None], float | None]
USUAL: Final[tuple[tuple[Parse, Mapping[str, float]], ...]] = (
    (
        number,
        {
            "max-scale-up-rate": 1000.0,
            "max-scale-down-rate": 2.0,
            "container-concurrency-target-percentage": 0.7,
            "container-concurrency-target-default": 100.0,
            "requests-per-second-target-default": 200.0,
            "target-burst-capacity": 211.0,
            "panic-window-percentage": 10.0,
            "panic-threshold-percentage": 200.0,
        },
    ),
    (integer, {"initial-scale": 1, "min-scale": 0, "max-scale": 0, "max-scale-limit": 0}),
    (duration, {"stable-window": 60.0, "scale-down-delay": 0.0, "scale-to-zero-grace-period": 30.0, RETENTION: 0.0}),
    (truth, {"enable-scale-to-zero": True, "allow-zero-initial-scale": False}),
)
"""What the autoscaler takes where the config map says nothing (knative.dev/serving, ``pkg/autoscaler/config``), by how
its texts are read."""


class Config(NamedTuple):
    """The cluster's. Times are in seconds."""

    values: Mapping[str, float]
    known: bool
    """False: defaults stand in, for all of it or for a part."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one PodAutoscaler. Times are in seconds."""

    metric: str
    """``concurrency`` or ``rps``."""
    total: float
    """What a replica is meant to take at most."""
    target: float
    """What the autoscaler aims at: a part of it."""
    up_rate: float
    down_rate: float
    panic_threshold: float
    stable_window_s: float
    panic_window_s: float
    delay_s: float
    activation: int
    reachable: bool
    least: int
    most: int
    """0: no limit."""
    initial: int
    to_zero: bool
    grace_s: float
    retention_s: float
    burst: float
    activation_within_s: float
    limit: int
    """``max-scale-limit``: what an annotation may ask for at most; 0: no limit."""
    config_known: bool


def config_of(objects: Objects) -> Config:
    found = _config_map(objects, CONFIG)
    data: Mapping[str, str] = at(found, "data") or {}
    known = found is not None
    values: dict[str, float] = {}
    for parse, usual in USUAL:
        for name, default in usual.items():
            given = parse(data.get(name))
            known &= name not in data or given is not None
            values[name] = default if given is None else given
    if values["container-concurrency-target-percentage"] > 1.0:
        values["container-concurrency-target-percentage"] /= 100.0
    deadline = duration(at(_config_map(objects, DEPLOYMENTS), "data", "progress-deadline"))
    return Config(values | {"progress-deadline": 600.0 if deadline is None else deadline}, known)


def _config_map(objects: Objects, name: str) -> Tree | None:
    """Of Knative's usual namespace; else of the only other one that has it."""
    others = [one for one in objects.of("ConfigMap") if one["metadata"]["name"] == name]
    return objects.one("ConfigMap", NAMESPACE, name) or (others[0] if len(others) == 1 else None)


def of(autoscaler: Tree, config: Config) -> Rules:
    """As ``MakeDecider``, ``ScaleBounds`` and ``MakeMetric`` of knative.dev/serving put them together."""
    notes: Mapping[str, str] = at(autoscaler, "metadata", "annotations") or {}
    cluster = config.values
    metric, total, target = _target(autoscaler, notes, config)
    reachable = at(autoscaler, "spec", "reachability") != "Unreachable"
    own_window = duration(annotation(notes, "window"))
    window = cluster["stable-window"] if own_window is None else own_window
    share = _given(number, notes, cluster, "panic-window-percentage", "panicWindowPercentage")
    deadline = duration(notes.get("serving.knative.dev/progress-deadline"))
    return Rules(
        metric=metric,
        total=total,
        target=target,
        up_rate=cluster["max-scale-up-rate"],
        down_rate=cluster["max-scale-down-rate"],
        panic_threshold=_given(number, notes, cluster, "panic-threshold-percentage", "panicThresholdPercentage")
        / 100.0,
        stable_window_s=window,
        panic_window_s=max(1.0, math.floor(window * share / 100.0 + 0.5)),
        delay_s=_given(duration, notes, cluster, "scale-down-delay", "scaleDownDelay"),
        activation=integer(annotation(notes, "activation-scale")) or 0,
        reachable=reachable,
        least=int(_given(integer, notes, cluster, "min-scale", "minScale")) if reachable else 0,
        most=int(_given(integer, notes, cluster, "max-scale", "maxScale")),
        initial=_initial(notes, config),
        to_zero=bool(cluster["enable-scale-to-zero"]),
        grace_s=cluster["scale-to-zero-grace-period"],
        retention_s=_given(duration, notes, cluster, RETENTION, "scaleToZeroPodRetentionPeriod") if reachable else 0.0,
        burst=_given(number, notes, cluster, "target-burst-capacity", "targetBurstCapacity"),
        activation_within_s=(cluster["progress-deadline"] if deadline is None else deadline) + ACTIVATION_BUFFER_S,
        limit=int(cluster["max-scale-limit"]),
        config_known=config.known,
    )


def _target(autoscaler: Tree, notes: Mapping[str, str], config: Config) -> tuple[str, float, float]:
    """The metric, what a replica takes, and what is aimed at (``ResolveMetricTarget``)."""
    named = annotation(notes, "metric") or "concurrency"
    hard = float(at(autoscaler, "spec", "containerConcurrency") or 0)
    if named == "rps":
        total, part = config.values["requests-per-second-target-default"], 0.7
    else:
        total = hard or config.values["container-concurrency-target-default"]
        part = config.values["container-concurrency-target-percentage"]
    given = number(annotation(notes, "target"))
    if given is not None:
        total = min(given, hard) if named == "concurrency" and hard else given
    percent = number(annotation(notes, "target-utilization-percentage", "targetUtilizationPercentage"))
    if percent is not None:
        part = percent / 100
    return "rps" if named == "rps" else "concurrency", total, max(TARGET_LEAST, total * part)


def _initial(notes: Mapping[str, str], config: Config) -> int:
    given = integer(annotation(notes, "initial-scale", "initialScale"))
    if given is None or (given == 0 and not config.values["allow-zero-initial-scale"]):
        return int(config.values["initial-scale"])
    return given


def _given(parse: Parse, notes: Mapping[str, str], cluster: Mapping[str, float], *names: str) -> float:
    """What an annotation says, else what the cluster's config map does."""
    given = parse(annotation(notes, *names))
    return cluster[names[0]] if given is None else given
