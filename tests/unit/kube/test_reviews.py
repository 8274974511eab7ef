"""What is read of the API server's judgements, and what is asked."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.kube.connection import Unreachable
from extauthz.kube.reviews import Person, Target, may, person_of

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


@pytest.mark.parametrize("answer", [None, [], {"status": None}])
async def test_an_answer_without_a_status_is_none(answer: Any):
    with pytest.raises(Unreachable):
        await person_of(Scripted(answer), "t")
