"""Jobs: how many pods each may have at once, as the controller of kube-controller-manager makes them.

Source: ``syncJob`` and ``manageJob`` in ``pkg/controller/job/job_controller.go``, and ``indexed_job_utils.go``
(KEP-2214 indexes, KEP-3715 elastic Jobs, KEP-3850 limits by index, KEP-4368 other controllers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from extauthz.core.model import Observed, Template, Tree
from extauthz.core.objects import fields
from extauthz.core.objects.fields import MAX_REPLICAS, boolean, items, mapping, replicas, text
from extauthz.core.objects.workloads import intern, prune

CONTROLLER: Final = "kubernetes.io/job-controller"
"""The controller that makes the pods of a Job whose ``spec.managedBy`` names no other one."""

_FINISHED: Final = frozenset({"Complete", "Failed"})
"""Conditions of a Job that runs no pod any more: ``IsJobFinished`` in ``pkg/controller/job/utils.go``."""

_ENDING: Final = _FINISHED | {"SuccessCriteriaMet", "FailureTarget"}
"""Conditions of a Job that makes no pod any more. It may still delete some."""

_RETRIES: Final = 6
"""``spec.backoffLimit`` by default, unless there is a limit by index (``SetDefaults_Job``)."""

_SPAN: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")


def is_finished(root: Mapping[str, Tree]) -> bool:
    """Whether it runs no pod any more. Raises ObjectError."""
    return _has(root, _FINISHED)


def pods(root: Mapping[str, Tree]) -> int:
    """The most that it may have at once. Raises ObjectError.

    A pod that is being deleted counts by itself, beside the one that the controller makes in its place. By
    ``podReplacementPolicy: Failed`` it makes that later: the bound is then higher than need be, until the pod is gone.
    """
    spec, status = mapping(root.get("spec"), "spec"), mapping(root.get("status"), "status")
    manager = text(spec.get("managedBy"), "spec.managedBy")
    if boolean(spec.get("suspend"), "spec.suspend") or _has(root, _ENDING) or manager not in ("", CONTROLLER):
        return 0
    parallelism = replicas(spec.get("parallelism"), 1, "spec.parallelism")
    succeeded = replicas(status.get("succeeded"), 0, "status.succeeded")
    if spec.get("completions") is not None:
        completions = replicas(spec["completions"], 1, "spec.completions")
        is_indexed = spec.get("completionMode") == "Indexed"
        done = _done(spec, status, completions) if is_indexed else succeeded
        return max(min(parallelism, completions - done), 0)
    if succeeded:  # a work queue that has run empty: what runs goes on, and no pod is started any more
        return replicas(status.get("active"), 0, "status.active")
    return parallelism


def template(root: Mapping[str, Tree]) -> Template:
    """Its pod template, its completions, and how many pods may fail and be made anew before it fails itself.

    A pod that has finished stays until somebody deletes it, and so do the claims of its ephemeral volumes (KEP-1698).
    Not counted are failures that a ``podFailurePolicy`` ignores: of those there may be any number.
    Raises ObjectError.
    """
    spec = mapping(root.get("spec"), "spec")
    completions = replicas(spec.get("completions"), 0, "spec.completions")
    of_each = spec.get("backoffLimitPerIndex")
    retries = replicas(spec.get("backoffLimit"), _RETRIES if of_each is None else MAX_REPLICAS, "spec.backoffLimit")
    if of_each is not None:
        retries = min(retries, completions * replicas(of_each, 0, "spec.backoffLimitPerIndex"))
    counts = {"completions": completions, "retries": retries}
    return intern(prune(spec) | {key: count for key, count in counts.items() if count})


def described(root: Mapping[str, Tree]) -> Observed:
    """A whole Job, as an admission webhook is shown it. Raises ObjectError."""
    return fields.described(root, pods(root), template(root))


def _has(root: Mapping[str, Tree], types: frozenset[str]) -> bool:
    status = mapping(root.get("status"), "status")
    conditions = items(status.get("conditions"), "status.conditions")
    return any(one.get("type") in types and one.get("status") == "True" for one, _ in conditions)


def _done(spec: Mapping[str, Tree], status: Mapping[str, Tree], completions: int) -> int:
    """Indexes of which no pod is made any more: completed, or failed for good. Each counts once.

    An elastic Job that has shrunk keeps indexes beyond ``completions`` in its status. They no longer count.
    """
    listed = text(status.get("completedIndexes"), "status.completedIndexes")
    if spec.get("backoffLimitPerIndex") is not None:
        listed += "," + text(status.get("failedIndexes"), "status.failedIndexes")
    found = filter(None, map(_SPAN.fullmatch, listed.split(",")))  # what is no index is skipped, as upstream does
    done = reached = 0
    for first, end in sorted((int(one[1]), min(int(one[2] or one[1]) + 1, completions)) for one in found):
        done += max(end - max(first, reached), 0)
        reached = max(reached, end)
    return done
