"""The admission webhook of a real ``extauthz serve``, over HTTPS."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.model import Decision, Unreadable, Verdict
from extauthz.core.objects.custom import Shapes
from extauthz.serve.servers.webhook import Webhook
from extauthz.serve.service import certificates, listening
from extauthz.serve.service.settings import Settings
from extauthz.testing import admission, scale_object, workload
from tests.servers.running import QUOTAS, STATE, Running
from tests.servers.test_serve import start, within
from tests.support.certs import Authority, Pair
from tests.support.custom import RAY, RAY_CLUSTERS, raycluster, worker


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def flags(pair: Pair, address: str = "127.0.0.1:0") -> tuple[str, ...]:
    return ("--webhook", address, "--webhook-cert", str(pair.cert))


@contextmanager
def connected(gate: Running, authority: Authority) -> Iterator[http.client.HTTPSConnection]:
    host, _, port = gate.events("serving")[-1]["webhook"].rpartition(":")
    context = ssl.create_default_context(cafile=str(authority.ca))
    with closing(http.client.HTTPSConnection(host, int(port), timeout=10, context=context)) as connection:
        yield connection


def ask(gate: Running, authority: Authority, review: dict[str, Any]) -> dict[str, Any]:
    with connected(gate, authority) as connection:
        return post(connection, review)


def post(connection: http.client.HTTPSConnection, review: dict[str, Any]) -> dict[str, Any]:
    connection.request("POST", "/validate?timeout=2s", json.dumps(review), {"content-type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    return json.loads(answer.read())["response"]


def scaled(replicas: int, version: str = "5", **request: Any) -> dict[str, Any]:
    old = scale_object("web", 3, version, namespace="shop")
    new = scale_object("web", replicas, version, namespace="shop")
    return admission(new, old, subresource="scale", **request)


def test_one_ledger_stands_behind_both_ways(tmp_path: Path, authority: Authority) -> None:
    with Running(tmp_path, *flags(authority.issue("gate"))) as gate, connected(gate, authority) as connection:
        assert post(connection, scaled(4)) == {"uid": scaled(4)["request"]["uid"], "allowed": True}
        refused = post(connection, scaled(5))
        assert not refused["allowed"]
        status = refused["status"]
        assert (status["code"], status["reason"]) == (403, "Forbidden")
        sentence = gate.check(5).denied_response
        assert sentence is not None
        assert status["message"] == json.loads(sentence.body)["message"]
        assert within(5, lambda: len(gate.events("decision")) == 3)
        allowed, denied, by_envoy = gate.events("decision")
        assert allowed["user"] == denied["user"] == "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
        assert "user" not in by_envoy
        assert (allowed["intent"], denied["verdict"]) == (allowed["id"], "deny")
        assert 'extauthz_decisions_total{reason="exceeded-quota",verdict="deny"} 2.0' in gate.get("/metrics")[1]
        remembered = json.loads(gate.get("/api/v1/decisions")[1])["items"]
        assert [(one["id"], one["user"]) for one in remembered] == [
            (one["id"], one.get("user")) for one in (by_envoy, denied, allowed)
        ]
        assert json.loads(gate.get("/api/v1/episodes")[1])["items"][0]["times"] == 2


def test_a_handshake_makes_no_session_ticket(tmp_path: Path, authority: Authority) -> None:
    """An API server resumes no session."""
    with Running(tmp_path, *flags(authority.issue("gate"))) as gate, connected(gate, authority) as connection:
        post(connection, scaled(3))
        assert isinstance(connection.sock, ssl.SSLSocket)
        assert connection.sock.session is not None
        assert not connection.sock.session.has_ticket


def test_an_object_with_several_templates_is_decided_whole(tmp_path: Path, authority: Authority) -> None:
    def ray(workers: int) -> dict[str, Any]:
        made = raycluster(worker("a", workers, {"cpu": "1"}))
        return {**made, "metadata": made["metadata"] | {"namespace": "shop"}}

    (tmp_path / "quotas.yaml").write_text(QUOTAS % 8)
    (tmp_path / "state.json").write_text(json.dumps({**STATE, "items": [*STATE["items"], RAY_CLUSTERS, ray(2)]}))
    resource = {"group": "ray.io", "version": "v1", "resource": "rayclusters"}
    with Running(tmp_path, *flags(authority.issue("gate")), "--pod-groups", RAY) as gate:
        refused = ask(gate, authority, admission(ray(5), ray(2), resource=resource))
        assert refused["status"]["message"] == (
            'rayclusters.ray.io "ray" is forbidden: exceeded workspace quota: acme, requested: pods=3, used: pods=6, '
            "limited: pods=8"
        )
        assert ask(gate, authority, admission(ray(4), ray(2), resource=resource))["allowed"]


def test_a_long_review_is_read_beside_the_others(tmp_path: Path, authority: Authority) -> None:
    old = workload("web", 3, namespace="shop", version="5", annotations={"x": "y" * 100_000})
    new = workload("web", 9, namespace="shop", version="5", annotations={"x": "y" * 100_000})
    with Running(tmp_path, *flags(authority.issue("gate"))) as gate:
        assert "exceeded workspace quota: acme" in ask(gate, authority, admission(new, old))["status"]["message"]


def test_a_renewed_certificate_is_shown_to_new_connections(tmp_path: Path, authority: Authority) -> None:
    pair = authority.issue("gate")
    with Running(tmp_path, *flags(pair)) as gate:
        assert ask(gate, authority, scaled(3))["allowed"]
        another = Authority(tmp_path, "another CA")
        renewed = another.issue("renewed")
        pair.cert.write_bytes(renewed.cert.read_bytes())
        assert within(5, lambda: gate.events("tls-refused"))
        assert gate.events("tls-refused")[0]["problem"].startswith(f"--webhook-cert {pair.cert}, its key")
        assert ask(gate, authority, scaled(3))["allowed"], "half written: the old pair"
        pair.key.write_bytes(renewed.key.read_bytes())
        assert within(5, lambda: gate.events("tls-renewed"))
        assert ask(gate, another, scaled(3))["allowed"]
        with pytest.raises(ssl.SSLError):
            ask(gate, authority, scaled(3))


def test_when_the_certificate_ends_is_a_metric(tmp_path: Path, authority: Authority) -> None:
    def left(use: str) -> float:
        (line,) = [line for line in gate.get("/metrics")[1].splitlines() if f'ends_in_seconds{{use="{use}"}}' in line]
        return float(line.rpartition(" ")[2])

    pair, other = authority.issue("gate", lifetime=timedelta(hours=1)), authority.issue("other")
    tls = ("--tls-cert", str(other.cert))
    with Running(tmp_path, *flags(pair), *tls) as gate:
        assert 3000 < left("webhook") <= 3600
        assert left("grpc") > 7200
        renewed = authority.issue("renewed", lifetime=timedelta(hours=2))
        pair.cert.write_bytes(renewed.cert.read_bytes())
        pair.key.write_bytes(renewed.key.read_bytes())
        assert within(5, lambda: left("webhook") > 3600)


def test_a_gate_that_only_the_webhook_asks_opens_no_other_port(tmp_path: Path, authority: Authority) -> None:
    with Running(tmp_path, *flags(authority.issue("gate")), grpc_address="off") as gate:
        (serving,) = gate.events("serving")
        assert "grpc" not in serving
        assert not gate.events("plain-text")
        assert ask(gate, authority, scaled(4))["allowed"]
        assert gate.get("/readyz") == (200, "ready\n")
        assert gate.child.terminate() == 0
        assert gate.events("stopped")


class Under:
    """A webhook that decides as a test lets it, and a connection to it."""

    def __init__(self, authority: Authority) -> None:
        self.asked, self.go_on, self.given_up = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._authority = authority
        self.webhook = Webhook(lambda question: self._decided(), self._never)

    async def _decided(self) -> Decision:
        self.asked.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        return Decision("d1", Verdict.ALLOW, "fits", "fits every quota")

    async def _never(self, body: bytes, shapes: Shapes, source: str | None) -> Unreadable:
        raise AssertionError(body)

    async def open(self) -> None:
        pair = self._authority.issue("gate")
        settings = Settings(webhook="127.0.0.1:0", webhook_cert=pair.cert)
        tls = certificates.Handshakes.of(certificates.WEBHOOK, settings, lambda level, event, **fields: None)
        assert tls is not None
        self.runner, address = await listening.bind_webhook(self.webhook.application(), settings, tls.context)
        context = ssl.create_default_context(cafile=str(self._authority.ca))
        self.reader, self.writer = await asyncio.open_connection(address.host, address.port, ssl=context)

    def ask(self) -> None:
        body = json.dumps(scaled(4)).encode()
        self.writer.write(b"POST /validate HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


@pytest.fixture
async def under(authority: Authority) -> AsyncIterator[Under]:
    under = Under(authority)
    await under.open()
    yield under
    under.writer.close()
    await under.runner.cleanup()


async def test_a_stop_answers_what_is_under_way(under: Under) -> None:
    under.ask()
    await under.asked.wait()
    stopping = asyncio.ensure_future(under.webhook.leave(under.runner))
    await asyncio.sleep(0)
    under.go_on.set()
    assert b'"allowed":true' in await under.reader.read()
    await stopping


async def test_what_an_api_server_that_has_gone_waited_for_is_given_up(under: Under) -> None:
    """Else it is granted and holds room, and nobody stores it."""
    under.ask()
    await under.asked.wait()
    under.writer.close()
    async with asyncio.timeout(5):
        await under.given_up.wait()


async def test_a_stop_ends_a_connection_in_use_with_an_answer_that_says_so(under: Under) -> None:
    """Else the API server could ask on a connection that is about to end, and its write would fail."""
    under.go_on.set()
    under.ask()
    first = await under.reader.readuntil(b"}}")
    assert b"connection: close" not in first.lower()
    stopping = asyncio.ensure_future(under.webhook.leave(under.runner))
    await asyncio.sleep(0)
    under.ask()
    last = await under.reader.read()
    assert b'"allowed":true' in last
    assert b"connection: close" in last.lower()
    await stopping


async def test_with_client_authorities_only_who_shows_a_certificate_of_theirs_is_answered(
    authority: Authority, tmp_path: Path
) -> None:
    pair, servers, others = authority.issue("gate"), Authority(tmp_path, "API servers"), Authority(tmp_path, "others")
    settings = Settings(webhook="127.0.0.1:0", webhook_cert=pair.cert, webhook_client_ca=servers.ca)
    shown = certificates.Handshakes.of(certificates.WEBHOOK, settings, lambda level, event, **fields: None)
    made = certificates.Handshakes(certificates.WEBHOOK, lambda level, event, **fields: None, None, servers.ca)
    made.show(pair.cert.read_bytes(), pair.key.read_bytes())
    assert shown is not None
    for tls in (shown.context, made.context):
        webhook = Webhook(lambda _: Decision("d1", Verdict.ALLOW, "fits", "fits every quota"), _never)
        runner, address = await listening.bind_webhook(webhook.application(), settings, tls)
        try:
            assert await posted(authority, address.port, servers.issue("kube-apiserver")) == 200
            for stranger in (None, others.issue("kube-apiserver"), pair):
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    await posted(authority, address.port, stranger)
        finally:
            await runner.cleanup()


async def test_beside_a_certificate_of_its_own_the_client_authorities_are_read_again_when_they_change(
    authority: Authority, tmp_path: Path
) -> None:
    """They were read again with the next certificate, a year later."""
    pair, old, new = authority.issue("gate"), Authority(tmp_path, "old"), Authority(tmp_path, "new")
    file, told = tmp_path / "trusted.crt", []
    file.write_bytes(old.ca.read_bytes())
    made = certificates.Handshakes(certificates.WEBHOOK, lambda level, event, **fields: told.append(event), None, file)
    made.show(pair.cert.read_bytes(), pair.key.read_bytes())
    webhook = Webhook(lambda _: Decision("d1", Verdict.ALLOW, "fits", "fits every quota"), _never)
    settings = Settings(webhook="127.0.0.1:0", webhook_cert=pair.cert)
    runner, address = await listening.bind_webhook(webhook.application(), settings, made.context)
    try:
        for content, good, bad in ((old, old, new), (new, new, old), (b"none", new, old), (b"", new, old)):
            file.write_bytes(content if isinstance(content, bytes) else content.ca.read_bytes())
            made.look()
            made.look()
            assert await posted(authority, address.port, good.issue("kube-apiserver")) == 200
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await posted(authority, address.port, bad.issue("kube-apiserver"))
    finally:
        await runner.cleanup()
    assert told == ["tls-renewed", "tls-refused"]


async def _never(body: bytes) -> Unreadable:
    raise AssertionError(body)


async def posted(authority: Authority, port: int, shown: Pair | None) -> int:
    """The status of an answer."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    if shown is not None:
        context.load_cert_chain(*shown)

    def ask() -> int:
        with closing(http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)) as connection:
            connection.request("POST", "/validate", json.dumps(scaled(4)))
            return connection.getresponse().status

    return await asyncio.to_thread(ask)


