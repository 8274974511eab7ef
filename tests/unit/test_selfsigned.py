"""The webhook's certificate that gates make themselves: renewal on a virtual clock, several gates, broken Secrets."""

from __future__ import annotations

import asyncio
import base64
import copy
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.serve.selfsigned import issuing
from extauthz.serve.selfsigned.issuing import BrokenError, Held
from extauthz.serve.selfsigned.keeper import Keeper, SecretPlace
from extauthz.serve.selfsigned.renewal import NoNamesError, Terms, renewed

Tree = Any

DAY = timedelta(days=1)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TERMS = Terms(90 * DAY)
NAME = "extauthz.quotas.svc"
SECRET = "/api/v1/namespaces/quotas/secrets/extauthz-webhook"
GROUP = "/apis/admissionregistration.k8s.io/v1/"
VALIDATING = f"{GROUP}validatingwebhookconfigurations/extauthz"
MUTATING = f"{GROUP}mutatingwebhookconfigurations/extauthz"


def configuration(bundle: bytes = b"", **client: Any) -> Tree:
    client = client or {"service": {"name": "extauthz", "namespace": "quotas", "port": 443, "path": "/validate"}}
    if bundle:
        client["caBundle"] = base64.b64encode(bundle).decode()
    return {"metadata": {"name": "extauthz"}, "webhooks": [{"name": "one.extauthz.dev", "clientConfig": client}]}


