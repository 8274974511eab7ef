"""Three real gates on one ledger in a real API server grant no more than one would, whatever befalls them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from extauthz.serve.ledger_store.kubernetes import NAME
from extauthz.tell.observe.status import SWEEP_S
from tests.controlplane.api import RefusedError
from tests.controlplane.plane import running_plane
from tests.controlplane.sites import LEDGER, Answer, Site, Sites
from tests.controlplane.workspace import workload
from tests.support import objects
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

W_S = 15
"""Long enough to kill a gate and ask the others meanwhile, on a busy machine too."""

ROOTS = {
    "told": "10",
    "many": "10",
    "dead": "10",
    "alone": "10",
    "deleted": "10",
    "big": "10",
    "small": "9",
    "restarted": "10",
    "late": "10",
}
"""One for each test."""


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        Sites(plane, tmp_path_factory.mktemp("sites"), 3, W_S) as sites,
    ):
        for name, pods in ROOTS.items():
            plane.api.create(objects.quota(name, {"pods": pods}))
            plane.api.create(objects.namespace(name, workspace=name))
            create(sites, name, "web", "other")
        eventually(lambda: [one["metadata"]["name"] for one in plane.api.list(LEDGER)] == [NAME])
        sites.await_no_hold()
        yield sites


def create(sites: Sites, namespace: str, *names: str) -> None:
    for name in names:
        tree = workload(name, 0, {"cpu": "1m"})
        tree["metadata"]["namespace"] = namespace
        sites.plane.api.create(tree)


def ask(site: Site, namespace: str, name: str, replicas: int) -> Answer:
    """Decided for certain: what could not be agreed upon in time on a busy machine is asked again, as clients do."""

    def answer() -> Answer | None:
        said = site.ask(namespace, name, replicas)
        return None if said.reason in ("ledger-unavailable", "unknown-workload") else said

    return eventually(answer)


def reserved(site: Site, quota: str) -> float:
    return site.gate.metric(f'extauthz_quota_reserved{{quota="{quota}",resource="pods"}}')


def test_what_one_gate_grants_the_others_know(sites: Sites):
    assert ask(sites[0], "told", "web", 8).allowed
    for site in sites:
        refused = ask(site, "told", "other", 3)
        assert not refused.allowed
        assert "exceeded workspace quota: told" in refused.message
    assert ask(sites[2], "told", "other", 2).allowed
    assert not ask(sites[1], "told", "web", 9).allowed
    for site in sites:
        eventually(lambda site=site: reserved(site, "told") == 10, lambda site=site: reserved(site, "told"))


def test_of_growths_at_all_gates_at_once_exactly_what_fits_is_granted(sites: Sites):
    names = [f"w-{number}" for number in range(24)]
    create(sites, "many", *names)
    with ThreadPoolExecutor(len(names)) as pool:
        answers = list(pool.map(lambda n: ask(sites[n % 3], "many", names[n], 1), range(len(names))))
    assert sum(answer.allowed for answer in answers) == 10
    assert {answer.reason for answer in answers if not answer.allowed} == {"exceeded-quota"}


def test_the_room_of_a_gate_that_was_killed_is_held_until_another_learns_what_became_of_it(sites: Sites):
    granted = ask(sites[0], "dead", "web", 10)
    sites[0].gate.kill()
    assert granted.allowed
    assert not ask(sites[1], "dead", "other", 1).allowed
    assert granted.id in sites.payload().pending_writes
    sites[2].settle(granted, 409)
    eventually(lambda: ask(sites[1], "dead", "other", 10).allowed)
    sites[0].gate.start()
    assert not ask(sites[0], "dead", "web", 1).allowed, "it knows what was granted while it was away"


def test_or_until_w_and_a_gate_that_starts_again_holds_nothing_back(sites: Sites):
    granted = ask(sites[0], "alone", "web", 10)
    sites[0].gate.kill()
    assert not ask(sites[1], "alone", "other", 1).allowed
    sites[0].gate.start()
    again = ask(sites[0], "alone", "web", 10)
    assert again.allowed, again
    sites[0].settle(again, 409)
    assert granted.id in sites.payload().pending_writes
    assert not ask(sites[0], "alone", "other", 1).allowed
    eventually(lambda: ask(sites[1], "alone", "other", 1).allowed)
    assert granted.id not in sites.payload().pending_writes


def test_a_ledger_that_somebody_deletes_is_made_again_with_all_in_it_and_holds_growth_back_for_w(sites: Sites):
    granted = ask(sites[0], "deleted", "web", 5)
    before = sites.plane.api.get(LEDGER, NAME)["metadata"]["uid"]
    sites.plane.api.delete(LEDGER, NAME)
    held = ask(sites[1], "deleted", "other", 1)
    assert (held.allowed, held.reason) == (False, "hold"), held

    def made_again() -> dict | None:
        try:
            found = sites.plane.api.get(LEDGER, NAME)
        except RefusedError:
            return None
        return found if found["metadata"]["uid"] != before else None

    eventually(made_again)
    eventually(lambda: granted.id in sites.payload().pending_writes)
    assert sites.payload().holds
    assert ask(sites[1], "deleted", "other", 0).allowed, "shrinking passes"
    eventually(lambda: not sites.payload().holds)
    eventually(lambda: ask(sites[1], "deleted", "other", 10).allowed)


def test_a_quota_that_moves_under_another_root_counts_there_with_all_that_was_granted(sites: Sites):
    """Gates ask for growth in both trees all the while."""
    names = [f"w-{number}" for number in range(12)]
    create(sites, "small", *names)
    create(sites, "big", *names)
    moved = ask(sites[0], "small", "web", 4)
    assert moved.allowed
    grants: dict[str, list[bool]] = {"big": [], "small": []}

    def grow(number: int) -> None:
        namespace = "small" if number % 2 else "big"
        grants[namespace].append(ask(sites[number % 3], namespace, names[number // 2], 1).allowed)

    with ThreadPoolExecutor(8) as pool:
        first = [pool.submit(grow, number) for number in range(6)]
        sites.plane.api.patch("WorkspaceQuota", "small", None, {"spec": {"parent": "big"}})
        rest = [pool.submit(grow, number) for number in range(6, 24)]
        for each in (*first, *rest):
            each.result()
    assert 4 + sum(grants["small"]) <= 9, "wherever it counts, its own limit holds"
    assert sum(grants["big"]) <= 10, "so does that of the root, which the move is like a cut of (docs/guarantee.md)"
    for site in sites:
        eventually(lambda site=site: "exceeded workspace quota: big" in ask(site, "small", "other", 1).message)
    for site in sites:
        assert not ask(site, "big", "other", 1).allowed, "all know of the move, and what is over the limit stays so"
    eventually(lambda: moved.id not in sites.payload().pending_writes)


def test_after_a_restart_of_the_api_server_everything_granted_still_holds(sites: Sites):
    assert ask(sites[0], "restarted", "web", 6).allowed
    sites.plane.restart()
    for site in sites:
        eventually(lambda site=site: ask(site, "restarted", "other", 5).reason == "exceeded-quota")
    assert ask(sites[2], "restarted", "other", 4).allowed
    assert not ask(sites[1], "restarted", "other", 5).allowed


def test_a_gate_that_was_cut_off_grants_nothing_that_others_have_granted_meanwhile(sites: Sites):
    sites[0].wire.cut()
    assert ask(sites[1], "late", "web", 7).allowed
    assert not ask(sites[0], "late", "other", 4).allowed
    assert ask(sites[0], "late", "other", 3).allowed
    assert not ask(sites[1], "late", "web", 8).allowed


def test_three_gates_keep_one_status_and_do_not_write_over_each_other(sites: Sites):
    def status() -> tuple[str, str]:
        found = sites.plane.api.get("WorkspaceQuota", "told")
        return found["metadata"]["resourceVersion"], found["status"]["summary"].get("pods", "")

    def at_rest() -> bool:
        before = status()
        time.sleep(2.5 * SWEEP_S)
        return status() == before

    assert ask(sites[0], "told", "web", 1).id
    eventually(at_rest, status)
    assert status()[1] == "0/10"
