"""The HTTP API over real HTTP: every answer is held against the OpenAPI document by a validator of another make."""

from __future__ import annotations

import asyncio
import heapq
import json
import socket
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote as escaped

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from openapi_core import Config, OpenAPI
from openapi_core.testing import MockRequest, MockResponse
from openapi_core.validation.request.exceptions import RequestValidationError

from extauthz.core.model import Refusal, Request, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.queries import Queries, WorkloadUse
from extauthz.serve.servers.api import answers as module
from extauthz.serve.servers.api import rights
from extauthz.serve.servers.api.answers import MOST, Answers
from extauthz.serve.servers.api.questions import MOST_IN_BATCH
from extauthz.serve.servers.api.rights import CONTENT_TYPE, ThisHost
from extauthz.serve.servers.api.routes import MAX_BODY_BYTES, document, routes
from extauthz.testing import Asker, gate, path, quota, scale, workload

NAMESPACES = {"team-a": {"workspace": "acme"}, "team-b": {"workspace": "acme"}, "free": {}}
QUOTAS = [
    quota("corp", {"requests.cpu": "20"}),
    quota("acme", {"requests.cpu": "10", "pods": "50"}, parent="corp", namespaces={"workspace": "acme"}),
    quota("zulu", {"pods": "1"}),
]
DOCUMENT = OpenAPI.from_dict(document(), config=Config(extra_media_type_deserializers={CONTENT_TYPE: json.loads}))
HOST = "http://gate"
WEB = "/api/v1/namespaces/team-a/workloads/deployments.apps/web"
REF = WorkloadRef("apps", "deployments", "team-a", "web")


class Api:
    """Asks, and holds question and answer against the document."""

    def __init__(self, client: TestClient[web.Request, web.Application], write: Asker) -> None:
        self._client = client
        self.write = write
        assert client.server.runner is not None
        self.runner = client.server.runner

    async def raw(self, method: str, target: str, **more: Any) -> tuple[int, str, bytes, Mapping[str, str]]:
        response = await self._client.request(method, target, **more)
        return response.status, response.content_type, await response.read(), response.headers

    async def get(self, target: str) -> tuple[int, Any]:
        return await self._ask("GET", target, None)

    async def post(self, target: str, body: Any) -> tuple[int, Any]:
        return await self._ask("POST", target, json.dumps(body))

    async def _ask(self, method: str, target: str, body: str | None) -> tuple[int, Any]:
        status, kind, raw, _ = await self.raw(method, target, data=body)
        path, _, query = target.partition("?")
        asked = dict(one.split("=", 1) for one in query.split("&")) if query else {}
        data = body.encode() if body is not None else None
        request = MockRequest(HOST, method.lower(), path, args=asked, data=data, content_type="application/json")
        if status == 200:
            DOCUMENT.validate_request(request)
        DOCUMENT.validate_response(request, MockResponse(data=raw, status_code=status, content_type=kind))
        return status, json.loads(raw)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    objects = [workload(f"w{n}", 1, namespace="team-b") for n in range(3)]
    known = gate(QUOTAS, workload("web", 3), workload("lone", 1, namespace="free"), *objects, namespaces=NAMESPACES)
    write = Asker(known)
    write(scale("web", 5))
    answers = Answers(Queries(known.ledger), lambda reading: known.decide(reading, "q", 0.0, charge=False), lambda: 0.0)
    app = web.Application()
    app.add_routes(routes(lambda: answers, ThisHost()))
    async with TestClient(TestServer(app)) as client:
        yield Api(client, write)


async def test_quotas_come_as_a_tree_with_used_reserved_and_hard(api: Api):
    status, page = await api.get("/api/v1/quotas")
    assert status == 200
    assert [one["name"] for one in page["items"]] == ["corp", "acme", "zulu"]
    corp, acme, _ = page["items"]
    assert acme["path"] == ["corp", "acme"]
    assert (acme["parent"], corp["parent"]) == ("corp", None)
    assert (acme["override"], acme["nextOverride"]) == (None, None)
    plain = {"kept": "0", "guaranteed": "0"}
    assert acme["resources"]["requests.cpu"] == {"used": "6", "reserved": "2", "hard": "10", "over": False, **plain}
    assert acme["workloads"] == 4
    assert page["continue"] is None


