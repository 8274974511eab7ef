"""What the answer to a decided request proves about its pending write, by what Envoy says of the request; and its path:
Envoy's report → its event → a consistent read → the end of the pending write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from extauthz.core.ledger.entry import Event
from extauthz.core.ledger.pending_writes import PendingWrites
from extauthz.inputs.settlement.reads import ConsistentReads


class Fate(NamedTuple):
    """What an entry says about one request."""

    code: int
    """HTTP status of the answer to the client; 0: there was none."""
    details: str
    """Envoy's response code details, without what stands in braces after them."""
    flags: frozenset[str]
    """Fields that are set in ``envoy.data.accesslog.v3.ResponseFlags``."""
    attempts: int
    """How often Envoy's router took it on. 0: it never came that far."""
    sent: bool
    """A byte of it was given to a connection to the API server."""
    inner: str = ""
    """What stood in braces after the details: why a stream was reset."""


# Before the router handed the request to a connection (source/common/router/router.cc and the filters before it), by
# details, with the flags that come along: what proves that it never left. Everything else may have left.
NEVER_LEFT: Mapping[str, frozenset[str]] = {
    "ext_authz_denied": frozenset({"unauthorized_details"}),
    "ext_authz_error": frozenset({"unauthorized_details"}),
    "ext_authz_invalid": frozenset({"unauthorized_details"}),
    "rbac_access_denied_matched_policy[none]": frozenset(),
    "route_not_found": frozenset({"no_route_found"}),
    "cluster_not_found": frozenset({"no_cluster_found"}),
    "no_healthy_upstream": frozenset({"no_healthy_upstream"}),
    # The pool got no connection, TLS included. With any other flag a reset may have come after the request was sent.
    "upstream_reset_before_response_started": frozenset({"upstream_connection_failure"}),
}

REFUSED_STREAM = ("upstream_reset_before_response_started", "remote_refused_stream_reset")
"""Details, and what stands in braces after them, of a stream that the API server refused with REFUSED_STREAM, or that
is above the last stream of its GOAWAY. Either says that nothing of the request was processed (RFC 9113 §8.7).
``tests/envoy/test_streams.py`` shows what Envoy 1.40 makes of these and of other resets."""

BEFORE_THE_STORE = frozenset({401, 403, 404, 405, 409, 413, 415, 422, 429})
"""4xx that the API server answers only where it has stored nothing: authentication, authorization, admission,
routing, decoding, validation, preconditions, overload (``k8s.io/apiserver/pkg/endpoints/handlers``)."""

UNFINISHED = frozenset({408})
"""4xx that leave open whether the API server is done with the request."""


def event(fate: Fate) -> Event:
    """The event of the pending write. In doubt ``ANSWERED_UNCLEAR``: then only the landing window ends it.

    An answer counts only if the API server gave it, in the only attempt, and nothing went wrong on the way. 2xx says
    that the write has landed. Any other 4xx says only that the API server is done with the request: 400 also comes when
    the *answer* cannot be made, after the write has landed (a Table with ``?includeObject=bogus``: shown on a real one
    in ``tests/controlplane/test_refusals.py``). So it is taken like 2xx: what a consistent read shows from then on is
    all that the write will ever do.
    """
    if not fate.sent and fate.attempts <= 1 and fate.flags == NEVER_LEFT.get(fate.details):
        return Event.NOT_FORWARDED
    if _was_refused(fate):
        return Event.NOT_FORWARDED
    if fate.details != "via_upstream" or fate.attempts != 1 or fate.flags:
        return Event.ANSWERED_UNCLEAR
    if fate.code in BEFORE_THE_STORE:
        return Event.REFUSED
    is_done = 200 <= fate.code < 300 or (400 <= fate.code < 500 and fate.code not in UNFINISHED)
    return Event.ANSWERED_OK if is_done else Event.ANSWERED_UNCLEAR


def _was_refused(fate: Fate) -> bool:
    """As a stream, in the only attempt. An earlier attempt may have been processed."""
    reset = frozenset({"upstream_remote_reset"})
    return (fate.details, fate.inner) == REFUSED_STREAM and fate.attempts == 1 and fate.flags == reset


class Settlement:
    """Ends pending writes.

    Args:
        heard: told what became of each request.
    """

    def __init__(self, pending: PendingWrites, heard: Callable[[Event], None], clock: Callable[[], float]) -> None:
        self._pending = pending
        self._heard = heard
        self._clock = clock
        self.reads: ConsistentReads | None = None
        """``None``: no source can be asked for the newest state of one workload."""
        self.is_believed: Callable[[], bool] = lambda: False
        """If no source can be asked: whether the loaded state shows all that could land so far."""

    def answered(self, decision_id: str, fate: Fate) -> None:
        """Take what became of a decided request. Most often its pending write ends now, or by the read that follows."""
        what = event(fate)
        self._heard(what)
        ref = self._pending.settle(decision_id, what, self._clock())
        if ref is not None and self.reads is not None:
            self.reads.soon(ref)

    def tick(self, now_s: float) -> None:
        """Let time pass. If a landing window has elapsed, a read ends the write, or the content of a state file."""
        self._pending.tick(now_s)
        if self.is_believed():
            self._pending.consistent_read(now_s)
