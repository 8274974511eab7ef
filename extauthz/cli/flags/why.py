"""Flags of ``extauthz why``."""

from __future__ import annotations

import argparse

DESCRIPTION = """\
Says what the reason of a decision means, who can cure it, and how. The reason is the field `reason` of the log, of the
API and of `check`, and of a refusal by Envoy `details.causes[0].reason`. Without a code it lists them."""

EPILOG = """\
examples:
  extauthz why exceeded-quota
  extauthz why

exit codes: 0 it is known, 64 no such code"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("why", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("code", nargs="?", metavar="CODE", help="Such as exceeded-quota.")
