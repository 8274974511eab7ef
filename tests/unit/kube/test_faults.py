"""What a reflector makes of an API server that errs. The real one does not err at will; the stand-in does."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator

import pytest

from extauthz.inputs.kube import connection
from extauthz.inputs.kube.reflector import CALM_S, PAGE, RETRY_AFTER_AT_MOST_S, Backoff
from tests.contract.worlds import World, following, names, world_of
from tests.support.apireading import Fault
from tests.support.apiserver import ApiServer
from tests.support.certs import Authority
from tests.waiting import until


@pytest.fixture
def api(tmp_path, authority: Authority):
    with ApiServer(authority.issue("apiserver")) as api:
        yield api


@pytest.fixture
def authority(tmp_path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def world(api: ApiServer, authority: Authority, tmp_path) -> AsyncIterator[World]:
    async with world_of(api.port, authority.ca, {"token": "t"}, tmp_path, api.reading.forget) as world:
        yield world


def status(code: int, reason: str, message: str = "said so") -> bytes:
    tree = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason}
    return json.dumps({**tree, "message": message, "code": code}).encode()


def error_event(code: int, reason: str) -> bytes:
    return b'{"type":"ERROR","object":' + status(code, reason) + b"}\n"


REFUSALS = {
    "too-many": Fault(429, status(429, "TooManyRequests"), {"Retry-After": "7"}),
    "internal": Fault(500, status(500, "InternalError")),
    "unavailable": Fault(503, b"upstream connect error", {"content-type": "text/plain"}),
    "gateway": Fault(504, b"<html>"),
    "error-event": Fault(body=error_event(500, "InternalError")),
    "half-a-line": Fault(body=b'{"type":"ADDED","object":{"metadata":{"na'),
    "half-a-line-cut": Fault(body=b'{"type":"ADDED","object":{"metadata":{"na', then="cut"),
    "no-json": Fault(body=b"<html>\n"),
    "other-json": Fault(body=b'[{"type":3}]\n'),
    "no-object": Fault(body=b'{"type":"ADDED","object":null}\n'),
    "nothing": Fault(),
    "nothing-cut": Fault(then="cut"),
}


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
async def test_a_watch_that_fails_is_opened_anew_from_where_it_was(api: ApiServer, world: World, fault: Fault):
    a, b = itertools.islice(names, 2)
    await world.create(a)
    reflector = world.reflector()
    async with following(reflector):
        api.reading.faults.append(fault._replace(only=f"resourceVersion={reflector.version}"))
        world.relay.cut()
        await until(lambda: reflector.failures == 2)
        assert reflector.last_error.startswith("configmaps: ")
        await world.create(b)
        await until(lambda: b in world.recorder.state)
        assert (reflector.relists, reflector.last_error) == (0, "")
    assert world.recorder.changes == [("replaced", [a]), ("ADDED", b)]
    assert any(0.8 <= wait <= 1.6 or wait == 7 for wait in world.waits), world.waits


@pytest.mark.parametrize(
    "fault",
    [Fault(410, status(410, "Expired")), Fault(410, status(410, "Gone")), Fault(body=error_event(410, "Expired"))],
    ids=["http", "http-gone", "event"],
)
async def test_a_version_that_is_gone_costs_a_list(api: ApiServer, world: World, fault: Fault):
    (a,) = itertools.islice(names, 1)
    await world.create(a)
    reflector = world.reflector()
    async with following(reflector):
        api.reading.faults.append(fault._replace(only="resourceVersion="))
        world.relay.cut()
        await until(lambda: reflector.relists == 1)
    assert world.recorder.changes == [("replaced", [a])] * 2


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "paged"])
async def test_a_list_that_fails_is_taken_anew_and_nothing_of_it_is_handed_on(
    api: ApiServer, world: World, fault: Fault, streams: bool
):
    a, b = itertools.islice(names, 2)
    await world.create(a, b)
    api.reading.faults.append(fault._replace(only="sendInitialEvents" if streams else "limit="))
    reflector = world.reflector(streams_lists=streams)
    async with following(reflector):
        assert world.recorder.changes == [("replaced", sorted([a, b]))]
    assert not api.reading.faults


async def test_a_streamed_list_that_breaks_off_is_fetched_in_pages(api: ApiServer, world: World):
    a, b = itertools.islice(names, 2)
    await world.create(a)
    ghost = {"type": "ADDED", "object": {"metadata": {"name": "ghost", "resourceVersion": "1"}}}
    api.reading.faults.append(Fault(body=json.dumps(ghost).encode() + b"\n", only="sendInitialEvents"))
    reflector = world.reflector()
    async with following(reflector):
        await world.create(b)
        await until(lambda: b in world.recorder.state)
        assert world.recorder.changes == [("replaced", [a]), ("ADDED", b)]
        assert [seen.name for seen in world.recorder.seen] == ["ghost", a, b]
        await world.forget(reflector)
        await until(lambda: reflector.relists == 1)
    streamed = ["sendInitialEvents" in seen.target for seen in api.seen if seen.method == "GET"]
    assert streamed == [True, False, False, False, True], "in pages once: then a watch, one more, and a stream again"


@pytest.mark.parametrize("code", [400, 422, 500])
async def test_a_server_that_can_not_stream_lists_is_not_asked_again(api: ApiServer, world: World, code: int):
    (a,) = itertools.islice(names, 1)
    await world.create(a)
    api.reading.faults.append(Fault(code, status(code, "Invalid"), only="sendInitialEvents"))
    reflector = world.reflector()
    async with following(reflector):
        assert (world.waits, reflector.failures) == ([], 0)
        await world.forget(reflector)
        await until(lambda: reflector.relists == 1)
    assert sum("sendInitialEvents" in seen.target for seen in api.seen) == 1


async def test_changes_amid_a_streamed_list_are_part_of_it(api: ApiServer, world: World):
    def line(event: str, name: str, version: int) -> bytes:
        metadata = {"name": name, "namespace": "default", "resourceVersion": str(version)}
        return json.dumps({"type": event, "object": {"metadata": metadata, "data": {"value": str(version)}}}).encode()

    end = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    lines = [
        line("ADDED", "a", 1),
        line("ADDED", "b", 2),
        json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "2"}}}).encode(),
        line("DELETED", "a", 3),
        line("MODIFIED", "b", 4),
        json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode(),
        line("ADDED", "c", 10),
    ]
    api.reading.faults.append(Fault(body=b"".join(each + b"\n" for each in lines), then="hang"))
    async with following(world.reflector()):
        await until(lambda: "c" in world.recorder.state)
    assert world.recorder.journal == [("replaced", ["b"]), ("reached", "9"), ("ADDED", "c"), ("reached", "10")]
    assert world.recorder.state == {"b": "4", "c": "10"}


async def test_a_continuation_that_is_too_old_makes_one_whole_list(api: ApiServer, world: World):
    some = list(itertools.islice(names, PAGE + 1))
    await world.create(*some)
    api.reading.faults.append(Fault(410, status(410, "Expired"), only="continue="))
    async with following(world.reflector(streams_lists=False)):
        assert world.recorder.changes == [("replaced", sorted(some))]
    lists = [seen.target for seen in api.seen if seen.method == "GET" and "watch" not in seen.target]
    assert ["limit" in each for each in lists] == [True, True, False]


async def test_waits_grow_to_half_a_minute_and_a_longer_retry_after_is_heeded(api: ApiServer, world: World):
    fault = Fault(429, status(429, "TooManyRequests"), only="limit=")
    api.reading.faults.extend([fault] * 8)
    api.reading.faults.append(fault._replace(headers={"Retry-After": "77"}))
    api.reading.faults.append(fault._replace(headers={"Retry-After": "86400"}))
    async with following(world.reflector(streams_lists=False)):
        pass
    *growing, asked, capped = world.waits
    for wait, first in zip(growing, [0.8, 1.6, 3.2, 6.4, 12.8, 15, 15, 15], strict=True):
        assert first <= wait <= 2 * first
    assert (asked, capped) == (77, RETRY_AFTER_AT_MOST_S)


async def test_a_reader_without_rights_is_told_verb_resource_and_cure(api: ApiServer, world: World):
    message = 'configmaps is forbidden: User "u" cannot list resource "configmaps" in API group "" at the cluster scope'
    api.reading.faults.extend([Fault(403, status(403, "Forbidden", message))] * 1000)
    reflector = world.reflector()
    task = asyncio.create_task(reflector.run())
    await until(lambda: reflector.last_error or task.done())
    task.cancel()
    assert message in reflector.last_error
    assert "grant get, list and watch on it" in reflector.last_error


async def test_an_event_of_eight_megabytes_comes_whole_and_one_without_end_does_not(api: ApiServer, world: World):
    reflector = world.reflector()
    async with following(reflector):
        metadata = {"name": "large", "namespace": "default", "resourceVersion": reflector.version}
        event = {"type": "ADDED", "object": {"metadata": metadata, "data": {"value": "x" * 8_000_000}}}
        endless = b"[" * (connection.EVENT_AT_MOST_BYTES + 1)
        api.reading.faults.append(Fault(body=json.dumps(event).encode() + b"\n", only="resourceVersion="))
        api.reading.faults.append(Fault(body=endless, then="hang", only="resourceVersion="))
        world.relay.cut()
        await until(lambda: "large" in world.recorder.state)
        await until(lambda: "more than" in reflector.last_error)
    assert len(world.recorder.state["large"]) == 8_000_000


async def test_an_idle_watch_costs_bookmarks_only(api: ApiServer, world: World):
    api.reading.bookmark_s = 0.01
    async with following(world.reflector()):
        before = world.connection.calls.copy()
        await until(lambda: len(world.recorder.journal) > 20)
        assert world.connection.calls == before
    assert {kind for kind, _ in world.recorder.journal[1:]} == {"reached"}


@pytest.mark.parametrize(("chance", "waits"), [(0.0, [0.8, 1.6, 3.2, 6.4, 12.8, 15, 15]), (1.0, [1.6, 3.2, 6.4, 12.8])])
def test_waits_double_up_to_a_bound_and_chance_adds_as_much_again(chance: float, waits: list[float]):
    backoff = Backoff(lambda: 0.0, lambda: chance)
    assert [backoff.failed() for _ in waits] == pytest.approx(waits)


@pytest.mark.parametrize(("passed_s", "wait_s"), [(CALM_S - 1, 3.2), (CALM_S + 1, 0.8)], ids=["busy", "calm"])
def test_after_a_calm_the_first_wait_is_short_again(passed_s: float, wait_s: float):
    now = [1000.0]
    backoff = Backoff(lambda: now[0], lambda: 0.0)
    for _ in range(2):
        now[0] += backoff.failed()
    now[0] += passed_s
    assert backoff.failed() == pytest.approx(wait_s)
