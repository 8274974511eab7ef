"""The markers ``controlplane`` and ``helm``: a test that needs the real control plane, or Helm, is skipped loudly where
that is not built.

With ``controlplane`` in ``EXTAUTHZ_REQUIRE`` (CI, ``make e2e``) it fails instead; for want of an optional part only
with that part's name in it (``EXTAUTHZ_REQUIRE=controlplane,istiod,helm``).
"""

from __future__ import annotations

import functools
import os
from typing import NoReturn

import pytest

from tests.controlplane import parts

MARK = "controlplane"
HELM = "helm"
ALWAYS = ("etcd", "kube-apiserver", "kubectl")
"""What the mark asks for by itself. ``@pytest.mark.controlplane("kube-controller-manager")`` asks for more."""

_REQUIRED = pytest.StashKey[frozenset[str]]()
_SKIPPED = pytest.StashKey[dict[str, list[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    """The variable is the tests' own: taken out, because the gate refuses settings that it does not know."""
    config.stash[_REQUIRED] = frozenset(os.environ.pop("EXTAUTHZ_REQUIRE", "").replace(",", " ").split())
    config.stash[_SKIPPED] = {}


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
    helm = [HELM] if item.get_closest_marker(HELM) else []
    return tuple(dict.fromkeys([*(ALWAYS if marks else ()), *named, *helm]))


def required(config: pytest.Config, name: str) -> bool:
    """Whether a part must be there."""
    return (name if name in parts.OPTIONAL else MARK) in config.stash[_REQUIRED]


def skip(item: pytest.Item, *reasons: str) -> NoReturn:
    """Skip it, and say so once more at the end."""
    for reason in reasons:
        item.config.stash[_SKIPPED].setdefault(reason, []).append(item.nodeid)
    pytest.skip("; ".join(reasons))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What did not run must not look like what passed."""
    for reason, tests in config.stash[_SKIPPED].items():
        terminalreporter.write_line(f"NOT TESTED, {len(tests)} tests: {reason}", yellow=True, bold=True)


@functools.cache
def _missing(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(parts.missing(names))
