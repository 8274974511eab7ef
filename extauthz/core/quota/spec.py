"""Reads a WorkspaceQuota: from the object that a person wrote to a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from extauthz.core.model import Amounts, OnUnknown, Tree, Unknown
from extauthz.core.quota import amounts, overrides, selectors
from extauthz.core.quota.overrides import Override
from extauthz.core.quota.problems import Path, Problem, Problems, shown
from extauthz.core.quota.selectors import LabelSelector, Requesters, Requirement
from extauthz.core.texts import stamp

GROUP = "extauthz.dev"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "WorkspaceQuota"

LABEL = "workspace"
"""The label of a namespace that a quota without ``namespaceSelector`` looks at: its value is the quota's name."""

_NAME_CURE = "use lower-case letters, digits, '-' and '.', a letter or digit first and last, within 253 characters"

_OBJECT_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA_FIELDS = (
    "name", "namespace", "labels", "annotations", "generation", "uid", "resourceVersion", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "ownerReferences", "managedFields",
    "generateName", "selfLink",
)  # fmt: skip
_SPEC_FIELDS = (
    "parent", "namespaceSelector", "workloadSelector", "hard", "guaranteed", "overrides", "sharing", "mode",
    "onUnknown", "requesters",
)  # fmt: skip
_SHARING_FIELDS = ("turns", "turnSeconds", "weight")
_ON_UNKNOWN: Mapping[str, OnUnknown] = {"Deny": "deny", "Allow": "allow"}


class Mode(StrEnum):
    """What to do at the limit."""

    ENFORCE = "Enforce"
    """Refuse."""
    CLAMP = "Clamp"
    """Grant what still fits where a server can change the write; refuse elsewhere."""
    AUDIT = "Audit"
    """Allow it, and report what would have been refused."""


TURN_S = 300
"""For how long it is one workload's turn, unless the quota says otherwise (``sharing.turnSeconds``)."""

MAX_TURN_S = 3600
MAX_WEIGHT = 1000


@dataclass(frozen=True, slots=True)
class WorkspaceQuota:
    """One quota: whom it covers, what is hard, and what to do at the limit."""

    name: str
    parent: str | None = None
    namespace_selector: LabelSelector | None = None
    """``None`` selects nothing: such a quota is charged only through its descendants. One that is read has it only if
    nobody can tell whom it means."""
    workload_selector: LabelSelector | None = None
    """On the workload's own labels; ``None`` selects all, and so does ``{}``, which is read as ``None``."""
    hard: Amounts = field(default_factory=dict)
    """Canonical key to nano-units; a key that is not there has no limit."""
    guaranteed: Amounts = field(default_factory=dict)
    """Room that its siblings never get, used or not; of keys of ``hard``, and no more than that."""
    overrides: tuple[Override, ...] = ()
    """Other amounts at some times."""
    turn_s: int | None = None
    """Who is refused for want of room in its tree stands in a line, and is first for no longer than this; ``None``: who
    asks first gets it."""
    weight: int = 1
    """What its share of the tree is divided by, where that has turns."""
    mode: Mode = Mode.CLAMP
    on_unknown: Mapping[Unknown, OnUnknown] = field(default_factory=dict)
    """What this quota says about unknowns. Other unknowns are left to its ancestors and the settings."""
    requesters: Requesters | None = None
    """Whom it binds; ``None``: everybody."""
    generation: int = 0
    illegible: bool = False
    """Its object was never valid. Its limits are not known, so nothing that it covers may grow."""

    @property
    def by_its_name(self) -> bool:
        """Whether it covers the namespaces labelled with its name, as one without ``namespaceSelector`` does."""
        return self.namespace_selector == _of_the_name(self.name)

    def hard_at(self, wall_s: float) -> Amounts:
        """The limits that hold at a time, in seconds since 1970."""
        given = [(one, one.hard) for one in self.overrides]
        some = [overrides.at_one(self.hard, given, at_s) for at_s in overrides.about(self.overrides, wall_s)]
        return {key: min(one[key] for one in some) for key in self.hard}

    def guaranteed_at(self, wall_s: float) -> Amounts:
        """The guarantees that hold at a time."""
        given = [(one, one.guaranteed) for one in self.overrides]
        some = [overrides.at_one(self.guaranteed, given, at_s) for at_s in overrides.about(self.overrides, wall_s)]
        return {key: max(one.get(key, 0) for one in some) for key in frozenset[str]().union(*some)}

    def matches(self, namespace_labels: Mapping[str, str], workload_labels: Mapping[str, str]) -> bool:
        """Tell whether this quota itself covers a workload. Ancestors are not considered."""
        selector = self.namespace_selector
        if selector is None or not selector.matches(namespace_labels):
            return False
        return self.workload_selector is None or self.workload_selector.matches(workload_labels)


