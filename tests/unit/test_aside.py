"""The process that reads bodies that take long: what it says, and what is said where it cannot."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from extauthz.core.intake.admission import Review, read
from extauthz.core.model import Unreadable, Write
from extauthz.core.objects.custom import Shape
from extauthz.serve.service.aside import COMMAND, MOST, AsideProcess
from extauthz.testing import admission, workload

REQUEST = json.dumps(admission(workload(annotations={"x": "y" * 20_000}))).encode()
OTHER = b"{"

HANGS = (sys.executable, "-c", "import time; time.sleep(600)")
ENDS = (sys.executable, "-c", "import sys; sys.stdin.buffer.read(4)")
TALKS_NONSENSE = (sys.executable, "-c", r"import os, sys; os.write(1, b'\0\0\0\1x'); sys.stdin.read()")
ENDS_HALFWAY = (
    sys.executable,
    "-c",
    "import sys; sys.stdin.buffer.read(4); sys.stdout.buffer.write(b'\\0\\0\\1\\0half')",
)


class Told(list[str]):
    def __call__(self, level: str, event: str, **fields: object) -> None:
        self.append(f"{level} {event} {fields.get('why', '')}".strip())


def aside(command: tuple[str, ...] = COMMAND, longest_s: float = 60.0) -> tuple[AsideProcess, Told]:
    told = Told()
    return AsideProcess(told, command, longest_s), told


async def test_it_says_what_is_said_here():
    process, told = aside()
    async with process:
        assert await asyncio.gather(*(process.review(one) for one in (REQUEST, OTHER, REQUEST))) == [
            read(one) for one in (REQUEST, OTHER, REQUEST)
        ]
    assert told == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        pytest.param(ENDS, "ended", id="ends"),
        pytest.param(ENDS_HALFWAY, "ended", id="ends-halfway"),
        pytest.param(("/no/such/program",), "ended", id="cannot-be-started"),
        pytest.param(TALKS_NONSENSE, "gave an answer that cannot be read", id="talks-nonsense"),
    ],
)
async def test_where_it_ends_the_body_is_refused_by_name_and_a_new_one_reads_on(command, why):
    process, told = aside(command)
    async with process:
        for _ in range(2):
            found = await process.review(REQUEST)
            assert isinstance(found, Unreadable)
            assert found.code == "not-read"
            assert why in found.detail
        process._command = COMMAND
        await process.review(REQUEST)
        assert isinstance(await process.review(REQUEST), Review)
    assert f"error aside-ended {why}" in told


async def test_where_it_takes_too_long_the_body_is_refused_by_name_and_a_new_one_reads_on():
    process, told = aside(HANGS, 0.05)
    async with process:
        hangs = asyncio.create_task(process.review(REQUEST))
        await started(process)
        process._command = COMMAND  # of the next one
        assert (await hangs).code == "not-read"
        process._longest_s = 60.0
        assert isinstance(await process.review(REQUEST), Review)
    assert told[0] == "error aside-ended took more than 0.05 s"


async def test_of_too_many_at_a_time_one_of_the_peer_that_has_most_is_refused_by_name():
    process, _ = aside(HANGS)
    async with process:
        many = [asyncio.create_task(process.review(REQUEST, source="10.0.0.1")) for _ in range(MOST + 1)]
        await asyncio.sleep(0)
        other = asyncio.create_task(process.review(REQUEST, source="10.0.0.2"))
        done, _ = await asyncio.wait(many, return_when=asyncio.FIRST_COMPLETED)
        assert {one.result().code for one in done} == {"too-many-bodies"}
        assert not other.done()
        for one in (*many, other):
            one.cancel()


async def test_who_sends_many_waits_behind_who_sends_one():
    process, _ = aside()
    order: list[str] = []

    async def send(name: str, source: str) -> None:
        assert isinstance(await process.review(REQUEST, source=source), Review)
        order.append(name)

    async with process, asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(send(f"many-{number}", "10.0.0.1"))
        await asyncio.sleep(0)
        group.create_task(send("one", "10.0.0.2"))
        with_room = process.review(OTHER, source="10.0.0.3")
        group.create_task(asyncio.wait_for(with_room, 60))
    assert order.index("one") <= 2


async def started(process: AsideProcess) -> None:
    while process._process is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_whose_caller_has_left_is_not_read():
    process, _ = aside()
    async with process:
        left = [asyncio.create_task(process.review(REQUEST)) for _ in range(3)]
        await asyncio.sleep(0)
        for one in left:
            one.cancel()
        assert isinstance(await process.review(REQUEST), Review)
        assert all(one.cancelled() for one in left)


async def test_where_it_ended_while_nothing_was_read_a_new_one_reads_the_next_body():
    process, told = aside(COMMAND)
    async with process:
        await started(process)
        child = process._process
        child.kill()
        await child.wait()
        assert isinstance(await process.review(REQUEST), Review)
        assert process._process is not child
    assert told == []


async def test_it_ends_with_the_gate():
    process, _ = aside(HANGS)
    async with process:
        await started(process)
        child = process._process
    assert child.returncode is not None


async def test_it_knows_custom_resources_as_the_gate_does():
    shapes = {("example.dev", "gadgets"): {"v1": Shape(("spec", "size"))}}
    asked = admission({"metadata": {"name": "g", "annotations": {"x": "y" * 20_000}}, "spec": {"size": 3}})
    asked["request"]["resource"] = {"group": "example.dev", "version": "v1", "resource": "gadgets"}
    body = json.dumps(asked).encode()
    process, _ = aside()
    async with process:
        found = await process.review(body, shapes)
    assert found == read(body, shapes=shapes)
    assert isinstance(found, Review)
    assert isinstance(found.question.reading, Write)


async def test_where_what_goes_with_a_body_cannot_be_sent_it_is_refused_and_the_next_has_its_turn():
    process, told = aside()
    async with process:
        odd = {("example.org", "crews"): {"v1": lambda: None}}
        for _ in range(MOST + 1):
            found = await process.review(REQUEST, odd)  # type: ignore[arg-type]
            assert isinstance(found, Unreadable)
            assert found.code == "not-read"
        assert await process.review(REQUEST) == read(REQUEST)
    assert all("aside" in one for one in told)
