"""Reads the query of a request target the way the API server does: Go's ``net/url`` and Kubernetes' ``dryRun``."""

from __future__ import annotations

from extauthz.core.wire.percent import PercentError, unquote

MAX_PARAMETERS = 10_000
"""``net/url.defaultMaxParams``: if there are more, Go reads none (since 1.24.12 and 1.25.6; before, it read all)."""


def dry_run(query: str) -> bool:
    """Whether the server takes a write with this query for a dry run: ``dryRun`` is there, and every value is ``All``.

    Any other value is refused by the server (``ValidateDryRun`` in ``apimachinery/pkg/apis/meta/v1/validation``), so
    that the write is not taken for a dry run here. Never raises.

    >>> dry_run("dryRun=All"), dry_run("dryRun=All&dryRun="), dry_run("dryrun=All")
    (True, False, False)
    """
    if "ry" not in query and "%" not in query:
        return False
    if query.count("&") >= MAX_PARAMETERS:
        return False
    values = [value for key, value in parse("&".join(filter(_may_be, query.split("&")))) if key == "dryRun"]
    return bool(values) and all(value == "All" for value in values)


def _may_be(part: str) -> bool:
    """Whether a parameter may be ``dryRun``. Each of its six characters may be written as an escape of three."""
    key, _, _ = part.partition("=")
    return len(key) == 6 + 2 * key.count("%")


def parse(query: str) -> list[tuple[str, str]]:
    """``url.ParseQuery`` as ``URL.Query`` uses it: malformed pairs are dropped, and so is a pair with ``;``."""
    pairs: list[tuple[str, str]] = []
    for part in query.split("&"):
        if not part or ";" in part:
            continue
        key, _, value = part.partition("=")
        try:
            pairs.append((unquote(key.replace("+", " ")), unquote(value.replace("+", " "))))
        except PercentError:
            continue
    return pairs
