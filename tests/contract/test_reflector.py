"""The contract of a reflector with an API server: nothing is missed and nothing is made up, whatever happens between.

Each case runs against the real API server, too, so that the stand-in's faults elsewhere are those of the real one.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from extauthz.inputs.kube.reflector import PAGE, SHORT_WATCH_S
from tests.contract.worlds import World, following, names, world_of
from tests.controlplane.plane import Plane, running_plane
from tests.support.apiserver import ApiServer
from tests.support.certs import Authority
from tests.waiting import until

QUICK_S = 0.3
"""Silence that is too long, where a test waits for that."""


@pytest.fixture(scope="module")
def forgetful_plane() -> Iterator[Plane]:
    """No watch cache, and etcd keeps a second of history."""
    with running_plane(["--watch-cache=false", "--etcd-compaction-interval=1s"]) as plane:
        yield plane


STAND_IN = pytest.param("", id="stand-in")
REAL = pytest.param("plane", id="real", marks=pytest.mark.controlplane)
FORGETFUL = pytest.param("forgetful_plane", id="real", marks=pytest.mark.controlplane)


@pytest.fixture(params=[STAND_IN, REAL])
async def world(request: pytest.FixtureRequest, tmp_path) -> AsyncIterator[World]:
    if request.param:
        plane: Plane = request.getfixturevalue(request.param)
        user = {"client-certificate": str(plane.folder / "admin.crt"), "client-key": str(plane.folder / "admin.key")}
        async with world_of(plane.port, plane.ca, user, tmp_path) as world:
            yield world
        return
    authority = Authority(tmp_path)
    with ApiServer(authority.issue("apiserver")) as api:
        async with world_of(api.port, authority.ca, {"token": "t"}, tmp_path, api.reading.forget) as world:
            api.reading.bookmark_s = 0.2
            yield world


@pytest.fixture(params=[True, False], ids=["streamed", "paged"])
def streams(request: pytest.FixtureRequest) -> bool:
    return request.param


async def test_the_whole_list_comes_first_and_then_every_change_in_order(world: World, streams: bool):
    a, b, c = itertools.islice(names, 3)
    await world.create(a, b)
    reflector = world.reflector(streams_lists=streams)
    async with following(reflector):
        await world.create(c)
        await world.change(a, "2")
        await world.delete(b)
        await world.change(a, "3")
        await until(lambda: len(world.recorder.changes) == 5)
    assert world.recorder.changes == [
        ("replaced", sorted([a, b])),
        ("ADDED", c),
        ("MODIFIED", a),
        ("DELETED", b),
        ("MODIFIED", a),
    ]
    assert world.recorder.state == {a: "3", c: "1"}
    assert {each.kind for each in world.recorder.seen} == {"v1 ConfigMap"}
    assert not any(each.has_managed_fields for each in world.recorder.seen)
    versions = [int(each.version) for each in world.recorder.seen[2:]]
    assert versions == sorted(set(versions)), "each later than the one before, the deletion's too"
    assert (reflector.relists, reflector.failures, reflector.last_error) == (0, 0, "")


async def test_an_empty_collection_is_a_list_too(world: World, streams: bool):
    async with following(world.reflector(streams_lists=streams)):
        assert world.recorder.changes == [("replaced", [])]


async def test_a_list_of_more_than_a_page_is_whole(world: World, streams: bool):
    many = list(itertools.islice(names, PAGE + 1))
    await world.create(*many)
    before = world.connection.calls.copy()
    async with following(world.reflector(streams_lists=streams)):
        assert world.recorder.changes == [("replaced", sorted(many))]
    assert (world.connection.calls - before)["get"] == (0 if streams else 2)


async def test_objects_of_megabytes_come_whole(world: World, streams: bool):
    # The real server writes each of these as six bytes.
    large = "<" * 1_000_000
    first, second = itertools.islice(names, 2)
    await world.create(first, value=large)
    async with following(world.reflector(streams_lists=streams)):
        await world.create(second, value=large)
        await until(lambda: second in world.recorder.state)
    assert world.recorder.state == {first: large, second: large}


async def test_a_cut_connection_loses_nothing_and_costs_no_list(world: World):
    a, b, c = itertools.islice(names, 3)
    await world.create(a, b)
    reflector = world.reflector()
    async with following(reflector):
        await world.create(c)
        await until(lambda: c in world.recorder.state)
        world.relay.cut()
        await world.delete(b)
        await world.change(a, "2")
        await until(lambda: world.recorder.state == {a: "2", c: "1"})
    assert world.recorder.changes == [("replaced", sorted([a, b])), ("ADDED", c), ("DELETED", b), ("MODIFIED", a)]
    assert (reflector.relists, reflector.failures) == (0, 1)


@pytest.mark.parametrize("world", [STAND_IN, FORGETFUL], indirect=True)
async def test_a_forgotten_version_makes_the_list_come_again_so_that_what_vanished_is_known(
    world: World, streams: bool
):
    stays, goes, comes, later = itertools.islice(names, 4)
    await world.create(stays, goes)
    reflector = world.reflector(streams_lists=streams)
    async with following(reflector):
        world.relay.mute()  # so that nothing of this is heard
        await world.delete(goes)
        await world.create(comes)
        await world.forget(reflector)
        world.relay.unmute()
        await until(lambda: reflector.relists)
        await world.create(later)
        await until(lambda: later in world.recorder.state)
    assert world.recorder.state == dict.fromkeys([stays, comes, later], "1")
    assert ("replaced", sorted([stays, comes])) in world.recorder.changes
    assert reflector.synced


async def test_a_watch_that_ends_at_its_time_goes_on_without_a_list(world: World):
    a, b = itertools.islice(names, 2)
    await world.create(a)
    reflector = world.reflector(watch_s=2 * SHORT_WATCH_S)
    before = world.connection.calls["watch"]
    async with following(reflector):
        await until(lambda: world.connection.calls["watch"] - before >= 3)
        await world.create(b)
        await until(lambda: b in world.recorder.state)
    assert world.recorder.changes == [("replaced", [a]), ("ADDED", b)]
    assert (reflector.relists, reflector.failures) == (0, 0)


async def test_bookmarks_move_the_version_on_where_nothing_else_does(world: World):
    # The real server sends one two seconds before it ends a watch, and then only every minute.
    reflector = world.reflector(watch_s=4.0)
    async with following(reflector):
        begun = reflector.version
        await world.elsewhere()
        await until(lambda: int(reflector.version) > int(begun))
    assert world.recorder.changes == [("replaced", [])]
    assert ("reached", reflector.version) in world.recorder.journal


async def test_a_silent_watch_is_noticed_and_opened_anew(world: World):
    a, b = itertools.islice(names, 2)
    await world.create(a)
    reflector = world.reflector(silence_s=QUICK_S)
    async with following(reflector):
        world.relay.mute()
        await world.create(b)
        await until(lambda: "nothing came within" in reflector.last_error)
        world.relay.unmute()
        await until(lambda: b in world.recorder.state)
        assert reflector.last_error == ""


async def test_after_a_long_silence_the_list_is_taken_anew_since_it_alone_proves_that_nothing_was_missed(world: World):
    (a,) = itertools.islice(names, 1)
    await world.create(a)
    reflector = world.reflector(silence_s=QUICK_S)
    async with following(reflector):
        world.relay.mute()
        heard_s = reflector.last_heard_s
        await until(lambda: reflector.version == "")
        assert (reflector.last_heard_s, reflector.synced) == (heard_s, True)
        world.relay.unmute()
        await until(lambda: reflector.relists)
        assert reflector.last_heard_s > heard_s
    assert world.recorder.changes == [("replaced", [a])] * 2
