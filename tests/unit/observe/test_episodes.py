"""When a workload counts as blocked, and when what is told."""

from __future__ import annotations

import tracemalloc

import pytest

from extauthz.core.model import Decision, Evidence, Lower, Operation, Shortage, Verdict, WorkloadRef
from extauthz.tell.observe.episodes import MAX_ENDED, SILENCE_S, UPDATE_S, Episodes, Recent
from extauthz.tell.observe.observers import Report

WEB = WorkloadRef("apps", "deployments", "shop", "web")
DENIED = Decision("d1", Verdict.DENY, "exceeded-quota", "forbidden: exceeded", WEB, Operation.UPDATE, True, False, 8, 4)
ALLOWED = DENIED._replace(verdict=Verdict.ALLOW, reason="fits", sentence="fits every quota")


def blocked(*decisions: tuple[float, Decision]) -> Episodes:
    """After these decisions, each at its time, all that was due told at once."""
    episodes = Episodes()
    for at_s, decision in decisions:
        episodes.decided(decision, at_s)
        for episode in episodes.due(at_s):
            episodes.told(episode, episode.count, at_s)
    return episodes


def test_the_first_refusal_is_told_at_once_and_the_next_ones_are_only_counted():
    episodes = Episodes()
    episodes.decided(DENIED, 0.0)
    (episode,) = episodes.due(0.0)
    episodes.told(episode, episode.count, 0.0)
    for number in range(1, 40):
        episodes.decided(DENIED, number * 15.0)
        assert episodes.due(number * 15.0) == []
    assert (episode.count, episode.told, episode.sentence) == (40, 1, "forbidden: exceeded")


def test_a_count_that_was_lowered_begins_an_episode_and_the_refusals_after_it_belong_to_it():
    lowered = DENIED._replace(todo=Lower(6, ""), sentence="asked for 8 and may have 6")
    granted = ALLOWED._replace(replicas=6)
    episodes = blocked((0.0, lowered), (0.1, granted), (15.0, DENIED), (30.0, lowered))
    assert episodes.due(30.0) == [], "one event an episode"
    (episode,) = episodes.due(UPDATE_S)
    assert (episode.lowered, episode.count, episode.sentence) == (True, 3, "asked for 8 and may have 6")
    episodes.decided(ALLOWED, UPDATE_S)
    assert [one.episode for one in episodes.ended] == [episode]


def test_one_that_was_only_lowered_is_not_refused():
    lowered = DENIED._replace(todo=Lower(6, ""))
    assert blocked((0.0, lowered)).refused() == []
    assert len(blocked((0.0, lowered), (15.0, DENIED)).refused()) == 1


def test_a_dry_run_that_was_lowered_is_told_to_nobody():
    assert blocked((0.0, DENIED._replace(todo=Lower(6, ""), dry_run=True))).due(1.0) == []


def test_a_count_that_has_grown_is_told_when_its_time_has_come():
    episodes = blocked((0.0, DENIED), (15.0, DENIED))
    assert episodes.due(UPDATE_S - 1) == []
    (episode,) = episodes.due(UPDATE_S)
    episodes.told(episode, episode.count, UPDATE_S)
    assert episodes.due(2 * UPDATE_S) == [], "it has not grown since"


def test_what_could_not_be_told_is_tried_again_sooner():
    episodes = Episodes()
    episodes.decided(DENIED, 0.0)
    (episode,) = episodes.due(0.0)
    episodes.told(episode, episode.count, 0.0, well=False)
    assert episodes.due(30.0) == []
    assert episodes.due(60.0) == [episode]


@pytest.mark.parametrize(
    "decision",
    [
        DENIED._replace(dry_run=True),
        DENIED._replace(verdict=Verdict.UNAVAILABLE, reason="unsynced"),
        DENIED._replace(replicas_before=None, operation=Operation.CREATE),
        DENIED._replace(ref=None),
        DENIED._replace(verdict=Verdict.ALLOW, would=Verdict.DENY),
        ALLOWED,
    ],
    ids=["dry run", "not a matter of quota", "create", "no workload", "audit", "allowed"],
)
def test_what_holds_nobody_back_for_quota_is_no_episode(decision: Decision):
    episodes = Episodes()
    episodes.decided(decision, 0.0)
    assert len(episodes) == 0


