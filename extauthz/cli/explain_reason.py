"""``extauthz explain REASON``: what a reason code means, who can cure it, and how."""

from __future__ import annotations

import difflib
import sys

from extauthz.cli import exits
from extauthz.cli.report import wrapped
from extauthz.tell.observe.reasons import BY_CODE, TABLE, UNREADABLE, Reason


def run(code: str) -> int:
    """Print it; without a code, the list."""
    if not code:
        sys.stdout.write("".join(f"{one.code:<28}{one.meaning}\n" for one in TABLE if one is not UNREADABLE))
        return 0
    found = BY_CODE.get(code)
    if found is None:
        near = difflib.get_close_matches(code, BY_CODE, n=1)
        cure = f"did you mean {near[0]}?" if near else f"if a gate has said it: {UNREADABLE.meaning} {UNREADABLE.cure}"
        return exits.fail(exits.USAGE, ValueError(f"{code}: it is not in the list; {cure}"))
    sys.stdout.write(as_text(found))
    return 0


def as_text(one: Reason) -> str:
    told = [f"{one.code} ({one.verdict}): {one.meaning}"]
    if one.who:
        told += [f"who can cure it: {one.who}", one.cure]
    return "\n".join(line for text in told for line in wrapped(text)) + "\n"
