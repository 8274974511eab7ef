"""Mode Clamp behind the real Envoy: ext_proc lowers a count, and ext_authz decides about what is really sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from extauthz.testing import PATCH_TYPES
from tests.envoy import test_settling as settling
from tests.support.certs import Authority
from tests.support.stack import TOKEN
from tests.unit.intake.test_protobuf import body as protobuf
from tests.unit.intake.test_protobuf import field
from tests.waiting import eventually

PROTOBUF = "application/vnd.kubernetes.protobuf"
TEAMS = iter(settling.TEAMS)
"""Of each the quota has room for four pods, and two Deployments have one each."""


class Clamped(settling.Real):
    """The gate's quotas clamp, and Envoy asks for that."""

    mode = "Clamp"

    def __init__(self, authority: Authority, directory: Path, **options: Any) -> None:
        super().__init__(authority, directory, clamp=True, **options)

    def send(self, method: str, team: str, body: bytes, content_type: str, sub: str = "/scale") -> httpx.Response:
        headers = {"content-type": content_type} if content_type else {}
        trust = settling.ssl.create_default_context(cafile=str(self._authority.ca))
        with httpx.Client(base_url=f"https://127.0.0.1:{self.envoy.port}", verify=trust, timeout=60) as client:
            return client.request(method, path(team, sub), content=body, headers=headers | TOKEN)

    def arrived(self, team: str) -> list[Any]:
        """What the API server got."""
        return [seen for seen in self.api.writes() if f"/{team}/" in seen.target]

    def decisions(self, event: str, team: str) -> list[dict[str, Any]]:
        return [one for one in self.gate.events(event) if f"/{team}/" in one.get("workload", "")]


def path(team: str, sub: str = "/scale") -> str:
    return f"/apis/apps/v1/namespaces/{team}/deployments/web{sub}"


@pytest.fixture(scope="module")
def shared(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamped]:
    with Clamped(authority, tmp_path_factory.mktemp("clamped")) as running:
        yield running


@pytest.fixture
def team() -> str:
    return next(TEAMS)


def now(real: Clamped, team: str) -> dict[str, Any]:
    return next(tree for tree in real.api.objects.items.values() if _is_web(tree, team))


def _is_web(tree: dict[str, Any], team: str) -> bool:
    metadata = tree["metadata"]
    return (tree["kind"], metadata["name"], metadata.get("namespace")) == ("Deployment", "web", team)


PATCHES = {
    "json": [{"op": "add", "path": "/spec/replicas", "value": 9}],
    "merge": {"spec": {"replicas": 9}},
    "strategic": {"spec": {"replicas": 9}},
}


@pytest.mark.parametrize("kind", PATCHES)
def test_a_patch_is_lowered_and_bound_to_the_version_that_was_looked_at(shared: Clamped, team: str, kind: str):
    version = now(shared, team)["metadata"]["resourceVersion"]
    answer = shared.send("PATCH", team, json.dumps(PATCHES[kind]).encode(), PATCH_TYPES[kind])
    assert answer.status_code == 200, answer.text
    (seen,) = shared.arrived(team)
    sent = json.loads(seen.body)
    if kind == "json":
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        assert sent == [test, PATCHES["json"][0] | {"value": 3}]
    else:
        assert sent == {"spec": {"replicas": 3}, "metadata": {"resourceVersion": version}}
    (lowered,) = eventually(lambda: shared.decisions("clamp", team))
    assert (lowered["from"], lowered["to"], lowered["clamped_to"]) == (1, 9, 3)
    (decided,) = eventually(lambda: shared.decisions("decision", team))
    assert (decided["verdict"], decided["to"], decided["reason"]) == ("allow", 3, "fits")


def scale_of(team: str, version: str = "") -> dict[str, Any]:
    """What an HPA sends."""
    metadata = {"name": "web", "namespace": team} | ({"resourceVersion": version} if version else {})
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": 9}}


@pytest.mark.parametrize("is_bound", [True, False], ids=["bound", "unbound"])
def test_a_put_without_content_type_is_lowered(shared: Clamped, team: str, is_bound: bool):
    version = now(shared, team)["metadata"]["resourceVersion"]
    given = scale_of(team, version if is_bound else "")
    answer = shared.send("PUT", team, json.dumps(given).encode(), "")
    assert answer.status_code == 200, answer.text
    (seen,) = shared.arrived(team)
    wanted = scale_of(team, version)
    assert json.loads(seen.body) == wanted | {"spec": {"replicas": 3}}


def scale_in(body: bytes) -> dict[int, Any]:
    """All fields of an envelope, of its Scale, and of metadata and spec, by number: their order says nothing."""
    envelope = numbered(body.removeprefix(b"k8s\0"))
    scale = {number: numbered(message) for number, message in numbered(envelope[2]).items()}
    return envelope | {2: scale}


def numbered(message: bytes) -> dict[int, Any]:
    return {one.field_number: one.data for one in UnknownFieldSet(Empty.FromString(message))}