async def test_a_long_list_comes_in_pages(api: Api):
    found, after = [], ""
    for _ in range(2):
        _, page = await api.get(f"/api/v1/quotas?limit=2{after}")
        found += [one["name"] for one in page["items"]]
        after = f"&continue={page['continue']}"
    assert found == ["corp", "acme", "zulu"]
    assert page["continue"] is None
    _, below = await api.get("/api/v1/quotas?below=corp&continue=corp")
    assert [one["name"] for one in below["items"]] == ["acme"]


async def test_a_page_after_a_quota_that_is_gone_is_refused(api: Api):
    status, problem = await api.get("/api/v1/quotas?continue=gone")
    assert (status, problem["title"]) == (410, "Gone")
    assert "begin anew" in problem["detail"]


async def test_one_quota_and_its_workloads_by_what_they_use(api: Api):
    assert (await api.get("/api/v1/quotas/acme"))[1]["name"] == "acme"
    _, page = await api.get("/api/v1/quotas/acme/workloads?sort=requests.cpu&limit=2")
    assert page["total"] == 4
    first = page["items"][0]
    assert (first["namespace"], first["resource"], first["name"]) == ("team-a", "deployments.apps", "web")
    assert (first["used"]["requests.cpu"], first["reserved"]["requests.cpu"]) == ("3", "2")
    _, by_name = await api.get("/api/v1/quotas/acme/workloads")
    assert [one["name"] for one in by_name["items"]] == ["web", "w0", "w1", "w2"]


async def test_the_use_of_a_quota_is_added_up_by_kind_devices_first():
    gpu, cards = "requests.nvidia.com/gpu", "a100.deviceclass.resource.k8s.io/devices"
    limits = quota("acme", {"requests.cpu": "90", gpu: "40", cards: "8"})
    ask = Asker(
        gate(
            [limits],
            workload("web", 3, {"cpu": "2", "nvidia.com/gpu": "1"}),
            workload("api", 2, {"cpu": "1"}),
            workload("db", 2, {"nvidia.com/gpu": "4"}, kind="StatefulSet"),
        )
    )
    assert ask(scale("web", 5)).verdict is Verdict.ALLOW
    answers = Answers(Queries(ask.gate.ledger), lambda reading: None, lambda: 0.0)
    page = await answers.workloads("acme", limit=1)
    assert page["byKind"] == [
        {"resource": gpu, "kind": "statefulsets.apps", "workloads": 1, "used": "8", "reserved": "0", "device": True},
        {"resource": gpu, "kind": "deployments.apps", "workloads": 1, "used": "3", "reserved": "2", "device": True},
        {
            "resource": "requests.cpu",
            "kind": "deployments.apps",
            "workloads": 2,
            "used": "8",
            "reserved": "4",
            "device": False,
        },
    ]
    assert page["total"] == 3, "all count, and not those that are shown"
    assert (await answers.workloads("acme", visible=set()))["byKind"] == []


@pytest.mark.parametrize(("name", "total"), [("few", 0), ("all", 300)])
async def test_workloads_are_looked_at_in_steps_also_those_that_do_not_count(
    name: str, total: int, monkeypatch: pytest.MonkeyPatch
):
    """And no more of them are kept than are asked for: there may be a million."""
    quotas = [quota("few", {"pods": "1"}, workloads={"x": "y"}, namespaces={}), quota("all", {"pods": "1"})]
    known = gate(quotas, *(workload(f"w{n:03}", n) for n in range(300)), namespaces={"team-a": {"workspace": "all"}})
    answers = Answers(Queries(known.ledger), lambda reading: pytest.fail("decides"), lambda: 0.0)
    monkeypatch.setattr(module, "STEP", 10)
    others, kept = 0, 0

    async def work() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    def counted(limit: int, found: list[WorkloadUse], key: Any) -> list[WorkloadUse]:
        nonlocal kept
        kept = max(kept, len(found))
        return heapq.nlargest(limit, found, key)

    monkeypatch.setattr(module, "heapq", SimpleNamespace(nlargest=counted))
    working = asyncio.create_task(work())
    page = await answers.workloads(name, "pods", limit=3)
    working.cancel()
    assert [one["name"] for one in page["items"]] == ["w299", "w298", "w297"][:total]
    assert (page["total"], others) == (total, 30)
    assert kept <= 13


async def test_a_workload_and_how_much_more_of_it_fits(api: Api):
    assert (await api.get(WEB))[1]["used"]["requests.cpu"] == "3"
    _, found = await api.get(WEB + "/headroom")
    assert (found["replicas"], found["observedReplicas"], found["certain"]) == (7, 3, True)
    assert found["bound"]["path"] == ["corp", "acme"]
    assert found["bound"]["resource"] == "requests.cpu"
    _, free = await api.get("/api/v1/namespaces/free/workloads/deployments.apps/lone/headroom")
    assert (free["replicas"], free["bound"]) == (None, None)


