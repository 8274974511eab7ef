"""Errors with stable codes: what cannot be read in bodies and objects, and what costs too much."""

from __future__ import annotations


class BodyError(Exception):
    """A body that the gate cannot read, or that the API server would refuse.

    ``code`` is stable and kebab-case (a metric label), ``detail`` names the place and the cure.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class ObjectError(Exception):
    """An object whose field is not of the type that the API server takes."""

    def __init__(self, path: str, detail: str, code: str = "malformed-object") -> None:
        super().__init__(f"{code}: {path}: {detail}")
        self.code = code
        self.detail = f"{path}: {detail}"
        self.path = path
