"""What autoscalers may ask for: who is told that it can never fit, when, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.model import Decision, Evidence, Operation, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.queries import Queries
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.tell.observe import autoscalers
from extauthz.tell.observe.autoscalers import KINDS, Autoscalers, NeverFits
from extauthz.tell.observe.ceilings import LIST_S, Ceilings
from extauthz.tell.observe.episodes import AT_ONCE, Episodes, would_get_now
from extauthz.testing import Asker, gate, quota, scale, workload
from tests.support.kubecalls import ScriptedApi

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
            found=self.found.append,
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


# An episode ends when its write would fit or its workload is gone, without a new ask, and its numbers are today's.


class World:
    """``web`` with 3 replicas of one CPU in ``acme``, and an episode: 9 were refused."""

    def __init__(self, **more: object) -> None:
        self.is_known = True
        self.gate = gate([quota("acme", {"requests.cpu": "4"}, **more)], workload("web", 3), workload("api", 1))  # type: ignore[arg-type]
        self.ask = Asker(self.gate)
        self.would_get_now = would_get_now(Queries(self.gate.ledger), lambda: self.is_known)
        self.episodes = Episodes()
        self.denied = self.ask(scale("web", 9))
        assert self.denied.verdict is Verdict.DENY
        self.episodes.decided(self.denied, 0.0)

    def limit(self, cpu: str, **more: object) -> None:
        self.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": cpu}, **more)]), 0.0)  # type: ignore[arg-type]

    def look(self) -> list[str]:
        """The good news of what ended."""
        self.episodes.look(self.would_get_now, 0.0)
        ended = [one.good_news for one in self.episodes.ended]
        self.episodes.ended.clear()
        return ended


def test_it_ends_when_the_limit_is_raised_though_nobody_asks_again():
    world = World()
    assert world.look() == []
    world.limit("10")
    (news,) = world.look()
    assert news.startswith('deployments.apps "web" may grow to 9 replicas: its workspace quota has room again')
    assert len(world.episodes) == 0


def test_while_it_does_not_fit_its_numbers_are_todays():
    world = World()
    world.limit("7")
    assert world.look() == []
    (episode,) = world.episodes.refused()
    assert episode.latest.evidence.fits == 6, "one is used by api"
    assert [row.hard for row in episode.latest.evidence.shortages] == [7 * 10**9]
    assert "limited: requests.cpu=7; largest allowed replicas: 6" in episode.latest.sentence
    assert episode.latest.refusal == "ExceedsHard"
    world.limit("9")
    world.look()
    assert episode.latest.refusal == "WaitingForRoom"


def test_it_ends_without_a_word_when_the_workload_is_gone():
    world = World()
    assert world.denied.ref is not None
    world.gate.observe(world.denied.ref, None)
    assert world.look() == [""]
    assert len(world.episodes) == 0


def test_where_what_is_known_may_be_old_nothing_changes():
    world = World()
    world.limit("10")
    world.is_known = False
    assert world.look() == []
    assert world.episodes.refused()[0].latest == world.denied


@pytest.mark.parametrize(
    "change",
    [{"reason": "policy-refused"}, {"replicas": None}, {"ref": None}],
    ids=["a policy", "no count", "no workload"],
)
def test_of_what_only_a_request_can_tell_nothing_is_told(change: dict[str, object]):
    world = World()
    world.limit("10")
    refused = world.denied._replace(**change)  # type: ignore[arg-type]
    assert world.would_get_now(refused) == refused


def test_a_quota_that_binds_some_people_ends_it_only_if_it_was_the_one_that_refused():
    some = {"include": {"users": ["hpa"]}}
    world = World()
    world.limit("4", requesters=some)
    assert world.look() == [], "it has refused, so it binds who asked"
    others = world.denied._replace(evidence=Evidence((world.denied.evidence.shortages[0]._replace(quota="gone"),)))
    found = world.would_get_now(others)
    assert found is not None
    assert found.verdict is Verdict.ALLOW, "whoever asked may not be bound"


def test_what_it_would_cost_must_be_known():
    world = World()
    assert world.denied.ref is not None
    odd = gate([quota("acme", {"requests.cpu": "99"})], workload("web", 3, {"cpu": "odd"}))
    assert would_get_now(Queries(odd.ledger), lambda: True)(world.denied) == world.denied


def test_one_look_is_bounded_and_the_next_goes_on_where_it_ended():
    """At some 50 µs each; all of ten thousand are looked at within minutes."""
    episodes = Episodes()
    for number in range(AT_ONCE + 10):
        ref = WorkloadRef("apps", "deployments", "shop", f"w{number}")
        denied = Decision(
            "d", Verdict.DENY, "exceeded-quota", "no", ref, Operation.PATCH, replicas=9, replicas_before=3
        )
        episodes.decided(denied, float(number))
    seen: list[str] = []

    def keep(refused: Decision) -> Decision:
        assert refused.ref is not None
        seen.append(refused.ref.name)
        return refused

    episodes.look(keep, 0.0)
    assert seen == [f"w{number}" for number in range(AT_ONCE)]
    episodes.look(keep, 0.0)
    assert seen[AT_ONCE : AT_ONCE + 11] == [*(f"w{AT_ONCE + number}" for number in range(10)), "w0"]
    assert [one.ref.name for one in episodes.refused()][:2] == ["w0", "w1"], "those first that began first"


def test_ten_minutes_of_workloads_that_come_and_go_leave_no_more_open_than_live():
    world, living, most = World(), 300, 0
    born_each_s = 8
    for second in range(600):
        for number in range(born_each_s):
            name = f"w{second * born_each_s + number}"
            world.gate.observe(*observe(workload(name, 1)))
            world.episodes.decided(world.ask(scale(name, 9)), float(second))
            gone = second * born_each_s + number - living
            if gone >= 0:
                world.gate.observe(WorkloadRef("apps", "deployments", "team-a", f"w{gone}"), None)
        world.look()
        most = max(most, len(world.episodes))
    assert living < most <= living + AT_ONCE