async def test_headroom_says_how_much_its_autoscaler_may_ask_for(api: Api):
    assert (await api.get(WEB + "/headroom"))[1]["mayAskFor"] is None, "nobody knows of one"
    known = gate([quota("acme", {"pods": "4"})], workload("web", 2))
    decide = lambda reading: known.decide(reading, "q", 0.0, charge=False)  # noqa: E731
    answers = Answers(Queries(known.ledger), decide, lambda: 0.0, asks={REF: 24}.get)
    assert answers.headroom(REF)["mayAskFor"] == 24


async def test_headroom_is_what_a_decision_allows(api: Api):
    for replicas, verdict in ((7, "allow"), (8, "deny")):
        body = {"namespace": "team-a", "resource": "deployments.apps", "name": "web", "replicas": replicas}
        _, decided = await api.post("/api/v1/decisions", body)
        assert (decided["verdict"], decided["replicas"]["to"]) == (verdict, replicas)


async def test_headroom_is_what_a_decision_would_grant_and_not_certain_where_none_is_made(api: Api):
    bare = workload("bare", 1, {})
    api.write.gate.observe(*observe(bare))
    _, silent = await api.get(WEB.replace("web", "bare") + "/headroom")
    assert (silent["replicas"], silent["reason"]) == (1, "must-specify"), "its pods state no requests.cpu"
    assert (await api.get(WEB + "/headroom"))[1]["certain"] is True
    api.write.gate.stale("the watch is stalled")
    assert (await api.get(WEB + "/headroom"))[1]["certain"] is False
    _, page = await api.post(
        "/api/v1/headroom", {"workloads": [{"namespace": "team-a", "resource": "deployments.apps", "name": "web"}]}
    )
    assert page["items"][0]["certain"] is False


async def test_headroom_of_many_names_what_is_not_known(api: Api):
    web = {"namespace": "team-a", "resource": "deployments.apps", "name": "web"}
    asked = {"workloads": [web, web | {"name": "nobody"}, {}]}
    _, _, raw, _ = await api.raw("POST", "/api/v1/headroom", data=json.dumps(asked))
    first, second, third = json.loads(raw)["items"]
    assert first["replicas"] == 7
    assert second == {"error": "workloads[1]: deployments.apps team-a/nobody is not known"}
    assert third["error"].startswith("workloads[2]: namespace: must be a text")


async def test_headroom_of_an_object_that_does_not_exist_yet(api: Api):
    new = workload("new", 1, {"cpu": "2"})
    _, page = await api.post("/api/v1/headroom", {"object": new})
    assert page["items"][0]["replicas"] == 1, "10 less the 8 that are used and reserved, by 2 each"
    body = {"namespace": "team-a", "resource": "deployments.apps", "name": "new", "replicas": 1}
    assert (await api.post("/api/v1/decisions", body))[1]["reason"] == "unknown-workload", "nothing was made by asking"


async def test_an_object_is_decided_as_the_webhook_would_be_shown_it(api: Api):
    new = workload("new", 2, {"cpu": "2"})
    _, decided = await api.post("/api/v1/decisions", {"object": new})
    assert (decided["verdict"], decided["replicas"], decided["fits"]) == ("deny", {"from": None, "to": 2}, 1)
    there = workload("web", 1)
    del there["spec"]["replicas"]
    _, decided = await api.post("/api/v1/decisions", {"object": there})
    assert decided["replicas"]["from"] == decided["replicas"]["to"], "as an HPA has it"


async def test_headroom_of_a_new_object_names_what_binds_one_more_and_not_the_largest_count(api: Api):
    _, page = await api.post("/api/v1/headroom", {"object": workload("new", 1, {"cpu": "1"}), "namespace": "team-a"})
    (found,) = page["items"]
    assert (found["replicas"], found["observedReplicas"]) == (2, 0)
    assert (found["bound"]["quota"], found["bound"]["requested"]) == ("acme", "3")


async def test_headroom_of_a_pod_template(api: Api):
    template = workload("x", 1, {"cpu": "2"})["spec"]["template"]
    _, page = await api.post("/api/v1/headroom", {"namespace": "team-a", "template": template})
    (found,) = page["items"]
    assert (found["resource"], found["replicas"], found["bound"]["quota"]) == ("deployments.apps", 1, "acme")


