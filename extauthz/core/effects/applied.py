"""The possible results of a server-side apply. The gate does not know who owns which field, so it takes the most that
any owner could leave."""

from __future__ import annotations

import json

from extauthz.core.budget import AMOUNT, Work
from extauthz.core.effects import weights
from extauthz.core.effects.patches import apply
from extauthz.core.effects.patches.trees import without_nulls
from extauthz.core.model import Labels, Observed, Outcome, Tree, Write
from extauthz.core.objects.fields import converted_int32, mapping, replicas
from extauthz.core.objects.metadata import controller, labels_dict, labels_text
from extauthz.core.objects.workloads import DEFAULT_REPLICAS, intern, labels_of

_EXACT = 2**53  # beyond it the server's YAML decoder, which reads every number as a float64, loses digits


def applied(write: Write, configuration: dict[str, Tree], base: Observed | None, work: Work) -> Outcome:
    """The outcome of applying a configuration. Raises MeaningError.

    Replicas that are left out stay, or fall back to the default; a null is as good as left out, but for a label.
    """
    spec = without_nulls(mapping(configuration.get("spec"), "spec"))
    count = _replicas(spec.get("replicas"), base, scale=write.scale)
    if write.scale:
        return Outcome(count)
    metadata = mapping(configuration.get("metadata"), "metadata")
    weights.of_metadata(configuration, work)
    labels = _labels(metadata, base, work) if base else (labels_of(write.ref.resource, metadata, spec),)
    return Outcome(
        replicas=count,
        templates=tuple(dict.fromkeys(intern(tree) for tree in _templates(spec, base, work))),
        labels=labels[0] if labels else None,
        owner=controller(metadata.get("ownerReferences")),
        other_labels=labels[1:],
        keeps_count=base is not None and spec.get("replicas") is None,
    )


def _replicas(value: Tree, base: Observed | None, *, scale: bool) -> int | None:
    if value is not None:
        return replicas(value if _is_inexact(value) else converted_int32(value), 0)
    if scale:
        return None  # stays, or goes to zero
    return max(base.replicas, DEFAULT_REPLICAS) if base else DEFAULT_REPLICAS


def _is_inexact(value: Tree) -> bool:
    return isinstance(value, int | float) and abs(value) > _EXACT


def _labels(metadata: dict[str, Tree], base: Observed, work: Work) -> tuple[Labels, ...]:
    """The label sets that may be left, first those in which every label that is left out stays. None: labels are not
    touched.

    Each label goes or stays on its own, as its owner has it. With up to three labels left out, all sets are listed.
    With more, those that a selector is likely to tell apart: all, none, all but one, only one.
    """
    given = mapping(metadata.get("labels"), "metadata.labels")
    left_out = {key: value for key, value in labels_dict(base.labels).items() if key not in given}
    if not given and not left_out:
        return ()
    size = len(left_out) + len(given)
    work.spend(AMOUNT * size * 2 * len(left_out), "the sets of labels that may be left", "apply all labels")
    kept = [left_out, {}]
    kept += [{key: value for key, value in left_out.items() if key != dropped} for dropped in left_out]
    kept += [{key: value} for key, value in left_out.items()]
    return tuple(dict.fromkeys(labels_text(labels | given) for labels in kept))


def _templates(spec: dict[str, Tree], base: Observed | None, work: Work) -> list[Tree]:
    if base is None:
        return [weights.pruned(spec, work)]
    weights.of_observed(base.template, work)
    live = json.loads(base.template.text) if base.template else {"template": {"spec": {"containers": []}}}
    return apply.templates(live, weights.pruned({"template": {}} | spec, work), work)
