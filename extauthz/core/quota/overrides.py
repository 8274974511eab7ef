"""``spec.overrides`` of a WorkspaceQuota: other amounts between two moments.

Clocks of gates may be 5 s off. So within ``MARGIN_S`` of an edge the smaller limit and the larger guarantee hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from extauthz.core import quantities
from extauthz.core.model import Amounts, Tree
from extauthz.core.quota import amounts
from extauthz.core.quota.problems import Path, Problems, shown
from extauthz.core.texts import seconds, stamp

MAX_OVERRIDES: Final = 16
MARGIN_S: Final = 5.0

_FIELDS = ("name", "from", "until", "hard", "guaranteed", "reason")
TIME_CURE: Final = "write for example 2027-02-01T12:00:00Z, with a zone"


class Override(NamedTuple):
    """One of a quota. Times are seconds since 1970, amounts nano-units by key."""

    name: str
    from_s: float
    until_s: float
    """It ends right before that."""
    hard: Amounts
    guaranteed: Amounts
    reason: str = ""

    def holds(self, at_s: float) -> bool:
        """Whether that moment is within it."""
        return self.from_s <= at_s < self.until_s

    @property
    def keys(self) -> set[str]:
        """Those of which it has amounts."""
        return {*self.hard, *self.guaranteed}

    def told(self, *, ends: bool) -> dict[str, str]:
        """Its name, why it is, and when it ends; or when it begins."""
        at = {"until": stamp(self.until_s, "seconds")} if ends else {"from": stamp(self.from_s, "seconds")}
        return {"name": self.name, "reason": self.reason, **at}


def edges(overrides: Iterable[Override]) -> Iterator[float]:
    """When something begins or ends."""
    for one in overrides:
        yield from (one.from_s, one.until_s)


def about(overrides: Sequence[Override], at_s: float) -> list[float]:
    """Moments of which all amounts are the amounts of some time within the margin of ``at_s``."""
    first = at_s - MARGIN_S
    return [first, *(edge for edge in edges(overrides) if first < edge <= at_s + MARGIN_S)]


def at_one(base: Amounts, given: Sequence[tuple[Override, Amounts]], at_s: float) -> dict[str, int]:
    """Amounts at one moment: those of the spec, but where an override holds that has others."""
    found = dict(base)
    for one, others in given:
        if one.holds(at_s):
            found.update(others)
    return found


def parse(tree: Tree, problems: Problems, hard: Amounts, guaranteed: Amounts) -> tuple[Override, ...]:
    """Read the field.

    Args:
        hard: the limits of the spec, with all keys that an override may have.
        guaranteed: the guarantees of the spec.
    """
    path: Path = ("spec", "overrides")
    items = problems.items(tree, path)
    if len(items) > MAX_OVERRIDES:
        problems.add(path, f"there are {len(items)} overrides", f"write at most {MAX_OVERRIDES} in a quota")
        return ()
    found: list[tuple[int, Override]] = []
    for number, item in enumerate(items):
        at = (*path, number)
        fields = problems.mapping(item, at)
        if not fields.get("hard") and not fields.get("guaranteed"):
            problems.add(at, "it has no amounts, so it changes nothing", "write hard or guaranteed, or remove it")
        one = _one(fields, at, problems)
        _check_keys(one, at, problems, hard, guaranteed)
        found.append((number, one))
    for (_, first), (number, second) in combinations(found, 2):
        _check_pair(first, second, (*path, number), problems)
    return tuple(one for _, one in found)


def _one(fields: Mapping[str, Tree], at: Path, problems: Problems) -> Override:
    problems.unknown_fields(fields, _FIELDS, at)
    name = problems.text(fields.get("name"), (*at, "name")) or ""
    reason = problems.text(fields["reason"], (*at, "reason")) if fields.get("reason") is not None else ""
    from_s, until_s = (_time(fields.get(field), (*at, field), problems) for field in ("from", "until"))
    if from_s is not None and until_s is not None and until_s <= from_s:
        problems.add((*at, "until"), "it is not after from", "write a later time")
    hard, guaranteed = (amounts.read(fields, field, problems, at) for field in ("hard", "guaranteed"))
    return Override(name, from_s or 0.0, until_s or 0.0, hard, guaranteed, reason or "")


def _time(value: Tree, at: Path, problems: Problems) -> float | None:
    text = problems.text(value, at)
    if text is None:
        return None
    found = seconds(text)
    if found is None:
        problems.add(at, f"{shown(text)} is not a time of RFC 3339", TIME_CURE)
    return found


def _check_keys(one: Override, at: Path, problems: Problems, hard: Amounts, guaranteed: Amounts) -> None:
    for field, given in (("hard", one.hard), ("guaranteed", one.guaranteed)):
        for key in given:
            amounts.check_limited((*at, field, key), key, hard, problems)
    for key in one.keys & hard.keys():
        limit, promised = one.hard.get(key, hard[key]), one.guaranteed.get(key, guaranteed.get(key, 0))
        if promised > limit:
            more, most = (quantities.format(amount, key) for amount in (promised, limit))
            field = "guaranteed" if key in one.guaranteed else "hard"
            problems.add((*at, field, key), f"{more} is guaranteed then, and hard is {most}", "change one of them")


def _check_pair(first: Override, second: Override, at: Path, problems: Problems) -> None:
    if first.name == second.name:
        problems.add((*at, "name"), f'there is another override "{first.name}"', "rename or remove one of them")
    both = sorted(first.keys & second.keys)
    if both and first.from_s < second.until_s and second.from_s < first.until_s:
        detail = f'"{first.name}" holds at the same time, with {both[0]} too'
        problems.add(at, detail, "let one end before the other begins, or remove the key from one")
