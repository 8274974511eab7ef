"""Which pods the guard may lower, how far, and who is next."""

from __future__ import annotations

from typing import Any

import pytest
from memory_pressure.guard import pods
from memory_pressure.guard.command import main
from memory_pressure.guard.controller import Controller, Options
from memory_pressure.guard.limits import Limits
from memory_pressure.guard.pods import ANNOTATION, Change
from memory_pressure.guard.rounds import Act, Rounds, Seen, Use
from memory_pressure.marks import Marks

from extauthz.cli import exits
from extauthz.inputs.kube.connection import Unreachable

Tree = Any
NOTE = '{"app": {"limit": "500m", "lowered": "10m"}}'


def container(name: str = "app", limit: str | None = "500m", request: str | None = "5m", **more: Tree) -> Tree:
    given = {"limits": limit, "requests": request}
    return {"name": name, "resources": {key: {"cpu": one} for key, one in given.items() if one}} | more


def tree(name: str = "web", containers: list[Tree] | None = None, note: str | None = None, **changes: Tree) -> Tree:
    metadata = {
        "namespace": "shop",
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "labels": {"extauthz.dev/guard": "pause"},
        "annotations": {ANNOTATION: note} if note is not None else {},
    }
    made = {
        "metadata": metadata,
        "spec": {"nodeName": "n1", "containers": containers or [container()]},
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }
    for key, value in changes.items():
        made[key] = made[key] | value
    return made


def read(*args: Tree, **how: Tree) -> pods.Pod:
    made = pods.read(tree(*args, **how))
    assert made is not None
    return made


def test_a_burstable_pod_with_the_label_may_be_lowered():
    assert read().why_not == ""
    assert read().possible == (Change("app", "500m", "10m"),)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"metadata": {"labels": {}}}, "it has no label extauthz.dev/guard=pause"),
        ({"metadata": {"labels": {"extauthz.dev/guard": "no"}}}, "it has no label extauthz.dev/guard=pause"),
        ({"status": {"qosClass": "Guaranteed"}}, "it is Guaranteed, not Burstable"),
        ({"status": {"qosClass": "BestEffort"}}, "it is BestEffort, not Burstable"),
        ({"status": {"phase": "Pending"}}, "it does not run"),
        ({"spec": {"priority": 2_000_000_000}}, "it is critical"),
        ({"spec": {"priority": 1_999_999_999}}, ""),
    ],
)
def test_who_must_not_be_lowered(changes, why):
    assert read(**changes).why_not == why


def test_a_pod_that_is_deleted_or_static_is_left():
    gone = tree()
    gone["metadata"]["deletionTimestamp"] = "now"
    assert pods.why_not(gone) == "it is being deleted"
    static = tree()
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert pods.why_not(static) == "it is a static pod"


@pytest.mark.parametrize(
    "changes", [{"status": {"phase": "Succeeded"}}, {"status": {"phase": "Failed"}}, {"spec": {"nodeName": ""}}]
)
def test_a_pod_that_runs_nowhere_is_no_concern(changes):
    assert pods.read(tree(**changes)) is None


@pytest.mark.parametrize(
    ("given", "lowered"),
    [
        (container(limit="1"), "10m"),
        (container(limit="1", request=None), "10m"),
        (container(limit="1", request="9m"), "10m"),
        (container(limit="1", request="10m"), "11m"),
        (container(limit="1", request="100m"), "101m"),
        (container(limit="1", request="0.1005"), "102m"),
        (container(limit="101m", request="100m"), None),
        (container(limit="100m", request="100m"), None),
        (container(limit="10m", request="1m"), None),
        (container(limit=None), None),
        (container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]), None),
        (container(resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}]), "10m"),
        (container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}]), "10m"),
    ],
)
def test_a_limit_goes_down_to_the_floor_but_stays_above_the_request(given, lowered):
    pod = read(containers=[given])
    assert [one.lowered for one in pod.possible] == ([lowered] if lowered else [])
    assert pod.why_not == ("" if lowered else "no container has a CPU limit that can be lowered")


def test_what_is_written_on_a_pod_is_what_is_read_from_it():
    changes = (Change("a", "1", "10m"), Change("b", "500m", "11m"))
    assert pods.decoded(pods.encoded(changes)) == changes
    assert read(note=NOTE).lowered == (Change("app", "500m", "10m"),)
    assert read().lowered is None


@pytest.mark.parametrize(
    "note", ["", "soon", "[]", "3", '{"app": 1}', '{"app": {"limit": "1"}}', '{"app": {"limit": "x", "lowered": "1"}}']
)
def test_a_note_that_somebody_else_wrote_is_told(note):
    assert read(note=note).is_unreadable
    assert not read(note=NOTE).is_unreadable
    assert not read().is_unreadable


@pytest.mark.parametrize(
    ("now", "restored"),
    [("10m", True), ("0.01", True), ("500m", False), ("250m", False), (None, False)],
)
def test_only_what_is_still_lowered_is_restored(now, restored):
    pod = read(containers=[container(limit=now)], note=NOTE)
    assert bool(pods.to_restore(pod)) is restored
    assert pods.to_restore(read(containers=[container("other", limit="10m")], note=NOTE)) == ()