def test_after_a_stop_nobody_listens_and_the_gate_ends(tmp_path: Path, authority: Authority) -> None:
    with Running(tmp_path, *flags(authority.issue("gate"))) as gate, connected(gate, authority) as connection:
        assert post(connection, scaled(3))["allowed"]
        assert gate.child.terminate() == 0
        with pytest.raises(ConnectionRefusedError):
            ask(gate, authority, scaled(3))


def test_a_key_of_another_certificate_and_an_address_that_is_taken_are_told(
    tmp_path: Path, authority: Authority
) -> None:
    (tmp_path / "quotas.yaml").write_text(QUOTAS % 4)
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    files = ("--quotas", tmp_path / "quotas.yaml", "--state", tmp_path / "state.json", "--grpc", "127.0.0.1:0")
    files += ("--http", "127.0.0.1:0")
    pair, other = authority.issue("gate"), authority.issue("other")
    right = pair.key.read_bytes()
    pair.key.write_bytes(other.key.read_bytes())
    code, error = start(*files, *flags(pair))
    pair.key.write_bytes(right)
    assert (code, "--webhook-cert" in error, "not a certificate and its key" in error) == (69, True, True)
    with Running(tmp_path, *flags(pair)) as gate:
        code, error = start(*files, *flags(pair, gate.events("serving")[0]["webhook"]))
        assert (code, error.startswith("extauthz: --webhook 127.0.0.1:")) == (69, True)
