"""An episode ends when its write would fit or its workload is gone, without a new ask, and its numbers are today's."""

from __future__ import annotations

import pytest

from extauthz.core.model import Decision, Evidence, Operation, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.queries import Queries
from extauthz.core.quota.tree import QuotaTree
from extauthz.observe.episodes import AT_ONCE, Episodes, outlook
from extauthz.testing.builders import Asker, gate, quota, scale, workload


class World:
    """``web`` with 3 replicas of one CPU in ``acme``, and an episode: 9 were refused."""

    def __init__(self, **more: object) -> None:
        self.is_known = True
        self.gate = gate([quota("acme", {"requests.cpu": "4"}, **more)], workload("web", 3), workload("api", 1))  # type: ignore[arg-type]
        self.ask = Asker(self.gate)
        self.outlook = outlook(Queries(self.gate.ledger), lambda: self.is_known)
        self.episodes: Episodes[None] = Episodes()
        self.denied = self.ask(scale("web", 9))
        assert self.denied.verdict is Verdict.DENY
        self.episodes.decided(self.denied, 0.0)

    def limit(self, cpu: str, **more: object) -> None:
        self.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": cpu}, **more)]), 0.0)  # type: ignore[arg-type]

    def look(self) -> list[str]:
        """The good news of what ended."""
        self.episodes.look(self.outlook)
        return [one.good_news for one in self.episodes.take_ended()]


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
    (episode,) = world.episodes.open()
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
    assert world.episodes.open()[0].latest == world.denied


@pytest.mark.parametrize(
    "change",
    [{"reason": "policy-refused"}, {"replicas": None}, {"ref": None}],
    ids=["a policy", "no count", "no workload"],
)
def test_of_what_only_a_request_can_tell_nothing_is_told(change: dict[str, object]):
    world = World()
    world.limit("10")
    refused = world.denied._replace(**change)  # type: ignore[arg-type]
    assert world.outlook(refused) == refused


def test_a_quota_that_binds_some_people_ends_it_only_if_it_was_the_one_that_refused():
    some = {"include": {"users": ["hpa"]}}
    world = World()
    world.limit("4", requesters=some)
    assert world.look() == [], "it has refused, so it binds who asked"
    others = world.denied._replace(evidence=Evidence((world.denied.evidence.shortages[0]._replace(quota="gone"),)))
    found = world.outlook(others)
    assert found is not None
    assert found.verdict is Verdict.ALLOW, "whoever asked may not be bound"


def test_what_it_would_cost_must_be_known():
    world = World()
    assert world.denied.ref is not None
    odd = gate([quota("acme", {"requests.cpu": "99"})], workload("web", 3, {"cpu": "odd"}))
    assert outlook(Queries(odd.ledger), lambda: True)(world.denied) == world.denied


def test_one_look_is_bounded_and_the_next_goes_on_where_it_ended():
    """At some 50 µs each; all of ten thousand are looked at within minutes."""
    episodes: Episodes[None] = Episodes()
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

    episodes.look(keep)
    assert seen == [f"w{number}" for number in range(AT_ONCE)]
    episodes.look(keep)
    assert seen[AT_ONCE : AT_ONCE + 11] == [*(f"w{AT_ONCE + number}" for number in range(10)), "w0"]
    assert [one.ref.name for one in episodes.open()][:2] == ["w0", "w1"], "those first that began first"


def test_workloads_that_come_and_go_leave_no_episodes():
    """5,000 of them, of which 300 live: after so many looks as they take, there are 300."""
    episodes: Episodes[None] = Episodes()
    lives = {f"w{number}" for number in range(4_700, 5_000)}
    for number in range(5_000):
        ref = WorkloadRef("apps", "deployments", "shop", f"w{number}")
        denied = Decision(
            "d", Verdict.DENY, "exceeded-quota", "no", ref, Operation.PATCH, replicas=9, replicas_before=3
        )
        episodes.decided(denied, 0.0)
    for _ in range(5_000 // AT_ONCE):
        episodes.look(lambda refused: refused if refused.ref is not None and refused.ref.name in lives else None)
    assert {one.ref.name for one in episodes.open()} == lives


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
