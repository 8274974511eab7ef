"""Jobs: how many pods each may have at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extauthz.core.model import Observed, Tree
from extauthz.core.objects import metadata
from extauthz.core.objects.fields import boolean, items, mapping, replicas
from extauthz.core.objects.workloads import intern, prune

_FINISHED: Final = frozenset({"Complete", "Failed"})
"""Conditions of a Job that runs no pod any more: ``IsJobFinished`` in ``pkg/controller/job/utils.go``."""


def is_finished(root: Mapping[str, Tree]) -> bool:
    """Whether it runs no pod any more. Raises ObjectError."""
    status = mapping(root.get("status"), "status")
    conditions = [condition for condition, _ in items(status.get("conditions"), "status.conditions")]
    return any(one.get("type") in _FINISHED and one.get("status") == "True" for one in conditions)


def pods(root: Mapping[str, Tree]) -> int:
    """The most that it may have at once: ``manageJob`` in ``pkg/controller/job/job_controller.go``.

    Raises ObjectError.
    """
    spec, status = mapping(root.get("spec"), "spec"), mapping(root.get("status"), "status")
    if boolean(spec.get("suspend"), "spec.suspend") or is_finished(root):
        return 0
    parallelism = replicas(spec.get("parallelism"), 1, "spec.parallelism")
    succeeded = replicas(status.get("succeeded"), 0, "status.succeeded")
    if spec.get("completions") is not None:
        left = replicas(spec["completions"], 1, "spec.completions") - succeeded
        return max(min(parallelism, left), 0)
    if succeeded:  # a work queue that has run empty: no pod is started any more
        return min(parallelism, replicas(status.get("active"), 0, "status.active"))
    return parallelism


def described(root: Mapping[str, Tree]) -> Observed:
    """A whole Job, as an admission webhook is shown it. Raises ObjectError."""
    given = mapping(root.get("metadata"), "metadata")
    return Observed(
        replicas=pods(root),
        template=intern(prune(mapping(root.get("spec"), "spec"))),
        labels=metadata.labels_text(mapping(given.get("labels"), "metadata.labels")),
        owner=metadata.controller(given.get("ownerReferences")),
        annotations=metadata.annotations_text(given.get("annotations")),
    )