async def test_a_template_counts_where_its_labels_count(api: Api):
    picky = quota("picky", {"requests.cpu": "1"}, namespaces={}, workloads={"tier": "a"})
    known = gate([picky], namespaces={"team-a": {}})
    api.write.gate.load_quotas(known.ledger.coverage.tree, 0.0)
    template = workload("x", 1, {"cpu": "1"})["spec"]["template"]
    for labels, replicas in (({"tier": "a"}, 1), ({"tier": "b"}, None)):
        asked = {"namespace": "team-a", "template": template | {"metadata": {"labels": labels}}}
        assert (await api.post("/api/v1/headroom", asked))[1]["items"][0]["replicas"] == replicas


async def test_headroom_of_an_object_that_exists_is_what_it_may_have_with_its_new_template(api: Api):
    def changed(replicas: int) -> dict[str, Any]:
        return workload("w0", replicas, {"cpu": "2"}, namespace="team-b")

    _, page = await api.post("/api/v1/headroom", {"object": changed(1)})
    (found,) = page["items"]
    assert (found["observedReplicas"], found["certain"]) == (1, True)
    for replicas, verdict in ((found["replicas"], Verdict.ALLOW), (found["replicas"] + 1, Verdict.DENY)):
        put = Request("PUT", path("w0", namespace="team-b"), {}, json.dumps(changed(replicas)).encode())
        assert api.write(put, charge=False).verdict is verdict


async def test_a_change_has_no_headroom_at_any_size_while_a_count_pends_that_it_would_make_too_dear(api: Api):
    status, problem = await api.post("/api/v1/headroom", {"object": workload("web", 1, {"cpu": "3"})})
    assert status == 409, "the 5 replicas that pend may each come to cost 3"
    assert "exceeded workspace quota" in problem["detail"]


async def test_an_object_that_would_be_refused_at_any_size_is_no_headroom(api: Api):
    silent = workload("new", 1, {})
    status, problem = await api.post("/api/v1/headroom", {"object": silent})
    assert status == 409
    assert "must specify" in problem["detail"]


async def test_pending_writes_with_the_time_that_is_left(api: Api):
    _, page = await api.get("/api/v1/pendingwrites?quota=acme")
    (one,) = page["items"]
    assert (one["name"], one["replicas"], one["state"], one["changesTemplate"]) == ("web", 5, "open", False)
    assert one["secondsLeft"] > 0
    assert (await api.get("/api/v1/pendingwrites?quota=zulu"))[1]["items"] == []


async def test_the_total_of_pending_writes_is_of_the_quota_that_is_asked_about(api: Api):
    api.write(scale("w0", 2, namespace="team-b"))
    totals = [(await api.get(f"/api/v1/pendingwrites{query}"))[1]["total"] for query in ("", "?quota=acme&limit=1")]
    assert totals == [2, 2]
    assert (await api.get("/api/v1/pendingwrites?quota=zulu"))[1]["total"] == 0


async def test_asking_changes_nothing(api: Api):
    _, before = await api.get("/api/v1/quotas")
    await api.get(WEB + "/headroom")
    await api.post("/api/v1/headroom", {"object": workload("new", 1)})
    assert (await api.get("/api/v1/quotas"))[1] == before


async def test_what_has_not_changed_is_not_sent_again(api: Api):
    _, _, _, headers = await api.raw("GET", "/api/v1/quotas")
    same = {"If-None-Match": headers["ETag"]}
    assert (await api.raw("GET", "/api/v1/quotas", headers=same))[0] == 304
    api.write(scale("web", 6))
    assert (await api.raw("GET", "/api/v1/quotas", headers=same))[0] == 200


@pytest.mark.parametrize(
    ("target", "status", "detail"),
    [
        ("/api/v1/quotas?limit=0", 400, "limit: must be a whole number from 1 to 1000"),
        ("/api/v1/quotas?limit=" + "9" * 5000, 400, "limit: must be"),
        ("/api/v1/quotas?limit=%C2%B2", 400, "limit: must be"),
        ("/api/v1/quotas?belwo=acme", 400, "belwo: no such parameter; there are: below, continue, limit"),
        ("/api/v1/quotas?below=nobody", 404, 'there is no quota "nobody"'),
        ("/api/v1/quotas/nobody", 404, 'there is no quota "nobody"'),
        ("/api/v1/quotas/nobody/workloads", 404, 'there is no quota "nobody"'),
        ("/api/v1/pendingwrites?quota=nobody", 404, 'there is no quota "nobody"'),
        (WEB.replace("web", "nobody"), 404, "deployments.apps team-a/nobody is not known"),
        (WEB.replace("web", "nobody") + "/headroom", 404, "is not known"),
    ],
)
async def test_bad_questions_get_a_problem_that_names_the_cure(api: Api, target: str, status: int, detail: str):
    got, kind, raw, _ = await api.raw("GET", target)
    assert (got, kind) == (status, "application/problem+json")
    assert detail in json.loads(raw)["detail"]


