"""What is wrong with a file that a person wrote, with file, line, field and cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class FileProblem(NamedTuple):
    """One thing to repair. Prints as compilers do: ``quotas.yaml:12: spec.hard.cpu: what is wrong; the cure``."""

    file: str
    line: int | None
    """From 1; ``None`` where the file has none (it cannot be opened)."""
    field: str
    """As the API server spells it, ``spec.hard[requests.cpu]``; empty where it is not about a field."""
    detail: str
    cure: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(filter(None, (place, self.field, f"{self.detail}; {self.cure}")))


class FilesError(Exception):
    """Files that cannot be used. Their author's fault: trying again helps only once they have changed.

    ``problems`` lists everything that is wrong with all of them; the text is one line each.
    """

    code = "bad-file"

    def __init__(self, problems: Sequence[FileProblem]) -> None:
        assert problems
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
