"""Templates that a record brings: whoever has written it, each is one whose cost can be added up, or the record is
none."""

from __future__ import annotations

import json
from contextlib import suppress

from extauthz.core.footprint import FootprintError
from extauthz.core.kinds import PODS, STATEFUL_SETS
from extauthz.core.ledger.pod_costs import PodCosts, ephemeral, stems
from extauthz.core.model import Observed, Template, Tree, WorkloadRef
from extauthz.core.numbers import INT32
from extauthz.core.quantities import CEILING


def template(text: object) -> Template:
    """The template of a text. An amount that cannot be read is none of its faults: the cost is unknown then.

    Raises:
        ValueError, TypeError, LookupError, AttributeError, RecursionError: no gate has written it.
    """
    if not isinstance(text, str):
        raise TypeError("a template is not a text")
    found, tree = Template(text.encode()), json.loads(text)
    for each in tree.get("groups", (tree,)):
        _check_numbers(each)
    costs, observed = PodCosts(), Observed(1, found)
    with suppress(FootprintError):
        costs.per_pod("", found)
        costs.claims("", found)
    if "template" in tree:
        stems(WorkloadRef(*STATEFUL_SETS, "", ""), observed)
        ephemeral(WorkloadRef(*PODS, "", ""), observed)
    return found


def _check_numbers(tree: Tree) -> None:
    """Those that are no quantities: they are multiplied as they are."""
    known = {"template", "claim", "devices", "resize"} & tree.keys()
    if len(known) != 1:
        raise ValueError(f"a template of the members {sorted(tree)[:5]}")
    amounts = [*tree.get("resize", {}).values(), *tree.get("devices", {}).values(), *tree.get("admin", {}).values()]
    amounts += [tree.get("count", 0), tree.get("ordinals", {}).get("start", 0)]
    if not all(type(amount) is int and 0 <= amount <= CEILING * INT32 for amount in amounts):
        raise ValueError("a number is none, or out of range")