class QuotaSpecError(ValueError):
    """An object is not a good WorkspaceQuota. The author's fault; trying again does not help.

    ``problems`` lists everything that is wrong with it.
    """

    code = "bad-quota"

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def parse(tree: Tree) -> WorkspaceQuota:
    """Read a WorkspaceQuota object.

    Raises:
        QuotaSpecError: with every problem of the object.
    """
    problems = Problems()
    quota = _read(tree, problems)
    if problems:
        raise QuotaSpecError(tuple(problems))
    return quota


def salvage(tree: Tree) -> WorkspaceQuota:
    """Read an invalid object as far as possible: whom it covers, and its place in the tree.

    A selector with a problem selects nothing. Nobody knows whom it means, and to take it for everybody would let one
    object stop a whole cluster.
    """
    problems = Problems()
    quota = _read(tree, problems)
    spoilt = {"".join(map(str, one.path[1:2])) for one in problems if one.path[:1] in ((), ("spec",))}
    selects = bool(quota.name) and not spoilt & {"", "namespaceSelector", "workloadSelector"}
    return replace(
        quota,
        parent=None if "parent" in spoilt else quota.parent,
        namespace_selector=quota.namespace_selector if selects else None,
        workload_selector=quota.workload_selector if selects else None,
        hard={},
        guaranteed={},
        overrides=(),
        requesters=None,
        illegible=True,
    )


def _read(tree: Tree, problems: Problems) -> WorkspaceQuota:
    root = problems.mapping(tree, ())
    problems.unknown_fields(root, _OBJECT_FIELDS, ())
    _check_kind(root, problems)
    name, generation = _metadata(root.get("metadata"), problems)
    spec = problems.mapping(root.get("spec"), ("spec",))
    problems.unknown_fields([name for name in spec if name not in _SHARING_FIELDS], _SPEC_FIELDS, ("spec",))
    hard = amounts.read(spec, "hard", problems, ("spec",))
    guaranteed = amounts.read(spec, "guaranteed", problems, ("spec",), hard)
    turn_s, weight = _sharing(spec, problems)
    return WorkspaceQuota(
        name=name,
        parent=_parent(spec.get("parent"), problems),
        namespace_selector=_selector(spec, "namespaceSelector", problems) or _of_the_name(name),
        workload_selector=_unless_all(_selector(spec, "workloadSelector", problems)),
        hard=hard,
        guaranteed=guaranteed,
        overrides=overrides.parse(spec.get("overrides"), problems, hard, guaranteed),
        turn_s=turn_s,
        weight=weight,
        mode=_mode(spec.get("mode"), problems),
        on_unknown=_on_unknown(spec.get("onUnknown"), problems),
        requesters=selectors.parse_requesters(spec.get("requesters"), ("spec", "requesters"), problems),
        generation=generation,
    )


def _check_kind(root: Mapping[str, Tree], problems: Problems) -> None:
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if root.get(key) != wanted:
            problems.add((key,), f"{shown(root.get(key))} is not a {KIND}'s {key}", f"write {key}: {wanted}")


def _metadata(tree: Tree, problems: Problems) -> tuple[str, int]:
    fields = problems.mapping(tree, ("metadata",))
    problems.unknown_fields(fields, _METADATA_FIELDS, ("metadata",))
    if fields.get("namespace"):
        problems.add(("metadata", "namespace"), f"a {KIND} is cluster-scoped", "remove metadata.namespace")
    generation = fields.get("generation")
    if generation is not None and type(generation) is not int:
        problems.add(("metadata", "generation"), f"{shown(generation)} is not an integer", "remove it")
        generation = None
    return _name(fields.get("name"), ("metadata", "name"), problems), generation or 0


def _name(value: Tree, path: Path, problems: Problems) -> str:
    text = problems.text(value, path)
    if text is not None and not selectors.is_subdomain(text):
        problems.add(path, f"{shown(text)} is not an object name", _NAME_CURE)
    return text or ""


def _parent(value: Tree, problems: Problems) -> str | None:
    return None if value is None else _name(value, ("spec", "parent"), problems)


def _selector(spec: Mapping[str, Tree], key: str, problems: Problems) -> LabelSelector | None:
    tree = spec.get(key)
    return None if tree is None else selectors.parse(tree, ("spec", key), problems)


