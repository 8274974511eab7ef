"""A live source tells of one object at a time, late, twice and in any order: the ledger takes nothing back by it."""

from __future__ import annotations

import pytest

from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.ledger import observations
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Observed, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.testing import Asker, gate, put_scale, quota, scale, workload
from tests.unit.asking import books

CPU = 10**9
WEB = WorkloadRef("apps", "deployments", "team-a", "web")
DEPLOYMENTS = ("apps", "deployments")


def seen(replicas: int, version: str, name: str = "web", **more: object) -> Observed:
    return observe(workload(name, replicas, version=version, **more))[1]


def asker(*objects: dict, hard: str = "10") -> Asker:
    return Asker(gate([quota("acme", {"requests.cpu": hard})], *(objects or [workload(replicas=3, version="50")])))


def test_a_state_older_than_the_one_held_is_ignored():
    ask = asker()
    ask.gate.observe(WEB, seen(9, "60"))
    ask.gate.observe(WEB, seen(1, "55"))
    assert books(ask) == (9, 0)


def test_a_deletion_from_before_the_state_held_is_ignored():
    """It was deleted at 55 and made anew at 60, which a consistent read has shown already."""
    ask = asker()
    ask.gate.observe(WEB, seen(9, "60", uid="another"))
    ask.gate.observe(WEB, None, version="55")
    assert books(ask) == (9, 0)
    ask.gate.observe(WEB, None, version="61")
    assert books(ask) == (0, 0)


def test_a_state_from_before_the_deletion_brings_nothing_back():
    ask = asker()
    ask.gate.observe(WEB, None, version="60")
    ask.gate.observe(WEB, seen(9, "59"))
    assert books(ask) == (0, 0)
    ask.gate.observe(WEB, seen(2, "61", uid="another"))
    assert books(ask) == (2, 0)


def test_a_deletion_is_remembered_by_its_latest_version():
    ask = asker()
    ask.gate.observe(WEB, None, version="60")
    ask.gate.observe(WEB, None, version="52")
    ask.gate.observe(WEB, seen(9, "59"))
    assert books(ask) == (0, 0)


def test_what_is_there_takes_no_place_among_the_deletions_that_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observations, "_REMEMBERED", 2)
    ask = asker()
    ask.gate.observe(WEB, None, version="60")
    for number in range(3):
        ask.gate.observe(WEB._replace(name=f"w{number}"), seen(0, "61", f"w{number}"), version="61")
    ask.gate.observe(WEB, seen(9, "59"))
    assert books(ask) == (0, 0)


@pytest.mark.parametrize("version", ["", "x1"], ids=["none", "no number"])
def test_what_states_no_comparable_version_is_taken_as_it_comes(version: str):
    ask = asker()
    ask.gate.observe(WEB, seen(7, version))
    assert books(ask) == (7, 0)
    ask.gate.observe(WEB, None)
    assert books(ask) == (0, 0)


def test_a_list_says_of_its_kind_alone_what_is_gone():
    db = workload("db", 1, kind="StatefulSet", version="51")
    ask = asker(workload("web", 3, version="50"), workload("api", 2, version="52"), db)
    ask.gate.observe_all(DEPLOYMENTS, [(WEB, seen(4, "58"))], "60")
    assert books(ask) == (5, 0)


def test_a_list_takes_away_nothing_that_is_newer_than_it():
    """A consistent read has shown ``web`` at 70; the list came out of a cache that stood at 60."""
    ask = asker()
    ask.gate.observe(WEB, seen(6, "70"))
    ask.gate.observe_all(DEPLOYMENTS, [], "60")
    assert books(ask) == (6, 0)
    ask.gate.observe_all(DEPLOYMENTS, [(WEB, seen(3, "50"))], "60")
    assert books(ask) == (6, 0)
    ask.gate.observe_all(DEPLOYMENTS, [], "70")
    assert books(ask) == (0, 0)


