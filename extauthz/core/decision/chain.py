"""The steps of a decision, in order. A new check is one more step in ``STEPS``, and a function in a file of its own.

A step looks at one write. It answers, or it returns ``None`` and the next step looks. It leaves results for later steps
on the ``Evaluation``. A write that no step answers is granted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from extauthz.core.decision import (
    effects,
    granting,
    max_scale,
    moving,
    pending_limits,
    policing,
    unknowns,
    unspecified,
    weighing,
)
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.model import Decision

Step: TypeAlias = Callable[[Evaluation], Decision | None]

STEPS: Final[tuple[Step, ...]] = (
    effects.zero,  # a target of zero always passes
    unknowns.unsynced,  # the gate does not know the quotas or the cluster yet
    effects.intended,  # what may still land once it is allowed
    unknowns.outdated_namespace,  # no quota may cover its namespace, by what may be out of date
    granting.uncovered,  # no quota may cover anything in its namespace
    unknowns.unseen,  # the gate does not know the workload or its namespace
    moving.waits,  # it goes to other quotas, and what follows it may still land
    weighing.weighed,  # what it takes of every quota that covers it
    unknowns.unseen_owner,  # it names an owner that the gate does not know
    unknowns.uncertain,  # something that bears on what it takes is not known
    unspecified.refused,  # more pods do not say what they need of what a quota limits
    policing.filtered,  # a policy does not let it grow
    policing.limited,  # a policy does not let it grow so far
    weighing.exceeded,  # it grows past a quota
    max_scale.exceeded,  # it grows past what the platform's own service allows
    pending_limits.reached,  # too many writes are under way
    policing.permitted,  # a policy does not let it grow yet
)


def first_answer(asked: Evaluation) -> Decision:
    """The answer of the first step that gives one; else a grant."""
    for step in STEPS:
        answer = step(asked)
        if answer is not None:
            return answer
    return granting.granted(asked)
