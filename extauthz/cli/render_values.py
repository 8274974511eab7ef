"""``--values FILE`` of every ``extauthz render``, and the schema of such a file: both made of the flags themselves.

The file has a section a command, with the flags without their dashes as keys. What is said on the command line wins.
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any as Tree

import yaml

from extauthz.cli.flags import render_tls, sidecar
from extauthz.files import options as file_options

KINDS: dict[object, str] = {render_tls.days: "integer", sidecar.duration: "number"}
"""What JSON Schema calls the values of flags that are no strings."""

NOT_IN_A_FILE = ("help", "values")


class ValuesError(Exception):
    """The file is wrong. The message names file, key and cure."""


def fill_in(arguments: argparse.Namespace, sections: Iterable[str]) -> None:
    """Give *arguments* what the file says and the command line does not.

    Raises:
        ValuesError: the file, a section or a key is wrong.
    """
    if arguments.values is None:
        return
    where = str(arguments.values)
    options = _options(arguments.parser)
    section = _section(where, _read(arguments.values), arguments.what, sections)
    for key, value in section.items():
        place = f"{where}: {arguments.what}.{key}"
        if key not in options:
            raise ValuesError(f"{place}: no such option{_did_you_mean(str(key), options)}")
        if not _said(arguments.words, options[key]):
            setattr(arguments, options[key].dest, _value(place, options[key], value))


def schema(parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """JSON Schema (https://json-schema.org/draft/2020-12) of the file."""
    sections = {
        name: {
            "type": "object",
            "additionalProperties": False,
            "properties": {key: _described(action) for key, action in _options(parser).items()},
        }
        for name, parser in parsers.items()
    }
    tree = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of extauthz render",
        "type": "object",
        "additionalProperties": False,
        "properties": sections,
    }
    return json.dumps(tree, indent=2) + "\n"


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Each flag by its name in a file."""
    named = {_name(action): action for action in parser._actions if action.option_strings}
    return {name: action for name, action in named.items() if name not in NOT_IN_A_FILE}


def _name(action: argparse.Action) -> str:
    """Its last spelling; of a flag that has a ``--no-`` form, the other one."""
    spelled = [one for one in action.option_strings if not one.startswith("--no-")]
    return (spelled or action.option_strings)[-1].lstrip("-")


def _read(path: Path) -> object:
    try:
        return file_options.load(path.read_bytes())
    except OSError as error:
        raise ValuesError(f"--values: {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ValuesError(f"{path}: {' '.join(str(error).split())}") from None


def _section(where: str, tree: object, name: str, sections: Iterable[str]) -> dict[str, Tree]:
    known = list(sections)
    if not isinstance(tree, dict):
        raise ValuesError(f"{where}: must hold a mapping; write for example `{name}: {{…}}`")
    for strange in (key for key in tree if key not in known):
        raise ValuesError(f"{where}: {strange}: no such section{_did_you_mean(str(strange), known)}")
    section = tree.get(name) or {}
    if not isinstance(section, dict):
        raise ValuesError(
            f"{where}: {name}: must be a mapping of options; write for example `{name}: {{output: yaml}}`"
        )
    return section


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(known)}"


def _said(words: Iterable[str], action: argparse.Action) -> bool:
    long = [each for each in action.option_strings if each.startswith("--")]
    short = tuple(each for each in action.option_strings if not each.startswith("--"))
    return any(word.partition("=")[0] in long or word.startswith(short) for word in words)


def _value(place: str, action: argparse.Action, value: object) -> object:
    """The value as argparse would have made it of a word."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ValuesError(f"{place}: {value!r} is neither true nor false")
        return value
    if not isinstance(action, argparse._AppendAction):
        return _one(place, action, value)
    if not isinstance(value, list):
        raise ValuesError(f"{place}: must be a list: write [one, another]")
    return [_one(place, action, each) for each in value]


def _one(place: str, action: argparse.Action, value: object) -> object:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValuesError(f"{place}: {value!r} is no text or number; quote it, or leave the key out for its default")
    text = str(value)
    made: object = text
    try:
        made = action.type(text) if callable(action.type) else text
    except argparse.ArgumentTypeError as error:
        raise ValuesError(f"{place}: {error}") from None
    except ValueError:
        pass  # an enumeration: its choices are told below
    if action.choices is not None and made not in action.choices:
        raise ValuesError(f"{place}: {value!r} is none of {', '.join(map(str, action.choices))}")
    return made


def _described(action: argparse.Action) -> dict[str, Tree]:
    one: dict[str, Tree] = {"type": "boolean" if action.nargs == 0 else KINDS.get(action.type, "string")}
    if action.choices is not None:
        one["enum"] = [str(choice) for choice in action.choices]
    told = {"description": action.help or ""}
    if isinstance(action, argparse._AppendAction):
        return {"type": "array", "items": one} | told
    return one | told
