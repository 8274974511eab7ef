"""The markers ``controlplane``, ``helm``, ``actionlint`` and ``h2spec``: a test that needs the real control plane, or
one of these programs, is skipped loudly where that is not built.

With ``controlplane`` in ``EXTAUTHZ_REQUIRE`` (CI, ``make e2e``) it fails instead; for want of an optional part only
with that part's name in it (``EXTAUTHZ_REQUIRE=controlplane,istiod,helm``).
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from tests.controlplane import parts

MARK = "controlplane"
ALONE = ("helm", "actionlint", "h2spec")
"""Parts whose mark asks for nothing else."""
ALWAYS = ("etcd", "kube-apiserver", "kubectl")
"""What the mark asks for by itself. ``@pytest.mark.controlplane("kube-controller-manager")`` asks for more."""

NOT_TESTED = "not tested"

_REQUIRED = pytest.StashKey[frozenset[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """The variable is the tests' own: taken out, because the gate refuses settings that it does not know."""
    asked = os.environ.pop("EXTAUTHZ_REQUIRE", "")
    workerinput = getattr(config, "workerinput", {})
    config.stash[_REQUIRED] = frozenset(workerinput.get(MARK, asked).replace(",", " ").split())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tests side by side (pytest-xdist): each process requires the same parts."""
    node.workerinput[MARK] = " ".join(node.config.stash[_REQUIRED])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is set up."""
    wanted = _wanted(item)
    if unmet := _missing(tuple(name for name in wanted if required(item.config, name))):
        pytest.fail("\n".join(unmet), pytrace=False)
    if reasons := _missing(wanted):
        skip(item, *reasons)


def _wanted(item: pytest.Item) -> tuple[str, ...]:
    """The parts that its marks ask for."""
    marks = list(item.iter_markers(MARK))
    named = [name for mark in marks for name in mark.args]
    alone = [name for name in ALONE if item.get_closest_marker(name)]
    return tuple(dict.fromkeys([*(ALWAYS if marks else ()), *named, *alone]))


def required(config: pytest.Config, name: str) -> bool:
    """Whether a part must be there."""
    return (name if name in parts.OPTIONAL else MARK) in asked_for(config)


def asked_for(config: pytest.Config) -> frozenset[str]:
    """What ``EXTAUTHZ_REQUIRE`` lists."""
    return config.stash[_REQUIRED]


def skip(item: pytest.Item, *reasons: str) -> NoReturn:
    """Skip it, and say so once more at the end."""
    item.user_properties += [(NOT_TESTED, reason) for reason in reasons]
    pytest.skip("; ".join(reasons))


class Needs:
    """A marker of something else: a test that has it is skipped loudly where that is missing, and fails where the
    marker stands in ``EXTAUTHZ_REQUIRE``. It is a plugin of pytest.

    Args:
        missing: what is not here, with the cure; empty if all is.
    """

    def __init__(self, mark: str, missing: Callable[[], str]) -> None:
        self._mark, self._missing = mark, missing

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Before any fixture is set up."""
        if item.get_closest_marker(self._mark) is None or not (reason := self._missing()):
            return
        if self._mark in asked_for(item.config):
            pytest.fail(reason, pytrace=False)
        skip(item, reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What did not run must not look like what passed."""
    skipped = Counter(
        reason
        for report in terminalreporter.getreports("skipped")
        for name, reason in report.user_properties
        if name == NOT_TESTED
    )
    for reason, tests in skipped.items():
        terminalreporter.write_line(f"NOT TESTED, {tests} tests: {reason}", yellow=True, bold=True)


@functools.cache
def _missing(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(parts.missing(names))
