"""Small worlds with pods in every order of events: no order is over, and a bug of the rollouts is found.

``EXTAUTHZ_ORDERS=all`` tries larger ones too, as ``make full`` does. `-s` prints how many orders there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import pytest

from extauthz.core.ledger import envelope
from tests.simulate.planted.planting import replaced
from tests.worlds.pods.objects import POD
from tests.worlds.pods.orders import Space, Tried, Written, tried
from tests.worlds.search import workers

WEB, DB, API, LOG = "shop/web-deploy-0", "shop/db-sts-1", "lab/api-deploy-2", "lab/log-sts-3"

SMALL = {
    "smaller-and-more": Space(((WEB, "2"),), 4, (Written(WEB, 2, "1"),), apart=False),
    "smaller-and-more-of-a-stateful-set": Space(((DB, "2"),), 4, (Written(DB, 2, "1"),)),
    "a-rollout-and-a-count": Space(((DB, "2"), (API, "1")), 5, (Written(DB, 2, "1"), Written(API, 2)), apart=False),
    "a-late-list-of-pods": Space(((DB, "2"),), 4, (Written(DB, 2, "1"),), late=POD, apart=False),
    "two-gates": Space(
        ((DB, "1"), (LOG, "1")), 3, (Written(DB, 2, "1"), Written(LOG, 2, "1", 1)), 2, apart=False, hasty=True
    ),
}
LARGE = {
    "smaller-and-more-each-kind-for-itself": Space(((WEB, "2"),), 4, (Written(WEB, 2, "1"),)),
    "there-and-back": Space(
        ((WEB, "1"),), 4, (Written(WEB, 2, "2"), Written(WEB, 2, "1"), Written(WEB, 3)), apart=False
    ),
    "a-rollout-two-counts-and-a-late-list": Space(
        ((DB, "2"), (API, "1")), 6, (Written(DB, 2, "1"), Written(API, 2), Written(API, 3)), late=POD, apart=False
    ),
    "two-gates-of-two": Space(
        ((DB, "1"), (LOG, "1")), 3, (Written(DB, 2, "1"), Written(LOG, 2, "1", 1)), 2, apart=False
    ),
    "two-gates-and-a-rollout": Space(
        ((DB, "2"), (API, "1")), 5, (Written(DB, 2, "1"), Written(API, 2, "", 1)), 2, apart=False
    ),
}
SPACES = SMALL | (LARGE if os.environ.get("EXTAUTHZ_ORDERS") == "all" else {})


def _forgotten() -> AbstractContextManager[None]:
    """What a template leaves behind costs nothing."""
    return replaced(envelope, _running=lambda *_, **__: [], _replaced=lambda *_: [], _dearer_pods=lambda *_: {})


def _tried(space: Space, plant: Callable[[], AbstractContextManager[None]] = nullcontext) -> Tried:
    with plant():
        return tried(space)


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessPoolExecutor]:
    with workers(1) as pool:
        yield pool


@pytest.mark.parametrize("name", SPACES)
def test_no_order_of_events_is_over(name: str, worker: ProcessPoolExecutor):
    found = worker.submit(_tried, SPACES[name]).result()
    print(f"\n{name}: {found.orders} orders of events through {found.states} states, and all were taken")
    assert found.broken == ""
    assert found.orders > found.states > 10


def test_a_template_that_is_forgotten_is_found(worker: ProcessPoolExecutor):
    space = SMALL["smaller-and-more-of-a-stateful-set"]._replace(cpus=2)
    found = worker.submit(_tried, space, _forgotten).result()
    assert "never over: pods come to 3000 of cpu_m, of 2000" in found.broken
