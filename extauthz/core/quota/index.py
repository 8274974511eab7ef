"""Finds the few quotas whose selectors may match some labels, without trying them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from extauthz.core.quota.selectors import Anchor, LabelSelector

Item = TypeVar("Item")
Place: TypeAlias = tuple[int, Anchor]
"""Which set of labels (by position), and the label that must be in it."""


class SelectorIndex(Generic[Item]):
    """Files each item under one label that its selectors ask for: the label that the fewest other items ask for.

    An item has one selector for each set of labels (a quota: the namespace's and the workload's). Looking up
    costs in proportion to the labels given and to what is filed under them, not to the number of items; only
    items whose selectors ask for no label at all (``{}``, ``NotIn``, ``DoesNotExist``) come up every time.
    """

    __slots__ = ("_anywhere", "_filed")

    def __init__(self, items: Iterable[tuple[Item, Sequence[LabelSelector | None]]]) -> None:
        entries = [(item, _choices(selectors)) for item, selectors in items]
        asked = Counter(place for _, choices in entries for choice in choices for place in choice)
        self._filed: dict[Place, list[Item]] = {}
        self._anywhere: list[Item] = []
        for item, choices in entries:
            if not choices:
                self._anywhere.append(item)
                continue
            for place in min(choices, key=lambda choice: sum(asked[place] for place in choice)):
                self._filed.setdefault(place, []).append(item)

    def lookup(self, *label_sets: Mapping[str, str]) -> Iterator[Item]:
        """Yield every item whose selectors may match, each once; the caller tries the selectors."""
        yield from self._anywhere
        filed = self._filed
        for at, labels in enumerate(label_sets):
            for key, value in labels.items():
                yield from filed.get((at, (key, value)), ())
                yield from filed.get((at, (key, None)), ())


def _choices(selectors: Sequence[LabelSelector | None]) -> list[tuple[Place, ...]]:
    return [
        tuple((at, anchor) for anchor in alternatives)
        for at, selector in enumerate(selectors)
        if selector is not None
        for alternatives in selector.anchors()
    ]
