"""What a watch brings of an object is all that its reader looks at: read whole, it counts the same.

Objects are made of the form itself, and of what no API server prints: other fields, null, wrong types.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints, is_typeddict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.core.decision.gate import Gate
from extauthz.core.errors import ObjectError
from extauthz.core.model import Tree
from extauthz.core.policies import Enlisted, GrowthPolicy, Policies
from extauthz.inputs.cluster import object_readers
from extauthz.inputs.cluster.event_handlers import InvalidObjects
from extauthz.inputs.cluster.forms import Counted
from extauthz.inputs.cluster.live import CLAIM_TEMPLATES, OPTIONAL, Listed, LiveCluster
from extauthz.inputs.kube.connection import ApiError, Connection
from extauthz.inputs.kube.lists import loads, reading
from extauthz.inputs.kube.reflector import INITIAL_EVENTS_END, Reflector
from tests.waiting import until

RESIZED = Path(__file__).parents[2] / "data" / "resized.jsonl"
READERS: list[tuple[Any, tuple[str, str]]] = [
    *((read, name) for name, read in object_readers.COUNTED.items()),
    (object_readers.old_revision, ("apps", "StatefulSet")),
    (object_readers.unreadable, ("apps", "Deployment")),
]
TEXTS = ["", "web", "1", "250m", "1Gi", "True"]
ALWAYS = {"metadata", "name", "namespace", "uid"}
OF = {
    "type": ["PodResizePending", "Complete"],
    "reason": ["Infeasible", ""],
    "phase": ["Running", "Failed"],
    "restartPolicy": ["Always", ""],
}
TREES = [
    {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}},
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]},
    {"start": 3},
    {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}}},
    {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}},
]
ODD: list[Tree] = [None, 7, 2**70, -1, 1.5, True, "x", [], [None], {}, {"a": 1}, [[{"deep": {}}]]]


def of(form: Any, key: str = "", *, sparse: bool = True) -> st.SearchStrategy[Any]:
    """Values of a form; if ``sparse`` some fields are absent."""
    if form is Any:
        return st.sampled_from(TREES)
    if is_typeddict(form):
        named = {name: of(each, name, sparse=sparse) for name, each in get_type_hints(form).items()}
        always = {name: named.pop(name) for name in list(named) if name in ALWAYS or not sparse}
        return st.fixed_dictionaries(always, optional=named | {"unknown": st.sampled_from(ODD)})
    if form in (str, int, bool):
        return {str: st.sampled_from(OF.get(key, TEXTS)), int: st.integers(0, 3), bool: st.booleans()}[form]
    found = [of(each, sparse=sparse) for each in get_args(form) if each is not type(None)]
    if getattr(form, "__origin__", None) is list:
        return st.lists(found[0], min_size=not sparse, max_size=2)
    if getattr(form, "__origin__", None) is dict:
        return st.dictionaries(st.sampled_from(["app", "cpu", "memory"]), found[-1], max_size=2)
    return st.one_of(*found, st.none()) if sparse else found[0]


def spoilt(tree: Tree, draw: st.DrawFn) -> Tree:
    """The same, with one value that is odd somewhere."""
    if isinstance(tree, dict) and tree and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(tree)))
        return tree | {key: spoilt(tree[key], draw)}
    if isinstance(tree, list) and tree and draw(st.integers(0, 5)):
        return [spoilt(tree[0], draw), *tree[1:]]
    return draw(st.sampled_from(ODD))


@st.composite
def objects(draw: st.DrawFn) -> Tree:
    tree = draw(of(Counted))
    return tree if draw(st.booleans()) else spoilt(tree, draw)


class Asked(dict[str, Any]):
    """An object that notes what is asked of it, by path."""

    def __init__(self, tree: dict[str, Any], path: tuple[str, ...], paths: set[tuple[str, ...]]) -> None:
        super().__init__({key: asked(value, (*path, key), paths) for key, value in tree.items()})
        self._path, self._paths = path, paths

    def get(self, key: str, default: Any = None) -> Any:
        self._paths.add((*self._path, key))
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._paths.add((*self._path, key))
        return super().__getitem__(key)


def asked(tree: Tree, path: tuple[str, ...], paths: set[tuple[str, ...]]) -> Tree:
    if isinstance(tree, list):
        return [asked(each, path, paths) for each in tree]
    return Asked(tree, path, paths) if isinstance(tree, dict) else tree


def is_named(path: tuple[str, ...], form: Any) -> bool:
    """Whether the form has what stands there."""
    if not path or form is Any:
        return True
    if is_typeddict(form):
        return path[0] in get_type_hints(form) and is_named(path[1:], get_type_hints(form)[path[0]])
    if getattr(form, "__origin__", None) is dict:
        return len(path) == 1
    return any(is_named(path, each) for each in get_args(form))


def outcome(read: Any, tree: Tree) -> object:
    try:
        return read(tree)
    except ObjectError as error:
        return str(error)
    except (KeyError, TypeError, AttributeError) as error:  # what no handler gets that far with
        return repr(error)


def event_of(tree: Tree, kind: tuple[str, str]) -> bytes:
    if isinstance(tree, dict):
        tree = {"apiVersion": f"{kind[0]}/v1" if kind[0] else "v1", "kind": kind[1]} | tree
    return json.dumps({"type": "ADDED", "object": tree}).encode()


@given(tree=objects())
def test_read_by_its_form_an_object_counts_as_if_it_were_read_whole(tree: Tree):
    for read, kind in READERS:
        event = event_of(tree, kind)
        by_form, whole = (one(event)["object"] for one in (reading(Counted), loads))
        assert outcome(read, by_form) == outcome(read, whole)


@given(tree=of(Counted, sparse=False))
def test_a_reader_asks_for_nothing_that_the_form_lacks(tree: Tree):
    paths: set[tuple[str, ...]] = set()
    for read, kind in READERS:
        outcome(read, asked(loads(event_of(tree, kind))["object"], (), paths))
    assert [path for path in paths if not is_named(path, Counted)] == []


def test_recorded_pods_count_the_same():
    for line in RESIZED.read_text().splitlines():
        event = event_of(json.loads(line)["pod"], ("", "Pod"))
        by_form, whole = (object_readers.pod(one(event)["object"]) for one in (reading(Counted), loads))
        assert by_form == whole, line


def test_what_is_not_of_the_form_is_read_whole():
    deep = b'{"type": "ADDED", "object": {"kind": "Pod", "spec": {"x": ' + b"[" * 5000 + b"]" * 5000 + b"}}}"
    assert reading(Counted)(deep) == loads(deep)
    odd = event_of({"spec": {"replicas": "three", "other": 1}}, ("apps", "Deployment"))
    assert reading(Counted)(odd)["object"]["spec"] == {"replicas": "three", "other": 1}
    with pytest.raises(ValueError, match="Expecting"):
        reading(Counted)(b'{"type": "ADDED", "object": ')


class Keeps(GrowthPolicy):
    """It may look at every field."""

    def keep(self, pod: Any) -> str | None:
        return None


GROUP = "/apis/resource.k8s.io/"
NONE = {
    "type": "BOOKMARK",
    "object": {"metadata": {"resourceVersion": "1", "annotations": {INITIAL_EVENTS_END: "true"}}},
}


class Server:
    """A connection to a cluster without objects, whose server may have no devices yet."""

    server = "none"

    def __init__(self, *, has_devices: bool = False) -> None:
        self.has_devices = has_devices
        self.forms: dict[str, type | None] = {}

    @asynccontextmanager
    async def watch(self, path: str, *, form: type | None, **_: object) -> AsyncIterator[AsyncIterator[Any]]:
        self.forms[path] = form
        if path.startswith(GROUP) and not self.has_devices:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        yield self._events()

    async def items(self, path: str, *_: object, **__: object) -> Any:
        if path.startswith(GROUP) and not self.has_devices:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return {"resourceVersion": "1"}

    async def _events(self) -> AsyncIterator[Any]:
        yield NONE
        await asyncio.sleep(3600)


@pytest.mark.parametrize(("enlisted", "form"), [((), Counted), ((Enlisted("keeps", Keeps()),), None)])
async def test_a_policy_that_keeps_something_of_objects_sees_all_of_them(enlisted: Any, form: type | None):
    gate, connection = Gate(), Server(has_devices=True)
    gate.enlist(Policies(enlisted))
    await LiveCluster(cast("Connection", connection), gate, InvalidObjects(print)).list_anew()
    assert connection.forms["/apis/apps/v1/deployments"] is connection.forms["/api/v1/pods"] is form


async def test_a_cluster_without_devices_is_known_and_none_of_its_watches_is_missed():
    cluster = LiveCluster(cast("Connection", Server()), Gate(), InvalidObjects(print))
    running = asyncio.create_task(cluster.run())
    await asyncio.wait_for(cluster.synced.wait(), 30)
    watched = {one.resource for one in cluster.watches()}
    assert "pods" in watched
    assert watched.isdisjoint(one.group_resource for one in OPTIONAL)
    await cluster.list_anew()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class Noted:
    """A handler that notes what it is told."""

    def __init__(self) -> None:
        self.lists = 0

    def convert(self, tree: Any) -> Any:
        return tree

    async def replaced(self, objects: Any, version: str) -> None:
        self.lists += 1

    def changed(self, event: str, obj: Any) -> None: ...
    def reached(self, version: str) -> None: ...


async def test_what_comes_to_be_served_is_followed_and_missed_from_then_on():
    server, noted, waits = Server(), Noted(), asyncio.Event()
    listed = Listed(cast("Any", noted))

    async def sleep(_: float) -> None:
        waits.set()
        await asyncio.sleep(0)

    reflector = Reflector(cast("Connection", server), CLAIM_TEMPLATES, listed, sleep=sleep, on_absent=listed.first.set)
    running = asyncio.create_task(reflector.run())
    await asyncio.wait_for(waits.wait(), 30)
    assert (reflector.absent, listed.first.is_set(), noted.lists) == (True, True, 0)
    server.has_devices = True
    await until(lambda: reflector.synced)
    assert (reflector.absent, noted.lists) == (False, 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
