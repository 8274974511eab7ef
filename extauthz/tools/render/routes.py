"""Which requests pass the filter, as a table of routes. The first that matches counts.

Envoy matches after its path normalization (``normalize_path``: escaped unreserved characters decoded, dot segments
removed; escaped slashes were refused before), and forwards and shows to the gate the very path that it matched. The
patterns see the path without its query. RE2 has no negation, hence the order: exceptions, growth, odd spellings, rest.

A path is *plain* if no segment could be read in two ways. On plain paths growth is found by position. Any other path
goes to the gate, which reads it as the API server does (design.md rule 8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any as Tree

from .options import Profile

READ_METHODS = "GET|HEAD|OPTIONS|TRACE|DELETE"
"""These take no room. Any other method, also one in odd capitals or an unknown one, may be a write."""

# Several small patterns: at start Envoy refuses one whose RE2 program is larger than 100, unless its runtime says
# otherwise (re2.max_program_size.error_level). `--mode validate` does not notice.

SEGMENT = r"[\w.:~-]+"
"""Names of Kubernetes objects are of these (``k8s.io/apimachinery/pkg/api/validation/path`` and RFC 1123), and groups,
versions and resources too. In RE2 ``\\w`` is ASCII."""

PLAIN = f"(?:/{SEGMENT})+"
_VERSION = f"/api(?:s/{SEGMENT})?/{SEGMENT}"
_MAYBE_IN = f"(?:/namespaces/{SEGMENT})?"

WORKLOADS = f"(?i){_VERSION}{_MAYBE_IN}/(?:deployments|statefulsets)"
REPLICAS = f"(?i){_VERSION}{_MAYBE_IN}/replica(?:sets|tioncontrollers)"
"""Collections of any group and version."""
WITH_CREATES = "(?:/.*)?"
NAMED = "/.+"
"""What follows the collection: nothing or anything; or at least a name."""
SCALE = f"(?i){_VERSION}{_MAYBE_IN}/{SEGMENT}/{SEGMENT}/scale(?:/.*)?"
"""The scale subresource of any resource of any group, namespaced or not."""
STATUS = f"{_VERSION}/namespaces/{SEGMENT}/{SEGMENT}/{SEGMENT}/status"
"""The API server keeps ``spec`` as it is when it writes status."""
PROXY = f"/api/{SEGMENT}/(?:namespaces/{SEGMENT}/(?:pods|services)|nodes)/(?:{SEGMENT}|%3[Aa])+/proxy(?:/.*)?"
"""Below this the path belongs to a pod, service or node; ``%3A`` parts scheme, name and port."""
STREAM = f"/api/{SEGMENT}/namespaces/{SEGMENT}/pods/{SEGMENT}/(?:exec|attach|portforward)"
"""What kubectl upgrades, by GET (websocket) or POST (SPDY). Behind a proxy an upgrade could ask the API server for
anything, two hops on."""
ODD = r".*[^\w.:~/-].*|.*//.*|.+/"
"""Not plain: an unusual character or an escape left over, an empty segment, a slash at the end."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table. ``None`` stands for any method or any path."""

    name: str
    checked: bool
    """Passes the filter."""
    path: str | None
    methods: str | None = None
    prefix: str | None = None
    """Beside ``path``: what the path begins with, letter by letter."""
    upgrades: bool = False
    """Is for requests that become a connection of another protocol, and for these alone."""

    def match(self, *headers: dict[str, Tree]) -> dict[str, Tree]:
        """As Envoy matches it, and only with these ``headers`` too."""
        wanted = list(headers)
        if self.methods is not None:
            wanted.append({"name": ":method", "string_match": {"safe_regex": {"regex": self.methods}}})
        if self.prefix is not None:
            wanted.append({"name": ":path", "string_match": {"prefix": self.prefix}})
        found: dict[str, Tree] = {"prefix": "/"} if self.path is None else {"safe_regex": {"regex": self.path}}
        return found | ({"headers": wanted} if wanted else {})


BELOW: dict[Profile, str | None] = {Profile.WRITES: WITH_CREATES, Profile.AUTOSCALER: NAMED, Profile.SCALE: None}
"""Which writes to the workloads themselves are looked at, beside scale. ``None``: none."""


def rules(profile: Profile, exempt_namespaces: tuple[str, ...]) -> Iterator[Rule]:
    """The table, in order."""
    yield Rule("stream", checked=False, path=STREAM, methods="GET|POST", upgrades=True)
    yield Rule("read", checked=False, path=None, methods=READ_METHODS)
    for namespace in exempt_namespaces:
        for version in ("/apis/apps/v1", "/api/v1"):
            exempt = f"{version}/namespaces/{namespace}/"
            yield Rule(f"exempt-{namespace}", checked=False, path=PLAIN, prefix=exempt)
    yield Rule("status", checked=False, path=STATUS)
    yield Rule("proxied", checked=False, path=PROXY)
    yield Rule("scale", checked=True, path=SCALE)
    below = BELOW[profile]
    if below is not None:
        yield Rule("workload", checked=True, path=WORKLOADS + below)
        yield Rule("replica", checked=True, path=REPLICAS + below)
    yield Rule("odd-path", checked=True, path=ODD)
    yield Rule("other-write", checked=False, path=None)
