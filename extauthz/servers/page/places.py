"""Where a thing has its page."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from extauthz.servers.api.shown import Json

HOME = "/"
QUOTA = "/quotas/{quota}"
WORKLOAD = "/namespaces/{namespace}/workloads/{resource}/{name}"
STREAM = "/events"
"""Before the path of a page: what changes of it."""
WHY = "/why" + WORKLOAD
"""A part of the page of a workload, and a page of its own without JavaScript."""
STATIC = "/static/{file}"


def of_quota(name: str, **query: str) -> str:
    """The page of a quota."""
    return with_query(QUOTA.format(quota=_segment(name)), query)


def of_workload(named: Json) -> str:
    """The page of a workload that an answer of the API names."""
    return WORKLOAD.format(**{field: _segment(named[field]) for field in ("namespace", "resource", "name")})


def of_why(named: Json) -> str:
    """Why a workload has its count."""
    return WHY.removesuffix(WORKLOAD) + of_workload(named)


def of_tree(**query: str) -> str:
    """The tree of quotas, or a part of it."""
    return with_query(HOME, query)


def with_query(path: str, query: Mapping[str, str]) -> str:
    """The path with those parameters that say something."""
    told = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(told, errors='replace')}" if told else path


def _segment(name: str) -> str:
    return quote(name, safe="", errors="replace")
