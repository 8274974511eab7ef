"""One number for what fits: ``check``, the API, the page and the sentence of a refusal take it from one place."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.cli import headroom as text
from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.fitting import headroom, scaled
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.core.queries import Queries
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.servers.api.history import Filter
from extauthz.serve.servers.page.quota import _room as in_table
from extauthz.serve.servers.page.workload import _room as on_page
from extauthz.tell.observe.episodes import Recent, would_get_now
from extauthz.tell.observe.observers import Report
from extauthz.testing import Asker, gate, quota, scale, workload

GPU = "nvidia.com/gpu"
REQUESTS = f"requests.{GPU}"


def ref(name: str, namespace: str) -> WorkloadRef:
    return WorkloadRef("apps", "deployments", namespace, name)


def answers(of: Gate, recent: Recent | None = None) -> Answers:
    decide = lambda reading: of.asked(reading, "q", 0.0)  # noqa: E731
    return Answers(Queries(of.ledger), decide, lambda: 0.0, recent)


def house(**root: Any) -> Gate:
    """Two tenants of 5 devices: ``vision`` has none, wants 3 and is first in line; ``language`` has 2 of 3 that it is
    guaranteed."""
    quotas = [
        quota("root", {REQUESTS: "5"}, namespaces={"none": "such"}, turn_s=60, **root),
        quota("vision", {REQUESTS: "8"}, parent="root"),
        quota("language", {REQUESTS: "8"}, parent="root", guaranteed={REQUESTS: "3"}),
    ]
    objects = [
        workload("train", 0, {GPU: "1"}, namespace="vision"),
        workload("llm", 2, {GPU: "1"}, namespace="language"),
    ]
    made = gate(quotas, *objects, namespaces={name: {"workspace": name} for name in ("vision", "language")})
    ask = Asker(made)
    refused = ask(scale("train", 3, namespace="vision"))
    assert refused.verdict is Verdict.DENY
    made.answered(refused, 0.0)
    return made


def test_the_line_is_known_wherever_a_number_is_said():
    made = house()
    llm = ref("llm", "language")
    refused = made.decide(scaled(llm, 4), "a", 0.0)
    assert (refused.verdict, refused.evidence.fits) == (Verdict.DENY, 3), "its guarantee; the rest is another's turn"
    assert refused.sentence.endswith("largest allowed replicas: 3; ask again in about 30 s")
    room = answers(made).headroom(llm)
    assert (room["replicas"], room["certain"], room["bound"]) == (3, True, None)
    assert room["sentence"] == refused.sentence
    assert "may have 3" in text.as_text(room)
    assert refused.sentence in " ".join(text.as_text(room).split())
    assert on_page(room).sentence.endswith("may have 3.")
    assert on_page(room).why == refused.sentence
    assert in_table(room) == "1 more"


def test_what_is_refused_now_has_the_same_number():
    made, llm = house(), ref("llm", "language")
    now = would_get_now(Queries(made.ledger), lambda: True, lambda one: made.asked(one, "q", 0.0))
    recent = Recent(lambda: 0.0, would_get_now=now)
    refused = made.decide(scaled(llm, 9), "a", 0.0)
    assert refused.sentence.endswith("largest allowed replicas: 3, as others come first")
    recent.decided(Report(refused))
    for _ in range(2):
        (row,) = answers(made, recent).history.episodes(Filter(), 9)["items"]
        assert (row["fits"], row["sentence"]) == (3, refused.sentence)
        recent.tick()


@pytest.mark.parametrize(
    ("more", "policy", "may", "why"),
    [
        ({}, Policy(window_s=90.0), "and may have 4", ""),
        ({"mode": "Clamp"}, Policy(window_s=90.0), "and may have 4", ""),
        ({"mode": "Audit"}, Policy(window_s=90.0), "no quota sets a bound", "would allow 4"),
        ({}, Policy(window_s=90.0, mode="audit"), "no quota sets a bound", "would allow 4"),
    ],
    ids=["Enforce", "Clamp", "Audit", "a gate that only audits"],
)
def test_each_mode_says_how_many_are_granted_in_it(more: dict[str, str], policy: Policy, may: str, why: str):
    made = gate([quota("acme", {"requests.cpu": "4"}, **more)], workload("web", 3), policy=policy)
    web = ref("web", "team-a")
    room = answers(made).headroom(web)
    told = " ".join(text.as_text(room).split())
    assert may in told
    assert why in told
    granted = [n for n in range(3, 9) if made.decide(scaled(web, n), "a", 0.0, charge=False).verdict is Verdict.ALLOW]
    assert room["replicas"] == (None if granted[-1] == 8 else granted[-1])


def test_what_is_not_known_is_said_in_its_own_words():
    made = gate([quota("acme", {"requests.cpu": "9"})], workload("web", 3))
    made.stale("cannot read its quotas", until_s=0.0)
    room = answers(made).headroom(ref("web", "team-a"))
    assert (room["replicas"], room["certain"]) == (9, False)
    told = " ".join(text.as_text(room).split())
    assert "was not decided: the quota gate may be out of date: cannot read its quotas" in told
    assert on_page(room).why == room["sentence"]


def test_of_a_workload_that_is_not_known_no_number_is_said():
    made = gate([quota("acme", {"requests.cpu": "9"})])
    assert headroom(Queries(made.ledger), lambda _: pytest.fail("asked"), ref("web", "team-a")) is None


def test_a_pod_that_does_not_say_what_it_needs_may_have_no_more():
    made = gate([quota("acme", {"requests.cpu": "9"})], workload("web", 3, {}))
    room = answers(made).headroom(ref("web", "team-a"))
    assert (room["replicas"], room["certain"], room["reason"]) == (3, True, "must-specify")