@pytest.mark.parametrize(
    ("target", "body", "status", "detail"),
    [
        ("decisions", "[]", 400, "must be a JSON object"),
        ("decisions", "{", 400, "the body cannot be read as JSON"),
        ("decisions", "[" * 60000, 413, "more than 4000 units of work; write less at once"),
        ("decisions", "{}", 400, "namespace: must be a text"),
        ("decisions", '{"namespace":"a","resource":"deployments.apps","name":"b"}', 400, "replicas: must be a whole"),
        (
            "decisions",
            '{"namespace":"a","resource":"deployments.apps","name":"b","replicas":true}',
            400,
            "replicas: must be a whole number from 0 to 2147483647",
        ),
        ("headroom", '{"workloads":3}', 400, "workloads: must be a list of at most 100 workloads"),
        ("headroom", json.dumps({"workloads": [{}] * (MOST_IN_BATCH + 1)}), 400, "at most 100"),
        ("headroom", '{"object":3}', 400, "object: must be an object"),
        ("headroom", '{"object":{"metadata":{}}}', 400, "object.kind: must be one of Deployment"),
        (
            "headroom",
            '{"object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}}',
            400,
            "object.metadata: must have a namespace and a name",
        ),
        (
            "decisions",
            r'{"namespace":"a","name":"\ud800"}',
            400,
            "half a surrogate pair",
        ),
        (
            "decisions",
            '{"namespace":"team-a","resource":"deployments.apps","name":"web/status","replicas":9}',
            400,
            "name: must be a text",
        ),
        (
            "headroom",
            '{"object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"team-a/x","name":"a"}}}',
            400,
            "object.metadata: must have a namespace and a name",
        ),
        ("headroom", "x" * (MAX_BODY_BYTES + 1), 413, f"the body is longer than {MAX_BODY_BYTES} bytes"),
    ],
)
async def test_bad_bodies_get_a_problem_that_names_the_field(api: Api, target, body, status, detail):
    got, kind, raw, _ = await api.raw("POST", f"/api/v1/{target}", data=body)
    assert (got, kind) == (status, "application/problem+json"), raw
    assert detail in json.loads(raw)["detail"]


@pytest.mark.parametrize("name", ["web?dryRun=All", "web#", "%77eb"])
async def test_a_name_is_a_name_and_no_path(api: Api, name: str):
    asked = {"namespace": "team-a", "resource": "deployments.apps", "name": name, "replicas": 99}
    _, decision = await api.post("/api/v1/decisions", asked)
    assert decision["verdict"] == "unavailable"


async def test_the_document_is_served(api: Api):
    status, _, raw, _ = await api.raw("GET", "/api/v1/openapi.json")
    assert status == 200
    assert json.loads(raw) == document()
    wrong = MockRequest(HOST, "get", "/api/v1/quotas", args={"limit": "0"})
    with pytest.raises(RequestValidationError):
        DOCUMENT.validate_request(wrong)


def test_the_document_has_the_words_and_bounds_of_the_code():
    schemas, parameters = (document()["components"][part] for part in ("schemas", "parameters"))
    for name in ("Decision", "DecisionOfThePast"):
        assert schemas[name]["properties"]["verdict"]["enum"] == list(Verdict)
        assert schemas[name]["properties"]["refusal"]["enum"] == [*Refusal, None]
    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": MOST, "default": MOST}
    asked = document()["paths"]["/api/v1/headroom"]["post"]["requestBody"]["content"]["application/json"]
    assert asked["schema"]["oneOf"][0]["properties"]["workloads"]["maxItems"] == MOST_IN_BATCH


async def test_before_all_is_known_nothing_is_answered():
    app = web.Application()
    app.add_routes(routes(lambda: None, ThisHost()))
    async with TestClient(TestServer(app)) as client:
        response = await client.get("/api/v1/quotas")
        assert response.status == 503
        assert "/readyz says what is missing" in (await response.json())["detail"]


