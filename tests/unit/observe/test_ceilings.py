"""What autoscalers may ask for: who is told that it can never fit, when, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.model import WorkloadRef
from extauthz.core.quota.tree import QuotaTree
from extauthz.kube.connection import ApiError, Unreachable
from extauthz.observe import autoscalers
from extauthz.observe.autoscalers import KINDS, Autoscalers, NeverFits
from extauthz.observe.ceilings import LIST_S, Ceilings
from extauthz.testing.builders import gate, quota, workload
from extauthz.testing.kubecalls import ScriptedApi

HPA, KPA, KEDA = KINDS
GPU = "requests.nvidia.com/gpu"
WEB = WorkloadRef("apps", "deployments", "team-a", "web")
ROLLOUT = ("argoproj.io", "Rollout", "rollouts")


def autoscaler(kind: Any, name: str = "web", *, scales: Any = None, **more: Any) -> tuple[str, Any]:
    """Its path, and the object."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"} if scales is None else scales
    metadata = {"namespace": "team-a", "name": name, "uid": f"uid-{name}"} | more.pop("metadata", {})
    spec = {"scaleTargetRef": target} | more
    return kind.object("team-a", name), {"metadata": metadata, "spec": spec}


class Desk:
    """A Deployment of one replica with a GPU each, in a quota of twelve."""

    def __init__(self, hard: str = "12") -> None:
        self.api = ScriptedApi()
        self.gate = gate([quota("acme", {GPU: hard})], workload("web", 1, {"nvidia.com/gpu": "1"}))
        self.now_s = 0.0
        self.lines: list[tuple[str, Any]] = []
        self.found: list[NeverFits] = []
        self.ceilings = Ceilings(
            Autoscalers(self.api, lambda: self.now_s),
            self.gate,
            clock=lambda: self.now_s,
            tell=lambda _level, event, **more: self.lines.append((event, more["why"])),
            found=[self.found.append],
        )

    def have(self, *found: tuple[str, Any]) -> None:
        for path, tree in found:
            self.api.put(path, tree)

    def limit(self, hard: str) -> None:
        self.gate.load_quotas(QuotaTree.build([quota("acme", {GPU: hard})]), 0.0)

    async def look(self, after_s: float = LIST_S) -> list[str]:
        """The shares of those that were told at this look."""
        self.now_s += after_s
        before = len(self.found)
        await self.ceilings.look()
        return [one.share for one in self.found[before:]]


async def test_one_whose_maximum_can_never_fit_is_told_once_with_how_much_would():
    desk = Desk()
    desk.have(autoscaler(HPA, maxReplicas=24))
    assert desk.ceilings.by_quota() is None, "nobody has looked yet"
    assert await desk.look() == ["12 of 24"]
    sentence = (
        '12 of the 24 replicas that it may ask for would fit: 24 of deployments.apps "web" take '
        "requests.nvidia.com/gpu=24, and workspace quota acme can give them 12; lower its maximum to 12, or have the "
        "limit raised"
    )
    assert desk.found[0].sentence == sentence
    assert desk.lines == [("never-fits", f"HorizontalPodAutoscaler team-a/web: {sentence}")]
    assert await desk.look() == []
    assert desk.ceilings.by_quota() == {"acme": (desk.found[0],)}
    assert desk.ceilings.most(WEB) == 24
    assert desk.ceilings.most(WEB._replace(name="api")) is None


async def test_it_is_told_again_once_the_numbers_are_others_and_not_where_it_fits():
    desk = Desk()
    desk.have(autoscaler(HPA, maxReplicas=24))
    await desk.look()
    desk.limit("13")
    assert await desk.look(30.0) == ["13 of 24"]
    desk.limit("24")
    assert await desk.look(30.0) == []
    assert desk.ceilings.by_quota() == {}
    desk.limit("13")
    assert await desk.look(30.0) == ["13 of 24"]


async def test_what_they_may_ask_for_is_listed_seldom_and_looked_at_often():
    desk = Desk()
    desk.api.collections.add(HPA.collection("team-a"))
    await desk.look()
    calls = len(desk.api.called)
    await desk.look(LIST_S - 1.0)
    assert len(desk.api.called) == calls
    desk.have(autoscaler(HPA, maxReplicas=24))
    assert await desk.look(1.0) == ["12 of 24"]