def test_a_put_in_protobuf_is_lowered(shared: Clamped, team: str):
    version = now(shared, team)["metadata"]["resourceVersion"]

    def body(replicas: int, *more: bytes) -> bytes:
        metadata = field(1, "web") + field(3, team) + b"".join(more)
        return protobuf(field(1, metadata) + field(2, field(1, replicas)), "autoscaling/v1", "Scale")

    shared.send("PUT", team, body(900), PROTOBUF)
    (seen,) = shared.arrived(team)
    assert scale_in(seen.body) == scale_in(body(3, field(6, version)))


@pytest.mark.parametrize("replicas", [0, 1, 3])
def test_what_fits_is_sent_byte_for_byte(shared: Clamped, team: str, replicas: int):
    body = b'{ "spec" : {"replicas":%d} }' % replicas
    assert shared.send("PATCH", team, body, PATCH_TYPES["merge"]).status_code == 200
    (seen,) = shared.arrived(team)
    assert seen.body == body
    assert shared.decisions("clamp", team) == []


def test_once_nothing_fits_the_same_wish_is_denied_with_the_reason(shared: Clamped, team: str):
    def ask() -> httpx.Response:
        return shared.send("PATCH", team, settling.scale_body(9), PATCH_TYPES["merge"])

    assert ask().status_code == 200
    shared.show_state()
    eventually(lambda: shared.usage(team, "used") == 4)
    refused = ask()
    assert refused.status_code == 403
    assert "exceeded workspace quota" in refused.json()["message"]
    assert "largest allowed replicas: 3" in refused.json()["message"]
    assert len(shared.arrived(team)) == 1


def test_an_object_that_has_changed_since_refuses_the_write(shared: Clamped, team: str):
    """The gate has not seen it yet. Unbound, the write would take replicas away."""
    now(shared, team)["metadata"]["resourceVersion"] = "99999"
    now(shared, team)["spec"]["replicas"] = 4
    answer = shared.send("PATCH", team, settling.scale_body(9), PATCH_TYPES["merge"])
    assert answer.status_code == 409
    assert now(shared, team)["spec"]["replicas"] == 4


def test_a_body_of_megabytes_goes_on_unread_and_is_refused_as_more_than_a_count(shared: Clamped, team: str):
    patch = {"metadata": {"annotations": {"note": "x" * (2 * 1024 * 1024)}}, "spec": {"replicas": 9}}
    answer = shared.send("PATCH", team, json.dumps(patch).encode(), PATCH_TYPES["merge"], sub="")
    assert answer.status_code == 503
    assert "at most 16384 bytes" in answer.json()["message"]
    assert shared.arrived(team) == []


def test_what_cannot_grow_is_not_asked_about(shared: Clamped, team: str):
    before = shared.envoy.stat("http.apiserver.ext_proc.streams_started")
    with_status = shared.send("PATCH", team, b'{"status": {}}', PATCH_TYPES["merge"], sub="/status")
    assert with_status.status_code < 500
    assert shared.envoy.stat("http.apiserver.ext_proc.streams_started") == before


def filter_of(tree: Any) -> Any:
    """The configuration of ext_proc, which is the first filter."""
    (manager,) = tree["static_resources"]["listeners"][0]["filter_chains"][0]["filters"]
    first, *_ = manager["typed_config"]["http_filters"]
    assert first["name"] == "envoy.filters.http.ext_proc"
    return first["typed_config"]


def with_headers(tree: Any) -> None:
    """Somebody else's configuration, which sends headers too. Such an Envoy keeps the client's content-length."""
    filter_of(tree)["processing_mode"] |= {"request_header_mode": "SEND", "request_body_mode": "BUFFERED"}


def test_the_length_of_a_body_is_told_to_an_envoy_that_does_not_see_to_it(authority: Authority, tmp_path: Path):
    real = Clamped(authority, tmp_path)
    real.alter = with_headers
    with real:
        answer = real.send("PATCH", "code-401", settling.scale_body(9), PATCH_TYPES["merge"])
        assert answer.status_code == 200, answer.text
        (seen,) = real.arrived("code-401")
        assert json.loads(seen.body)["spec"] == {"replicas": 3}
        assert seen.headers["content-length"] == str(len(seen.body))


def elsewhere(tree: Any) -> None:
    """ext_proc is asked where nobody listens."""
    nobody = {"name": "nobody", "type": "STATIC", "load_assignment": {"cluster_name": "nobody", "endpoints": []}}
    tree["static_resources"]["clusters"].append(nobody)
    filter_of(tree)["grpc_service"]["envoy_grpc"]["cluster_name"] = "nobody"


def test_without_an_answer_the_write_goes_on_to_be_decided(authority: Authority, tmp_path: Path):
    real = Clamped(authority, tmp_path)
    real.alter = elsewhere
    with real:
        refused = real.send("PATCH", "code-401", settling.scale_body(9), PATCH_TYPES["merge"])
        assert refused.status_code == 403
        assert "largest allowed replicas: 3" in refused.json()["message"]
        assert real.send("PATCH", "code-401", settling.scale_body(3), PATCH_TYPES["merge"]).status_code == 200
        assert real.envoy.stat("http.apiserver.ext_proc.failure_mode_allowed") == 2
        real.gate.terminate()
        assert real.send("PATCH", "code-409", settling.scale_body(2), PATCH_TYPES["merge"]).status_code == 503
