"""Flags made from the settings, so that flag, variable, file and help never disagree."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args, get_origin

from extauthz.service.setting_types import File, Folder, Listen, Url
from extauthz.service.settings import CONFIG, Described, described, variable, word

LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
"""A page of the documentation, as descriptions name it in Markdown."""

SET = "setting_"
"""Prefix of settings among the parsed arguments, so no other argument is taken for a setting."""


def add(parser: argparse.ArgumentParser, fields: Iterable[str] = ()) -> None:
    """A flag for each of ``fields``, or for each setting, and ``--config``."""
    group = parser.add_argument_group(
        "settings", "Each is also a variable (named below) and a key of the --config file (the flag without dashes)."
    )
    group.add_argument(
        "--config", type=Path, metavar="FILE", help=f"Settings in YAML; flags and environment win over it. [{CONFIG}]"
    )
    known = described()
    for field in fields or known:
        info = known[field]
        kind: dict[str, Any] = {"metavar": _metavar(info)}
        if info.annotation is bool:
            kind = {"action": argparse.BooleanOptionalAction}
        elif get_origin(info.annotation) is tuple:
            kind = {"action": "append", "metavar": "TEXT"}
        group.add_argument(
            f"--{word(field)}", dest=SET + field, default=argparse.SUPPRESS, help=_help(field, info), **kind
        )


def _metavar(info: Described) -> str:
    choices = [choice for kind in get_args(info.annotation) for choice in get_args(kind) or [kind]]
    for kind, shown in ((str, "TEXT"), (int, "N"), (float, "SECONDS")):
        if info.annotation is kind:
            return shown
    kinds = get_args(info.annotation)
    if {Path, File, Folder} & {*kinds}:
        words = [choice for kind in kinds for choice in get_args(kind) if isinstance(choice, str)]
        return "|".join([*words, *(["URL"] if Url in kinds else []), "PATH"])
    if Url in kinds:
        return "URL"
    if Listen in kinds:
        return "TEXT"
    return "|".join(str(choice) for choice in choices if choice is not type(None)) or "LEVEL"


def _help(field: str, info: Described) -> str:
    default = "" if info.default in (None, "", ()) else f"Default: {info.default}. "
    text = LINK.sub(r"docs/\1", info.description or "")
    return f"{text} {default}[{variable(field)}]".replace("%", "%%")
