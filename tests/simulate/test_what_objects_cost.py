"""What Jobs, StatefulSets and pods with a RuntimeClass cost, at the gate as it serves: its watches and its webhook."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from extauthz import testing as builders
from extauthz.core.model import Tree, Verdict
from tests.simulate.test_custom_resources import OTHER, WEB, House, run
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
