"""What Envoy tells of a stream that the API server refused, and of one that it may have processed."""

from __future__ import annotations

import pytest

from extauthz.core.ledger.pending_write import Event
from extauthz.render.options import Endpoint
from extauthz.servers import access_log
from extauthz.settlement import answers
from extauthz.testing.stack import PATCH, SCALE, Stack, scale_body
from tests.envoy.h2server import H2Server, How
from tests.waiting import eventually

UNPROCESSED = (How.REFUSE, How.REFUSE_LATE, How.LEAVE_BEFORE)
"""RFC 9113 §8.7: REFUSED_STREAM, and a GOAWAY whose last stream is below this one, say that nothing was done."""


@pytest.mark.parametrize("connection", ["new", "used"])
@pytest.mark.parametrize("how", How)
def test_only_a_refused_stream_was_not_processed(launch, authority, how: How, connection: str):
    with H2Server(authority.issue("localhost")) as server:
        for stack in launch(apiserver=Endpoint("127.0.0.1", server.port), apiserver_name="localhost"):
            if connection == "used":
                assert heard(stack) == (200, Event.ANSWERED_OK)
                server.seen.clear()
            server.how = how
            assert heard(stack) == expected(how)
            assert server.seen == [SCALE], "it was tried once"


def expected(how: How) -> tuple[int, Event]:
    if how is How.ANSWER:
        return 200, Event.ANSWERED_OK
    return 503, Event.NOT_FORWARDED if how in UNPROCESSED else Event.ANSWERED_UNCLEAR


def heard(stack: Stack) -> tuple[int, Event]:
    """What the client, and what the gate is told of a write."""
    stack.gate.entries.clear()
    answer = stack.send("PATCH", SCALE, content=scale_body(7), headers=PATCH)
    (entry,) = eventually(lambda: list(stack.gate.entries))
    return answer.status_code, answers.event(access_log.fate(entry))