@pytest.mark.parametrize(
    ("decision", "ends"),
    [
        (ALLOWED, True),
        (ALLOWED._replace(replicas=9), True),
        (ALLOWED._replace(replicas=6), False),
        (ALLOWED._replace(replicas=2, reason="no-growth"), False),
        (ALLOWED._replace(replicas=8, replicas_before=8, reason="no-growth"), False),
        (ALLOWED._replace(replicas=0, reason="zero"), False),
        (ALLOWED._replace(dry_run=True), False),
        (ALLOWED._replace(reason="no-quota"), True),
        (ALLOWED._replace(ref=WEB._replace(name="other")), False),
        (ALLOWED._replace(verdict=Verdict.UNAVAILABLE), False),
    ],
    ids=[
        "as much", "more", "less than was refused", "fewer", "as it is", "zero", "dry run", "out of all quotas",
        "another workload", "not known",
    ],
)  # fmt: skip
def test_an_episode_ends_when_as_much_is_allowed_as_was_refused(decision: Decision, ends: bool):
    episodes = blocked((0.0, DENIED))
    episodes.decided(decision, 5.0)
    assert len(episodes) == (not ends)
    assert [ended.episode.ref for ended in episodes.ended] == [WEB] * ends


def test_the_count_refused_last_is_the_one_that_must_fit():
    episodes = blocked((0.0, DENIED), (15.0, DENIED._replace(replicas=6)))
    episodes.decided(ALLOWED._replace(replicas=6), 30.0)
    assert len(episodes) == 0


def test_a_refused_template_ends_when_growth_of_a_template_is_allowed():
    template = DENIED._replace(replicas=None, scale=False)
    assert len(blocked((0.0, template), (1.0, ALLOWED))) == 1
    assert len(blocked((0.0, DENIED), (1.0, ALLOWED._replace(replicas=None)))) == 1
    assert len(blocked((0.0, template), (1.0, ALLOWED._replace(replicas=None, scale=False)))) == 0


@pytest.mark.parametrize(("refusals", "words"), [(1, "refused once"), (3, "refused 3 times")])
def test_good_news_name_workload_count_and_how_often_it_was_refused(refusals: int, words: str):
    episodes = blocked(*((15.0 * n, DENIED) for n in range(refusals)))
    episodes.decided(ALLOWED, 60.0)
    (ended,) = episodes.ended
    start = 'deployments.apps "web" may grow to 8 replicas: its workspace quota has room again, after it was '
    assert ended.good_news == start + words


def test_an_episode_that_nobody_asks_about_any_more_ends_without_news():
    episodes = blocked((0.0, DENIED), (15.0, DENIED))
    episodes.look(lambda refused: refused, 15.0 + SILENCE_S - 1)
    assert len(episodes) == 1
    episodes.look(lambda refused: refused, 15.0 + SILENCE_S)
    assert len(episodes) == 0
    assert [ended.good_news for ended in episodes.ended] == [""]


def test_there_is_a_most_of_open_episodes_and_of_those_that_ended_while_nobody_takes_them():
    episodes = Episodes(most=2)
    for number in range(5):
        episodes.decided(DENIED._replace(ref=WEB._replace(name=f"web-{number}")), 0.0)
    assert len(episodes) == 2
    for _ in range(MAX_ENDED + 9):
        episodes.decided(DENIED._replace(ref=WEB._replace(name="web-0")), 0.0)
        episodes.decided(ALLOWED._replace(ref=WEB._replace(name="web-0")), 1.0)
    assert len(episodes.ended) == MAX_ENDED


