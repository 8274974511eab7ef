"""Is the chain that asks the gate on the listener that carries API traffic, taken by Envoy, and as it was rendered?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from extauthz.tools.render.envoy import EXT_AUTHZ, GATE, GATE_SEES_HEADERS, MAX_BODY_BYTES
from extauthz.tools.render.options import PARTS, Outage, Profile
from extauthz.tools.render.routes import Rule, rules

from .dump import ROUTER, TLS_INSPECTOR, Chain, Dump, Listener, Tree, asks_gate, kind, lowers, seconds, stops_undecided
from .table import Row, fail, judged, ok, skipped, warn

RENDER_AGAIN = "render it again with `extauthz render`, and look for another EnvoyFilter that changes it"
TAKEN = "mount or make what Envoy names, then apply the filter again; until then nothing is decided"
THERE = (
    "see that the files which NAME.yaml of --secrets names are there, and that certificate and key fit each other;"
    " Envoy's log says what is wrong with them"
)
ON_LISTENER = (
    "apply what `extauthz render` prints; in a mesh see that workloadSelector has the pod's labels, that --service-ip"
    " is the Service default/kubernetes's, and that no Sidecar leaves out default/*"
)

ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 (compared with)

NAMES = ("accepted", "chain", "listener", "order", "failure mode", "request body", "headers")


class Wanted(NamedTuple):
    """What the operator wants. ``None`` and empty: not said."""

    outage: Outage = Outage.DENY
    profile: Profile | None = None
    carriers: tuple[str, ...] = ()
    """Names of listeners, or ``address:port``, of which one carries the API traffic."""


def rows(dump: Dump, wanted: Wanted) -> list[Row]:
    chains = dump.chains()
    head = [accepted(dump, chains), present(dump, chains), carrier(dump, chains, wanted.carriers)]
    if not chains:
        return [*head, *(skipped(name, "there is no chain to look at", ON_LISTENER) for name in NAMES[3:])]
    chain = chosen(dump, chains, wanted.carriers)
    listener = next(each for each in dump.listeners if each.name == chain.listener)
    return [*head, order(chain, listener), failure_mode(chain, wanted.outage), body(chain), headers(chain)]


def chosen(dump: Dump, chains: list[Chain], carriers: Collection[str]) -> Chain:
    """The chain on the listener that carries API traffic if there is one, else the first."""
    carrying = {each.name for each in _carrying(dump, carriers)}
    return next((each for each in chains if each.listener in carrying), chains[0])


def accepted(dump: Dump, chains: list[Chain]) -> Row:
    """After a refused update the old configuration stays in force. Without our chain, everything passes undecided."""
    refused = [(f"listener {each.name}", each.error) for each in dump.listeners if each.error]
    refused += [(f"cluster {name}", why) for name, why in dump.refused.items()]
    awaited = [name for name in dump.awaited if name in PARTS]
    if not refused and not awaited:
        return ok("accepted", "Envoy took every listener and cluster that it was sent")
    problems = [f"Envoy refused {what}: {why}" for what, why in refused]
    problems += [f"Envoy has no {name} and resets connections that need it" for name in awaited]
    found = "; ".join(problems)
    ours = {each.listener for each in chains}
    hurts = not chains or any(f"listener {name}" == what for name in ours for what, _ in refused)
    hurts = hurts or GATE in dump.refused
    if not hurts and awaited:
        return fail("accepted", found, THERE)
    return fail("accepted", found, TAKEN) if hurts else warn("accepted", found, TAKEN)


def present(dump: Dump, chains: list[Chain]) -> Row:
    if not chains:
        there = ", ".join(each.name for each in dump.listeners[:8]) or "none"
        return fail("chain", f"no listener asks the cluster {GATE}; there are: {there}", ON_LISTENER)
    return ok("chain", f"listener {', '.join(dict.fromkeys(each.listener for each in chains))} asks the gate")


def carrier(dump: Dump, chains: list[Chain], carriers: Collection[str]) -> Row:
    """Do the clients come to the listener that has the chain?"""
    if not carriers:
        return skipped(
            "listener", "not told which listener carries the API traffic", "--listener, --url or --kubeconfig"
        )
    asked = {each.listener for each in chains}
    carrying = _carrying(dump, carriers)
    if not carrying:
        there = ", ".join(f"{each.name} ({_at(each)})" for each in dump.listeners[:8])
        return fail("listener", f"none is {' or '.join(carriers)}; there are: {there or 'none'}", ON_LISTENER)
    bare = [each.name for each in carrying if each.name not in asked]
    if bare:
        return fail("listener", f"{', '.join(bare)} carries the API traffic and does not ask the gate", ON_LISTENER)
    return ok("listener", f"{', '.join(each.name for each in carrying)} carries the API traffic and asks the gate")


def _carrying(dump: Dump, carriers: Collection[str]) -> list[Listener]:
    """By name or address; where none is that, those that listen for any address on the port."""
    exact = [each for each in dump.listeners if {each.name, _at(each)} & set(carriers)]
    ports = {each.rpartition(":")[2] for each in carriers if ":" in each}
    return exact or [each for each in dump.listeners if each.address[0] in ANYWHERE and str(each.address[1]) in ports]


def _at(listener: Listener) -> str:
    return ":".join(map(str, listener.address))


def order(chain: Chain, listener: Listener) -> Row:
    """ext_proc where counts are lowered, ext_authz, what stops the undecided, the router. Nothing else between them
    could change the request."""
    problems = list(_misplaced(chain, listener))
    cure = RENDER_AGAIN
    if problems:
        return fail("order", "; ".join(problems), cure)
    strange = [kind(each) for each in chain.filters if not (_ours(each) or kind(each) == ROUTER)]
    rivals = _rivals(chain, listener)
    if strange:
        return warn("order", f"beside ours there is {', '.join(strange)}, which may change what was decided", cure)
    if rivals:
        return warn("order", f"{rivals} more specific filter chain(s) may take a connection before ours", cure)
    return ok("order", " → ".join(each.rpartition(".")[2] for each in chain.kinds))


def _misplaced(chain: Chain, listener: Listener) -> Iterator[str]:
    filters = chain.filters
    asking = [number for number, each in enumerate(filters) if asks_gate(each)]
    if len(asking) > 1:
        yield "ext_authz is there twice: each write would be decided and charged twice"
    if not any(kind(each) == ROUTER for each in filters[asking[0] :]):
        yield "no router comes after ext_authz"
    if any(map(stops_undecided, filters[: asking[0]])):
        yield "the filter that stops the undecided (rbac) is before ext_authz: it would stop everything"
    if any(map(lowers, filters[asking[0] :])):
        yield "ext_proc comes after ext_authz: it would change what was decided"
    if any(each.get("disabled") for each in filters if _ours(each)):
        yield "a filter is `disabled: true`"
    if "filter_enabled" in chain.ext_authz or "filter_enabled_metadata" in chain.ext_authz:
        yield "ext_authz has filter_enabled: it asks about a part of the requests only"
    wants_tls = (chain.tree.get("filter_chain_match") or {}).get("transport_protocol") == "tls"
    inspectors = map(kind, (listener.active or {}).get("listener_filters", []))
    if wants_tls and TLS_INSPECTOR not in inspectors:
        yield "the listener has no tls_inspector, so that no connection is known to be TLS and the chain never matches"


def _ours(filter_: Tree) -> bool:
    return asks_gate(filter_) or stops_undecided(filter_) or lowers(filter_)


def _rivals(chain: Chain, listener: Listener) -> int:
    """Envoy takes the most specific match first: port, address, server name, and only then the transport protocol."""
    first = ("destination_port", "prefix_ranges", "server_names")
    matches = [each.get("filter_chain_match") or {} for each in (listener.active or {}).get("filter_chains", [])]
    own = chain.tree.get("filter_chain_match") or {}
    return sum(1 for match in matches if match != own and any(name in match for name in first))


def failure_mode(chain: Chain, wanted: Outage) -> Row:
    """What happens to growth while the gate gives no answer."""
    allows = bool(chain.ext_authz.get("failure_mode_allow"))
    if allows is not (wanted is Outage.ALLOW):
        found = (
            "growth passes undecided while the gate is down" if allows else "growth is refused while the gate is down"
        )
        return fail("failure mode", f"{found}, --on-outage {wanted} was wanted", f"render it with --on-outage {wanted}")
    if allows:
        return ok("failure mode", "allow, as wanted: quotas hold only while the gate is up")
    problems = []
    if not any(map(stops_undecided, chain.filters)):
        problems.append("nothing stops a request that an empty answer let pass (rbac is missing)")
    if (chain.ext_authz.get("status_on_error") or {}).get("code") not in ("ServiceUnavailable", 503):
        problems.append("an outage is answered with an empty 403, which looks like a denial (no status_on_error)")
    return judged(
        "failure mode", "deny: growth is refused as unavailable while the gate is down", problems, RENDER_AGAIN
    )


def body(chain: Chain) -> Row:
    """A count must come whole. A longer body holds no count, and Envoy must not keep it. Protobuf is not UTF-8."""
    config: Tree = chain.ext_authz.get("with_request_body") or {}
    limit = int(config.get("max_request_bytes", 0))
    problems = []
    if limit < MAX_BODY_BYTES:
        problems.append(f"max_request_bytes is {limit}: render gives {MAX_BODY_BYTES}")
    if not config.get("allow_partial_message"):
        problems.append("without allow_partial_message longer bodies are refused, or fill Envoy's memory")
    if not config.get("pack_as_bytes"):
        problems.append("without pack_as_bytes a protobuf body arrives spoilt")
    return judged("request body", f"as bytes, up to {limit} bytes", problems, RENDER_AGAIN)


def headers(chain: Chain) -> Row:
    """Without a list ext_authz passes on every header, bearer tokens too."""
    patterns = (chain.ext_authz.get("allowed_headers") or {}).get("patterns", [])
    if not patterns:
        return fail("headers", "the gate is shown every header, bearer tokens too (no allowed_headers)", RENDER_AGAIN)
    more = [str(each.get("exact", each)) for each in patterns if each.get("exact") not in GATE_SEES_HEADERS]
    if more:
        return fail("headers", f"the gate is shown more than it needs: {', '.join(more)}", RENDER_AGAIN)
    return ok("headers", "the gate is shown no credentials")


# Which requests ask the gate, and how long each may take, by the routes in force.

PATH_NAMES = ("path rules", "watches", "growth timeouts")
_EXEMPT, _ANONYMOUS = "exempt-", "-anonymous"


def path_rows(chain: Chain, profile: Profile | None) -> list[Row]:
    """The rows of ``NAMES``. ``profile``: the wanted one; ``None``: any."""
    return [path_rules(chain, profile), watches(chain), growth(chain)]


def path_rules(chain: Chain, wanted: Profile | None) -> Row:
    """The table of one of the profiles, whole and in order."""
    has = [_signature(route) for route in chain.routes if not answers_nobody(route)]
    exempt = exempted(chain)
    for profile in Profile:
        if has == list(_expected(profile, exempt)):
            return _found(profile, wanted, exempt)
    nearest = wanted or Profile.AUTOSCALER
    expected = list(_expected(nearest, exempt))
    missing = [each for each in expected if each not in has]
    strange = [each for each in has if each not in expected]
    told = [f"without {_told(each)}" for each in missing[:3]] + [f"has {_told(each)}" for each in strange[:3]]
    found = "; ".join(told) or "in another order"
    return fail("path rules", f"the routes are those of no profile (against {nearest}: {found})", RENDER_AGAIN)


def _found(profile: Profile, wanted: Profile | None, exempt: tuple[str, ...]) -> Row:
    if wanted not in (None, profile):
        return fail("path rules", f"profile {profile}, {wanted} was wanted", f"render it with --profile {wanted}")
    return ok("path rules", f"profile {profile}; exempt: {', '.join(exempt) or 'none'}")


_Signature = tuple[str, bool, str]
"""Name, whether it asks, and path."""


def _signature(route: Tree) -> _Signature:
    match = route.get("match", {})
    pattern = (match.get("safe_regex") or {}).get("regex") or match.get("prefix", "")
    return route.get("name", ""), asks(route), pattern


def _expected(profile: Profile, exempt: tuple[str, ...]) -> Iterator[_Signature]:
    for rule in rules(profile, exempt):
        yield rule.name, rule.checked, _pattern(rule)


def _pattern(rule: Rule) -> str:
    return "/" if rule.path is None else rule.path


def _told(signature: _Signature) -> str:
    name, asking, pattern = signature
    return f"{name or 'a route'} ({'asks' if asking else 'passes'}, {pattern})"


def exempted(chain: Chain) -> tuple[str, ...]:
    """Namespaces whose writes never ask the gate, as the renderer names their routes."""
    found = [str(route.get("name", "")) for route in chain.routes]
    ours = [name.removeprefix(_EXEMPT) for name in found if name.startswith(_EXEMPT)]
    return tuple(dict.fromkeys(ours))


def asks(route: Tree) -> bool:
    """The route does not switch ext_authz off."""
    own = (route.get("typed_per_filter_config") or {}).get(EXT_AUTHZ) or {}
    return not own.get("disabled")


def answers_nobody(route: Tree) -> bool:
    """Whether Envoy answers it itself if there is no token (``--anonymous deny``). It leads nowhere."""
    return "direct_response" in route and str(route.get("name", "")).endswith(_ANONYMOUS)


def watches(chain: Chain) -> Row:
    """A watch may be silent for as long as nothing changes, and lasts as long as its client likes."""
    idle = chain.manager.get("stream_idle_timeout", "300s")
    problems = [f"stream_idle_timeout of the listener is {idle}"] if seconds(idle) != 0.0 else []
    for route in chain.routes:
        action = route.get("route") or {}
        if asks(route) or "direct_response" in route:
            continue
        if seconds(action.get("timeout", "15s")) != 0.0:
            problems.append(f"route {route.get('name')} ends after {action.get('timeout', '15s')}")
        silent_s = seconds(action.get("idle_timeout"))
        if silent_s:
            problems.append(f"route {route.get('name')} ends after {silent_s:g} s of silence")
        if "max_stream_duration" in action:
            problems.append(f"route {route.get('name')} has a max_stream_duration")
    return judged("watches", "exempt from every timeout", problems, RENDER_AGAIN)


def growth(chain: Chain) -> Row:
    """The ledger must know when a write can land no more (docs/internals/ledger.md): finite, and tried once."""
    problems, longest = [], 0.0
    for route in filter(asks, chain.routes):
        action, name = route.get("route") or {}, route.get("name")
        limit = seconds((action.get("max_stream_duration") or {}).get("max_stream_duration"))
        policy = action.get("retry_policy") or {}
        if not limit:
            problems.append(f"route {name} has no max_stream_duration")
        if policy.get("num_retries", 1 if policy.get("retry_on") else 0):
            problems.append(f"route {name} retries")
        if not seconds(policy.get("per_try_timeout")):
            problems.append(f"route {name} has no per_try_timeout")
        longest = max(longest, limit or 0.0)
    if not any(map(asks, chain.routes)):
        problems.append("no route asks the gate")
    return judged("growth timeouts", f"at most {longest:g} s each, tried once", problems, RENDER_AGAIN)
