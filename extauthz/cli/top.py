"""``extauthz top``: what quotas are used for, and which workloads use most of one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final

from extauthz.cli import asking, report
from extauthz.core.decision.sentences import ordinal
from extauthz.core.quantities import parse
from extauthz.serve.servers.api import shown

SHOWN: Final = 20
"""Workloads in the table."""
MOST: Final = 1000
"""Workloads that the API gives at once."""

_AMOUNTS: Final = ("used", "reserved", "kept", "hard", "guaranteed")


@asking.answered
def run(arguments: argparse.Namespace) -> int:
    show = _quotas_shown if arguments.quota is None else _workloads_shown
    text = show(arguments, asking.source(arguments))
    sys.stdout.write(text)
    return 0


def _quotas_shown(arguments: argparse.Namespace, source: asking.Source) -> str:
    found = source.quotas()
    return _shown(arguments, found, _quotas(found))


def _workloads_shown(arguments: argparse.Namespace, source: asking.Source) -> str:
    quota = source.quota(arguments.quota)
    sort = arguments.sort or _fullest(quota)
    page = source.workloads(arguments.quota, sort, MOST if arguments.output == "json" else SHOWN)
    line = source.line(arguments.quota) if quota["waiting"] else {"items": []}
    return _shown(arguments, page, _workloads(quota, sort, page) + _line(line["items"]))


def _shown(arguments: argparse.Namespace, found: object, table: list[str]) -> str:
    return report.as_json(found) if arguments.output == "json" else "\n".join(table) + "\n"


def _quotas(found: Sequence[dict[str, Any]]) -> list[str]:
    """One line for each resource of each quota; a child is further to the right than its parent."""
    rows: list[Sequence[str]] = [("QUOTA", "WORKLOADS", "RESOURCE", *map(str.upper, _AMOUNTS), "")]
    for quota in found:
        name, count = "  " * (len(quota["path"]) - 1) + quota["name"], str(quota["workloads"])
        for resource, of in quota["resources"].items() or [("no limits", {})]:
            amounts = (of.get(each, "") for each in _AMOUNTS)
            rows.append((name, count, resource, *amounts, "over" if of.get("over") else ""))
            name = count = ""
    return [*report.lines(rows), *_overrides(found)] if found else ["no quotas"]


def _overrides(found: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each quota that has other limits for a time, or will have."""
    said = [f"{one['name']}: {text}" for one in found if (text := shown.override(one))]
    return ["", *said] if said else []


def _workloads(quota: dict[str, Any], sort: str | None, page: dict[str, Any]) -> list[str]:
    resources = sorted(quota["resources"], key=lambda one: (one != sort, one))
    rows: list[Sequence[str]] = [("WORKLOAD", "REPLICAS", *resources)]
    for one in page["items"]:
        of = [_both(one["used"].get(key, "0"), one["reserved"].get(key)) for key in resources]
        note = "" if one["priced"] else " (cost not known)"
        rows.append((f"{one['resource']} {one['namespace']}/{one['name']}", f"{one['replicas']}{note}", *of))
    left = page["total"] - len(page["items"])
    more = [f"and {left} more; -o json has up to {MOST}"] if left else []
    return [*report.lines(rows), *more, *_overrides([quota])]


def _line(found: Sequence[dict[str, Any]]) -> list[str]:
    """Who waits, the first one first."""
    rows: list[Sequence[str]] = [("IN LINE", "WORKLOAD", "WANTS", "WAITS", "ASKS AGAIN IN")]
    for one in found:
        name = f"{one['resource']} {one['namespace']}/{one['name']}"
        times = f"{one['waitsSeconds']} s", f"{one['asksEverySeconds']} s"
        rows.append((ordinal(one["place"]), name, str(one["replicas"]), *times))
    return ["", *report.lines(rows)] if found else []


def _both(used: str, reserved: str | None) -> str:
    return f"{used} (+{reserved} reserved)" if reserved else used


def _fullest(quota: dict[str, Any]) -> str | None:
    """The resource that is nearest to its limit."""

    def share(resource: str) -> float:
        of = quota["resources"][resource]
        hard = parse(of["hard"])
        return (parse(of["used"]) + parse(of["reserved"])) / hard if hard else float("inf")

    return max(sorted(quota["resources"]), key=share, default=None)
