"""``extauthz check``: the decision on one request, or how many replicas fit; it charges nothing."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from extauthz.cli import asking, asking_files, asking_made, headroom, made, not_weighed, report
from extauthz.cli.flags.settings import effective
from extauthz.core.decision.gate import CLAMPED
from extauthz.core.errors import ObjectError
from extauthz.core.intake.counts import read
from extauthz.core.kinds import BY_NAME
from extauthz.core.model import Request, Tree, Verdict, WorkloadRef
from extauthz.core.objects import fields
from extauthz.explain.target import plural
from extauthz.inputs.cluster import file as state_file
from extauthz.inputs.files import content
from extauthz.inputs.files.content import Content, FilesError
from extauthz.inputs.files.objects import Placed, objects
from extauthz.inputs.files.text import steps
from extauthz.serve.servers.api import shown
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.servers.api.shown import Json
from extauthz.serve.service import pod_groups
from extauthz.serve.service.ids import new_id
from extauthz.serve.service.setting_types import SettingsError


@asking.answered
def run(arguments: argparse.Namespace) -> int:
    """Print the decision; the exit code tells the verdict."""
    if arguments.filename is not None:
        return run_files(arguments)
    if arguments.workload is not None and arguments.replicas is None:
        return _how_many(arguments)
    decision = _decide(arguments)
    sys.stdout.write(report.OUTPUTS[arguments.output](decision))
    return EXITS[Verdict(decision["verdict"])]


def _how_many(arguments: argparse.Namespace) -> int:
    """Print how many fit; the exit code tells whether one replica more does."""
    ref = _ref(arguments)
    with asking.source(arguments) as source:
        found = source.headroom(ref)
        text = (
            report.as_json(found) if arguments.output == "json" else headroom.as_text(found) + _override(source, found)
        )
    sys.stdout.write(text)
    return 0 if found["replicas"] is None or found["replicas"] > found["observedReplicas"] else 1


def _override(source: asking.Source, found: Json) -> str:
    """Of the quota in the way: the override that is in force. Empty: none is, or the quota may not be seen."""
    quota = (found["bound"] or {}).get("quota")
    if quota is None:
        return ""
    with suppress(Problem):
        if (one := source.quota(quota))["override"]:
            return f"\n{quota}: {shown.override(one)}\n"
    return ""


def _decide(arguments: argparse.Namespace) -> Json:
    if arguments.workload is not None:
        asked = shown.named(_ref(arguments)) | {"replicas": arguments.replicas}
        with asking.source(arguments) as source:
            return source.decision(asked)
    if arguments.method is None or arguments.path is None:
        raise SettingsError("say what to decide: KIND/NAME -n NAMESPACE, -f FILE, or --method and --path")
    if arguments.server is not None or arguments.port_forward is not None:
        raise SettingsError("a server answers for KIND/NAME -n NAMESPACE --replicas N; for --method give files")
    return shown.decision(asking_files.gate(arguments).decide(read(_request(arguments)), new_id(), 0.0, charge=False))


def _ref(arguments: argparse.Namespace) -> WorkloadRef:
    given = [name for name in ("method", "path", "body") if getattr(arguments, name) is not None]
    if given:
        raise SettingsError(f"--{given[0]}: leave it out where a workload is given")
    if arguments.namespace is None:
        raise SettingsError("--namespace is needed with a workload")
    group, plural, name = arguments.workload
    return WorkloadRef(group, plural, arguments.namespace, name)


def _request(arguments: argparse.Namespace) -> Request:
    headers: dict[str, str] = {}
    for name, value in arguments.header:
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    # Bytes that are not UTF-8 reach the gate as Envoy's stand-in for them would: as something that is no name.
    target = os.fsencode(arguments.path).decode("utf-8", "replace")
    return Request(arguments.method, target, headers, _body(arguments.body))


def _body(source: str | None) -> bytes:
    if source is None:
        return b""
    return sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()


# ``extauthz check -f``: what the webhook would say of each object of some files.

EXITS: Final = {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.UNAVAILABLE: 2}

_NAMES: Final = ("workload", "replicas", "method", "path", "body")
"""What else ``check`` decides."""


def run_files(arguments: argparse.Namespace) -> int:
    """Print a line an object; the exit code tells the gravest verdict. Raises as ``asking.answered`` expects."""
    for name in _NAMES:
        if getattr(arguments, name) is not None:
            raise SettingsError(f"{name}: leave it out where -f names files")
    custom = {*arguments.custom, *pod_groups.parse(effective(arguments).pod_groups)}
    placed, others, left = _sorted(arguments.filename, arguments.namespace, custom)
    with asking.source(arguments, others) as source:
        found = [(file, *asking_made.decided(source, one)) for file, one in placed]
    if arguments.output == "json":
        told = [{"file": file, "decision": decision} for file, decision, _ in found]
        sys.stdout.write(report.as_json([*told, *(one._asdict() for one in left)]))
    else:
        sys.stdout.writelines(f"{_line(decision)}\n" for _, decision, _ in found)
        sys.stdout.writelines(f"not weighed {one.notWeighed}: {one.why}\n" for one in left)
        if not found and not left:
            sys.stdout.write("no object with replicas\n")
    verdicts = {verdict for *_, verdict in found}
    if left:
        verdicts.add(Verdict.UNAVAILABLE)
    gravest = next((one for one in (Verdict.DENY, Verdict.UNAVAILABLE) if one in verdicts), Verdict.ALLOW)
    return EXITS[gravest]


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
    """An object that is not weighed."""

    file: str
    notWeighed: str  # noqa: N815 (a field of the JSON)
    why: str


def _sorted(
    names: Iterable[str], namespace: str | None, custom: Container[str]
) -> tuple[list[tuple[str, made.Made]], list[Placed], list[Left]]:
    """Those with replicas, each with its file and its namespace (of custom resources those of ``custom``); what these
    rest on; and those of which pods come that are not weighed. Raises FilesError with all that is wrong."""
    read, problems = objects(_contents(names))
    found: list[tuple[str, made.Made]] = []
    others: list[Placed] = []
    left: list[Left] = []
    for one in read:
        try:
            makes = [made.Made(one.tree)] if _is_gated(one.tree, custom) else made.of(one.tree)
            gated = [each for each in makes if _is_gated(each.tree, custom)]
            found += [(one.name, each._replace(tree=_in_namespace(each.tree, namespace))) for each in gated]
            why: str | None = ""
            if gated:
                why = made.beyond(one.tree)
            elif fields.kind_of(one.tree) in state_file.RESTED_ON:
                others.append(one._replace(tree=_placed(one.tree, namespace)))
            else:
                why = not_weighed.why(one.tree)
            if why:
                left.append(Left(one.name, not_weighed.named(one.tree, namespace), why))
        except ObjectError as error:
            detail, cure = error.detail.removeprefix(f"{error.path}: "), "correct it in the manifest"
            problems.append(one.problem(steps(error.path), error.path, detail, cure))
    if problems:
        raise FilesError(problems)
    return found, others, left


def _placed(tree: Mapping[str, Tree], namespace: str | None) -> dict[str, Tree]:
    given = tree.get("metadata")
    metadata = given if isinstance(given, Mapping) else {}
    return dict(tree) | {"metadata": {"namespace": namespace, **metadata}}


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


def _in_namespace(tree: Mapping[str, Tree], namespace: str | None) -> dict[str, Tree]:
    """The object with a name, a namespace and a spec. Raises ObjectError."""
    given = tree.get("metadata")
    named = dict(given) if isinstance(given, Mapping) else {}
    if not named.get("name") and not named.get("generateName"):
        raise ObjectError("metadata.name", "is missing")
    if not isinstance(tree.get("spec"), Mapping):
        raise ObjectError("spec", "must be an object")
    written = named.setdefault("namespace", namespace)
    if not written:
        raise ObjectError("metadata.namespace", "is missing, and no --namespace is given")
    if namespace is not None and written != namespace:
        raise ObjectError("metadata.namespace", f"is {written!r}, and --namespace says {namespace!r}")
    return dict(tree) | {"metadata": named}
