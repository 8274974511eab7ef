"""What an explanation consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .metrics import Known
from .ratios import Result
from .specs import Metric


class Step(NamedTuple):
    """One rule that the controller applied."""

    rule: str
    """A stable word: ``metric``, ``several-metrics``, ``stabilization``, ``limits``, …"""
    text: str
    replicas: int | None
    """The count that it came to."""
    certain: bool


class Proposal(NamedTuple):
    """What one metric asks for."""

    metric: Metric
    known: Known | None
    """``None``: it fails."""
    result: Result | None
    error: str
    certain: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What the controller does next, and why."""

    current: int
    desired: int
    outcome: str
    """A stable word for what decided: see docs/explain.md."""
    certain: bool
    steps: tuple[Step, ...]
    proposals: tuple[Proposal, ...] = ()
