"""Exit codes, after sysexits(3), clear of those that ``check`` gives to decisions (0 allow, 1 deny, 2 unavailable)."""

from __future__ import annotations

import sys

USAGE = 64
"""A flag or a variable is wrong. The message names it and the cure."""

DATA = 65
"""A file is wrong: settings, quotas, state, body. The message names file, line, field and cure."""

UNAVAILABLE = 69
"""An address cannot be listened on, for example because the port is taken. Trying again may help."""

SOFTWARE = 70
"""A bug of ours: what must never happen has happened."""

BROKEN_PIPE = 141
"""The reader of the output has gone. A shell reports this code for a program that SIGPIPE ends."""


def fail(code: int, error: Exception) -> int:
    """Say what is wrong, one line a problem, and return ``code``."""
    for line in str(error).splitlines():
        print(f"extauthz: {line}", file=sys.stderr)
    return code
