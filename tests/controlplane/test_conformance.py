"""One write, any entrance: what ext_authz and the webhook say of every spelling, and of every recorded request.

Where they differ, the difference has a name (``Difference``). Each is counted, and one without a name fails.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.intake.counts import read
from extauthz.core.model import NotACount, Request, Unreadable, Write
from tests.controlplane import fixtures
from tests.controlplane.conforming import FAILED, Outcome, Remembering, Restorer, Said, entrances, outcome
from tests.controlplane.judging import as_a_door_hands_it_over, packed_body
from tests.controlplane.plane import running_plane
from tests.controlplane.record_spellings import FLAGS, Recorder, all_spellings
from tests.controlplane.wire import spell

pytestmark = pytest.mark.controlplane

Tree = Any

DATA = Path(__file__).parents[1] / "data"
ROWS: dict[str, Tree] = {row["id"]: row for row in map(json.loads, (DATA / "spellings.jsonl").read_text().splitlines())}


class Difference(StrEnum):
    """Why the two may say different things. The API server reads, defaults and validates before it asks."""

    NONE = "none"
    REFUSES_FIRST = "the API server refuses it by itself, as it does without a webhook"
    READS_MORE = "the gate does not read it, and the API server does"
    LEFT = "the count alone is read at Envoy, the object is read by the webhook"
    UNNAMED = "no reason is known"


def difference(request: Request, said: Said, status: int | None) -> Difference:
    """``status``: that of the same request without a webhook; ``None``: not recorded."""
    reading = read(request)
    if said.outcome == said.ext_authz.verdict.value:
        return Difference.NONE
    if said.outcome is Outcome.REFUSED:
        alone = FAILED not in said.reply.body and status in (None, said.reply.status)
        return Difference.REFUSES_FIRST if alone else Difference.UNNAMED
    if isinstance(reading, Unreadable) or said.ext_authz.reason == "replicas-too-large":
        return Difference.READS_MORE
    if isinstance(reading, NotACount):
        return Difference.LEFT
    return Difference.UNNAMED


def spellings(server: str, folder: Path) -> Iterator[tuple[str, Difference, Said]]:
    """Each spelling with what came of it. Of what landed, everything is put back."""
    corpus = [one for one in all_spellings() if one.server == server]
    with running_plane(FLAGS[server], folder) as plane:
        wire, raw = Restorer(plane), Remembering(plane)
        recorder = Recorder(wire, raw)
        recorder.set_up()
        with entrances(plane, recorder.before) as both:
            for spelling in corpus:
                before = recorder.before
                asked = recorder.record(spelling)["request"]
                head = asked["method"], asked["target"], asked["headers"]
                request = as_a_door_hands_it_over(*head, packed_body(asked))
                said = Said(both.decided(request), outcome(raw.last), raw.last)
                yield spelling.id, difference(request, said, ROWS[spelling.id]["status"]), said
                if recorder.before is not before:
                    both.known(recorder.before)
        wire.close()
        raw.close()


def told(found: list[tuple[str, Difference, Said]]) -> Counter[Difference]:
    """Counts them, and fails where one has no name."""
    counts = Counter(why for _, why, _ in found)
    print(", ".join(f"{number} × {why}" for why, number in counts.most_common()))
    unnamed = [
        f"{name}: ext_authz {said.ext_authz.verdict} ({said.ext_authz.reason}), the API server {said.outcome}, "
        f"{said.reply.status}: {said.reply.body[:300]!r}"
        for name, why, said in found
        if why is Difference.UNNAMED
    ]
    assert not unnamed, "\n".join(unnamed[:9])
    return counts


@pytest.mark.parametrize("server", FLAGS)
def test_every_spelling_gets_the_same_decision_at_both_entrances(server: str, tmp_path: Path):
    found = list(spellings(server, tmp_path))
    counts = told(found)
    assert counts.total() == sum(one.server == server for one in all_spellings())
    assert {said.outcome for _, _, said in found} >= {Outcome.ALLOW, Outcome.DENY, Outcome.REFUSED}


# What real clients sent. Its objects are made first; a version or a uid that a body names is that of the object here.

RECORDED = [json.loads(line) for line in (DATA / "recorded.jsonl").read_text().splitlines()]
PEERS = {"deployments.apps team-a/web": 2, "deployments.apps team-a/hello-00001-deployment": 2}
PEERS |= {"deployments.apps team-a/kc": 1}
DROPPED = {"content-length", "accept", "accept-encoding", "host", "connection", "authorization", "transfer-encoding"}


def sent(row: Tree, objects: dict[str, Tree]) -> Request:
    """The request of a row, for an administrator who reads JSON."""
    request = as_recorded(row)
    headers = {name: value for name, value in request.headers.items() if name[0] != ":" and name not in DROPPED}
    reading, body = read(request), request.body
    if isinstance(reading, Write) and any(reading.precondition):
        metadata = objects[str(reading.ref)]["metadata"]
        tree = json.loads(body)
        tree["metadata"] |= {name: metadata[name] for name in ("resourceVersion", "uid")}
        body = json.dumps(tree).encode()
    return request._replace(headers=headers, body=body)


def as_recorded(row: Tree) -> Request:
    body = base64.b64decode(row["body_base64"]) if "body_base64" in row else row.get("body", "").encode()
    return Request(row["method"], row["path"], row["headers"], body)


def recorded(folder: Path) -> Iterator[tuple[str, Difference, Said]]:
    """Each request with what came of it, one after the other."""
    with running_plane(folder=folder) as plane:
        wire, raw = Restorer(plane), Remembering(plane)
        wire.json("POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}})
        for ref, replicas in PEERS.items():
            made = wire.json("POST", fixtures.collection(ref), fixtures.deployment(ref.rpartition("/")[2], replicas))
            assert made.status == 201, made
        objects = dict(_gated(wire))
        with entrances(plane, objects) as both:
            for number, row in enumerate(RECORDED, 1):
                request = sent(row, objects)
                reply = raw.send(spell(request.method, request.target, list(request.headers.items()), request.body))
                said = Said(both.decided(request), outcome(reply), reply)
                yield f"{number}: {row['client']}", difference(request, said, None), said
                if said.outcome is Outcome.ALLOW:
                    objects = dict(_gated(wire))
                    both.known(objects)
        wire.close()
        raw.close()


def _gated(wire: Restorer) -> Iterator[tuple[str, Tree]]:
    """All Deployments and what else there is of the kinds that are gated."""
    for resource, pattern in fixtures.COLLECTIONS.items():
        listed = wire.json("GET", pattern.format("")).tree()
        for item in listed["items"] if not resource.endswith("example.dev") else ():
            item |= {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
            yield f"{resource} {item['metadata']['namespace']}/{item['metadata']['name']}", item


def test_every_recorded_request_gets_the_same_decision_at_both_entrances(tmp_path: Path):
    found = list(recorded(tmp_path))
    told(found)
    assert len(found) == len(RECORDED)
    rows = zip(found, RECORDED, strict=True)
    writes = [said for (_, _, said), row in rows if isinstance(read(as_recorded(row)), Write)]
    assert Counter(said.outcome for said in writes)[Outcome.DENY] > 10
