"""Quotas of a platform's own service: both forms, ETags, and what becomes of bad, late and missing answers."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.sources import http
from extauthz.inputs.sources.gathering import Quotas
from extauthz.inputs.sources.http import Endpoint, HttpQuotas
from tests.support.certs import Authority
from tests.support.platform import Platform

NANO = 10**9


def listed(*items: dict) -> dict:
    return {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuotaList", "items": list(items)}


def item(name: str, **spec: object) -> dict:
    return {"metadata": {"name": name}, "spec": {"namespaceSelector": {"matchLabels": {"workspace": name}}, **spec}}


ACME = item("acme", hard={"requests.cpu": "10"})


class Source:
    """The source under test, asked once at a time."""

    def __init__(self, url: str, **more: object) -> None:
        self.accepted: list[Quotas] = []
        self.told: list[tuple[str, str]] = []
        self.now_s = 100.0
        endpoint = Endpoint(f"{url}/quotas", **{"timeout_s": 2.0, **more})
        self.quotas = HttpQuotas(
            endpoint,
            10.0,
            self.accepted.append,
            lambda *told: self.told.append(told),
            clock=lambda: self.now_s,
            jitter=lambda: 0.5,
        )

    async def asked(self, times: int = 1) -> list[str]:
        async with self.quotas.client.session() as session:
            for _ in range(times):
                await self.quotas.ask(session)
        return [result for result, _ in self.told]

    @property
    def tree(self) -> QuotaTree:
        return self.accepted[-1].tree

    def hard(self) -> dict[str, dict[str, int]]:
        return {node.quota.name: dict(node.quota.hard) for node in self.tree.nodes}


async def test_a_list_of_workspace_quotas_becomes_a_tree():
    async with Platform(listed(ACME, item("team", parent="acme", hard={"pods": 3}))) as platform:
        source = Source(platform.url)
        assert await source.asked() == ["ok"]
    assert [node.path for node in source.tree.nodes] == [("acme",), ("acme", "team")]
    assert source.hard() == {"acme": {"requests.cpu": 10 * NANO}, "team": {"pods": 3 * NANO}}
    assert source.quotas.good_s == 100.0


@pytest.mark.parametrize("label", [None, "example.com/tenant"], ids=["default", "named"])
async def test_plain_limits_become_quotas_over_the_namespaces_that_bear_the_name(label: str | None):
    plain = {"workspaces": {"acme": {"requests.cpu": "10"}}, **({"workspaceLabel": label} if label else {})}
    async with Platform(plain) as platform:
        source = Source(platform.url)
        await source.asked()
    (node,) = source.tree.nodes
    assert node.quota.matches({label or "workspace": "acme"}, {})
    assert not node.quota.matches({label or "workspace": "other"}, {})
    assert source.hard() == {"acme": {"requests.cpu": 10 * NANO}}


async def test_what_has_not_changed_is_not_sent_or_put_in_force_again():
    async with Platform(listed(ACME)) as platform:
        source = Source(platform.url)
        assert await source.asked(2) == ["ok", "not-modified"]
        assert len(source.accepted) == 1
        platform.quotas = listed(item("acme", hard={"requests.cpu": "12"}))
        await source.asked()
    assert source.hard() == {"acme": {"requests.cpu": 12 * NANO}}


async def test_a_service_without_etags_is_asked_in_full_and_the_tree_stays_the_same_object():
    async with Platform(listed(ACME), etags=False) as platform:
        source = Source(platform.url)
        assert await source.asked(2) == ["ok", "ok"]
    assert source.accepted[0].tree is source.accepted[1].tree
    assert "if-none-match" not in platform.seen[-1].headers


async def test_a_bad_quota_takes_down_no_other_and_keeps_its_last_good_spec():
    async with Platform(listed(ACME, item("lab", hard={"pods": "1"}))) as platform:
        source = Source(platform.url)
        await source.asked()
        platform.quotas = listed(ACME, item("lab", hard={"pods": "many"}), item("new", hard={"pods": "x"}))
        assert await source.asked() == ["ok", "ok"]
    assert source.hard() == {"acme": {"requests.cpu": 10 * NANO}, "lab": {"pods": NANO}, "new": {}}
    assert {one.name for one in source.accepted[-1].faults} == {"lab", "new"}
    assert [node.quota.illegible for node in source.tree.nodes] == [False, False, True]


async def test_one_that_is_not_said_any_more_is_gone():
    async with Platform(listed(ACME, item("lab", hard={"pods": "1"}))) as platform:
        source = Source(platform.url)
        await source.asked()
        platform.quotas = listed(ACME)
        await source.asked()
    assert set(source.hard()) == {"acme"}


BAD = {
    "not json": (b"<html>", "malformed"),
    "not an object": (b"[]", "malformed"),
    "another kind": (b'{"kind": "List", "apiVersion": "v1", "items": []}', "malformed"),
    "no items": (b'{"kind": "WorkspaceQuotaList", "apiVersion": "extauthz.dev/v1alpha1"}', "malformed"),
    "an item that is none": (
        b'{"kind": "WorkspaceQuotaList", "apiVersion": "extauthz.dev/v1alpha1", "items": [1]}', "malformed"),
    "a bad name": (b'{"workspaces": {"Big Corp": {}}}', "malformed"),
    "no name": (
        b'{"kind": "WorkspaceQuotaList", "apiVersion": "extauthz.dev/v1alpha1", "items": [{}]}', "malformed"),
    "a name twice": (
        b'{"kind": "WorkspaceQuotaList", "apiVersion": "extauthz.dev/v1alpha1", "items": '
        b'[{"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]}', "malformed"),
    "both forms": (b'{"workspaces": {}, "items": []}', "malformed"),
    "a label that is none": (b'{"workspaces": {}, "workspaceLabel": 7}', "malformed"),
    "workspaces in a list": (b'{"workspaces": []}', "malformed"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "code"), BAD.values(), ids=BAD.keys())
async def test_an_answer_that_is_none_is_named_and_what_was_in_force_stays(body: bytes, code: str):
    async with Platform(listed(ACME)) as platform:
        source = Source(platform.url)
        await source.asked()
        platform.body = body
        source.now_s = 150.0
        assert await source.asked() == ["ok", code]
        assert (source.quotas.good_s, bool(source.quotas.error), len(source.accepted)) == (100.0, True, 1)
        platform.body = None
        assert (await source.asked())[-1] == "not-modified"
        assert (source.quotas.good_s, source.quotas.error) == (150.0, "")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "unauthorized"),
        (403, "unauthorized"),
        (404, "refused"),
        (302, "refused"),
        (500, "refused"),
        (204, "refused"),
    ],
)
async def test_every_status_but_200_and_304_is_no_answer(status: int, code: str):
    async with Platform(status=status) as platform:
        source = Source(platform.url)
        assert await source.asked() == [code]
        assert len(platform.seen) == 1, "no redirect is followed, nothing is asked twice"
    assert str(status) in source.told[0][1]


async def test_nothing_new_that_was_never_said_is_no_answer():
    async with Platform(status=304) as platform:
        assert await Source(platform.url).asked() == ["malformed"]


async def test_a_service_that_is_away_and_one_that_is_slow_have_names():
    async with Platform(delay_s=5.0) as platform:
        assert await Source(platform.url, timeout_s=0.05).asked() == ["timeout"]
    assert await Source(platform.url).asked() == ["unreachable"]


async def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 1000)
    async with Platform(body=b" " * 1001) as platform:
        assert await Source(platform.url).asked() == ["too-large"]


async def test_failures_are_asked_less_and_less_often():
    source = Source("http://127.0.0.1:1")
    pauses = [source.quotas._pause_s()]
    for _ in range(5):
        await source.asked()
        pauses.append(source.quotas._pause_s())
    assert pauses == [10, 20, 40, 80, 80, 80]


async def test_it_is_followed_until_cancelled():
    async with Platform(listed(ACME)) as platform:
        source = Source(platform.url)
        source.quotas._every_s = 0.001
        task = asyncio.create_task(source.quotas.run())
        async with asyncio.timeout(10):
            while len(source.told) < 3:  # noqa: ASYNC110 (there is no event to wait for)
                await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [result for result, _ in source.told[:3]] == ["ok", "not-modified", "not-modified"]


class TestCredentials:
    async def test_a_token_is_read_anew_for_each_request(self, tmp_path: Path):
        token = tmp_path / "token"
        token.write_text("old\n")
        async with Platform(listed(ACME), token="new") as platform:
            source = Source(platform.url, token_file=token)
            assert await source.asked() == ["unauthorized"]
            token.write_text("new\n")
            assert (await source.asked())[-1] == "ok"
        assert "old" not in str(source.told)

    @pytest.mark.parametrize("content", [None, "", "two\nlines"], ids=["absent", "empty", "two-lines"])
    async def test_a_token_that_is_none_is_not_sent(self, content: str | None, tmp_path: Path):
        token = tmp_path / "token"
        if content is not None:
            token.write_text(content)
        async with Platform(listed(ACME)) as platform:
            source = Source(platform.url, token_file=token)
            assert await source.asked() == ["credentials"]
            assert platform.seen == []
        assert "lines" not in source.told[0][1]

    @pytest.mark.parametrize("identified", [True, False], ids=["key identifiers", "none"])
    async def test_mutual_tls_and_its_renewal(self, tmp_path: Path, identified: bool):
        ours, others = (Authority(tmp_path, name, identified=identified) for name in ("ours", "others"))
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ours.ca)
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        tls.load_cert_chain(*ours.issue("service"))
        wrong, right = others.issue("gate"), ours.issue("gate-2")
        cert, key = tmp_path / "cert", tmp_path / "key"
        cert.write_bytes(wrong.cert.read_bytes())
        key.write_bytes(wrong.key.read_bytes())
        async with Platform(listed(ACME), tls=tls) as platform:
            source = Source(platform.url, ca=ours.ca, cert=cert, key=key)
            assert await source.asked() == ["unreachable"]
            cert.write_bytes(right.cert.read_bytes())
            key.write_bytes(right.key.read_bytes())
            assert (await source.asked())[-1] == "ok"
            assert await Source(platform.url, ca=others.ca, cert=cert, key=key).asked() == ["unreachable"]

    async def test_a_certificate_that_cannot_be_read_is_ours_to_mend(self, tmp_path: Path):
        (tmp_path / "bad").write_text("no certificate")
        source = Source("https://127.0.0.1:1", cert=tmp_path / "bad", key=tmp_path / "bad")
        assert await source.asked() == ["credentials"]


def test_the_address_is_shown_without_its_query():
    assert Endpoint("https://a.example:8443/q?key=secret", 1.0).shown == "https://a.example:8443/q"
    assert Endpoint("https://a.example/q", 1.0).shown == "https://a.example/q"
