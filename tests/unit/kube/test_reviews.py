"""What is read of the API server's judgements, and what is asked."""

from __future__ import annotations

import io
from typing import Any

import pytest

from extauthz.core.intake.admission import CLAMP_NAME, NAME
from extauthz.core.queries import Queries
from extauthz.core.quota.selectors import LabelSelector, Requirement
from extauthz.inputs.kube import webhooks
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.inputs.kube.reviews import Person, Target, may, person_of
from extauthz.serve.service.live import Askers
from extauthz.serve.service.settings import Settings
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.observers import Serving, notes
from extauthz.testing import gate, quota
from extauthz.tools.render.webhook import WebhookOptions, clamp_configuration, configuration

OLGA = {"username": "olga", "uid": "u1", "groups": ["owners"], "extra": {"scopes": ["a", "b"]}}


class Scripted:
    """Answers each call with the same status."""

    def __init__(self, status: Any) -> None:
        self._status = status
        self.bodies: list[Any] = []

    async def call(self, method: str, path: str, *, body: Any = None, **more: Any) -> Any:
        self.bodies.append(body)
        return self._status


async def test_a_person_has_all_that_the_review_says():
    api = Scripted({"status": {"authenticated": True, "user": OLGA}})
    assert await person_of(api, "t") == Person("olga", ("owners",), "u1", (("scopes", ("a", "b")),))
    assert api.bodies[0]["spec"] == {"token": "t"}


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False, "user": OLGA},
        {"user": OLGA},
        {"authenticated": "true", "user": OLGA},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
    ],
)
async def test_what_is_not_plainly_authenticated_is_nobody(status: Any):
    assert await person_of(Scripted({"status": status}), "t") is None


@pytest.mark.parametrize(
    ("status", "allowed"),
    [({"allowed": True}, True), ({"allowed": False}, False), ({}, False), ({"allowed": True, "denied": True}, False)],
)
async def test_only_what_is_plainly_allowed_is(status: Any, allowed: bool):
    api = Scripted({"status": status})
    person = Person("olga", ("owners",), "u1", (("scopes", ("a",)),))
    assert await may(api, person, Target("", "namespaces", "shop", "shop")) is allowed
    assert api.bodies[0]["spec"] == {
        "user": "olga",
        "groups": ["owners"],
        "uid": "u1",
        "extra": {"scopes": ["a"]},
        "resourceAttributes": {
            "verb": "get",
            "group": "",
            "resource": "namespaces",
            "name": "shop",
            "namespace": "shop",
        },
    }


async def test_of_who_calls_nothing_is_told_and_a_subresource_is_named():
    api = Scripted({"status": {"allowed": True}})
    assert await may(api, None, Target("extauthz.dev", "workspacequotas/status", verb="patch"))
    asked = {"verb": "patch", "group": "extauthz.dev", "resource": "workspacequotas", "subresource": "status"}
    assert (api.bodies[0]["kind"], api.bodies[0]["spec"]) == (
        "SelfSubjectAccessReview",
        {"resourceAttributes": asked},
    )


@pytest.mark.parametrize("answer", [None, [], {"status": None}])
async def test_an_answer_without_a_status_is_none(answer: Any):
    with pytest.raises(Unreachable):
        await person_of(Scripted(answer), "t")


WORKSPACES = LabelSelector((), (Requirement("workspace", "Exists"),))
PLACES = {"shop": {"workspace": "acme"}, "lab": {}, "kube-system": {}, "extauthz-system": {}}


class Configurations:
    """An API server that has webhook configurations and nothing else."""

    def __init__(self, *trees: Any) -> None:
        self.trees = {f"{webhooks.COLLECTION}/{one['kind'].lower()}s/{one['metadata']['name']}": one for one in trees}
        self.fault: Exception | None = None

    async def call(self, method: str, path: str, **_: Any) -> Any:
        if self.fault is not None:
            raise self.fault
        if path not in self.trees:
            raise ApiError(404, "NotFound", f"no {path}")
        return self.trees[path]


def both(**options: Any) -> Configurations:
    asked = WebhookOptions(**options)
    return Configurations(configuration(asked), clamp_configuration(asked))


async def read(api: Configurations, own: str = "") -> webhooks.Webhooks:
    return await webhooks.read(api, "extauthz", {NAME, CLAMP_NAME}.__contains__, own)


