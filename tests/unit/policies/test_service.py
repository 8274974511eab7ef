"""Policies as the settings name them, in a gate that is assembled; and the second look of gates that share a ledger."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.model import Growth, Verdict
from extauthz.core.policies import Enlisted, GrowthPolicy, Policies, Refused
from extauthz.service.loading import load
from extauthz.service.policies import notes, policies
from extauthz.service.setting_errors import SettingsError
from extauthz.service.settings import Settings
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
    ("text", "names"),
    [("a, b=Audit c", ("a", "b=Audit", "c")), (["a", "b"], ("a", "b")), ("", ())],
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


class Broken(GrowthPolicy):
    def reserve(self, growth: Growth) -> None:
        raise RuntimeError("gone")


def test_those_beside_the_settings_come_first_and_their_failures_are_counted() -> None:
    lines: Any = Lines()
    found = policies(Settings(policies=("nobody",)), lines, lines, lambda: 0.0, [Enlisted("broken", Broken())])
    assert [one.name for one in found.all] == ["broken", "nobody"]
    found.reserve(Growth("d", None, "patch", 1, 2, {}, None, (), None, 0.0, 0.0))  # type: ignore[arg-type]
    assert lines.failed == [("broken", "reserve")]


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
