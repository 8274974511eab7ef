"""What is remembered of decisions, and how much."""

from __future__ import annotations

import tracemalloc

from extauthz.core.model import Decision, Evidence, Operation, Shortage, Verdict, WorkloadRef
from extauthz.observe.episodes import SILENCE_S
from extauthz.observe.observers import Told
from extauthz.observe.recent import Recent


def decision(name: str = "web", verdict: Verdict = Verdict.DENY, sentence: str = "no", to: int = 9) -> Decision:
    ref = WorkloadRef("apps", "deployments", "shop", name)
    reason = "exceeded-quota" if verdict is Verdict.DENY else "fits"
    return Decision("d", verdict, reason, sentence, ref, Operation.PATCH, replicas=to, replicas_before=3)


def test_the_newest_comes_first_and_a_list_goes_on_by_number():
    recent = Recent(lambda: 5.0)
    for name in "abc":
        recent.decided(Told(decision(name), "olga", "kubectl"))
    found = list(recent.decisions())
    assert [one.decision.ref.name for one in found if one.decision.ref] == ["c", "b", "a"]
    assert (found[0].time_s, found[0].user, found[0].user_agent) == (5.0, "olga", "kubectl")
    assert [one.number for one in recent.decisions(found[0].number)] == [one.number for one in found[1:]]


def test_what_is_about_no_workload_is_not_kept():
    recent = Recent()
    recent.decided(Told(Decision("d", Verdict.ALLOW, "read", "a read")))
    assert list(recent.decisions()) == []


def test_only_so_many_are_kept():
    recent = Recent(most=10)
    for number in range(25):
        recent.decided(Told(decision(f"w{number}")))
    assert [one.decision.ref.name for one in recent.decisions() if one.decision.ref][-1] == "w15"
    assert len(list(recent.decisions())) == 10


def test_only_so_many_bytes_are_kept_whatever_is_said():
    """Held against what Python itself measures."""
    row = Shortage("q" * 200, ("a" * 200, "q" * 200), "requests.cpu", 1, 2, 3, 4)
    recent = Recent(most_bytes=1 << 20)
    tracemalloc.start()
    for number in range(3_000):
        long = decision(f"{number}" + "n" * 250, Verdict.ALLOW, f"{number}" + "s" * 1_000)
        rows = tuple(row._replace(requested=number + n) for n in range(5))
        recent.decided(
            Told(long._replace(evidence=Evidence(rows)), f"u{number}" + "u" * 9_000, f"a{number}" + "a" * 9_000)
        )
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 100 < len(list(recent.decisions())) < 1_000
    assert taken < 1.2 * (1 << 20)


def test_an_episode_has_the_latest_refusal_and_ends_when_as_much_is_allowed():
    now_s = 0.0
    recent = Recent(lambda: now_s)
    recent.decided(Told(decision(sentence="first", to=9)))
    now_s = 60.0
    recent.decided(Told(decision(sentence="second", to=7)))
    (one,) = recent.episodes()
    assert (one.began_s, one.last_s, one.count, one.latest.sentence, one.latest.replicas) == (0.0, 60.0, 2, "second", 7)
    recent.decided(Told(decision(verdict=Verdict.ALLOW, to=7)))
    assert recent.episodes() == []


def test_an_episode_ends_when_nobody_asks_any_more():
    now_s = 0.0
    recent = Recent(lambda: now_s)
    recent.decided(Told(decision()))
    now_s = SILENCE_S
    recent.tick()
    recent.decided(Told(decision("other")))
    assert [one.ref.name for one in recent.episodes()] == ["other"]
