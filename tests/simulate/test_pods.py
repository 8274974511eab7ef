"""Worlds with pods: none is over but by a named cut, and bugs that only pods can show are found.

``EXTAUTHZ_SEED`` gives the worlds of another day.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from extauthz.core import footprint
from extauthz.core.decision import known
from extauthz.core.kinds import DEPLOYMENTS, PODS
from extauthz.core.ledger import accounts, envelope, observations, ownership, pod_costs
from extauthz.core.ledger.entry import PendingWrite
from extauthz.core.ledger.pod_costs import NamespaceCosts, PodCosts
from extauthz.core.ledger.pods import Pods
from extauthz.core.ledger.usage import Usage
from extauthz.core.objects import jobs
from extauthz.core.objects.fields import EVERYTHING
from extauthz.inputs.cluster import object_readers
from extauthz.inputs.cluster.live import Revisions
from extauthz.inputs.cluster.scaled import PodPrices
from tests.simulate.planted.planting import replaced
from tests.worlds.pods import objects
from tests.worlds.pods.judge import Past, not_deleted
from tests.worlds.pods.objects import DEVICE_CLASS, MAKES, SHARED_DEVICES
from tests.worlds.pods.plan import DRAWN, FAULTS, draw
from tests.worlds.pods.search import Wanted, run_one
from tests.worlds.pods.world import TAKEN, Result
from tests.worlds.search import workers
from tests.worlds.views import UNSEEN_S

ALL = frozenset(FAULTS)
FIRST = int(os.environ.get("EXTAUTHZ_SEED") or random.SystemRandom().randrange(10**6, 10**9))


Search = Callable[[Wanted, range], list[Result]]


@pytest.fixture(scope="module")
def search() -> Iterator[Search]:
    """Runs worlds in a process in which a seed means the same world everywhere."""
    with workers(1) as pool:
        yield lambda wanted, seeds: list(pool.map(partial(run_one, wanted), seeds))


def test_no_world_with_pods_is_over_and_all_gates_end_with_the_same_numbers(search: Search):
    print(f"worlds from seed {FIRST}")
    results = search(Wanted(40, ALL), range(FIRST, FIRST + 120))
    assert [f"seed {one.plan.seed}: {one.violation}" for one in results if one.violation is not None] == []
    assert sum(one.grants for one in results) > 200, "there is something to be over by"


KINDS: dict[str, dict[str, Any]] = {
    "objects-with-several-templates": {"words": ("team", "team", "deploy")},
    "jobs": {"words": ("job", "job", "deploy")},
    "claims-of-devices": {"words": ("dra", "dra", "deploy")},
    "runtime-classes-that-come-late": {"words": ("kata", "kata", "deploy", "sts"), "often": {"class": 4.0}},
    "members-of-custom-resources": {"words": ("team", "deploy"), "often": {"forge": 8.0, "scale": 20.0}},
    "ephemeral-volumes": {"words": ("spill",), "often": {"delete": 6.0, "finish": 15.0, "evict": 3.0}},
    "ephemeral-volumes-of-stateful-sets": {"words": ("cache",), "often": {"scale": 15.0, "apply": 2.0}},
    "jobs-with-policies": {
        "words": ("elastic", "index", "success", "strict", "foreign", "deploy"),
        "often": {"finish": 8.0, "evict": 2.0, "suspend": 0.7, "delete": 2.0},
    },
    "limit-ranges-that-come-late": {"words": ("bare", "bare", "deploy")},
    "odd-surges-that-are-charged": {
        "words": ("surge", "surge", "deploy"),
        "charges_surge": True,
        "often": {"apply": 8.0, "delete": 2.0},
    },
    "pods-gated-at-creation": {"words": ("pod", "pod", "team", "job")},
    "quotas-by-labels": {"words": ("deploy", "deploy", "sts", "crew", "team", "job"), "tiers": True},
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_no_world_of_another_kind_is_over(kind: dict[str, Any], search: Search):
    print(f"worlds from seed {FIRST}")
    results = search(Wanted(40, ALL, **kind), range(FIRST, FIRST + 18))
    assert [f"seed {one.plan.seed}: {one.violation}" for one in results if one.violation is not None] == []
    assert sum(one.grants for one in results) > 40, "there is something to be over by"


def _with_sidecars(number: int = 4) -> Past:
    """Pods of half a CPU, with sidecars of a quarter."""
    past = Past()
    past.costs(0.0, 2000, 0, 0, 0)
    past.costs(0.0, 2000, number * 500, number * 750, number * 250)
    return past


def test_a_template_in_the_place_of_a_sidecar_is_excused_until_it_shrinks_and_its_pods_have_gone():
    """Seed 588694077."""
    past = _with_sidecars()
    past.costs(1.0, 3000, 3000, 4000, 1000)
    assert past.replaced_m == 1000
    past.costs(2.0, 1900, 3000, 4000, 1000)
    assert past.replaced_m == 1000
    past.costs(3.0, 1900, 2000, 3000, 1000)
    assert past.replaced_m == 100
    past.costs(4.0, 1900, 3000, 4000, 1000)
    assert past.replaced_m == 100, "what comes afterwards is not excused"
    past.costs(4.0, 1900, 1900, 2900, 1000)
    assert past.replaced_m == 0


def test_a_template_above_what_was_observed_is_not_excused():
    past = _with_sidecars()
    past.costs(1.0, 3001, 3001, 4001, 1000)
    assert past.replaced_m == 0


def test_a_sidecar_that_went_long_ago_excuses_no_template():
    past = _with_sidecars()
    past.costs(1.0, 2000, 500, 500, 0)
    past.costs(1.0 + UNSEEN_S + 1.0, 2500, 500, 500, 0)
    assert past.replaced_m == 0


def _rollout(asked: tuple[int, ...], made: tuple[int, ...]):
    sets, pods = [], []
    for number, (count, there) in enumerate(zip(asked, made, strict=True)):
        owner = objects.workload(("lab", "web-deploy-0"), count, f"{number + 1}")
        owner["metadata"]["uid"] = f"u{number}"
        sets.append(owner)
        pods += [objects.pod(owner, f"web-{number}-{n}", "1", side=False) for n in range(there)]
    return sets, pods


@pytest.mark.parametrize(
    ("asked", "made", "excused"),
    [
        ((2, 5), (4, 4), 2),  # two of the old one are to be deleted
        ((0, 0, 2), (1, 1, 1), 2),
        ((0, 3), (5, 1), 1),  # one has come in the place of five
        ((5,), (8,), 0),  # no rollout: nothing came in the place of the three
        ((2, 5), (2, 5), 0),
    ],
)
def test_pods_that_a_rollout_has_yet_to_delete_are_excused(asked, made, excused):
    assert not_deleted(*_rollout(asked, made)) == excused


def test_a_seed_is_the_same_world_every_time(search: Search):
    wanted = Wanted(20, ALL)
    first, second = (search(wanted, range(6)) for _ in range(2))
    assert [one.trace for one in first] == [one.trace for one in second]


def test_every_kind_of_step_is_drawn():
    plans = [draw(seed, 40, ALL, words=tuple(MAKES), tiers=True) for seed in range(60)]
    assert {step.what for plan in plans for step in plan.steps} == set(TAKEN) == set(DRAWN)


def _no_last_price(self: PodPrices, ref: Any, uid: str) -> Any:
    """A price that was never taken again is an old one."""
    known = self.__dict__.setdefault("planted", {})
    found = _price(self, ref, uid)
    return known.setdefault((ref, uid), found) if found is not None else known.get((ref, uid))


def _keeps_ghosts(self: Pods, ref: Any, pod: Any) -> None:
    """A pod that has gone stays in its group."""
    if pod is not None:
        _put(self, ref, pod)


DEVICES = f"{DEVICE_CLASS}.deviceclass.resource.k8s.io/devices"


@contextmanager
def _claims_once() -> Iterator[None]:
    """Devices of a template are counted once, and not for each replica."""

    def charge(products: Iterable[accounts.Product], per_object: Any) -> accounts.Charge:
        return _charge(map(once, products), per_object)

    def once(one: accounts.Product) -> accounts.Product:
        if not one.replicas or DEVICES not in one.per_pod:
            return one
        devices = {DEVICES: one.per_pod[DEVICES] + one.extra.get(DEVICES, 0)}
        return one._replace(per_pod={**one.per_pod, DEVICES: 0}, extra={**one.extra, **devices})

    with replaced(accounts, charge=charge), replaced(envelope, charge=charge):
        accounts.charge_of.cache_clear()
        try:
            yield
        finally:
            accounts.charge_of.cache_clear()


def _claims_with_shared(spec: Any, path: str, terms: Any) -> Any:
    """A claim that pods share is counted for each of them."""
    found, names = _device_claims(spec, path, terms), [one["name"] for one in spec.get("resourceClaims", ())]
    return {name: {DEVICES: SHARED_DEVICES * 10**9} for name in names} | found


def _forgetting_pods(*args: Any) -> Any:
    """What is allowed of a pod that is to be made counts only once it is seen."""
    case = _of_write(*args)
    return case._replace(free="; planted") if case.ref[:2] == PODS else case


def _held_for_ever(self: PendingWrite, started_s: float) -> bool:
    """What the webhook has admitted ends by a newer version alone, and one that somebody else refuses leaves none."""
    return not self.labels and _on_read(self, started_s)


def _as_if_it_had_ended(root: Any) -> Any:
    """A pod that was deleted is taken for one that runs no more."""
    status = {"phase": "Failed"} if "deletionTimestamp" in root["metadata"] else {}
    return _pod({**root, "status": {**root["status"], **status}})


def _unless_by_hand(root: Any) -> str:
    """Where pods are only updated as somebody deletes them, the current revision is taken to be gone with them."""
    return "" if objects.is_by_hand(root) else _old_revision(root)


_on_read, _done, _pod = PendingWrite.on_read, jobs._done, object_readers.pod
_old_revision = object_readers.old_revision
_charge, _device_claims, _of_write = accounts.charge, footprint._device_claims, known.of_write
_price, _put, _selects = PodPrices.price, Pods.put, ownership.selects

SHIFTS: dict[str, Any] = {
    "words": ("sts",),
    "often": {"shift": 10.0, "scale": 10.0, "apply": 0.0, "undo": 0.0, "resize": 0.0, "partition": 0.0},
}

BUGS: dict[str, tuple[str, Callable[[], AbstractContextManager[None]], dict[str, Any]]] = {
    "old-template-forgotten": (
        "never over",
        lambda: replaced(envelope, _running=lambda *_, **__: [], _replaced=lambda entry: []),
        {"words": ("deploy",), "often": {"apply": 12.0, "undo": 4.0}},
    ),
    "taken-up-in-a-pause": (
        "never over",
        lambda: replaced(envelope, _may_be_paused=lambda entry: False),
        {"words": ("deploy",), "often": {"pause": 12.0, "apply": 6.0, "scale": 20.0, "resize": 0.0}},
    ),
    "revision-forgotten": (
        "never over",
        lambda: replaced(Revisions, run_by=lambda self, owner, name: None),
        {"words": ("sts",), "often": {"apply": 1.0, "partition": 8.0, "scale": 20.0, "resize": 0.0, "orphan": 0.0}},
    ),
    "revision-that-only-a-partition-brings-back-forgotten": (
        "at rest it counts what there is",
        lambda: replaced(object_readers, old_revision=_unless_by_hand),
        {"words": ("sts",), "often": {"partition": 8.0, "evict": 4.0}},
    ),
    "old-range-forgotten": (
        "never over",
        lambda: replaced(envelope, ordinals=lambda count, templates: count),
        SHIFTS,
    ),
    "price-from-old-news": (
        "at rest it counts what there is",
        lambda: replaced(PodPrices, price=_no_last_price),
        {"words": ("crew",), "often": {"operator": 6.0}},
    ),
    "ghost-pod": ("at rest it counts what there is", lambda: replaced(Pods, put=_keeps_ghosts), {}),
    "only-the-first-template": (
        "never over",
        lambda: replaced(PodCosts, _of_groups=lambda self, groups, terms: self._per_pod(groups[0], terms)),
        {"words": ("team",)},
    ),
    "pods-of-groups-are-nobody-s": (
        "at rest it counts what there is",
        lambda: replaced(
            ownership, selects=lambda selector, labels: selector != EVERYTHING and _selects(selector, labels)
        ),
        {"words": ("team",)},
    ),
    "pods-of-jobs-forgotten": (
        "never over",
        lambda: replaced(jobs, pods=lambda root: 0),
        KINDS["jobs"],
    ),
    "claim-template-counts-once": ("never over", _claims_once, KINDS["claims-of-devices"]),
    "claims-count-once-made": (
        "never over",
        lambda: replaced(footprint, _device_claims=lambda *_: {}),
        KINDS["claims-of-devices"],
    ),
    "shared-claim-counts-per-pod": (
        "at rest it counts what there is",
        lambda: replaced(footprint, _device_claims=_claims_with_shared),
        KINDS["claims-of-devices"],
    ),
    "gated-pod-not-charged": (
        "never over",
        lambda: replaced(known, of_write=_forgetting_pods),
        KINDS["pods-gated-at-creation"],
    ),
    "moves-count-where-they-come-from": (
        "never over",
        lambda: replaced(envelope, _places=lambda entry, coverage, used_in: (used_in, ())),
        KINDS["quotas-by-labels"],
    ),
    "forged-members-are-free": (
        "never over",
        lambda: replaced(ownership, MADE_BY_CUSTOM={("ops.example.com", "Team"): (DEPLOYMENTS,)}),
        KINDS["members-of-custom-resources"],
    ),
    "refused-by-others-is-held": (
        "at rest it counts what there is",
        lambda: replaced(PendingWrite, on_read=_held_for_ever),
        {"often": {"apply": 10.0}},
    ),
    "finished-pods-leave-nothing": (
        "never over",
        lambda: replaced(NamespaceCosts, finished=lambda self, count, templates: {}),
        KINDS["ephemeral-volumes"],
    ),
    "unseen-class-costs-nothing": (
        "never over",
        lambda: replaced(pod_costs, UNSEEN_CLASS="nobody names it"),
        KINDS["runtime-classes-that-come-late"],
    ),
    "claims-of-volumes-are-counted-twice": (
        "at rest it counts what there is",
        lambda: replaced(observations, ephemeral=lambda pod, observed: {}),
        KINDS["ephemeral-volumes-of-stateful-sets"],
    ),
    "indexes-count-though-they-are-done": (
        "at rest it counts what there is",
        lambda: replaced(jobs, _done=lambda spec, status, completions: 0),
        {"words": ("elastic",), "often": {"finish": 6.0}},
    ),
    "failed-indexes-are-forgotten": (
        "at rest it counts what there is",
        lambda: replaced(jobs, _done=lambda spec, status, most: _done({}, status, most)),
        {"words": ("index",), "often": {"evict": 8.0}},
    ),
    "jobs-that-fail-go-on": (
        "at rest it counts what there is",
        lambda: replaced(jobs, _ENDING=frozenset({"Complete"}), _FINISHED=frozenset({"Complete"})),
        {"words": ("strict",), "often": {"evict": 8.0}},
    ),
    "pods-that-end-count-no-more": (
        "never over",
        lambda: replaced(object_readers, pod=_as_if_it_had_ended),
        KINDS["jobs"],
    ),
    "jobs-of-others-count": (
        "at rest it counts what there is",
        lambda: replaced(jobs, CONTROLLER=objects.MANAGER),
        {"words": ("foreign",)},
    ),
    "limit-ranges-are-not-seen": (
        "at rest it counts what there is",
        lambda: replaced(Usage, observe_limit_ranges=lambda *_: None),
        KINDS["limit-ranges-that-come-late"],
    ),
    "every-surge-is-a-quarter": (
        "at rest it counts what there is",
        lambda: replaced(pod_costs, _max_surge=lambda template: Fraction(1, 4)),
        KINDS["odd-surges-that-are-charged"],
    ),
    "dearer-pods-are-free": (
        "at rest it counts what there is",
        lambda: replaced(envelope, _dearer_pods=lambda *_: {}),
        {"often": {"resize": 12.0}},
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_that_only_pods_can_show_is_found(name: str):
    rule, plant, more = BUGS[name]
    wanted = Wanted(40, ALL, plant=plant, **more)
    for number in range(400):
        result = run_one(wanted, FIRST + number)
        if result.violation is not None and result.violation.rule == rule:
            print(f"\n{name}: after {number + 1} worlds from seed {FIRST}: {result.violation}")
            return
    raise AssertionError(f"{name} survived 400 worlds from seed {FIRST}")
