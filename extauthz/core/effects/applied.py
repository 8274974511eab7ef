"""The possible results of a server-side apply. The gate does not know who owns which field, so it takes the most that
any owner could leave."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Final

from extauthz.core.budget import AMOUNT, Work
from extauthz.core.effects import weights
from extauthz.core.effects.patches import apply
from extauthz.core.effects.patches.trees import without_nulls
from extauthz.core.kinds import REPLICATION_CONTROLLERS
from extauthz.core.model import ANY_LABELS, Labels, Observed, Outcome, Tree, WorkloadRef, Write
from extauthz.core.objects.fields import converted_int32, mapping, replicas
from extauthz.core.objects.metadata import controller, labels_dict, labels_text
from extauthz.core.objects.workloads import DEFAULT_REPLICAS, intern, labels_of

_MOST_LEFT_OUT: Final = 3
"""So many labels that are left out give eight sets of labels that may be left."""

_EXACT = 2**53  # beyond it the server's YAML decoder, which reads every number as a float64, loses digits


def applied(write: Write, configuration: dict[str, Tree], base: Observed | None, work: Work) -> Outcome:
    """The outcome of applying a configuration. Raises MeaningError.

    Replicas that are left out stay, or fall back to the default; a null is as good as left out, but for a label. An
    object that was not seen may be there all the same, with any count.
    """
    spec = without_nulls(mapping(configuration.get("spec"), "spec"))
    count = _replicas(spec.get("replicas"), base, scale=write.scale)
    if write.scale:
        return Outcome(count)
    metadata = mapping(configuration.get("metadata"), "metadata")
    weights.of_metadata(configuration, work)
    labels = _labels(write.ref, metadata, base, work) if base else (labels_of(write.ref.resource, metadata, spec),)
    owner = controller(metadata.get("ownerReferences"), of_patch=True)
    return Outcome(
        replicas=count,
        templates=tuple(dict.fromkeys(intern(tree) for tree in _templates(spec, base, work))),
        labels=labels[0] if labels else None,
        owner=owner,
        other_labels=labels[1:],
        frees=owner is None and base is not None and base.owner is not None,
        keeps_count=spec.get("replicas") is None,
    )


def _replicas(value: Tree, base: Observed | None, *, scale: bool) -> int | None:
    if value is not None:
        return replicas(value if _is_inexact(value) else converted_int32(value), 0)
    if scale:
        return None  # stays, or goes to zero
    return max(base.replicas, DEFAULT_REPLICAS) if base else DEFAULT_REPLICAS


def _is_inexact(value: Tree) -> bool:
    return isinstance(value, int | float) and abs(value) > _EXACT


def _labels(ref: WorkloadRef, metadata: dict[str, Tree], base: Observed, work: Work) -> tuple[Labels, ...]:
    """The label sets that may be left, first that in which every label that is left out stays. None: labels are not
    touched.

    Each label goes or stays on its own, as its owner has it. Where many are left out, nobody can tell what stays.
    """
    given = mapping(metadata.get("labels"), "metadata.labels")
    left_out = {key: value for key, value in labels_dict(base.labels).items() if key not in given}
    if not given and not left_out:
        return ()
    sizes = range(len(left_out), -1, -1) if len(left_out) <= _MOST_LEFT_OUT else (len(left_out),)
    sets = [dict(kept) for size in sizes for kept in combinations(left_out.items(), size)]
    size = len(left_out) + len(given)
    work.spend(AMOUNT * size * len(sets), "the sets of labels that may be left", "apply all labels")
    told = dict.fromkeys(labels_text(kept | given) for kept in sets)
    is_defaulted = "" in told and ref[:2] == REPLICATION_CONTROLLERS  # to its pods' labels, which were not kept
    return (*told, ANY_LABELS) if is_defaulted or len(left_out) > _MOST_LEFT_OUT else tuple(told)


def _templates(spec: dict[str, Tree], base: Observed | None, work: Work) -> list[Tree]:
    if base is None:
        return [weights.pruned(spec, work)]
    weights.of_observed(base.template, work)
    live = json.loads(base.template.text) if base.template else {"template": {"spec": {"containers": []}}}
    return apply.templates(live, weights.pruned({"template": {}} | spec, work), work)
