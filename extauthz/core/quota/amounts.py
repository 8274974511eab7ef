"""Amounts of a WorkspaceQuota by resource: ``hard`` and ``guaranteed``, of its spec and of its overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from extauthz.core import quantities, resources
from extauthz.core.model import Amounts, Tree
from extauthz.core.quota.problems import Path, Problems, shown

_CURE: Final = 'write for example "10", 500m or 64Gi'


def read(
    fields: Mapping[str, Tree], name: str, problems: Problems, path: Path, within: Amounts | None = None
) -> dict[str, int]:
    """Read a field of amounts by key. ``within``: the limits that they must have, and not exceed."""
    path = (*path, name)
    found: dict[str, int] = {}
    written_as: dict[str, str] = {}
    for written, value in problems.mapping(fields.get(name), path).items():
        key = _key(written, (*path, written), problems)
        amount = _amount(key or written, value, (*path, written), problems)
        if key is None or amount is None:
            continue
        if key in found:
            twin = written_as[key]
            problems.add((*path, written), f'"{written}" and "{twin}" are the same resource', "keep one of them")
        if within is not None:
            _check_within((*path, written), key, amount, within, problems)
        found[key] = amount
        written_as[key] = written
    return found


def check_limited(path: Path, key: str, hard: Amounts, problems: Problems) -> bool:
    """Whether the spec limits it."""
    if key not in hard:
        problems.add(path, "spec.hard does not limit it", f"write a limit of {key} in spec.hard, or remove it here")
    return key in hard


def _check_within(path: Path, key: str, amount: int, within: Amounts, problems: Problems) -> None:
    if check_limited(path, key, within, problems) and amount > within[key]:
        more, most = (quantities.format(one, key) for one in (amount, within[key]))
        problems.add(path, f"{more} is above spec.hard, which is {most}", "lower it, or raise spec.hard")


def _key(written: str, path: Path, problems: Problems) -> str | None:
    try:
        return resources.canonical(written)
    except resources.ResourceKeyError as error:
        problems.add(path, error.why, error.cure)
        return None


def _amount(key: str, value: Tree, path: Path, problems: Problems) -> int | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        problems.add(path, f"{shown(value)} is not a quantity", _CURE)
        return None
    try:
        amount = quantities.parse(value)
    except quantities.QuantityError as error:
        problems.add(path, f"{shown(value)} is not a quantity: {error.why}", _CURE)
        return None
    if amount < 0:
        problems.add(path, f"{shown(value)} is negative", "write 0 or more, or remove the key for no limit")
    elif amount % quantities.NANO and _counts_things(key):
        problems.add(path, f"{shown(value)} is not a whole number", f"{key} counts objects: write an integer")
    return amount


def _counts_things(key: str) -> bool:
    return key == "pods" or key.startswith("count/") or key.endswith("persistentvolumeclaims")


def spelled(given: Amounts) -> dict[str, str]:
    """As Kubernetes writes them."""
    return {key: quantities.format(amount, key) for key, amount in given.items()}