async def test_what_is_left_out_by_the_selector_is_named_but_for_what_never_is_asked_about():
    found = await read(both(namespace_selector=WORKSPACES))
    assert (found.unasked(PLACES), found.unlowered(PLACES)) == (("lab",), ("lab",))
    everywhere = await read(both(except_namespaces=("shop",)))
    assert everywhere.unasked(PLACES) == ("shop",)


async def test_gates_that_are_asked_by_a_url_know_their_own_namespace_by_themselves():
    by_url = both(url="https://gate.example.com")
    assert (await read(by_url)).unasked(PLACES) == ("extauthz-system",)
    found = await read(by_url, "extauthz-system")
    assert (found.unasked(PLACES), found.unlowered(PLACES)) == ((), ())


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_it_is_known_what_the_webhook_does_while_no_gate_answers(policy: str):
    tree = configuration(WebhookOptions())
    tree["webhooks"][0]["failurePolicy"] = policy
    assert (await read(Configurations(tree))).unanswered == policy


async def test_without_a_configuration_nothing_is_asked_about():
    found = await read(Configurations())
    assert (found.decides, found.lowers) == (None, None)
    assert found.unasked(PLACES) == ("shop", "lab", "extauthz-system")
    only_one = await read(Configurations(configuration(WebhookOptions())))
    assert (only_one.unasked(PLACES), only_one.unlowered(PLACES)) == ((), ("shop", "lab"))


async def test_webhooks_of_others_in_a_configuration_of_that_name_are_not_ours():
    tree = configuration(WebhookOptions())
    tree["webhooks"][0]["name"] = "other.example.dev"
    assert (await read(Configurations(tree))).decides is None


def following(**settings: Any) -> Askers:
    told = Settings(webhook=":9443", **settings)
    return Askers(told, Log(io.StringIO()), lambda: False)


async def test_a_gate_without_the_right_says_which_it_lacks_and_keeps_what_it_knew_while_nobody_answers():
    api = both(namespace_selector=WORKSPACES)
    asked = following(grpc="off")
    await asked.look(api)
    assert asked.serving().unasked(PLACES) == ("lab",)
    api.fault = Unreachable("nobody")
    await asked.look(api)
    assert asked.serving().unasked(PLACES) == ("lab",)
    api.fault = ApiError(403, "Forbidden", "no")
    await asked.look(api)
    assert asked.serving().unknown == (
        "the gates need get of validatingwebhookconfigurations and mutatingwebhookconfigurations named extauthz"
    )
    assert (asked.serving().unasked(PLACES), asked.serving().lowers(PLACES)) == ((), True)


@pytest.mark.parametrize(
    ("serving", "unasked", "lowers"),
    [
        (Serving(), (), False),
        (Serving(asked_to_lower=True), (), True),
        (Serving(webhooks=webhooks.Webhooks()), (), False),
        (Serving(webhooks=webhooks.Webhooks(), asked_to_lower=True), (), True),
        (Serving(webhooks=webhooks.Webhooks(), asked_to_lower=True, by_envoy=False), ("shop", "lab"), False),
        (Serving(webhooks=webhooks.Webhooks(LabelSelector(), WORKSPACES), by_envoy=False), (), False),
        (Serving(webhooks=webhooks.Webhooks(LabelSelector(), LabelSelector()), by_envoy=False), (), True),
    ],
    ids=["nobody", "an Envoy", "no configuration", "no configuration, an Envoy", "none at all", "some", "all"],
)
def test_who_serves_a_quota(serving: Serving, unasked: tuple[str, ...], lowers: bool):
    there: dict[str, dict[str, str]] = {"shop": {"workspace": "acme"}, "lab": {}}
    assert (serving.unasked(there), serving.lowers(there)) == (unasked, lowers)


def test_readiness_names_quotas_in_mode_clamp_that_nobody_lowers_counts_for():
    quotas = [quota("a", {"pods": "1"}, mode="Clamp"), quota("b", {"pods": "1"})]
    queries = Queries(gate(quotas).ledger)
    (told,) = notes(queries, Serving())
    assert told.startswith("mode Clamp of a refuses as Enforce does, because nobody asks to lower counts: install the")
    assert notes(queries, Serving(asked_to_lower=True)) == []
    assert notes(queries, Serving(audits=True)) == []
    unknown, *_ = notes(queries, Serving(unknown="no right"))
    assert unknown == "what the webhook is asked about is not known: no right"
    alone, *_ = notes(queries, Serving(webhooks=webhooks.Webhooks(), by_envoy=False))
    assert alone == "no webhook configuration leads to the gates: nothing is refused"