def test_a_long_list_is_taken_in_steps_between_which_the_gate_decides_by_what_it_has(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observations, "_AT_ONCE", 32)
    refs = [WorkloadRef("apps", "deployments", "team-a", f"w{n:02}") for n in range(90)]
    ask = asker(*(workload(ref.name, 1, version="50") for ref in refs), hard="150")
    listed = [(ref, seen(2, "60", ref.name)) for ref in refs[:50]]
    totals = []
    for _ in ask.gate.observing_all(DEPLOYMENTS, listed, "61"):
        totals.append(books(ask)[0])
        most = 2 + 150 - totals[-1]
        question = scale("w00", most + 1)
        denied = ask(question._replace(target=f"{question.target}?dryRun=All"))
        assert denied.evidence.fits == most
        if len(totals) == 1:  # a read, or the watch, overtakes the list
            ask.gate.observe(refs[49], seen(3, "62", "w49"))
            ask.gate.observe(refs[48], None, version="62")
    assert totals == [90 + 32, 90 + 48 + 1, 90 + 48 + 1, 90 + 48 + 1 - 15, 48 * 2 + 3]


def test_a_list_leaves_pending_writes_on_what_is_gone():
    ask = asker()
    ask(scale("web", 5))
    ask.gate.observe_all(DEPLOYMENTS, [], "60")
    ask.gate.observe_all(DEPLOYMENTS, [], "61")
    assert (books(ask), ask.gate.ledger.pending_writes) == ((0, 5), 1)
    ask.gate.observe(WEB, seen(1, "62", uid="another"))
    assert books(ask) == (1, 4)


def test_a_late_state_passes_no_precondition():
    ask = asker()
    bound = ask(put_scale("web", 5, "50"))
    ask.gate.observe(WEB, seen(3, "49"))
    assert (books(ask), ask.gate.ledger.pending_writes) == ((3, 2), 1)
    ask.gate.observe(WEB, seen(3, "51"))
    assert (books(ask), ask.gate.ledger.pending.follows(bound.id)) == ((3, 0), False)


# Consistent reads.


def test_a_read_ends_pending_writes_of_its_workload_alone():
    ask = asker(workload("web", 1), workload("api", 1))
    ask(scale("web", 3))
    ask(scale("api", 3))
    assert ask.gate.ledger.pending.read(WEB, 90.0) == 1
    assert (books(ask), ask.gate.ledger.pending_writes) == ((2, 2), 1)


def test_a_read_of_what_is_not_known_ends_nothing():
    assert asker().gate.ledger.pending.read(WEB._replace(name="nobody"), 90.0) == 0


def test_due_names_a_workload_once_however_many_of_its_pending_writes_wait():
    ask = asker(workload("web", 1), workload("api", 1))
    assert list(ask.gate.ledger.pending.due(0.0)) == []
    first, second = ask(scale("web", 3)), ask(scale("web", 2))
    ask(scale("api", 2))
    assert list(ask.gate.ledger.pending.due(89.0)) == []
    ask.gate.ledger.pending.settle(second.pending_write, Event.ANSWERED_OK, 1.0)
    ask.gate.ledger.pending.settle(second.pending_write, Event.ANSWERED_OK, 5.0)
    assert list(ask.gate.ledger.pending.due(6.0)) == [WEB]
    assert list(ask.gate.ledger.pending.due(90.0)) == [WEB, WEB._replace(name="api")]
    assert ask.gate.ledger.pending.read(WEB, 3.0) == 1, "what is told of an answer a second time makes it no later"
    assert ask.gate.ledger.pending.follows(first.id)


@pytest.mark.parametrize("event", [Event.REFUSED, Event.NOT_FORWARDED, Event.ANSWERED_UNCLEAR], ids=str)
def test_no_other_answer_asks_for_a_read(event: Event):
    ask = asker()
    assert ask.gate.ledger.pending.settle(ask(scale("web", 5)).pending_write, event, 1.0) is None
    assert list(ask.gate.ledger.pending.due(1.0)) == []


def test_an_answer_that_comes_after_w_still_waits_for_a_read():
    ask = asker()
    granted = ask(scale("web", 5))
    ask.gate.tick(95.0)
    assert ask.gate.ledger.pending.settle(granted.pending_write, Event.ANSWERED_OK, 95.0) == WEB
    assert ask.gate.ledger.pending.read(WEB, 89.0) == 0
    assert books(ask) == (3, 2)
    assert ask.gate.ledger.pending.read(WEB, 90.0) == 1, (
        "W had elapsed before the read began: nothing can land after it"
    )


