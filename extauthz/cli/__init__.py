"""The command line: flags of commands, and a module for each that runs it, imported only when it is used.

In: words of the command line, environment, files. Out: text, and an exit code.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from extauthz import version
from extauthz.cli import exits

COMMANDS = {
    "serve": "run the gate",
    "demo": "show recorded autoscalers, a real Envoy and the gate at work",
    "check": "decide one write without sending it, or say how many replicas fit",
    "explain": "why an autoscaler does not scale, or what the reason of a decision means",
    "top": "what quotas are used for, and by which workloads",
    "replay": "what other quotas would have refused, by the record of growth; --week: what was refused",
    "render": "print configuration: Envoy, the gate on a cluster, certificates",
    "doctor": "check whether the gate is really asked",
}
"""Each has its flags in ``flags.NAME``, or where ``FLAGS`` says, with ``add_NAME(commands)``, and what it does in
``NAME``, with ``run(arguments) -> exit code``. So help loads nothing that only doing it needs."""

FLAGS = {"serve": "settings"}
FLAGS |= dict.fromkeys(("check", "top"), "asking")
FLAGS |= dict.fromkeys(("demo", "replay"), "small")

EPILOG = """\
examples:
  extauthz serve --quotas quotas/ --state state.yaml --grpc 127.0.0.1:9191 --http 127.0.0.1:9192
  extauthz check deploy/web -n shop --replicas 9 --quotas quotas/ --state state.yaml
  extauthz render envoy > sidecar.yaml

`extauthz COMMAND --help` tells more.
"""


class Parser(argparse.ArgumentParser):
    """Wrong usage ends with one line and exit code 64. The usual 2 would be a decision of ``check``.

    A command's own parser is one too: its texts keep their lines, and its flags are spelled out.
    """

    def __init__(self, **how: Any) -> None:  # noqa: ANN401 (as argparse's)
        shared: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
        super().__init__(**shared | how)

    def error(self, message: str) -> NoReturn:
        self.exit(exits.USAGE, f"{self.prog}: {message}{self._cure(message)}; see `{self.prog} --help`\n")

    def _cure(self, message: str) -> str:
        """What was meant, as far as it can be told."""
        if choice := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            return _near(choice[1], re.findall(r"[^\s,']+", choice[2]))
        if unknown := re.match(r"unrecognized arguments: (--[^\s=]+)", message):
            return _near(unknown[1], self._options())
        if number := re.search(r"invalid (int|float) value: '", message):
            return ", write a whole number such as 3" if number[1] == "int" else ", write a number such as 0.5"
        return ""

    def _options(self) -> list[str]:
        """All of this parser, and of the command that was chosen."""
        found: list[str] = []
        for action in self._actions:
            found += action.option_strings
            for one in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
                found += one._options()
        return found


def _near(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f", did you mean {close[0]}?" if close else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), "")
    parser = Parser(
        prog="extauthz",
        description="A quota gate between Kubernetes autoscalers and the API server, as an Envoy external authorizer.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"extauthz {version()}" if "--version" in words else "")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        if name != chosen:
            commands.add_parser(name, help=text)
        else:
            flags = import_module(f"extauthz.cli.flags.{FLAGS.get(name, name)}")
            getattr(flags, f"add_{name}")(commands)
    arguments = parser.parse_args(words, argparse.Namespace(words=words))
    return _piped(import_module(f"extauthz.cli.{chosen}").run, arguments)


def _piped(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run the command. A reader of its output may stop early, as ``head`` does: that is no error."""
    try:
        code = run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Buffered output would be written at exit, and fail there (docs.python.org/3/library/signal.html).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE
    return code