@pytest.mark.parametrize(
    ("peer", "to", "status"),
    [
        ("127.0.0.1", "127.0.0.1", 200),
        ("::1", "::1", 200),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", 200),
        ("10.0.0.7", "10.0.0.1", 403),
        ("fe80::1%eth0", "fe80::2", 403),
        pytest.param("127.0.0.6", "10.0.0.1", 403, id="istio-sidecar"),
        pytest.param("127.0.0.1", "10.0.0.1", 403, id="relay-of-what-came-to-the-pod"),
        pytest.param("10.0.0.1", "127.0.0.1", 403, id="from-elsewhere"),
    ],
)
async def test_only_a_socket_whose_both_ends_are_on_this_host_is_answered(
    peer: str, to: str, status: int, monkeypatch: pytest.MonkeyPatch, api: Api
):
    """Whatever headers say, or leave out: a relay of plain TCP adds none."""
    ends = {"peername": (peer, 4711), "sockname": (to, 9192)}
    monkeypatch.setattr(rights, "_end", lambda request, which: ends[which])
    assert (await api.raw("GET", f"/api/v1/quotas?below={escaped('acme')}"))[0] == status


def own_address() -> str:
    """Of this host, where it is not the loopback's: the kernel's choice for what goes elsewhere. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect(("192.0.2.1", 9))
        return str(asked.getsockname()[0])


@pytest.mark.parametrize(
    ("dials", "whence", "status"),
    [
        pytest.param("own", None, 403, id="what-came-to-the-pod"),
        pytest.param("own", "127.0.0.6", 403, id="istio-inbound"),
        pytest.param("127.0.0.1", "127.0.0.6", 403, id="from-istio-to-the-loopback"),
        pytest.param("127.0.0.1", "own", 403, id="from-the-pod-to-the-loopback"),
        pytest.param("127.0.0.1", None, 200, id="port-forward-and-whoever-does-as-it-does"),
    ],
)
async def test_a_relay_of_plain_tcp_in_the_pod_is_refused_unless_it_is_as_a_port_forward_is(
    dials: str, whence: str | None, status: int, api: Api
):
    """``kubectl port-forward`` is a relay itself, which dials 127.0.0.1 in the pod: nothing tells another one from it
    (docs/security.md). The client says that it asks for 127.0.0.1, and adds no header."""
    named = {"own": own_address()}
    host, source = named.get(dials, dials), (named.get(whence, whence), 0) if whence else None
    site = web.TCPSite(api.runner, "0.0.0.0", 0)
    await site.start()
    port = next(at[1] for at in api.runner.addresses if at[0] == "0.0.0.0")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_gate, to_gate = await asyncio.open_connection(host, port, local_addr=source)
        to_gate.write(await reader.readuntil(b"\r\n\r\n"))
        writer.write(await from_gate.read())
        writer.close()
        to_gate.close()

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET /api/v1/quotas HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert int(answer.split()[1]) == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://evil", "Sec-Fetch-Site": "same-origin"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "Cross-Site"}, 403),
        ({"Origin": "http://127.0.0.1:9192", "Host": "127.0.0.1:9192", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
    ids=str,
)
async def test_a_page_of_another_site_is_refused(headers: dict[str, str], status: int, api: Api):
    assert (await api.raw("GET", "/api/v1/quotas", headers=headers))[0] == status


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-Proto": "http"},
        {"x-envoy-internal": "true"},
        {"Forwarded": "for=10.0.0.7"},
        {"Via": "1.1 proxy"},
        {"Host": "gate.example.com:9192"},
        {"Host": "10.0.0.7"},
        {"Host": "localhost:x"},
        {"Host": "localhost:99999"},
        {"Host": "::1"},
    ],
    ids=str,
)
async def test_what_a_proxy_or_a_browser_brings_from_elsewhere_is_refused(api: Api, headers: dict[str, str]):
    status, _, raw, _ = await api.raw("GET", "/api/v1/quotas", headers=headers)
    assert status == 403
    assert "use kubectl port-forward" in json.loads(raw)["detail"]


@pytest.mark.parametrize("host", ["localhost:9192", "127.0.0.1", "[::1]:9192"])
async def test_an_address_of_this_host_is_answered(api: Api, host: str):
    assert (await api.raw("GET", "/api/v1/quotas", headers={"Host": host}))[0] == 200
