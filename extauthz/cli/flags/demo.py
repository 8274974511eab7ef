"""Flags of ``extauthz demo``."""

from __future__ import annotations

import argparse
import os

DESCRIPTION = """\
Sends recorded requests of real autoscalers through a real Envoy, which asks a gate about each write that can grow a
workload. A stand-in for an API server, in memory, holds the result. It uses free ports of this machine and a temporary
directory, asks nothing of any network, and ends by itself.

It needs two packages more: pip install 'extauthz[demo]'."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("demo", description=DESCRIPTION, epilog="exit codes: 0 all went as it must, 1 not so")
    parser.add_argument(
        "--keep",
        action="store_true",
        default=bool(os.environ.get("KEEP")),
        help="Leave the gate's page open at the end, until Ctrl-C (KEEP=1).",
    )