MARKS = Marks(90, 80, 2, 2)
ALL = ("a", "b", "c", "d")
MEMORY = {("shop", name): number for number, name in enumerate(ALL)}


def seen(use: int | None, *lowered: str, **changes: Tree) -> Seen:
    """Four pods on one node; ``a`` uses the least."""
    there = [
        read(name, [container(limit="10m")], NOTE, **changes) if name in lowered else read(name, **changes)
        for name in ALL[::-1]
    ]
    return Seen({} if use is None else {"n1": Use(use, 100)}, there, MEMORY)


def names(acts: list[Act], *, lowering: bool) -> list[str]:
    assert all(act.is_lowering is lowering for act in acts)
    return sorted(act.pod.name for act in acts)


def test_those_with_the_least_memory_are_next():
    rounds = Rounds(MARKS, dry_run=False)
    assert rounds.look(seen(89)) == []
    assert [act.pod.name for act in rounds.look(seen(90))] == ["a", "b"]
    assert rounds.look(seen(95, "a", "b")) == []
    assert names(rounds.look(seen(95, "a", "b")), lowering=True) == ["c", "d"]
    assert rounds.look(seen(95, *ALL)) == []
    assert rounds.look(seen(95, *ALL)) == [], "nobody is left, and nobody is killed"
    assert names(rounds.look(seen(80, *ALL)), lowering=False) == list(ALL)


def test_a_pod_of_which_no_memory_is_known_is_not_next():
    rounds = Rounds(MARKS, dry_run=False)
    look = seen(95)
    assert names(rounds.look(look._replace(memory={("shop", "c"): 5})), lowering=True) == ["c"]


def test_nodes_are_looked_at_one_by_one():
    rounds = Rounds(MARKS, dry_run=False)
    other = read("other", spec={"nodeName": "n2"})
    look = Seen({"n1": Use(95, 100), "n2": Use(50, 100)}, [read("a"), other], MEMORY | {("shop", "other"): 0})
    assert names(rounds.look(look), lowering=True) == ["a"]


def test_where_memory_is_not_known_everybody_is_restored_and_nobody_lowered():
    rounds = Rounds(MARKS, dry_run=False)
    (act, *_) = acts = rounds.look(seen(None, "a", "b"))
    assert names(acts, lowering=False) == ["a", "b"]
    assert act.why == "the memory of node n1 is not known"
    assert rounds.look(seen(None)) == []


def test_who_must_not_be_lowered_any_more_is_restored_though_memory_is_short():
    rounds = Rounds(MARKS, dry_run=False)
    acts = rounds.look(seen(95, "a", spec={"priority": 2_000_000_001}))
    assert [(act.pod.name, act.why) for act in acts] == [("a", "it is critical")]


def test_a_note_that_is_left_over_goes():
    rounds = Rounds(MARKS, dry_run=False)
    look = Seen({"n1": Use(85, 100)}, [read("a", note=NOTE)], MEMORY)
    assert [act.why for act in rounds.look(look)] == ["nothing of it is lowered"]


def test_a_lowered_pod_whose_limit_cannot_be_lowered_further_stays_lowered():
    rounds = Rounds(MARKS, dry_run=False)
    assert rounds.look(seen(85, "a")) == []


def test_a_dry_run_remembers_who_would_be_lowered():
    rounds = Rounds(MARKS, dry_run=True)
    assert names(rounds.look(seen(95)), lowering=True) == ["a", "b"]
    assert rounds.look(seen(95)) == []
    assert names(rounds.look(seen(95)), lowering=True) == ["c", "d"]
    assert names(rounds.look(seen(70)), lowering=False) == list(ALL)
    assert rounds.look(seen(70)) == []


class Away:
    """An API server that does not answer."""

    async def call(self, method: str, path: str, **how: Tree) -> Tree:
        raise Unreachable("it is away")

    async def items(self, path: str, take: Tree, **how: Tree) -> Tree:
        raise Unreachable("it is away")


async def test_a_guard_that_cannot_restore_at_its_end_says_so_and_how_to():
    told: list[str] = []
    options = Options(MARKS, 0.01, dry_run=False, end_within_s=0.05)
    controller = Controller(Limits(Away(), ("shop",)), options, lambda event, **fields: told.append(event), lambda: 0.0)
    await controller.round()
    assert told == ["unknown"]
    assert not await controller.end()
    assert told[-1] == "stays lowered"


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--upper", "101"),
        ("--lower", "89"),
        ("--lower", "0"),
        ("--patience", "0"),
        ("--round-s", "0"),
        ("--step", "-1"),
    ],
)
def test_wrong_usage_is_told_with_the_flag(flag, value, capsys):
    assert main(["--namespace", "shop", flag, value]) == exits.USAGE
    assert flag in capsys.readouterr().err


def test_without_a_cluster_it_says_so(monkeypatch, capsys):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(["--namespace", "shop"]) == exits.USAGE
    assert "kubeconfig" in capsys.readouterr().err
