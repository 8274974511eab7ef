"""What Jobs, StatefulSets and pods with a RuntimeClass cost, at the gate as it serves: its watches and its webhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from extauthz import testing as builders
from extauthz.core.model import Tree, Verdict
from tests.simulate.test_custom_resources import OTHER, PODS_RESOURCE, WEB, House, pod, run
from tests.worlds import objects, reviews
from tests.worlds.judge import Promise
from tests.worlds.reference import QUOTAS
from tests.worlds.wire import Question

SET = "shop", "db-sts-0"
SCRATCH = {"spec": {"resources": {"requests": {"storage": "10"}}}}
KATA = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "overhead": {"podFixed": {"cpu": "1"}},
}


async def asked(house: House, tree: Tree, method: str = "POST") -> Verdict:
    """What the webhook says of an object that is about to be stored."""
    group, place = tree["apiVersion"], tree["metadata"]
    path = f"/apis/{group}/namespaces/shop/{tree['kind'].lower()}s"
    path += f"/{place['name']}" if method == "PUT" else ""
    prepared = house.world.server.prepare(method, path, tree)
    body = reviews.review(prepared, "u1", dry=False)
    if tree["kind"] == "Job":
        resource = {"group": "batch", "version": "v1", "resource": "jobs"}
        body = json.dumps(builders.admission(tree, resource=resource, uid="u1")).encode()
    question = Question(body, Promise(OTHER, 0, None), 0, False, "u1")
    answer, _ = await house.member.begin(house.member.answer(question))
    return answer.verdict


def limited(**hard: str) -> Any:
    """The quota limits this too."""

    def change(house: House) -> None:
        house.world.server.request("PATCH", f"{QUOTAS}/acme", {}, {"spec": {"hard": hard}})

    return change


def job(**spec: Any) -> Tree:
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": SCRATCH}}]
    made = objects.workload(OTHER, 1, "1")
    made["spec"]["template"]["spec"]["volumes"] = volumes
    made["spec"] = {"template": made["spec"]["template"], "backoffLimit": 0, "parallelism": 1} | spec
    return {**made, "apiVersion": "batch/v1", "kind": "Job", "status": {}}


def test_pods_of_a_runtime_class_wait_until_it_is_seen_and_then_cost_its_overhead():
    async def story(house: House) -> None:
        web = objects.workload(WEB, 4, "1")
        web["spec"]["template"]["spec"]["runtimeClassName"] = "kata"
        assert await asked(house, web) is Verdict.UNAVAILABLE
        house.world.server.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", {}, KATA)
        await asyncio.sleep(2.0)
        assert await asked(house, web) is Verdict.DENY
        web["spec"]["replicas"] = 3
        assert await asked(house, web) is Verdict.ALLOW

    run(7, story)


def test_a_job_needs_room_for_the_claims_of_all_of_its_pods():
    async def story(house: House) -> None:
        assert await asked(house, job(completions=6)) is Verdict.DENY
        assert await asked(house, job(completions=5, backoffLimit=1)) is Verdict.DENY
        assert await asked(house, job(completions=5)) is Verdict.ALLOW

    run(9, story, limited(**{"requests.storage": "50"}))


def test_an_elastic_job_that_has_shrunk_still_counts_the_indexes_that_it_has_left():
    def shrunk(house: House) -> Tree:
        spec = {"completionMode": "Indexed", "completions": 5, "parallelism": 5}
        return house.make(job(**spec) | {"status": {"succeeded": 5, "completedIndexes": "5-9"}})

    async def story(house: House) -> None:
        assert await asked(house, objects.workload(WEB, 2, "1")) is Verdict.DENY
        assert await asked(house, objects.workload(WEB, 1, "1")) is Verdict.ALLOW

    run(6, story, shrunk)


def test_a_stateful_set_whose_range_moves_needs_room_for_both():
    def there(house: House) -> Tree:
        made = objects.workload(SET, 4, "1") | {"kind": "StatefulSet"}
        return house.make(made)

    async def story(house: House) -> None:
        (held,) = house.world.server.objects("/apis/apps/v1/statefulsets").values()
        moved = {**held, "spec": held["spec"] | {"ordinals": {"start": 4}}}
        verdicts.append(await asked(house, moved, "PUT"))

    verdicts: list[Verdict] = []
    for cpus in (7, 8):
        run(cpus, story, there)
    assert verdicts == [Verdict.DENY, Verdict.ALLOW]


def owned(owner: Tree, name: str, cpu: str) -> Tree:
    """A pod as the controller of its owner makes it."""
    made = pod(name, cpu)
    own = {"uid": f"uid-{name}", "ownerReferences": [objects.reference(owner)], "labels": owner["metadata"]["labels"]}
    return {**made, "metadata": made["metadata"] | own}


async def tried(house: House, made: Tree, user: str) -> Verdict:
    """What the webhook says of a pod that somebody else then refuses: it is never there."""
    about = {"resource": PODS_RESOURCE, "operation": "CREATE", "oldObject": None, "user": user}
    return await house.of_pod(builders.admission(made, made, uid=made["metadata"]["uid"], **about))


def replica_set() -> Tree:
    made = objects.workload(WEB, 2, "1") | {"kind": "ReplicaSet"}
    del made["spec"]["strategy"]
    return made


def work() -> Tree:
    """A Job of two pods that finish in their time."""
    made = job(parallelism=2, completions=9)
    del made["spec"]["template"]["spec"]["volumes"]
    return made


CONTROLLER = "system:serviceaccount:kube-system:{}-controller"
MADE_BY = {
    "replica-set": (replica_set, CONTROLLER.format("replicaset")),
    "job": (work, CONTROLLER.format("job")),
    "without-accounts": (replica_set, "system:kube-controller-manager"),
}


@pytest.mark.parametrize(("make", "user"), MADE_BY.values(), ids=MADE_BY)
def test_retries_of_a_pod_that_somebody_else_refuses_hold_no_more_than_its_workload_asks_for(
    make: Callable[[], Tree], user: str
):
    """Of two pods one is there, and the other is refused after each webhook (a ResourceQuota)."""

    async def story(house: House) -> None:
        (held,) = house.world.server.objects(made_in).values()
        house.make(owned(held, "there", "1"))
        await asyncio.sleep(5.0)
        for number in range(10):
            assert await tried(house, owned(held, f"retry-{number}", "1"), user) is Verdict.ALLOW
        assert house.charged == 2
        assert await house.ask(objects.workload(OTHER, 1, "1")) is Verdict.ALLOW

    made_in = f"/apis/{make()['apiVersion']}/{make()['kind'].lower()}s"
    run(3, story, lambda house: house.make(make()))


def test_a_pod_that_somebody_else_makes_under_the_name_of_a_workload_needs_room_beside_it():
    """Each of them may come to be there: anybody can name an owner."""

    async def story(house: House) -> None:
        (held,) = house.world.server.objects("/apis/apps/v1/replicasets").values()
        made = [owned(held, f"pod-{number}", "1") for number in range(2)]
        verdicts = [await tried(house, one, "system:serviceaccount:shop:default") for one in made]
        assert verdicts == [Verdict.ALLOW, Verdict.DENY]

    run(3, story, lambda house: house.make(replica_set()))
