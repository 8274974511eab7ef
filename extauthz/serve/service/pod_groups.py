"""The setting ``pod-groups``: where custom resources have several pod templates, and how many pods of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from extauthz.core.kinds import GATED
from extauthz.core.objects.custom import Where
from extauthz.core.objects.groups import EACH, Group, Groups, Path
from extauthz.serve.service.known_groups import HAS_SCALE, KNOWN

EXAMPLE: Final = (
    "write for example {rayclusters.ray.io: [{template: .spec.headGroupSpec.template}, "
    "{template: '.spec.workerGroupSpecs[*].template', count: '.spec.workerGroupSpecs[*].replicas'}]}"
)

_MOST_FEWER: Final = 1000
_PATH: Final = re.compile(r"(\.[A-Za-z_][-\w]*(\[\*\])?)+")
_RESOURCE: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_FIELDS: Final = ("template", "count", "least", "most", "unless", "instead", "minus", "through")


def parse(text: str) -> dict[str, Where]:
    """``resource.group`` to where its template is, or to its groups of pods, from YAML.

    Raises:
        ValueError: with the field that is wrong, and an example of what is right.
    """
    from extauthz.inputs.files.text import TextError, document

    try:
        tree = document(text.encode())
    except TextError:
        raise ValueError(f"{text[:40]!r} is no YAML or JSON; {EXAMPLE}") from None
    if not isinstance(tree, dict | None):
        raise ValueError(f"{text[:40]!r} is no mapping of custom resources; {EXAMPLE}")
    found = {_resource(name): _where(str(name), listed) for name, listed in (tree or {}).items()}
    through = [name for name, groups in found.items() if isinstance(groups, Groups) and groups.through_pods]
    if len(through) > 1:
        raise ValueError(f"{through[1]}: through: one kind may have it, and {through[0]} has; leave one out")
    return found


def where(text: str, custom: Iterable[str] = ()) -> dict[str, Where]:
    """The same, with the kinds that are known without the setting: what it says of one of these holds.

    Args:
        custom: kinds that are to be weighed though nothing of theirs is scaled, as ``resource.group``.
    """
    given = parse(text)
    known = {name: _groups(name, KNOWN[name]) for name in (*HAS_SCALE, *custom) if name in KNOWN}
    if any(isinstance(one, Groups) and one.through_pods for one in given.values()):
        known = {name: one for name, one in known.items() if not one.through_pods}  # one kind may have it
    return {**known, **given}


def _resource(name: object) -> str:
    if not isinstance(name, str) or not _RESOURCE.fullmatch(name):
        raise ValueError(f"{name!r} is no custom resource; {EXAMPLE}")
    if name in {f"{plural}.{group}" for group, plural in (kind.key for kind in GATED)}:
        raise ValueError(f"{name}: is read without this setting; leave it out")
    return name


def _where(name: str, given: object) -> Where:
    if given == "known":
        if name not in KNOWN:
            raise ValueError(f"{name}: is not known; known are {', '.join(sorted(KNOWN))}; {EXAMPLE}")
        return _groups(name, KNOWN[name])
    if not isinstance(given, str):
        return _groups(name, given)
    path = _path(given, name)
    if EACH in path:
        raise ValueError(f"{name}: goes over a list; {EXAMPLE}")
    return path


def _groups(name: str, listed: object) -> Groups:
    if not isinstance(listed, list) or not listed:
        raise ValueError(f"{name}: must be a list of groups; {EXAMPLE}")
    several = tuple(_group(one, f"{name}[{index}]") for index, one in enumerate(listed))
    return Groups(several, any("through" in one for one in listed))


def _group(given: object, at: str) -> Group:
    if not isinstance(given, Mapping) or "template" not in given:
        raise ValueError(f"{at}: must have a template; {EXAMPLE}")
    for key in given:
        if key not in _FIELDS:
            raise ValueError(f"{at}.{key}: no such field; there are {', '.join(_FIELDS)}")
    template = _path(given["template"], f"{at}.template")
    if template[-1] == EACH:
        raise ValueError(f"{at}.template: ends in a list; name the template in it: {given['template']}.template")
    least, most, instead = (_one(given, key, template, at) for key in ("least", "most", "instead"))
    counts, unless = (_beside(given, key, template, at) for key in ("count", "unless"))
    if least and not counts:
        raise ValueError(f"{at}.least: needs a count that may be less, or missing")
    if most and not counts:
        raise ValueError(f"{at}.most: needs a count that may be more")
    if given.get("through", "pods") != "pods":
        raise ValueError(f"{at}.through: must be pods: StatefulSets that pods of the object own make the group")
    return Group(template, instead, counts, least, most, _minus(given.get("minus", 0), f"{at}.minus"), unless)


def _one(given: Mapping[str, Any], key: str, template: Path, at: str) -> Path:
    several = _beside(given, key, template, at)
    if len(several) > 1:
        raise ValueError(f"{at}.{key}: must be one path")
    return several[0] if several else ()


def _beside(given: Mapping[str, Any], key: str, template: Path, at: str) -> tuple[Path, ...]:
    value, at = given.get(key, []), f"{at}.{key}"
    paths = tuple(_path(one, at) for one in (value if isinstance(value, list) else [value]))
    for path in paths:
        listed = path[: len(path) - path[::-1].index(EACH)] if EACH in path else ()
        if path[-1] == EACH or template[: len(listed)] != listed:
            raise ValueError(f"{at}: goes over another list than its template; name a field beside the template")
    return paths


def _minus(value: object, at: str) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_FEWER:
        raise ValueError(f"{at}: must be a whole number of pods, not {value!r}; write for example minus: 1")
    return value


def _path(text: object, at: str) -> Path:
    if not isinstance(text, str) or not _PATH.fullmatch(text):
        raise ValueError(f"{at}: {text!r} is no path; write for example .spec.workerGroupSpecs[*].replicas")
    return tuple(text.replace("[*]", f".{EACH}").split(".")[1:])
