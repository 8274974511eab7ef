"""Which requests ask the gate, and how long each may take, by the routes in force."""

from __future__ import annotations

from collections.abc import Iterator

from extauthz.render.options import Profile
from extauthz.render.routes import Rule, rules

from . import table
from .chain import RENDER_AGAIN
from .dump import Chain, Tree, seconds
from .table import Row, fail, judged, ok

NAMES = ("path rules", "watches", "growth timeouts")
_EXEMPT, _ANONYMOUS = "exempt-", "-anonymous"


def rows(chain: Chain, profile: Profile | None) -> list[Row]:
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
    own = (route.get("typed_per_filter_config") or {}).get(table.EXT_AUTHZ) or {}
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
