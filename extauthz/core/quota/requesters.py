"""Whom a quota binds: ``spec.requesters`` of a WorkspaceQuota, and who asks.

Somebody whom a quota does not bind is not refused by it. What they write counts in it all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from extauthz.core.model import Requester, Tree
from extauthz.core.quota.problems import Path, Problems, shown

CONTEXT_EXTENSION = "extauthz.dev/requester"
"""By which an Envoy's configuration says whose writes come by its listener. No client can set one."""

METADATA = "x-extauthz-requester"
"""The same for ext_proc: a key of the metadata that Envoy begins its calls of the gate with."""

_ACCOUNT = "system:serviceaccount:"
_FIELDS = ("users", "groups", "serviceAccounts", "podNames")
_PATTERN = re.compile(r"[^*]+\*?|\*")
_ACCOUNT_PATTERN = re.compile(r"[^*/]+/([^*/]+\*?|\*)")


@dataclass(frozen=True, slots=True)
class Names:
    """Some requesters. A name that ends in ``*`` stands for all that begin like it."""

    users: tuple[str, ...] = ()
    """Service accounts among them, by their user names."""
    groups: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    """With their namespace, or without: then in every one."""

    def have(self, requester: Requester) -> bool:
        """Whether one of the names is the requester's."""
        return (
            _any(self.users, (requester.user,))
            or _any(self.groups, requester.groups)
            or any(_any((one,), requester.pods if "/" not in one else _placed(requester)) for one in self.pods)
        )


def _placed(requester: Requester) -> Iterable[str]:
    """Its pods as NAMESPACE/NAME: they are in the namespace of their service account."""
    namespace = requester.user.removeprefix(_ACCOUNT).partition(":")[0]
    return (f"{namespace}/{pod}" for pod in requester.pods)


@dataclass(frozen=True, slots=True)
class Requesters:
    """Whom a quota binds: those that are included, but for those that are excepted."""

    include: Names | None = None
    """``None``: everybody."""
    excepted: Names | None = None

    def bind(self, requester: Requester) -> bool:
        """Whether the quota binds them."""
        if self.excepted is not None and self.excepted.have(requester):
            return False
        return self.include is None or self.include.have(requester)


@lru_cache(maxsize=1024)
def by_name(user: str) -> Requester:
    """Somebody of whom only the user name is known. A service account's groups follow from it."""
    namespace, colon, name = user.removeprefix(_ACCOUNT).partition(":")
    groups: tuple[str, ...] = ("system:authenticated",)
    if user.startswith(_ACCOUNT) and colon and name:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", *groups)
    return Requester(user, groups)


def parse(tree: Tree, path: Path, problems: Problems) -> Requesters | None:
    """Read the field; ``None``: it is not there, and everybody is bound."""
    if tree is None:
        return None
    given = problems.mapping(tree, path)
    problems.unknown_fields(given, ("include", "except"), path)
    if not given:
        problems.add(path, "it names nobody", "name whom the quota binds: include, except, or both; or remove it")
    return Requesters(
        *(_names(given[key], (*path, key), problems) if key in given else None for key in ("include", "except"))
    )


def _names(tree: Tree, path: Path, problems: Problems) -> Names:
    given = problems.mapping(tree, path)
    problems.unknown_fields(given, _FIELDS, path)
    if not given:
        problems.add(path, "it names nobody", f"give one of {', '.join(_FIELDS)}")
    found = {field: _texts(given, field, path, problems) for field in _FIELDS}
    accounts = (f"{_ACCOUNT}{name.replace('/', ':', 1)}" for name in found["serviceAccounts"])
    return Names((*found["users"], *accounts), found["groups"], found["podNames"])


def _texts(given: Mapping[str, Tree], field: str, path: Path, problems: Problems) -> tuple[str, ...]:
    if field not in given:
        return ()
    items = problems.items(given[field], (*path, field))
    if not items:
        problems.add((*path, field), "it names nobody", "list at least one, or remove it")
    found = []
    for number, item in enumerate(items):
        at = (*path, field, number)
        name = problems.text(item, at)
        if name is None:
            continue
        if field == "serviceAccounts" and not _ACCOUNT_PATTERN.fullmatch(name):
            problems.add(at, f"{shown(name)} is no service account", "write NAMESPACE/NAME, or NAMESPACE/* for all")
        elif not _PATTERN.fullmatch(name):
            problems.add(at, f"{shown(name)} is no name", "write a whole name, or its beginning and * at the end")
        found.append(name)
    return tuple(found)


def _any(patterns: Iterable[str], names: Iterable[str]) -> bool:
    return any(_fits(pattern, name) for pattern in patterns for name in names)


def _fits(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