@pytest.mark.parametrize(
    ("one", "share"),
    [
        pytest.param(autoscaler(HPA, maxReplicas=12), None, id="it-just-fits"),
        pytest.param(autoscaler(HPA, maxReplicas=13), "12 of 13", id="one-more"),
        pytest.param(autoscaler(KEDA, scales={"name": "web"}), "12 of 100", id="keda-s-default"),
        pytest.param(autoscaler(KEDA, scales={"name": "web"}, maxReplicaCount=12), None, id="keda-s-own"),
        pytest.param(
            autoscaler(KPA, metadata={"annotations": {"autoscaling.knative.dev/max-scale": "20"}}), "12 of 20", id="kpa"
        ),
        pytest.param(
            autoscaler(KPA, metadata={"annotations": {"autoscaling.knative.dev/maxScale": "20"}}), "12 of 20", id="old"
        ),
        pytest.param(autoscaler(KPA), None, id="kpa-without-a-bound"),
        pytest.param(
            autoscaler(KPA, metadata={"annotations": {"autoscaling.knative.dev/max-scale": "0"}}), None, id="kpa-zero"
        ),
        pytest.param(
            autoscaler(KPA, metadata={"annotations": {"autoscaling.knative.dev/max-scale": "many"}}),
            None,
            id="no-number",
        ),
        pytest.param(
            autoscaler(
                KPA, metadata={"annotations": {"autoscaling.knative.dev/max-scale": "20"}}, reachability="Unreachable"
            ),
            None,
            id="a-revision-that-goes-away",
        ),
        pytest.param(autoscaler(HPA, maxReplicas="24"), None, id="no-count"),
        pytest.param(
            autoscaler(HPA, scales={"apiVersion": "x/v1", "kind": "Y", "name": "web"}, maxReplicas=24), None, id="kind"
        ),
    ],
)
async def test_each_kind_says_in_its_way_how_much_it_may_ask_for(one: Any, share: str | None):
    desk = Desk()
    desk.have(one)
    assert await desk.look() == ([share] if share else [])


async def test_knative_s_zero_is_no_bound():
    desk = Desk()
    desk.have(autoscaler(KPA, metadata={"annotations": {"autoscaling.knative.dev/max-scale": "0"}}))
    await desk.look()
    assert desk.ceilings.most(WEB) is None


async def test_of_an_autoscaler_that_another_has_made_the_owner_of_the_other_is_told():
    desk = Desk()
    owner = [{"kind": "ScaledObject", "controller": True}]
    desk.have(
        autoscaler(HPA, "keda-hpa-web", maxReplicas=30, metadata={"ownerReferences": owner}),
        autoscaler(KEDA, "mine", scales={"name": "web"}, maxReplicaCount=24),
    )
    await desk.look()
    assert [one.name for one in desk.found] == ["ScaledObject team-a/mine"]


async def test_of_two_that_fight_the_one_that_may_ask_for_more_is_told():
    desk = Desk()
    desk.have(autoscaler(HPA, "a", maxReplicas=20), autoscaler(HPA, "b", maxReplicas=30))
    desk.have(autoscaler(HPA, "c", maxReplicas=25))
    assert await desk.look() == ["12 of 30"]


async def test_a_custom_resource_with_a_scale_is_looked_at_by_its_kind():
    desk = Desk()
    desk.gate.observe_kind(*ROLLOUT)
    target = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"}
    desk.have(autoscaler(HPA, scales=target, maxReplicas=24))
    await desk.look()
    assert desk.ceilings.most(WorkloadRef("argoproj.io", "rollouts", "team-a", "web")) == 24


async def test_they_are_read_in_pages_and_not_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(autoscalers, "PAGE", 2)
    monkeypatch.setattr(autoscalers, "MOST_OF_ALL", 4)
    desk = Desk()
    for number in range(7):
        desk.have(autoscaler(HPA, f"w{number}", scales={"name": f"w{number}"}, maxReplicas=1))
    await desk.look()
    known = [desk.ceilings.most(WEB._replace(name=f"w{number}")) for number in range(7)]
    assert known == [1] * 4 + [None] * 3
    assert [one.query.get("continue") for one in desk.api.called if HPA.plural in one.path] == [None, "2"]


async def test_a_list_that_expires_amid_its_pages_ends_there_and_one_that_cannot_begin_fails(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(autoscalers, "PAGE", 1)
    desk = Desk()
    desk.have(autoscaler(HPA, "a", maxReplicas=20), autoscaler(HPA, "b", maxReplicas=30))
    desk.api.faults = [None, ApiError(410, "Expired", "too old")]
    assert await desk.look() == ["12 of 20"]
    desk.api.faults = [ApiError(410, "Expired", "too old")]
    assert await desk.look() == []
    assert desk.lines[-1][0] == "autoscalers-not-listed"


async def test_a_kind_that_may_not_be_listed_is_left_out_for_a_while():
    desk = Desk()
    desk.have(autoscaler(HPA, maxReplicas=24))
    desk.api.faults = [ApiError(403, "Forbidden", "you may not")]
    assert await desk.look() == []
    assert desk.ceilings.by_quota() == {}
    assert await desk.look() == []
    assert await desk.look() == ["12 of 24"]


async def test_where_the_api_server_does_not_answer_what_is_known_holds():
    desk = Desk()
    desk.have(autoscaler(HPA, maxReplicas=24))
    desk.api.faults = [Unreachable("gone")]
    assert await desk.look() == []
    assert desk.ceilings.by_quota() is None, "nothing is known, and no status may say that all is well"
    assert await desk.look(30.0) == ["12 of 24"]
    desk.api.faults = [Unreachable("gone")]
    await desk.look()
    desk.api.faults = [Unreachable("gone")]
    await desk.look()
    assert [one[0] for one in desk.lines] == ["autoscalers-not-listed", "never-fits", "autoscalers-not-listed"]
    assert desk.ceilings.most(WEB) == 24


async def test_while_what_is_known_may_be_out_of_date_nothing_is_told():
    desk = Desk()
    desk.have(autoscaler(HPA, maxReplicas=24))
    desk.gate.stale("gone")
    assert await desk.look() == []
    desk.gate.stale(None)
    assert await desk.look() == ["12 of 24"]
