"""WorkspaceQuotas from YAML or JSON files, read once or watched. Errors name file, line, field and cure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from extauthz.core.quota.problems import Problem, dotted
from extauthz.core.quota.spec import QuotaSpecError, WorkspaceQuota
from extauthz.core.quota.spec import parse as parse_quota
from extauthz.core.quota.tree import QuotaTree, QuotaTreeError, TreeProblem
from extauthz.inputs.files import content
from extauthz.inputs.files.content import Content, FileProblem, FilesError
from extauthz.inputs.files.objects import Placed, objects


class Quotas(NamedTuple):
    tree: QuotaTree
    warnings: tuple[FileProblem, ...]
    """What is allowed and probably a mistake (``QuotaTree.warnings``)."""


def load(path: Path) -> Quotas:
    """Read the quotas of a file, or of every YAML and JSON file of a directory.

    Raises:
        FilesError: with everything that is wrong with them.
    """
    return parse(content.read(path))


def parse(contents: Sequence[Content]) -> Quotas:
    """Read the quotas of files that were read already.

    Raises:
        FilesError: with everything that is wrong with all of them.
    """
    found, problems = objects(contents)
    quotas: list[tuple[WorkspaceQuota, Placed]] = []
    for placed in found:
        _read(placed, quotas, problems)
    if problems:
        raise FilesError(problems)
    try:
        tree = QuotaTree.build(quota for quota, _ in quotas)
    except QuotaTreeError as error:
        raise FilesError(_located(error.problems, quotas)) from None
    return Quotas(tree, tuple(_located(tree.warnings, quotas)))


def _read(placed: Placed, quotas: list[tuple[WorkspaceQuota, Placed]], problems: list[FileProblem]) -> None:
    try:
        quotas.append((parse_quota(placed.tree), placed._replace(tree=None)))
    except QuotaSpecError as error:
        problems += (_problem(placed, problem) for problem in error.problems)


def _located(problems: Sequence[TreeProblem], quotas: Sequence[tuple[WorkspaceQuota, Placed]]) -> list[FileProblem]:
    return [_problem(quotas[each.position][1], each.problem) for each in problems]


def _problem(placed: Placed, problem: Problem) -> FileProblem:
    return placed.problem(problem.path, dotted(problem.path), problem.detail, problem.cure)