class Api:
    """Objects by path, with versions, and what may happen between two calls."""

    def __init__(self, **objects: Tree) -> None:
        self.objects: dict[str, Tree] = {}
        self.version = 0
        self.written: list[str] = []
        self.before: Callable[[str, str], None] = lambda method, path: None
        self.put(VALIDATING, configuration())
        self.put(SECRET, {"metadata": {"name": "extauthz-webhook", "namespace": "quotas"}})

    def put(self, path: str, tree: Tree) -> Tree:
        self.version += 1
        tree = copy.deepcopy(tree)
        tree["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = tree
        return copy.deepcopy(tree)

    async def call(
        self, method: str, path: str, *, body: Tree = None, content_type: str = "application/json", **_: object
    ) -> Tree:
        await asyncio.sleep(0)
        self.before(method, path)
        if path not in self.objects:
            raise ApiError(404, "NotFound", path)
        if method == "GET":
            return copy.deepcopy(self.objects[path])
        there = self.objects.get(path)
        wanted = body["metadata"].get("resourceVersion")  # without one a write goes through, as at a real API server
        if there is not None and wanted and wanted != there["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", path)
        self.written.append(f"{method} {path}")
        if method == "PATCH":
            assert content_type == "application/strategic-merge-patch+json"
            tree = copy.deepcopy(there)
            for hook, patch in zip(tree["webhooks"], body["webhooks"], strict=True):
                assert hook["name"] == patch["name"]
                hook["clientConfig"] |= patch["clientConfig"]
            return self.put(path, tree)
        return self.put(path, body)

    def bundle(self, path: str = VALIDATING) -> list[x509.Certificate]:
        text = self.objects[path]["webhooks"][0]["clientConfig"]["caBundle"]
        return x509.load_pem_x509_certificates(base64.b64decode(text))


class Clock:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        return self.now


class Gate:
    """One keeper, with what it shows and tells."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self.told: list[tuple[str, dict[str, object]]] = []
        self.shows: x509.Certificate | None = None
        place = SecretPlace("quotas", "extauthz-webhook")
        self.keeper = Keeper(api, place, "extauthz", TERMS, clock, self._show, self._tell)

    async def look(self) -> None:
        await self.keeper.look()

    def _show(self, chain: bytes, key: bytes) -> None:
        self.shows = x509.load_pem_x509_certificate(chain)

    def _tell(self, level: str, event: str, **fields: object) -> None:
        self.told.append((event, fields))

    def events(self, name: str) -> list[dict[str, object]]:
        return [fields for event, fields in self.told if event == name]


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def trusted(api: Api, gate: Gate, now: datetime) -> bool:
    """Whether an API server would take what the gate shows."""
    shown = gate.shows
    assert shown is not None
    return shown.not_valid_before_utc <= now < shown.not_valid_after_utc and any(
        issuing.is_from(shown, one) and one.not_valid_before_utc <= now < one.not_valid_after_utc
        for one in api.bundle()
    )


async def test_the_first_gate_makes_both_and_has_api_servers_trust_them(api: Api, clock: Clock) -> None:
    gate = Gate(api, clock)
    await gate.look()
    assert gate.keeper.shown.is_set()
    assert gate.keeper.problem == ""
    assert trusted(api, gate, clock.now)
    assert issuing.names_of(gate.shows) == {NAME}
    assert api.written == [f"PUT {SECRET}", f"PATCH {VALIDATING}"]
    api.written.clear()
    await gate.look()
    assert api.written == [], "nothing is due"
    assert len(gate.events("certificate-shown")) == 1


async def test_both_configurations_are_trusted_and_their_names_joined(api: Api, clock: Clock) -> None:
    api.put(MUTATING, configuration(url="https://10.1.2.3:9443/mutate"))
    gate = Gate(api, clock)
    await gate.look()
    assert issuing.names_of(gate.shows) == {NAME, "10.1.2.3"}
    assert api.bundle(MUTATING) == api.bundle(VALIDATING)


async def test_two_gates_that_start_at_once_agree(api: Api, clock: Clock) -> None:
    gates = [Gate(api, clock) for _ in range(5)]
    await asyncio.gather(*(gate.look() for gate in gates))
    assert len({gate.shows for gate in gates}) == 1
    assert sum(line.startswith("PUT") for line in api.written) == 1
    assert trusted(api, gates[0], clock.now)


async def test_for_five_years_every_gate_is_trusted_at_every_time(api: Api, clock: Clock) -> None:
    """Gates look one after the other, and an API server may ask any of them in between."""
    gates = [Gate(api, clock) for _ in range(2)]
    for gate in gates:
        await gate.look()
    shown, authorities = {gates[0].shows}, set(api.bundle())
    while clock.now < BEGIN + 1825 * DAY:
        clock.now += 20 * DAY
        for _ in range(7):
            for gate in gates:
                assert trusted(api, gate, clock.now)
                await gate.look()
                assert all(trusted(api, each, clock.now) for each in gates)
            clock.now += timedelta(seconds=TERMS.look_s)
        shown.add(gates[0].shows)
        authorities |= set(api.bundle())
        assert len(api.bundle()) <= 2
    assert 22 < len(shown) < 35
    assert 6 < len(authorities) < 10


async def test_a_new_authority_is_trusted_for_a_while_before_it_signs(api: Api, clock: Clock) -> None:
    gate = Gate(api, clock)
    await gate.look()
    (old,) = api.bundle()
    while len(api.bundle()) == 1:
        clock.now += 10 * DAY
        await gate.look()
    new, still = api.bundle()
    assert still == old
    assert issuing.is_from(gate.shows, old)
    clock.now += TERMS.spread - timedelta(seconds=1)
    await gate.look()
    assert issuing.is_from(gate.shows, old)
    clock.now += timedelta(seconds=1)
    await gate.look()
    assert issuing.is_from(gate.shows, new)
    assert api.bundle() == [new, old], "another gate may still show what the old one has signed"
    clock.now = old.not_valid_after_utc
    await gate.look()
    assert old not in api.bundle()


async def test_a_new_authority_does_not_sign_while_it_cannot_be_written_to_a_configuration(
    api: Api, clock: Clock
) -> None:
    gate = Gate(api, clock)
    await gate.look()
    (old,) = api.bundle()

    def refuse(method: str, path: str) -> None:
        if method == "PATCH":
            raise ApiError(403, "Forbidden", "cannot patch")

    while clock.now < BEGIN + 225 * DAY:
        clock.now += 10 * DAY
        await gate.look()
    api.before = refuse
    clock.now = BEGIN + 241 * DAY
    await gate.look()
    clock.now += DAY
    await gate.look()
    await gate.look()
    assert issuing.is_from(gate.shows, old)
    assert gate.keeper.problem == "403 Forbidden: cannot patch; let the gate do that (docs/webhook.md)"
    assert len(gate.events("certificate-problem")) == 1, "told once"
    api.before = lambda method, path: None
    await gate.look()
    assert gate.keeper.problem == ""
    await gate.look()
    assert not issuing.is_from(gate.shows, old)


BREAKS: dict[str, Callable[[Tree], object]] = {
    "empty": lambda secret: secret.update(data=None),
    "no-base64": lambda secret: secret["data"].update({"ca.crt": "x"}),
    "no-pem": lambda secret: secret["data"].update({"tls.key": "eA=="}),
    "no-authority": lambda secret: secret["data"].update({"ca.crt": ""}),
    "other-key": lambda secret: secret["data"].update({"tls.key": secret["data"]["ca.key"]}),
    "other-authority": lambda secret: secret["data"].update(_other()),
}


def _other() -> dict[str, str]:
    certificate, key = issuing.authority(BEGIN, DAY).pem
    return {"ca.crt": base64.b64encode(certificate).decode(), "ca.key": base64.b64encode(key).decode()}


@pytest.mark.parametrize("how", BREAKS)
async def test_a_secret_that_somebody_broke_is_made_anew_and_nobody_is_distrusted(
    api: Api, clock: Clock, how: str
) -> None:
    gates = [Gate(api, clock), Gate(api, clock)]
    for gate in gates:
        await gate.look()
    (old,), before = api.bundle(), gates[0].shows
    BREAKS[how](api.objects[SECRET])
    await asyncio.gather(*(gate.look() for gate in gates))
    new, still = api.bundle()
    assert still == old
    assert {gate.shows for gate in gates} == {before}
    assert sum(len(gate.events("certificate-broken")) for gate in gates) == (0 if how == "empty" else 2)
    clock.now += TERMS.spread
    for gate in gates:
        await gate.look()
        assert issuing.is_from(gate.shows, new)
        assert trusted(api, gate, clock.now)
    fresh = Gate(api, clock)
    await fresh.look()
    assert fresh.shows == gates[0].shows


async def test_a_secret_that_is_gone_is_told_and_made_by_nobody(api: Api, clock: Clock) -> None:
    gate = Gate(api, clock)
    await gate.look()
    before, kept = gate.shows, api.objects.pop(SECRET)
    api.written.clear()
    await gate.look()
    assert gate.keeper.problem.startswith("Secret quotas/extauthz-webhook is not there; apply the chart again")
    assert (gate.shows, api.written) == (before, [])
    api.put(SECRET, kept)
    await gate.look()
    assert (gate.shows, gate.keeper.problem) == (before, "")


async def test_a_bundle_that_somebody_changed_is_put_right(api: Api, clock: Clock) -> None:
    gate = Gate(api, clock)
    await gate.look()
    right = api.bundle()
    api.put(VALIDATING, configuration(b"nonsense"))
    await gate.look()
    assert api.bundle() == right


async def test_a_gate_that_read_late_takes_no_newer_authority_away(api: Api, clock: Clock) -> None:
    """Its own patch is of a version that is no more."""
    slow, quick = Gate(api, clock), Gate(api, clock)
    await slow.look()
    await quick.look()
    clock.now += 241 * DAY
    api.put(VALIDATING, configuration(b"nonsense"))  # so that the slow one has something to patch
    reached, go_on = asyncio.Event(), asyncio.Event()
    call = api.call

    async def held_up(method: str, path: str, **rest: Any) -> Tree:
        if method == "PATCH" and not reached.is_set():
            reached.set()
            await go_on.wait()
        return await call(method, path, **rest)

    api.call = held_up  # type: ignore[method-assign]
    looking = asyncio.ensure_future(slow.look())
    await reached.wait()
    await quick.look()
    del api.objects[SECRET]
    await quick.look()
    newest = api.bundle()
    go_on.set()
    await looking
    assert api.bundle() == newest
    assert slow.keeper.problem == "", "the next look does the rest"


async def test_what_another_gate_makes_between_two_reads_is_not_taken_away(api: Api, clock: Clock) -> None:
    slow, quick = Gate(api, clock), Gate(api, clock)
    await slow.look()
    await quick.look()
    call, meanwhile = api.call, True

    async def interrupted(method: str, path: str, **rest: Any) -> Tree:
        nonlocal meanwhile
        found = await call(method, path, **rest)
        if path == SECRET and meanwhile:
            meanwhile = False
            api.objects[SECRET]["data"] = None
            await quick.look()
        return found

    api.call = interrupted  # type: ignore[method-assign]
    await slow.look()
    assert len(api.bundle()) == 2
    assert api.bundle() == x509.load_pem_x509_certificates(base64.b64decode(api.objects[SECRET]["data"]["ca.crt"]))


async def test_a_name_that_is_added_gets_a_certificate_and_a_shared_secret_does_not_go_to_and_fro(
    api: Api, clock: Clock
) -> None:
    gate = Gate(api, clock)
    await gate.look()
    api.put(VALIDATING, configuration(b"x", url="https://gate.example.com"))
    for _ in range(3):
        clock.now += TERMS.spread
        await gate.look()
    assert issuing.names_of(gate.shows) == {NAME, "gate.example.com"}
    now = gate.shows
    api.put(VALIDATING, configuration(issuing.pem(api.bundle()[0])))
    await gate.look()
    assert gate.shows == now
    clock.now += 61 * DAY
    await gate.look()
    assert issuing.names_of(gate.shows) == {NAME}, "a renewed one has the names of now"


async def test_without_a_configuration_there_is_no_name_and_so_no_certificate(api: Api, clock: Clock) -> None:
    del api.objects[VALIDATING]
    gate = Gate(api, clock)
    await gate.look()
    assert not gate.keeper.shown.is_set()
    assert gate.keeper.problem == "no webhook configuration is named extauthz; apply one (docs/webhook.md)"
    api.put(VALIDATING, configuration())
    await gate.look()
    del api.objects[VALIDATING]
    late = Gate(api, clock)
    await late.look()
    assert late.shows == gate.shows, "the one that is there has its names"


@pytest.mark.parametrize("error", [ApiError(500, "InternalError", "no"), Unreachable("nobody answers")])
async def test_an_api_server_that_fails_changes_nothing_that_is_shown(api: Api, clock: Clock, error: Exception) -> None:
    gate = Gate(api, clock)
    await gate.look()
    before = gate.shows

    def fail(method: str, path: str) -> None:
        raise error

    api.before = fail
    clock.now += 70 * DAY
    await gate.look()
    assert (gate.shows, gate.keeper.problem) == (before, str(error))


async def test_where_others_write_all_the_time_it_gives_up_until_the_next_look(api: Api, clock: Clock) -> None:
    gate = Gate(api, clock)
    await gate.look()

    def meddle(method: str, path: str) -> None:
        if method == "PUT":
            api.put(SECRET, api.objects[SECRET])

    api.before = meddle
    clock.now += 61 * DAY
    await gate.look()
    assert gate.keeper.problem == "Secret quotas/extauthz-webhook: others change it all the time"


async def test_what_tls_does_not_take_is_told_and_what_was_shown_stays(api: Api, clock: Clock) -> None:
    gate = Gate(api, clock)
    await gate.look()
    before = gate.shows

    def refuse(chain: bytes, key: bytes) -> None:
        raise ssl.SSLError("ee key too small")

    gate.keeper._show = refuse  # type: ignore[method-assign]
    clock.now += 61 * DAY
    await gate.look()
    assert gate.shows == before
    assert gate.keeper.problem.startswith("Secret quotas/extauthz-webhook: TLS does not take what it holds")


async def test_a_certificate_that_has_ended_is_replaced_at_once(api: Api, clock: Clock) -> None:
    """Nobody looked for years."""
    await Gate(api, clock).look()
    clock.now += 3650 * DAY
    gate = Gate(api, clock)
    await gate.look()
    assert trusted(api, gate, clock.now)
    assert len(api.bundle()) == 1


def test_a_serving_certificate_does_not_outlive_its_authority() -> None:
    signer = issuing.authority(BEGIN, 10 * DAY)
    made = issuing.serving(signer, {NAME}, BEGIN, 90 * DAY)
    assert made.certificate.not_valid_after_utc == BEGIN + 10 * DAY
    with pytest.raises(NoNamesError):
        renewed(None, set(), BEGIN, TERMS, trusted=True, anew=False)


def test_what_is_no_certificate_for_a_name_is_broken() -> None:
    signer = issuing.authority(BEGIN, DAY)
    with pytest.raises(BrokenError, match="is for no name"):
        issuing.read(issuing.written(Held(signer, (), signer)))


@pytest.mark.parametrize(("seconds", "look_s"), [(10, 0.5), (60, 2.0), (86400, 10.0)])
def test_how_often_a_gate_looks(seconds: float, look_s: float) -> None:
    terms = Terms(timedelta(seconds=seconds))
    assert terms.look_s == look_s
    assert terms.spread < terms.serving / 3, "a new authority signs before the certificate of the old one ends"
