"""docs/install.md: what a person types in a first week, and what is shown, on a cluster with pods that burn CPU.

``FIRST_WEEK=write`` writes the page anew.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import ROOT
from tests.cluster.conftest import CLEAN
from tests.cluster.typed import Person
from tests.waiting import OutOfTimeError, eventually

pytestmark = pytest.mark.cluster

PAGE = ROOT / "docs" / "install.md"
FETCHES = re.compile(r"(kubectl (-n \S+ )?(get|describe|rollout) |extauthz )")
"""Lines that are typed until they show what the page shows."""
WRITES = os.environ.get("FIRST_WEEK") == "write"
WITHIN_S = 180
SETTLED_S = 60
"""After which a page that is written anew takes what is shown: metrics are 30 s old, and an HPA looks thrice."""
AGE = re.compile(r"(?<![^ \n])(<unknown>|\d+[smh](\d+[sm])?)( \(x\d+ over \d+[smh](\d+[sm])?\))?(?=$|  )", re.MULTILINE)
RACE = "; can land no more: a newer version is observed"
"""Said where a gate sees a write before it has decided it, as on a busy machine."""


def without_ages(text: str) -> str:
    """Lines without spaces at their ends, and with no age but ``…``, as wide."""
    ageless = AGE.sub(lambda age: "…".ljust(len(age[0])), text)
    return "".join(f"{line.rstrip()}\n" for line in ageless.replace(RACE, "").splitlines())


def shown(person: Person, line: str, page: str) -> str:
    """What is shown in the end."""

    def now() -> str:
        return without_ages(person.run(line).stdout)

    if not FETCHES.match(line):
        return now()
    if WRITES:
        time.sleep(SETTLED_S)
        return now()
    try:
        eventually(lambda: now() == page, within_s=WITHIN_S, every_s=0.5)
    except OutOfTimeError:
        return now()
    return page


def follow(person: Person) -> None:
    """Types each line of the page, and compares.

    Raises:
        AssertionError: with the first line that shows something else.
    """
    pieces = re.split(r"^```\n(.*?)^```\n", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    for at in range(1, len(pieces), 2):
        typed = ""
        for line, page in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", pieces[at], re.MULTILINE):
            seen = shown(person, line, page)
            assert seen == page or WRITES, f"$ {line}\n{seen}"
            typed += f"$ {line}\n{seen}"
        pieces[at] = f"```\n{typed}```\n"
    if WRITES:
        PAGE.write_text("".join(pieces))


@pytest.fixture
def newcomer(person: Person) -> Iterator[Person]:
    person.run(CLEAN)
    yield person
    person.run(CLEAN)


def test_the_page_shows_what_a_person_sees_from_install_to_uninstall(newcomer: Person):
    follow(newcomer)