def test_good_news_speak_of_room_only_if_the_last_refusal_did():
    silent = DENIED._replace(reason="must-specify", sentence="must specify requests.cpu for: main")
    for refusals, words in (([DENIED, silent], "nothing refuses it any more"), ([silent, DENIED], "has room again")):
        episodes = blocked(*((15.0 * n, one) for n, one in enumerate(refusals)))
        episodes.decided(ALLOWED, 60.0)
        (ended,) = episodes.ended
        assert words in ended.good_news


def test_what_would_be_refused_has_episodes_of_its_own_that_end_in_silence():
    would = ALLOWED._replace(reason="would-refuse")
    other = would._replace(ref=WEB._replace(name="other"), dry_run=True)
    episodes = blocked((0.0, would), (1.0, would), (1.0, ALLOWED), (1.0, other))
    (episode,) = episodes.due(UPDATE_S)
    assert (episode.audits, episode.count, episodes.refused()) == (True, 2, [])
    episodes.decided(DENIED, 1.0)
    assert [one.audits for one in episodes.refused()] == [False], "that is another's"
    episodes.decided(ALLOWED, 2.0)
    episodes.ended.clear()
    episodes.look(lambda refused: None, 2.0)
    assert len(episodes) == 1, "nobody looks whether it would be granted"
    episodes.look(lambda refused: refused, 2.0 + SILENCE_S)
    assert (len(episodes), len(episodes.ended)) == (0, 0)


# What is remembered of decisions, and how much.


def decision(name: str = "web", verdict: Verdict = Verdict.DENY, sentence: str = "no", to: int = 9) -> Decision:
    ref = WorkloadRef("apps", "deployments", "shop", name)
    reason = "exceeded-quota" if verdict is Verdict.DENY else "fits"
    return Decision("d", verdict, reason, sentence, ref, Operation.PATCH, replicas=to, replicas_before=3)


def test_the_newest_comes_first_and_a_list_goes_on_by_number():
    recent = Recent(lambda: 5.0)
    for name in "abc":
        recent.decided(Report(decision(name), "olga", "kubectl"))
    found = list(recent.decisions())
    assert [one.decision.ref.name for one in found if one.decision.ref] == ["c", "b", "a"]
    assert (found[0].time_s, found[0].user, found[0].user_agent) == (5.0, "olga", "kubectl")
    assert [one.number for one in recent.decisions(found[0].number)] == [one.number for one in found[1:]]


def test_what_is_about_no_workload_is_not_kept():
    recent = Recent()
    recent.decided(Report(Decision("d", Verdict.ALLOW, "read", "a read")))
    assert list(recent.decisions()) == []


def test_only_so_many_are_kept():
    recent = Recent(most=10)
    for number in range(25):
        recent.decided(Report(decision(f"w{number}")))
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
            Report(long._replace(evidence=Evidence(rows)), f"u{number}" + "u" * 9_000, f"a{number}" + "a" * 9_000)
        )
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 100 < len(list(recent.decisions())) < 1_000
    assert taken < 1.2 * (1 << 20)


def test_an_episode_has_the_latest_refusal_and_ends_when_as_much_is_allowed():
    now_s = 0.0
    recent = Recent(lambda: now_s)
    recent.decided(Report(decision(sentence="first", to=9)))
    now_s = 60.0
    recent.decided(Report(decision(sentence="second", to=7)))
    (one,) = recent.episodes()
    assert (one.began_s, one.last_s, one.count, one.latest.sentence, one.latest.replicas) == (0.0, 60.0, 2, "second", 7)
    recent.decided(Report(decision(verdict=Verdict.ALLOW, to=7)))
    assert recent.episodes() == []


def test_an_episode_ends_when_nobody_asks_any_more():
    now_s = 0.0
    recent = Recent(lambda: now_s)
    recent.decided(Report(decision()))
    now_s = SILENCE_S
    recent.tick()
    recent.decided(Report(decision("other")))
    assert [one.ref.name for one in recent.episodes()] == ["other"]
