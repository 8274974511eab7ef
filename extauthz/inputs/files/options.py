"""YAML of options that a person wrote. A key that is given twice is a mistake."""

from __future__ import annotations

from typing import Any

import yaml

_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if (key.tag, key.value) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} is given more than once; keep one", key.start_mark
                )
            seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


def load(text: bytes) -> object:
    """The one document of a file.

    Raises:
        yaml.YAMLError: it is no YAML, or gives a key twice.
    """
    return yaml.load(text, _Loader)  # noqa: S506 (a subclass of SafeLoader)
