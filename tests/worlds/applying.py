"""What server-side apply makes of an object: what was applied before and is left out now goes."""

from __future__ import annotations

from collections.abc import Mapping

from extauthz.core.model import Tree

MANAGED = "managedFields"


def _parts(tree: Tree) -> dict[str, Tree]:
    """The parts that may be left out, as far as they are there."""
    parts = {f"label {name}": value for name, value in (tree["metadata"].get("labels") or {}).items()}
    if "replicas" in tree["spec"]:
        parts["count"] = tree["spec"]["replicas"]
    for one in _containers(tree):
        if one["name"] != "main":
            parts[f"container {one['name']}"] = one
    return parts


def _containers(tree: Tree) -> list[Tree]:
    containers: list[Tree] = tree["spec"]["template"]["spec"]["containers"]
    return containers


def created(configuration: Tree) -> Tree:
    """The object of an apply where there was none."""
    spec = {"replicas": 1} | configuration["spec"]
    return _managed(configuration, dict.fromkeys(_parts(configuration), True)) | {"spec": spec}


def applied(held: Tree, configuration: Tree) -> Tree:
    """The object after an apply, by force."""
    mine, now, given = _mine(held), _parts(held), _parts(configuration)
    parts = {name: value for name, value in now.items() if not mine.get(name)} | given
    alone = {name: mine.get(name, False) if now.get(name) == value else True for name, value in given.items()}
    main = next(one for one in _containers(configuration) if one["name"] == "main")
    containers = [main, *(value for name, value in parts.items() if name.startswith("container "))]
    labels = {name.removeprefix("label "): value for name, value in parts.items() if name.startswith("label ")}
    template = held["spec"]["template"]
    template = {**template, "spec": {**template["spec"], "containers": containers}}
    spec = {**held["spec"], "replicas": parts.get("count", 1), "template": template}
    return _managed({**held, "metadata": {**held["metadata"], "labels": labels}, "spec": spec}, alone)


def kept(held: Tree, changed: Tree) -> Tree:
    """What another write leaves: it takes over what it changes."""
    mine = _mine(held)
    if not mine:
        return changed
    before, after = _parts(held), _parts(changed)
    return _managed(changed, {name: alone for name, alone in mine.items() if before.get(name) == after.get(name)})


def _mine(tree: Tree) -> Mapping[str, bool]:
    """The parts that the manager has set; true: and nobody else."""
    mine: Mapping[str, bool] = tree["metadata"].get(MANAGED, [{}])[0].get("parts", {})
    return mine


def _managed(tree: Tree, parts: Mapping[str, bool]) -> Tree:
    managed = [{"manager": "kubectl", "operation": "Apply", "parts": dict(parts)}]
    return {**tree, "metadata": {**tree["metadata"], MANAGED: managed}}