def test_a_source_that_takes_the_state_at_its_word_ends_what_reached_w_and_nothing_that_was_only_answered():
    ask = asker(workload("web", 1), workload("api", 1))
    for name in ("web", "web", "api"):
        ask(scale(name, 2))
    ask.now_s = 60.0
    answered = ask(scale("web", 3))
    ask.gate.ledger.pending.settle(answered.pending_write, Event.ANSWERED_OK, 61.0)
    assert ask.gate.ledger.pending.consistent_read(89.0) == 0
    assert ask.gate.ledger.pending.consistent_read(149.0) == 3
    assert ask.gate.ledger.pending.follows(answered.id)


# Namespaces and what the API server adds to pods.

BOTH = [quota("acme", {"requests.cpu": "10"}), quota("other", {"requests.cpu": "10"})]
A, B = {"workspace": "acme"}, {"workspace": "other"}


def two_spaces() -> Asker:
    objects = [workload("web", 3), workload("far", 2, namespace="team-b")]
    return Asker(gate(BOTH, *objects, namespaces={"team-a": A, "team-b": A}))


def test_a_label_of_a_namespace_moves_its_workloads_and_their_pending_writes_and_no_others():
    ask = two_spaces()
    ask(scale("web", 4))
    ask(scale("far", 3, namespace="team-b"))
    far = ask.gate.ledger.get(WEB._replace(namespace="team-b", name="far"))
    before = far.kept_position
    ask.gate.observe_namespace("team-a", B)
    assert (books(ask), books(ask, "other")) == ((2, 1), (3, 1))
    assert far.kept_position is before, "it was not counted anew"
    assert ask(scale("web", 11)).evidence.shortages[0].quota == "other"


def test_what_did_not_change_counts_nothing_anew():
    ask = two_spaces()
    ask(scale("web", 4))
    before = ask.gate.ledger.get(WEB).kept_position
    ask.gate.observe_namespace("team-a", dict(A))
    ask.gate.observe_limit_ranges("team-a", [])
    ask.gate.observe_runtime_class("kata", None)
    ask.gate.observe_default_storage_class("")
    assert ask.gate.ledger.get(WEB).kept_position is before


def test_growth_in_a_namespace_that_is_gone_or_not_there_yet_is_refused_by_name():
    ask = two_spaces()
    ask.gate.observe_namespace("team-a", None)
    refused = ask(scale("web", 4))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "unknown-namespace")
    assert books(ask) == (2, 0)
    ask.gate.observe_namespace("team-a", A)
    assert (ask(scale("web", 4)).reason, books(ask)) == ("fits", (5, 1))


DEFAULTS = LimitRangeDefaults(requests=(("cpu", 2 * CPU),))


def test_limit_ranges_price_their_own_namespace_whether_they_come_before_it_or_after():
    ask = Asker(gate(BOTH, namespaces={"team-a": A}))
    for namespace in ("team-a", "team-b"):
        ask.gate.observe_limit_ranges(namespace, [DEFAULTS])
        ref, observed = observe(workload("web", 1, {}, namespace=namespace))
        ask.gate.observe(ref, observed)
    assert books(ask) == (2, 0)
    ask.gate.observe_namespace("team-b", A)
    assert books(ask) == (4, 0)
    ask.gate.observe_limit_ranges("team-a", [])
    assert books(ask) == (2, 0)


def test_a_runtime_class_and_the_default_storage_class_count_all_anew():
    db = workload("db", 2, kind="StatefulSet")
    db["spec"]["template"]["spec"]["runtimeClassName"] = "kata"
    db["spec"]["volumeClaimTemplates"] = [
        {"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "5"}}}}
    ]
    fast = "fast.storageclass.storage.k8s.io/requests.storage"
    ask = Asker(gate([quota("acme", {"requests.cpu": "10", fast: "20"})], db))
    refused = ask(scale("db", 3, resource="statefulsets"))
    assert (refused.reason, books(ask)) == ("unknown-footprint", (2, 0)), "its RuntimeClass was not seen"
    assert refused.sentence.endswith("what one of its pods costs: it has not seen their RuntimeClass")
    ask.gate.observe_runtime_class("kata", {})
    ask(scale("db", 3, resource="statefulsets"))
    assert books(ask) == (2, 1)
    ask.gate.observe_runtime_class("kata", {"cpu": CPU})
    ask.gate.observe_default_storage_class("fast")
    assert books(ask) == (4, 2)
    assert next(row for row in ask.gate.usage() if row.resource == fast).used == 10 * CPU
    ask.gate.observe_runtime_class("kata", None)
    assert books(ask) == (2, 1)
