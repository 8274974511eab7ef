"""Label selectors as Kubernetes has them: what they match, what is refused, and how to index them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from extauthz.core.model import Requester, Tree
from extauthz.core.quota.problems import Path, Problems, shown

Anchor: TypeAlias = tuple[str, str | None]
"""A label that must exist: key and value, or a key with any value (``None``)."""

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_MAX = 63
_SUBDOMAIN_MAX = 253

_NAME_CURE = "use letters, digits, '-', '_' and '.', a letter or digit first and last, at most 63 characters"

_TESTS: Mapping[str, Callable[[str | None, frozenset[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}
"""Operator to its test of a label's value (``None``: no such label).

``NotIn`` holds where the label is absent: ``Requirement.Matches`` in
``k8s.io/apimachinery/pkg/labels/selector.go``.
"""

_TAKES_VALUES = frozenset({"In", "NotIn"})
_TAKES_NONE = frozenset({"Exists", "DoesNotExist"})


class Requirement(NamedTuple):
    """One line of ``matchExpressions``."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether these labels meet the requirement."""
        return _TESTS[self.operator](labels.get(self.key), self.values)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """``metav1.LabelSelector``: every label and requirement must hold. An empty one matches everything."""

    match_labels: tuple[tuple[str, str], ...] = ()
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with these labels is selected."""
        for key, value in self.match_labels:
            if labels.get(key) != value:
                return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def selects_all(self) -> bool:
        """Whether no labels are asked for."""
        return not self.match_labels and not self.requirements

    def anchors(self) -> list[tuple[Anchor, ...]]:
        """List what an index may file this selector under.

        Each entry is a set of alternatives: labels that match carry at least one of them. An empty list means
        that nothing must be there (``{}``, ``NotIn``, ``DoesNotExist``), so no index helps.
        """
        found: list[tuple[Anchor, ...]] = [((key, value),) for key, value in self.match_labels]
        for key, operator, values in self.requirements:
            if operator == "In":
                found.append(tuple((key, value) for value in sorted(values)))
            elif operator == "Exists":
                found.append(((key, None),))
        return found


def parse(tree: Tree, path: Path, problems: Problems) -> LabelSelector:
    """Read a selector, and note in ``problems`` all that Kubernetes would refuse. Without problems the result is valid.

    Source: ``ValidateLabelSelector`` in ``k8s.io/apimachinery/pkg/apis/meta/v1/validation``.
    """
    fields = problems.mapping(tree, path)
    problems.unknown_fields(fields, ("matchLabels", "matchExpressions"), path)
    here = (*path, "matchLabels")
    labels = problems.mapping(fields.get("matchLabels"), here)
    pairs = [_pair(key, labels[key], (*here, key), problems) for key in sorted(labels)]
    here = (*path, "matchExpressions")
    expressions = problems.items(fields.get("matchExpressions"), here)
    requirements = [_requirement(item, (*here, at), problems) for at, item in enumerate(expressions)]
    return LabelSelector(tuple(pairs), tuple(requirements))


def is_subdomain(text: str) -> bool:
    """Tell whether ``text`` is a lower-case RFC 1123 subdomain within 253 characters, as object names are."""
    return len(text) <= _SUBDOMAIN_MAX and _SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Tell whether ``text`` is a key that a label may have."""
    prefix, slash, name = text.rpartition("/")
    return _is_name(name) and (not slash or is_subdomain(prefix))


def _pair(key: str, value: Tree, path: Path, problems: Problems) -> tuple[str, str]:
    _check_key(key, path, problems)
    return key, _value(value, path, problems)


def _requirement(tree: Tree, path: Path, problems: Problems) -> Requirement:
    fields = problems.mapping(tree, path)
    problems.unknown_fields(fields, ("key", "operator", "values"), path)
    key = problems.text(fields.get("key"), (*path, "key")) or ""
    if isinstance(fields.get("key"), str):
        _check_key(key, (*path, "key"), problems)
    operator = _operator(fields.get("operator"), (*path, "operator"), problems)
    here = (*path, "values")
    given = problems.items(fields.get("values"), here)
    values = [_value(item, (*here, at), problems) for at, item in enumerate(given)]
    if operator in _TAKES_VALUES and not given:
        problems.add(here, f"{operator} without values", "list at least one value")
    if operator in _TAKES_NONE and given:
        problems.add(here, f"{operator} takes no values", "remove values, or use In or NotIn")
    return Requirement(key, operator, frozenset(values))


def _operator(value: Tree, path: Path, problems: Problems) -> str:
    text = problems.text(value, path)
    if text is not None and text not in _TESTS:
        problems.add(path, f"{shown(text)} is not an operator", f"use one of {', '.join(_TESTS)}")
    return text or ""


def _check_key(key: str, path: Path, problems: Problems) -> None:
    prefix, slash, name = key.rpartition("/")
    if slash and not is_subdomain(prefix):
        problems.add(path, f"the prefix of label key {shown(key)} is not a DNS subdomain", "write example.com/name")
    if not _is_name(name):
        problems.add(path, f"{shown(key)} is not a label key", _NAME_CURE)


def _value(value: Tree, path: Path, problems: Problems) -> str:
    text = problems.text(value, path)
    if text and not _is_name(text):
        problems.add(path, f"{shown(text)} is not a label value", _NAME_CURE)
    return text or ""


def _is_name(text: str) -> bool:
    return len(text) <= _NAME_MAX and _NAME.fullmatch(text) is not None


# Whom a quota binds: ``spec.requesters`` of a WorkspaceQuota, and who asks.
#
# Somebody whom a quota does not bind is not refused by it. What they write counts in it all the same.

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


def parse_requesters(tree: Tree, path: Path, problems: Problems) -> Requesters | None:
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
