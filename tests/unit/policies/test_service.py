"""Policies as the settings name them, in a gate that is assembled; and the second look of gates that share a ledger."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extauthz.core.model import Growth, Verdict
from extauthz.core.policies import Enlisted, GrowthPolicy, Policies, Refused
from extauthz.core.quota.tree import QuotaTree
from extauthz.policies.plugins import AGAIN_S, Host, LivePolicy
from extauthz.service.loading import load
from extauthz.service.setting_types import SettingsError
from extauthz.service.settings import Settings
from extauthz.service.sources import levels, notes, policies, policy_names, running
from extauthz.testing.builders import Asker, gate, quota, scale, workload


class Lines:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.failed: list[tuple[str, str]] = []

    def event(self, level: str, event: str, **fields: Any) -> None:
        self.events.append((level, event, fields))

    def policy_failed(self, policy: str, step: str) -> None:
        self.failed.append((policy, step))


@pytest.mark.parametrize(
    ("text", "names"), [("a, b=Audit c", ("a", "b=Audit", "c")), (["a", "b"], ("a", "b")), ("", ())]
)
def test_names_come_as_a_list_or_a_text(text: Any, names: tuple[str, ...]) -> None:
    assert load({"policies": text}, {}, None).policies == names


@pytest.mark.parametrize("text", ["a=Enforce", "a/b", "a a", "a a=Audit", 5, "-a"])
def test_what_is_no_list_of_names_is_refused(text: Any) -> None:
    with pytest.raises(SettingsError, match=r"^--policies: "):
        load({"policies": text}, {}, None)


def test_one_that_is_missing_is_logged_and_noted() -> None:
    lines: Any = Lines()
    found = policies(Settings(policies=("nobody",)), lines, lines, lambda: 0.0)
    assert [(level, event, fields["policy"]) for level, event, fields in lines.events] == [
        ("error", "policy-missing", "nobody")
    ]
    assert notes(found) == ["policy nobody: no installed package has an entry point nobody of extauthz.policies"]
    assert notes(Policies()) == []


class Ordering(GrowthPolicy):
    def rank(self, growth: Growth) -> int:
        return 1


def test_two_that_give_ranks_are_an_error_with_its_cure() -> None:
    lines: Any = Lines()
    both = [Enlisted("one", Ordering()), Enlisted("other", Ordering())]
    with pytest.raises(SettingsError, match=r"^--policies: one, other: each gives ranks"):
        policies(Settings(), lines, lines, lambda: 0.0, both)
    assert len(policies(Settings(), lines, lines, lambda: 0.0, both[:1]).all) == 1


class Broken(GrowthPolicy):
    def reserve(self, growth: Growth) -> None:
        raise RuntimeError("gone")


def test_those_beside_the_settings_come_first_and_their_failures_are_counted() -> None:
    lines: Any = Lines()
    found = policies(Settings(policies=("nobody",)), lines, lines, lambda: 0.0, [Enlisted("broken", Broken())])
    assert [one.name for one in found.all] == ["broken", "nobody"]
    found.reserve(Growth("d", None, "patch", 1, 2, {}, None, (), None, 0.0, 0.0))  # type: ignore[arg-type]
    assert lines.failed == [("broken", "reserve")]


class Lives(LivePolicy):
    """Runs, fails, runs again, and ends."""

    def __init__(self) -> None:
        self.runs: list[Host] = []

    async def run(self, host: Host) -> None:
        self.runs.append(host)
        if len(self.runs) < 3:
            raise RuntimeError("no nodes")

    def notes(self) -> list[str]:
        return ["it looks", "and looks"]

    def levels(self) -> dict[tuple[str, str], float]:
        return {("used", "a"): 0.5}


class Fails(LivePolicy):
    def notes(self) -> list[str]:
        raise RuntimeError("no")

    def levels(self) -> dict[tuple[str, str], float]:
        raise RuntimeError("no")


async def test_one_that_runs_beside_the_gate_begins_anew_where_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", nap)
    lines, lives = Lines(), Lives()
    host = Host(None, lambda: 1.0, lambda: 2.0, lines.event)
    (one, plain) = running(Policies([Enlisted("l", lives), Enlisted("p", Broken()), Enlisted("q", LivePolicy())]), host)
    await one
    await plain
    assert lives.runs == [host] * 3
    assert naps == [AGAIN_S] * 2
    failed = ("error", "policy-failed", {"policy": "l", "why": "RuntimeError: no nodes"})
    assert lines.events == [failed] * 2


def test_what_those_that_run_tell_has_their_names_and_one_that_fails_takes_nobody_along() -> None:
    found = Policies([Enlisted("f", Fails()), Enlisted("l", Lives()), Enlisted("q", LivePolicy())])
    assert notes(found) == ["policy f: its notes fail: RuntimeError: no", "policy l: it looks", "policy l: and looks"]
    assert levels(found) == {("l", "used", "a"): 0.5}


class ChangesItsMind(GrowthPolicy):
    """Lets the first look pass."""

    def __init__(self) -> None:
        self.looks = 0

    def filter(self, growth: Growth) -> Refused | None:
        self.looks += 1
        return Refused("not any more") if self.looks > 1 else None


def test_the_second_look_asks_again() -> None:
    """As gates do that share a ledger: a question first, and the decision once its turn to be written comes."""
    made = gate([quota("acme", {"pods": "9"})], workload("web", 1))
    made.enlist(Policies([Enlisted("mind", ChangesItsMind())]))
    ask = Asker(made)
    assert ask(scale("web", 2), charge=False).verdict is Verdict.ALLOW
    assert ask(scale("web", 2)).reason == "policy-refused"
    assert made.ledger.pending_writes == 0


def test_the_policies_that_there_are_are_plug_ins_and_those_of_quotas():
    found = Policies([Enlisted("calm", LivePolicy())])
    many = quota("acme", {"pods": "1"}, policies=[{"name": "hours", "expression": "true"}])
    assert policy_names(found, QuotaTree.build([many])) == {"calm", "hours"}
    assert policy_names(found, QuotaTree.build([quota("acme", {"pods": "1"})])) == {"calm"}
