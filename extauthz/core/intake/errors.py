"""What can be wrong with a body, as codes that end up in ``Unreadable``."""

from __future__ import annotations


class BodyError(Exception):
    """A body that the gate cannot read, or that the API server would refuse.

    ``code`` is stable and kebab-case (a metric label), ``detail`` names the place and the cure.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
