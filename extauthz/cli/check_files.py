"""``extauthz check -f``: what the webhook would say of each object of some files, and which are not weighed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from extauthz.cli import asking, not_weighed, report
from extauthz.cli.flags.settings import effective
from extauthz.core.decision.gate import CLAMPED
from extauthz.core.errors import ObjectError
from extauthz.core.kinds import BY_NAME
from extauthz.core.model import Tree, Verdict
from extauthz.core.objects import fields
from extauthz.explain.target import plural
from extauthz.inputs.cluster import file as state_file
from extauthz.inputs.files import content
from extauthz.inputs.files.content import Content, FilesError
from extauthz.inputs.files.objects import Placed, objects
from extauthz.inputs.files.text import steps
from extauthz.serve.servers.api.shown import Json
from extauthz.serve.service import pod_groups
from extauthz.serve.service.setting_types import SettingsError


def run(arguments: argparse.Namespace) -> Verdict:
    """Print a line an object; the gravest verdict. Raises as ``asking.answered`` expects."""
    for name in ("workload", "replicas"):
        if getattr(arguments, name) is not None:
            raise SettingsError(f"{name}: leave it out where -f names files")
    custom = {*arguments.custom, *pod_groups.parse(effective(arguments).pod_groups)}
    weighed, others, left = _sorted(arguments.filename, arguments.namespace, custom)
    source = asking.source(arguments, others)
    found = [(one.name, source.decision({"object": one.tree})) for one in weighed]
    if arguments.output == "json":
        told = [{"file": file, "decision": decision} for file, decision in found]
        sys.stdout.write(report.as_json([*told, *(one._asdict() for one in left)]))
    else:
        sys.stdout.writelines(f"{_line(decision)}\n" for _, decision in found)
        sys.stdout.writelines(f"not weighed {one.notWeighed}: {one.why}\n" for one in left)
        if not found and not left:
            sys.stdout.write("no object with replicas\n")
    verdicts = {decision["verdict"] for _, decision in found} | {Verdict.UNAVAILABLE for _ in left}
    return next((one for one in (Verdict.DENY, Verdict.UNAVAILABLE) if one in verdicts), Verdict.ALLOW)


def _line(decision: Json) -> str:
    """``deny  deployments.apps shop/web 3 → 9: the sentence``."""
    one, count = decision["workload"], decision["replicas"]
    resource = ".".join(filter(None, (one["resource"], one["group"])))
    was, wanted = ("?" if count[key] is None else count[key] for key in ("from", "to"))
    change = f"{was} → {wanted}" if count["from"] is not None else f"new, {wanted}"
    if decision["verdict"] != Verdict.UNAVAILABLE and count["to"] is None:  # of its kind each object is one
        change = "new" if count["from"] is None else "changed"
    is_plain = decision["verdict"] == Verdict.ALLOW and decision["reason"] != CLAMPED
    why = decision["reason"] if is_plain else decision["sentence"]
    return f"{decision['verdict']:<11} {resource} {one['namespace']}/{one['name']}, {change}: {why}"


class Left(NamedTuple):
    file: str
    notWeighed: str  # noqa: N815 (a field of the JSON)
    why: str


def _sorted(
    names: Iterable[str], namespace: str | None, custom: Container[str]
) -> tuple[list[Placed], list[Placed], list[Left]]:
    """Those with replicas, each with its namespace (of custom resources those of ``custom``); what these rest on; and
    those of which pods come that are not weighed. Raises FilesError with all that is wrong."""
    read, problems = objects(_contents(names))
    weighed: list[Placed] = []
    others: list[Placed] = []
    left: list[Left] = []
    for one in read:
        try:
            if _is_gated(one.tree, custom):
                weighed.append(one._replace(tree=_in_namespace(one.tree, namespace)))
            elif fields.kind_of(one.tree) in state_file.RESTED_ON:
                others.append(one._replace(tree=_placed(one.tree, namespace)))
            elif why := not_weighed.why(one.tree):
                left.append(Left(one.name, not_weighed.named(one.tree, namespace), why))
        except ObjectError as error:
            detail, cure = error.detail.removeprefix(f"{error.path}: "), "correct it in the manifest"
            problems.append(one.problem(steps(error.path), error.path, detail, cure))
    if problems:
        raise FilesError(problems)
    return weighed, others, left


def _contents(names: Iterable[str]) -> Iterator[Content]:
    for name in names:
        if name == "-":
            yield Content("(standard input)", sys.stdin.buffer.read())
        else:
            yield from content.read(Path(name))


def _is_gated(tree: Tree, custom: Container[str]) -> bool:
    if not isinstance(tree, Mapping):
        raise ObjectError("kind", "is missing: it is no object of Kubernetes")
    if not tree.get("apiVersion"):
        raise ObjectError("apiVersion", "is missing")
    group, name = fields.kind_of(tree)
    kind = BY_NAME.get((group, name))
    return kind.is_gated or kind.is_admitted if kind is not None else f"{plural(name)}.{group}" in custom


def _placed(tree: Mapping[str, Tree], namespace: str | None) -> dict[str, Tree]:
    """The object in a namespace, if one is given anywhere."""
    given = tree.get("metadata")
    return dict(tree) | {"metadata": {"namespace": namespace, **(given if isinstance(given, Mapping) else {})}}


def _in_namespace(tree: Mapping[str, Tree], namespace: str | None) -> dict[str, Tree]:
    """The object with a name, a namespace and a spec. Raises ObjectError."""
    placed = _placed(tree, namespace)
    named = placed["metadata"]
    if not named.get("name") and not named.get("generateName"):
        raise ObjectError("metadata.name", "is missing")
    if not isinstance(tree.get("spec"), Mapping):
        raise ObjectError("spec", "must be an object")
    if not named["namespace"]:
        raise ObjectError("metadata.namespace", "is missing, and no --namespace is given")
    if namespace is not None and named["namespace"] != namespace:
        raise ObjectError("metadata.namespace", f"is {named['namespace']!r}, and --namespace says {namespace!r}")
    return placed
