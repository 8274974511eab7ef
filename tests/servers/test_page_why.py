"""Why a workload has its count, on its page: an HPA and events that a stand-in for the API server lists."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from extauthz.core.model import WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.servers.page import why
from extauthz.serve.servers.page.cluster import KEPT_S, MOST_AT_ONCE, MOST_LISTED, MOST_WAITING, Cluster
from extauthz.serve.servers.page.live import REST
from extauthz.testing import workload
from tests.servers.listing import EVENTS, HPAS, OBJECT, Listing, event, hpa
from tests.servers.paging import HOSTILE, WEB, World, small

WHY = "/why" + WEB

OURS = (
    'deployments.apps "web" is forbidden: exceeded workspace quota: acme, requested: pods=2, used: pods=3, limited: '
    "pods=4; largest allowed replicas: 4"
)

Tree = Any


async def rested(seconds: float) -> None:
    """Nobody waits here."""


@pytest.fixture
def listing() -> Listing:
    return Listing()


@pytest.fixture
async def world(listing: Listing) -> AsyncIterator[World]:
    made = small()
    made.explain(why.Why(Cluster(lambda: listing, lambda: made.now_s), lambda: made.now_s, rested))
    async for one in made.serve():
        yield one


async def test_an_hpa_is_explained_from_its_status_step_by_step(world: World, listing: Listing):
    page = await world.get(WHY)
    assert page.texts("p", "answer") == [
        "hpa/web-hpa stays at 3 replicas: cpu is 84 %, the target is 80 %, and that is within the tolerance of 10 %; "
        "it acts at 89 %. 5 of the 10 replicas that it may ask for would fit."
    ]
    steps = page.texts("li")
    assert steps[0].startswith("certain Resource cpu is 84 %, the target is 80 %: a ratio of 1.05")
    assert page.texts("span", "badge") == ["certain"] * 3
    assert "cpu at 89 % (it is 84 %): 4 replicas" in steps
    assert page.texts("pre") == ["kubectl wsq explain deploy/web -n team-a"]
    assert sorted(listing.asked) == [
        (EVENTS, "involvedObject.name=web"),
        (EVENTS, "involvedObject.name=web-hpa"),
        (OBJECT, "metadata.name=web"),
        (HPAS, ""),
    ]


async def test_a_refusal_in_the_hpas_condition_goes_before_arithmetic_and_only_the_quota_helps(world, listing):
    tree = hpa()
    tree["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"] = 120
    tree["status"]["conditions"][0] = {"type": "AbleToScale", "status": "False", "reason": "FailedUpdateScale"} | {
        "message": f"the HPA controller was unable to update the target scale: {OURS}"
    }
    listing.lists[HPAS] = [tree]
    page = await world.get(WHY)
    (answer,) = page.texts("p", "answer")
    assert answer.startswith(
        f"hpa/web-hpa stays at 3 replicas: it asks for 5, and is refused: {OURS}. The quota would "
    )
    assert page.texts("li")[0] == f"certain {OURS}"
    assert [one for one in page.texts("li") if "maxReplicas:" in one or " at " in one] == []


async def test_where_the_quota_refuses_what_it_asks_for_the_page_says_what_the_command_says(world, listing):
    tree = hpa()
    tree["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"] = 160
    listing.lists[HPAS] = [tree]
    page = await world.get(WHY)
    (answer,) = page.texts("p", "answer")
    assert answer.startswith("hpa/web-hpa probably goes from 3 to 6 replicas: cpu is 160 %, the target is 80 %.")
    assert answer.endswith(" The quota does not allow it: 5 of the 10 replicas that it may ask for would fit.")
    assert page.texts("h3")[0] == "For what it asks for"
    assert page.texts("li")[-1] == "raise requests.cpu of workspace quota acme by 1, or free as much: 6 replicas"


async def test_where_the_quota_is_full_no_value_of_a_metric_alone_gives_one_more(world, listing):
    world.gate.observe(*observe(workload("web", 5, version="2")))
    tree, spec = hpa(), workload("web", 5, version="2")
    tree["status"] |= {"currentReplicas": 5, "desiredReplicas": 5}
    listing.lists |= {HPAS: [tree], OBJECT: [spec]}
    page = await world.get(WHY)
    assert page.texts("h3")[0] == "For one more replica, the first of these and any other"
    would = page.texts("ul", "would")[0] if page.texts("ul", "would") else " ".join(page.texts("li"))
    assert "raise requests.cpu of workspace quota acme by 1, or free as much: 6 replicas" in would


async def test_what_is_not_certain_is_said_to_be_likely(world: World, listing: Listing):
    tree = hpa()
    tree["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"] = 120
    listing.lists[HPAS] = [tree]
    page = await world.get(WHY)
    assert page.texts("p", "answer")[0].startswith("hpa/web-hpa probably goes from 3 to 5 replicas")
    assert page.texts("span", "badge")[0] == "? likely"
    assert next(page.all("span", "badge")).attributes["class"] == "badge hm"


async def test_the_page_itself_reads_no_cluster_and_loads_the_answer_or_links_to_it(world: World, listing: Listing):
    page = await world.get(WEB)
    assert listing.asked == []
    (loaded,) = [one for one in page.all("div") if "hx-get" in one.attributes]
    assert (loaded.attributes["hx-get"], loaded.attributes["hx-trigger"]) == (WHY, "load")
    assert WHY in page.links()
    whole, part = await world.get(WHY), await world.get(WHY, headers={"HX-Request": "true"})
    assert (len(whole.texts("h1")), len(part.texts("h1")), len(list(part.all("html")))) == (1, 0, 0)
    assert part.texts("p", "answer") == whole.texts("p", "answer")
    assert WEB in whole.links()


async def test_a_workload_without_an_hpa_is_said_to_have_none(world: World, listing: Listing):
    others = [hpa("a", to="web2"), hpa("b", kind="StatefulSet"), hpa("c", kind="Rollout"), None]
    for found in (others, []):
        listing.lists[HPAS] = found
        page = await world.get(WHY)
        assert "No HorizontalPodAutoscaler targets it." in page.texts("p")
        assert page.texts("pre") == ["kubectl wsq explain deploy/web -n team-a"]
        world.now_s += KEPT_S + 1
    listing.metadata = {"continue": "more"}
    listing.lists[HPAS] = [hpa("a", to="web2")]
    text = "No HorizontalPodAutoscaler among the first 1 of its namespace targets it."
    assert text in (await world.get(WHY)).texts("p")


async def test_each_hpa_of_two_is_explained(world: World, listing: Listing):
    listing.lists[HPAS] = [hpa("a"), hpa("b")]
    first, second = (await world.get(WHY)).texts("p", "answer")
    assert (first[:5], second[:5]) == ("hpa/a", "hpa/b")


async def test_of_many_hpas_of_one_workload_a_few_are_explained(world: World, listing: Listing):
    listing.lists[HPAS] = [hpa(f"h{number}") for number in range(why.MOST_HPAS + 2)]
    assert len((await world.get(WHY)).texts("p", "answer")) == why.MOST_HPAS


REFUSED = ApiError(403, "Forbidden", "system:serviceaccount:x:y cannot list it")
SILENT = Unreachable("https://10.0.0.1: nothing came within 2 s")


@pytest.mark.parametrize("path", [HPAS, OBJECT, EVENTS])
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (REFUSED, "The gate lacks the right to list {} in namespace team-a."),
        (SILENT, "The API server gave no usable list of {} within 2 s."),
        (RuntimeError("Session is closed"), "The API server gave no usable list of {} within 2 s."),
        (ApiError(500, "InternalError", "etcd is away"), "The API server refused to list {}: status 500."),
    ],
)
async def test_what_cannot_be_read_is_a_sentence(
    world: World, listing: Listing, path: str, fault: Exception, told: str
):
    listing.lists[path] = fault
    page = await world.get(WHY)
    what = {HPAS: "horizontalpodautoscalers.autoscaling", OBJECT: "deployments.apps", EVENTS: "events"}[path]
    assert told.format(what) in page.texts("p")
    assert page.texts("pre") == ["kubectl wsq explain deploy/web -n team-a"]
    assert not any("10.0.0.1" in one or "serviceaccount" in one for one in page.texts("main"))


async def test_a_gate_that_reads_files_says_so():
    async for world in small().serve():
        page = await world.get(WHY)
        assert page.texts("p")[-2:] == [
            "This gate reads its state from files, and files tell it of no HorizontalPodAutoscaler.",
            "This gate reads its state from files, and they have no events.",
        ]
        assert page.texts("pre") == ["kubectl wsq explain deploy/web -n team-a"]


async def test_two_looks_are_one_read_until_it_is_old(world: World, listing: Listing):
    first = await world.get(WHY)
    read = len(listing.asked)
    listing.lists[HPAS] = []
    assert (await world.get(WHY)).texts("p", "answer") == first.texts("p", "answer")
    assert len(listing.asked) == read
    await world.get(WHY.replace("/web", f"/{HOSTILE}").replace("&", "%26"))
    assert [path for path, _ in listing.asked].count(HPAS) == 1, "nor for another workload of the namespace"
    world.now_s += KEPT_S + 1
    assert (await world.get(WHY)).texts("p", "answer") == []


async def test_a_bad_answer_is_kept_as_long(world: World, listing: Listing):
    listing.lists[HPAS] = SILENT
    await world.get(WHY)
    await world.get(WHY)
    assert [path for path, _ in listing.asked].count(HPAS) == 1


async def test_the_last_ten_events_of_workload_and_hpa_are_told_newest_first(world: World, listing: Listing):
    mine = [event(minute, f"number {minute}") for minute in range(40, 50)]
    series = event(1, "again", kind="HorizontalPodAutoscaler", name="web-hpa", type="Warning", lastTimestamp=None)
    series |= {"series": {"count": 7, "lastObservedTime": "2027-01-15T07:58:00.000000Z"}}
    others = [event(59, "not its own", kind="Service"), event(59, "nor this", kind="Pod", name="web-hpa")]
    listing.lists[EVENTS] = [*mine, series, *others]
    page = await world.get(WHY)
    rows = [page.texts("td")[at : at + 5] for at in range(0, 50, 5)]
    assert rows[0] == ["2 min ago", "HorizontalPodAutoscaler", "▲ warning R", "7", "again"]
    assert rows[1] == ["11 min ago", "Deployment", "R", "1", "number 49"]
    assert [row[-1] for row in rows[1:]] == [f"number {minute}" for minute in range(49, 40, -1)]
    assert len(page.texts("td")) == 50


async def test_an_event_without_a_time_or_with_a_bad_one_comes_last(world: World, listing: Listing):
    bad = event(1, "bad", lastTimestamp="soon", count="many")
    listing.lists[EVENTS] = [{"involvedObject": {"kind": "Deployment", "name": "web"}}, bad, event(1, "good")]
    cells = (await world.get(WHY)).texts("td")
    assert cells[4] == "good"
    assert cells[5:10] == ["–", "Deployment", "", "1", ""]
    assert cells[10:] == ["–", "Deployment", "R", "1", "bad"]


async def test_what_a_tenant_writes_into_an_event_or_an_hpa_is_text(world: World, listing: Listing):
    tree = hpa()
    tree["status"]["conditions"] = [{"type": "ScalingActive", "status": "False", "reason": HOSTILE, "message": HOSTILE}]
    tree["status"]["currentMetrics"] = []
    listing.lists[HPAS] = [tree]
    listing.lists[EVENTS] = [event(59, f"{HOSTILE} {{{{7*7}}}}", type=HOSTILE, reason=HOSTILE)]
    page = await world.get(WHY)
    assert HOSTILE in page.texts("p", "answer")[0]
    assert page.texts("td")[2:] == [HOSTILE, "1", f"{HOSTILE} {{{{7*7}}}}"]
    assert not list(page.all("img"))


@pytest.mark.parametrize("field", ["metrics", "policies"])
async def test_an_hpa_that_costs_too_much_is_not_explained_here(world: World, listing: Listing, field: str):
    tree = hpa(metrics=why.MOST_METRICS + (field == "metrics"))
    policy = {"type": "Pods", "value": 4, "periodSeconds": 60}
    tree["spec"]["behavior"] = {"scaleDown": {"policies": [policy] * (why.MOST_POLICIES + (field == "policies"))}}
    listing.lists[HPAS] = [tree]
    most = why.MOST_METRICS if field == "metrics" else why.MOST_POLICIES
    told = f"hpa/web-hpa is not explained here: it has more than {most} {field}; the command below explains it."
    assert (await world.get(WHY)).texts("p", "answer") == [told]


@pytest.mark.parametrize("broken", [{"metrics": [{"type": "Resource"}]}, {"metrics": 5}, {"maxReplicas": "many"}])
async def test_an_hpa_that_is_none_is_a_sentence(world: World, listing: Listing, broken: Tree):
    tree = hpa()
    tree["spec"] |= broken
    listing.lists[HPAS] = [tree]
    (answer,) = (await world.get(WHY)).texts("p", "answer")
    assert answer.startswith("hpa/web-hpa is not explained here: it is not as the API server prints it (")


async def test_an_hpa_without_a_value_says_what_is_missing(world: World, listing: Listing):
    tree = hpa()
    del tree["status"]
    listing.lists[HPAS] = [tree]
    (answer,) = (await world.get(WHY)).texts("p", "answer")
    assert answer.startswith("hpa/web-hpa is not explained here: its status has no value of one of its metrics;")


async def test_a_workload_that_has_gone_meanwhile_is_said_to_have(world: World, listing: Listing):
    listing.lists[OBJECT] = []
    assert "The API server does not have it any more." in (await world.get(WHY)).texts("p")


async def test_the_arithmetic_runs_beside_the_loop_and_rests(listing: Listing, monkeypatch: pytest.MonkeyPatch):
    """One that ran in the loop could not be let go by it."""
    inside, goes_on = threading.Event(), threading.Event()
    rests: list[float] = []
    now = [100.0]

    def slow(*_: object) -> why.Explained:
        inside.set()
        now[0] += 0.5
        return why.Explained("web-hpa", "let go" if goes_on.wait(10) else "held up")

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(why, "explained", slow)
    made = small()
    made.explain(why.Why(Cluster(lambda: listing), lambda: now[0], rest))
    async for world in made.serve():
        looking = asyncio.ensure_future(world.get(WHY))
        await asyncio.to_thread(inside.wait, 10)
        assert (await world.get(WEB)).texts("h1") == ["web"]
        goes_on.set()
        assert (await looking).texts("p", "answer") == ["let go"]
    assert rests == [0.5 * REST]


async def test_a_few_lists_are_under_way_at_once_some_wait_and_others_come_again(listing: Listing):
    cluster = Cluster(lambda: listing)
    listing.gate = asyncio.Event()
    most = MOST_AT_ONCE + MOST_WAITING
    asking = [asyncio.ensure_future(cluster.events("team-a", f"w{number}")) for number in range(most + 1)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert listing.under_way == MOST_AT_ONCE
    with pytest.raises(Problem):
        await asking.pop(MOST_AT_ONCE)
    again = asyncio.ensure_future(cluster.events("team-a", "w0"))
    listing.gate.set()
    assert {one.problem for one in await asyncio.gather(*asking, again)} == {""}
    assert len(listing.asked) == most


async def test_where_too_many_ask_that_is_said_and_not_kept(
    world: World, listing: Listing, monkeypatch: pytest.MonkeyPatch
):
    async def busy(*_: object) -> None:
        raise Problem(503, "busy")

    with monkeypatch.context() as patched:
        patched.setattr(Cluster, "hpas", busy)
        patched.setattr(Cluster, "events", busy)
        assert (await world.get(WHY)).texts("p")[-2:] == [why.BUSY, why.BUSY]
    assert (await world.get(WHY)).texts("p", "answer")


async def test_where_there_are_more_events_than_are_read_that_is_said(world: World, listing: Listing):
    listing.lists[EVENTS] = [event(59)]
    listing.metadata = {"continue": "more"}
    page = await world.get(WHY)
    assert f"Of an object's events only {MOST_LISTED} are looked at." in page.texts("p")
    assert len(page.texts("td")) == 5


async def test_an_hpa_of_a_custom_resource_is_named_and_left_to_the_command(listing: Listing):
    tree = hpa(kind="Rollout", to="roll")
    tree["spec"]["scaleTargetRef"]["apiVersion"] = "argoproj.io/v1alpha1"
    listing.lists[HPAS] = [tree]
    ref = WorkloadRef("argoproj.io", "rollouts", "team-a", "roll")
    told = await why.Why(Cluster(lambda: listing))._looked(ref, 0.0)
    assert [one.sentence for one in told.found] == [
        "hpa/web-hpa is not explained here: it targets a custom resource, whose scale the gate does not read; the "
        "command below does."
    ]
    assert [path for path, _ in listing.asked] == [HPAS]
