"""WorkspaceQuotas as they come by a watch: each stands by itself, and what is wrong with one is told of that one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from extauthz.core.quota.problems import Fault
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.kube.connection import ApiError
from extauthz.inputs.sources.kubernetes import LiveQuotas, Quotas

Tree = Any


def quota(name: str, *, uid: str = "", generation: int = 1, status: Tree = None, **spec: Tree) -> Tree:
    return {
        "apiVersion": "extauthz.dev/v1alpha1",
        "kind": "WorkspaceQuota",
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "generation": generation, "resourceVersion": "7"},
        "spec": {"hard": {"pods": "1"}} | spec,
        "status": status or {},
    }


BAD: Tree = {"hard": {"services": "1"}}


def done(waits_for_nobody: Coroutine[Any, Any, None]) -> None:
    """It gives others their turn at most."""
    with suppress(StopIteration):
        while waits_for_nobody.send(None) is None:
            pass
        raise AssertionError("it waits")


class Source:
    """What would come by a watch, and what is in force after each change of it."""

    def __init__(self, *listed: Tree) -> None:
        self.accepted: list[Quotas] = []
        self.live = LiveQuotas(None, self.accepted.append)  # type: ignore[arg-type]
        self.list(*listed, version="7")

    def list(self, *trees: Tree, version: str) -> None:
        done(self.live.replaced([self.live.convert(one) for one in trees], version))

    def tell(self, event: str, tree: Tree) -> None:
        self.live.changed(event, self.live.convert(tree))

    @property
    def now(self) -> Quotas:
        return self.live.quotas()

    def stands(self) -> dict[str, tuple[Fault | None, int | None]]:
        return {one.name: (one.fault, one.in_force) for one in self.now.standings}

    def hard(self, name: str) -> dict[str, int]:
        (node,) = (node for node in self.now.tree.nodes if node.quota.name == name)
        return {key: amount // 10**9 for key, amount in node.quota.hard.items()}


def test_good_ones_are_in_force_as_written():
    source = Source(quota("acme", parent="corp"), quota("corp"))
    assert source.stands() == {"acme": (None, 1), "corp": (None, 1)}
    assert [node.path for node in source.now.tree.nodes] == [("corp",), ("corp", "acme")]
    assert list(source.now.faults) == []


def test_a_bad_change_leaves_the_last_good_spec_in_force_until_it_is_mended():
    source = Source(quota("acme"))
    source.tell("MODIFIED", quota("acme", generation=2, **BAD))
    assert source.stands() == {"acme": (Fault.INVALID, 1)}
    assert source.hard("acme") == {"pods": 1}
    assert "spec.hard.services" in next(source.now.faults).why
    source.tell("MODIFIED", quota("acme", generation=3, hard={"pods": "3"}))
    assert source.stands() == {"acme": (None, 3)}
    assert source.hard("acme") == {"pods": 3}


def test_one_that_was_never_good_is_in_the_tree_as_illegible_and_takes_no_other_down():
    source = Source(quota("acme", **BAD), quota("below", parent="acme"))
    assert source.stands() == {"acme": (Fault.INVALID, None), "below": (None, 1)}
    assert [(node.path, node.quota.illegible) for node in source.now.tree.nodes] == [
        (("acme",), True),
        (("acme", "below"), False),
    ]


def test_another_object_of_the_same_name_has_no_last_good_spec():
    source = Source(quota("acme"))
    source.tell("MODIFIED", quota("acme", uid="another", **BAD))
    assert source.stands() == {"acme": (Fault.INVALID, None)}


def test_a_missing_parent_and_a_ring_are_told_of_each_that_they_concern():
    source = Source(
        quota("lost", parent="nobody"), quota("a", parent="b"), quota("b", parent="a"), quota("c", parent="a")
    )
    assert source.stands() == {
        "a": (Fault.PARENT_CYCLE, 1),
        "b": (Fault.PARENT_CYCLE, 1),
        "c": (None, 1),
        "lost": (Fault.PARENT_MISSING, 1),
    }
    assert 'there is no WorkspaceQuota "nobody"' in {one.name: one.why for one in source.now.faults}["lost"]
    source.tell("ADDED", quota("nobody"))
    source.tell("DELETED", quota("b"))
    assert source.stands()["lost"] == (None, 1)
    assert source.stands()["a"] == (Fault.PARENT_MISSING, 1)


def test_a_weight_without_effect_is_told_until_the_root_has_turns():
    source = Source(quota("root"), quota("a", parent="root", sharing={"weight": 2}))
    assert source.stands() == {"a": (Fault.NO_EFFECT, 1), "root": (None, 1)}
    source.tell("MODIFIED", quota("root", sharing={"turns": "Share"}))
    assert source.stands()["a"] == (None, 1)


@pytest.mark.parametrize("gone", ["told", "listed"])
def test_what_is_gone_is_out_of_force(gone):
    source = Source(quota("acme"), quota("corp"))
    if gone == "told":
        source.tell("DELETED", quota("acme"))
    else:
        source.list(quota("corp"), version="8")
    assert list(source.stands()) == ["corp"]
    assert [node.quota.name for node in source.now.tree.nodes] == ["corp"]


def test_a_new_status_plants_no_new_tree():
    source = Source(quota("acme"))
    before = source.now
    source.tell("MODIFIED", quota("acme", status={"used": {"pods": "1"}}))
    assert source.now.tree is before.tree
    assert source.now.standings != before.standings


async def test_changes_that_come_together_are_accepted_together(monkeypatch):
    monkeypatch.setattr("extauthz.inputs.sources.kubernetes.GATHER_S", 0.01)
    source = Source(quota("acme"))
    accepted = asyncio.Event()
    source.live = LiveQuotas(None, lambda quotas: (source.accepted.append(quotas), accepted.set()))
    source.live.reflector.run = asyncio.Event().wait  # type: ignore[method-assign]
    task = asyncio.create_task(source.live.run())
    for name in ("a", "b", "c"):
        source.tell("ADDED", quota(name))
    await asyncio.wait_for(accepted.wait(), 5)
    source.live.reached("9")
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait([task])
    assert [len(one.standings) for one in source.accepted] == [3]


def test_a_child_above_its_parent_is_told_and_in_force():
    source = Source(quota("acme", parent="corp", hard={"pods": "5"}), quota("corp"))
    (warning,) = source.now.warnings
    assert warning.quota == "acme"
    assert source.stands()["acme"] == (None, 1)


class Shown(Source):
    """What the reflector itself hands on, put in force at once."""

    def __init__(self) -> None:
        self.accepted = []
        self.live = LiveQuotas(None, self.accepted.append)  # type: ignore[arg-type]

    def list(self, version: str, *listed: Tree) -> None:
        reflector = self.live.reflector
        done(reflector._replace([reflector._convert(one) for one in listed], version))
        done(self.live._put_in_force())

    def hear(self, version: str, tree: Tree, event: str = "MODIFIED") -> None:
        """It is not put in force."""
        tree["metadata"]["resourceVersion"] = version
        self.live.reflector._hand_on(event, tree)

    def watch(self, event: str, version: str, tree: Tree) -> None:
        self.hear(version, tree, event)
        done(self.live._put_in_force())

    @property
    def seen(self) -> int:
        (version,) = self.live.seen().values()
        return version


def test_what_other_gates_must_have_seen_is_an_object_that_was_changed_and_no_moment_of_a_list():
    source = Shown()
    source.list("90", quota("acme"), quota("corp"))
    assert source.seen == 7, "their watches come to 90 with a bookmark only, which may take a minute"
    source.watch("MODIFIED", "95", quota("acme", status={"used": {"pods": "1"}}))
    assert source.seen == 7, "a status changes no limit"
    source.watch("MODIFIED", "96", quota("acme", hard={"pods": "2"}))
    assert source.seen == 96
    source.watch("DELETED", "99", quota("acme"))
    assert source.seen == 99


def test_a_deletion_that_only_a_list_has_shown_may_be_as_late_as_the_list():
    source = Shown()
    source.list("90", quota("acme"), quota("corp"))
    source.list("120", quota("corp"))
    assert source.seen == 120
    source.list("130", quota("corp"))
    assert source.seen == 120


def test_who_takes_its_list_anew_has_still_seen_what_it_has_seen():
    source = Shown()
    source.list("90", quota("acme"))
    source.watch("MODIFIED", "95", quota("acme", hard={"pods": "2"}))
    source.live.reflector._failed(ApiError(410, "Expired", "too old resource version"))
    assert source.live.reflector.version == ""
    source.live._changed.clear()  # all is in force
    (kind,) = source.live.seen()
    assert [source.live.has_reached(kind, version) for version in (95, 96)] == [True, False]


async def test_while_a_tree_is_prepared_the_one_before_is_in_force_and_nobody_is_told_that_more_is():
    """The log of a gate that shares its ledger: what it has come to is what it decides by."""
    prepared: list[QuotaTree] = []

    def prepare(tree: QuotaTree) -> list[None]:
        prepared.append(tree)
        return [None, None]

    source = Shown()
    source.list("90", quota("acme"))
    (kind,) = source.live.seen()
    source.live._prepare = prepare
    source.hear("95", quota("acme", hard={"pods": "2"}))
    source.live._changed.clear()
    putting = asyncio.create_task(source.live._put_in_force())
    while not prepared:  # noqa: ASYNC110 (it does the work)
        await asyncio.sleep(0)
    assert (len(source.accepted), source.live.has_reached(kind, 95), source.seen) == (1, False, 7)
    source.hear("96", quota("acme", hard={"pods": "3"}))
    await putting
    assert (source.accepted[-1].tree, source.live.has_reached(kind, 95)) == (prepared[0], True)
    assert not source.live.has_reached(kind, 96), "it came while the tree before it was prepared"
