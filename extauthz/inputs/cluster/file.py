"""The state of the cluster from a Kubernetes List, as ``kubectl get ns,deploy,sts,rs -A -o yaml`` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from extauthz.core.decision.cluster_state import Snapshot
from extauthz.core.errors import ObjectError
from extauthz.core.model import Tree
from extauthz.core.objects.custom import Where
from extauthz.core.objects.fields import at
from extauthz.inputs.cluster.snapshot import DEFINITION, SnapshotBuilder
from extauthz.inputs.files.content import Content, FileProblem, FilesError
from extauthz.inputs.files.objects import Placed, objects
from extauthz.inputs.files.text import steps

_CURES = {"listed-twice": "keep one of them"}
_ANOTHER_CURE = "write it as `kubectl get -o yaml` prints it"


class StateFile(NamedTuple):
    state: Snapshot
    warnings: tuple[FileProblem, ...]
    """Problems that leave something unknown, but not the file useless."""


def parse(
    contents: Sequence[Content], templates: Mapping[str, Where] | None = None, more: Sequence[Placed] = ()
) -> StateFile:
    """Objects of state files (JSON is read several times as fast as YAML).

    Args:
        templates: as of ``SnapshotBuilder``.
        more: objects that stand in a manifest, of which those of the files go first.

    Raises:
        FilesError: with each object that is not as an API server prints it.
    """
    found, illegible = objects(contents)
    if more:
        there = {_name(one.tree) for one in found}
        found += [one for one in more if _name(one.tree) not in there]
    return of(found, templates, illegible)


def of(
    found: Sequence[Placed], templates: Mapping[str, Where] | None = None, illegible: Sequence[FileProblem] = ()
) -> StateFile:
    """The same of objects that were read already; ``illegible``: what cannot be read of their files."""
    builder = SnapshotBuilder(templates)
    seen: dict[str, Placed] = {}
    problems: list[FileProblem] = []
    for placed in sorted(found, key=_is_no_definition):
        _take(placed, builder, seen, problems)
    if problems or illegible:
        raise FilesError([*problems, *illegible])
    state = builder.state()
    unknown = (_unknown(name, placed) for name, placed in seen.items() if name not in state.namespaces)
    return StateFile(state, tuple(unknown))


RESTED_ON: Final = frozenset(
    {
        ("resource.k8s.io", "ResourceClaimTemplate"),
        ("", "LimitRange"),
        ("", "Namespace"),
        ("node.k8s.io", "RuntimeClass"),
    }
)
"""Kinds whose objects in a manifest change what its workloads cost."""


def _name(tree: Tree) -> tuple[str, ...]:
    metadata = at(tree, "metadata")
    kind, name = at(tree, "kind"), at(metadata, "name")
    return str(kind), str(name), "" if kind in ("Namespace", "RuntimeClass") else str(at(metadata, "namespace"))


def _is_no_definition(placed: Placed) -> bool:
    return not isinstance(placed.tree, Mapping) or placed.tree.get("kind") != DEFINITION[1]


def _take(placed: Placed, builder: SnapshotBuilder, seen: dict[str, Placed], problems: list[FileProblem]) -> None:
    try:
        namespace = builder.add(placed.tree)
    except ObjectError as error:
        problems.append(_problem(placed, error))
        return
    except Exception as error:  # noqa: BLE001 (whatever it is, it is this object's)
        problems.append(placed.problem([], "", repr(error), _ANOTHER_CURE))
        return
    if namespace is not None and namespace not in seen:
        seen[namespace] = placed._replace(tree=None)


def _problem(placed: Placed, error: ObjectError) -> FileProblem:
    path = error.path.removeprefix("(root)")
    detail = error.detail.removeprefix(f"{error.path}: ")
    return placed.problem(steps(path), path, detail, _CURES.get(error.code, _ANOTHER_CURE))


def _unknown(namespace: str, placed: Placed) -> FileProblem:
    detail = f'there is no Namespace "{namespace}" in the state, so that its quotas are unknown'
    return placed.problem(
        ["metadata", "namespace"], "metadata.namespace", detail, "list namespaces too: kubectl get ns,…"
    )
