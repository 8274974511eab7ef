"""Whether the API server reaches a gate, as the gates try it."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.serve.service.reaching import ALLOWED, Reaching

HOOK = 'admission webhook "workspacequotas.extauthz.dev" denied the request: '
REACHED = ApiError(403, "Forbidden", f"{HOOK}a gate was reached")
BLOCKED = ApiError(
    500,
    "InternalError",
    'Internal error occurred: failed calling webhook "workspacequotas.extauthz.dev": failed to call webhook: Post '
    '"https://extauthz.extauthz-system.svc:443/validate?timeout=2s": context deadline exceeded',
)
BUSY = ApiError(429, "TooManyRequests", "try again")
LEDGERS = "/apis/extauthz.dev/v1alpha1/workspaceledgers"


class Api:
    """Answers as told."""

    def __init__(self, answers: list) -> None:
        self.answers = answers
        self.asked: set[tuple] = set()

    async def call(self, method: str, path: str, *, query: Any = (), **_: Any) -> Any:
        self.asked.add((method, path, tuple(query)))
        if (answer := self.answers.pop(0)) is not None:
            raise answer


class Told(list):
    def __call__(self, level: str, event: str, **fields: object) -> None:
        self.append(event)


@pytest.mark.parametrize(
    ("answers", "reached", "told"),
    [
        ([REACHED], True, []),
        ([BLOCKED, BLOCKED], False, ["webhook-not-reached"]),
        ([BLOCKED, REACHED], True, ["webhook-not-reached", "webhook-reached"]),
        ([None], None, []),
        ([ApiError(403, "Forbidden", "you may not")], None, []),
        ([ApiError(500, "", 'failed calling webhook "others.example.dev"')], None, []),
        ([BLOCKED, Unreachable("nobody")], False, ["webhook-not-reached"]),
        ([BLOCKED, None], None, ["webhook-not-reached"]),
        ([BLOCKED, BUSY], False, ["webhook-not-reached"]),
        ([BLOCKED, None, REACHED], True, ["webhook-not-reached", "webhook-reached"]),
    ],
    ids=[
        "reached",
        "blocked",
        "reached again",
        "no such webhook",
        "no right",
        "another's",
        "API server away",
        "removed",
        "API server busy",
        "reached again after it was removed",
    ],
)
async def test_a_trial_shows_whether_a_gate_is_reached(answers: list, reached: bool | None, told: list[str]):
    api, heard = Api([*answers]), Told()
    tried = Reaching(True, heard)
    for _ in answers:
        await tried.look(api)
    assert (tried.reached, heard) == (reached, told)
    assert api.asked == {("POST", LEDGERS, (("dryRun", "All"),))}
    assert bool(tried.notes()) == (reached is False)


@pytest.mark.parametrize(
    ("answers", "policy", "reached"),
    [
        ([None, None], "Fail", None),
        ([REACHED, None, None], "Fail", False),
        ([REACHED, None, None], "Ignore", False),
        ([REACHED, None, None], "", None),
        ([REACHED, None, REACHED], "Fail", True),
    ],
    ids=["never refused", "no gate answers", "fails open", "is removed", "refused again"],
)
async def test_what_a_gate_once_refused_is_allowed_by_no_gate(answers: list, policy: str, reached: bool | None):
    tried = Reaching(True, Told(), lambda: policy)
    for answer in answers:
        await tried.look(Api([answer]))
    assert tried.reached == reached
    assert [ALLOWED[policy] in note for note in tried.notes()] == [True] * (reached is False)
    assert not tried.is_unreached, "another gate may not have seen the first one"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([BLOCKED], False),
        ([BLOCKED, BLOCKED], True),
        ([BLOCKED, BLOCKED, REACHED], False),
        ([BLOCKED, BUSY], False),
        ([BLOCKED, Unreachable("nobody")], False),
        ([BLOCKED, BUSY, BLOCKED], True),
    ],
    ids=["once", "twice in a row", "reached again", "busy", "API server away", "busy in between"],
)
async def test_quotas_say_it_after_two_trials_in_a_row(answers: list, says: bool):
    """One may meet a gate that ends."""
    tried = Reaching(True, Told())
    for answer in answers:
        await tried.look(Api([answer]))
    assert tried.is_unreached == says


async def test_while_a_trial_is_under_way_what_the_last_one_has_shown_stays():
    """Else each scrape meanwhile would end the alert."""
    seen: list[bool | None] = []

    class Slow(Api):
        async def call(self, *asked: Any, **more: Any) -> Any:
            seen.append(tried.reached)
            await super().call(*asked, **more)

    tried = Reaching(True, Told())
    for _ in range(2):
        await tried.look(Slow([BLOCKED]))
    assert seen == [None, False]


async def test_without_a_webhook_nothing_is_tried():
    await Reaching(False, Told()).run(Api([]))