def _of_the_name(name: str) -> LabelSelector:
    return LabelSelector(((LABEL, name),))


def _unless_all(selector: LabelSelector | None) -> LabelSelector | None:
    return None if selector is None or selector.selects_all else selector


def _mode(value: Tree, problems: Problems) -> Mode:
    if isinstance(value, str) and value in {mode.value for mode in Mode}:
        return Mode(value)
    if value is not None:
        problems.add(("spec", "mode"), f"{shown(value)} is not a mode", f"use one of {', '.join(Mode)}")
    return Mode.CLAMP


def _sharing(spec: Mapping[str, Tree], problems: Problems) -> tuple[int | None, int]:
    """For how long it is one's turn, and its weight. A field that has no effect here is a problem."""
    path: Path = ("spec", "sharing")
    for name in _SHARING_FIELDS:
        if name in spec:
            problems.add(("spec", name), "it is a field of sharing", f"write sharing: {{{name}: …}}")
    given = problems.mapping(spec.get("sharing"), path)
    problems.unknown_fields(given, _SHARING_FIELDS, path)
    turns = given.get("turns")
    seconds, weight = (_whole(given, *one, problems) for one in (("turnSeconds", MAX_TURN_S), ("weight", MAX_WEIGHT)))
    if turns not in (None, "FirstCome", "Share"):
        problems.add((*path, "turns"), f"{shown(turns)} is no order", "use one of FirstCome, Share")
    has_parent = spec.get("parent") is not None
    if turns is not None and has_parent:
        problems.add((*path, "turns"), "the root of its tree says it", "write it there, or remove parent")
    if seconds is not None and turns != "Share":
        problems.add((*path, "turnSeconds"), "it has no turns", "write turns: Share, or remove it")
    if weight is not None and not has_parent:
        problems.add((*path, "weight"), "a root shares with nobody", "write it on its children, or remove it")
    return (seconds or TURN_S) if turns == "Share" else None, weight or 1


def _whole(given: Mapping[str, Tree], name: str, most: int, problems: Problems) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= most:
        said = f"{shown(value)} is no whole number from 1 to {most}"
        problems.add(("spec", "sharing", name), said, "write one, or remove it")
        return None
    return value


def _on_unknown(tree: Tree, problems: Problems) -> dict[Unknown, OnUnknown]:
    path: Path = ("spec", "onUnknown")
    given = problems.mapping(tree, path)
    problems.unknown_fields(given, list(Unknown), path)
    said: dict[Unknown, OnUnknown] = {}
    for unknown in Unknown:
        value = given.get(unknown)
        if isinstance(value, str) and value in _ON_UNKNOWN:
            said[unknown] = _ON_UNKNOWN[value]
        elif value is not None:
            problems.add((*path, unknown), f"{shown(value)} is neither Deny nor Allow", "write Deny or Allow")
    return said


# A WorkspaceQuota as the object that a person would write: what limits whom, and nothing about persons.


def written(name: str, spec: Tree) -> Tree:
    """The object of that name and spec."""
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def dumped(quota: WorkspaceQuota) -> Tree:
    """Its ``spec``: parent, selectors, limits, guarantees, overrides and mode. Fields that say nothing are left out.

    Whom it binds and reasons of overrides are left out too.
    """
    fields = {
        "parent": quota.parent,
        "namespaceSelector": _selector_dump(quota.namespace_selector),
        "workloadSelector": _selector_dump(quota.workload_selector),
        "hard": amounts.spelled(quota.hard),
        "guaranteed": amounts.spelled(quota.guaranteed) or None,
        "overrides": [_override(one) for one in quota.overrides] or None,
        "mode": quota.mode.value,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _selector_dump(selector: LabelSelector | None) -> Tree:
    if selector is None:
        return None
    found: dict[str, Tree] = {}
    if selector.match_labels:
        found["matchLabels"] = dict(selector.match_labels)
    if selector.requirements:
        found["matchExpressions"] = [_requirement(one) for one in selector.requirements]
    return found


def _requirement(one: Requirement) -> Tree:
    values = {"values": sorted(one.values)} if one.values else {}
    return {"key": one.key, "operator": one.operator, **values}


def _override(one: Override) -> Tree:
    found = {"name": one.name, "from": stamp(one.from_s), "until": stamp(one.until_s)}
    given = {"hard": amounts.spelled(one.hard), "guaranteed": amounts.spelled(one.guaranteed)}
    return found | {name: value for name, value in given.items() if value}
