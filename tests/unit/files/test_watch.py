"""Watching files: every way of replacing content is noticed within a second, and bad content changes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extauthz.files import content, watch
from extauthz.files.content import FileProblem, FilesError
from extauthz.files.watch import Watched

WITHIN_S = 5.0
"""What a test waits for at most: a busy machine may need longer than the second that is promised."""

QUIET_S = 1.2
"""Longer than two looks: what has not been noticed by then will not be."""


def parse(contents) -> str:
    text = "+".join(content.data.decode() for content in contents)
    if "bad" in text:
        raise FilesError([FileProblem("f", 1, "", text, "mend it")])
    return text


class Told:
    """What a watcher told, in order; bad content with an exclamation mark."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    def accept(self, value: str) -> None:
        self._queue.put_nowait(value)

    def refuse(self, error: FilesError) -> None:
        self._queue.put_nowait("!" + error.problems[0].detail.split(":")[0])

    async def next(self) -> str:
        return await asyncio.wait_for(self._queue.get(), WITHIN_S)

    async def is_quiet(self) -> bool:
        await asyncio.sleep(QUIET_S)
        return self._queue.empty()


@asynccontextmanager
async def watching(path: Path):
    watched = Watched(path, parse)
    value = watched.load()
    told = Told()
    task = asyncio.create_task(watched.watch(told.accept, told.refuse))
    try:
        yield value, told
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def write(path: Path, text: str) -> None:
    path.write_text(text)


def replace(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def recreate(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


def publish(volume: Path, name: str, **files: str) -> None:
    """As the kubelet does it (``pkg/volume/util/atomic_writer.go``): a new directory, and a swapped link to it."""
    (volume / name).mkdir()
    for file, text in files.items():
        (volume / name / f"{file}.yaml").write_text(text)
    (volume / "..data_tmp").symlink_to(name)
    os.rename(volume / "..data_tmp", volume / "..data")


@pytest.mark.parametrize("change", [write, replace, recreate])
async def test_a_changed_file_is_handed_on_every_time(tmp_path: Path, change: Callable[[Path, str], None]):
    file = tmp_path / "q.yaml"
    file.write_text("one")
    async with watching(file) as (value, told):
        assert value == "one"
        for text in ("two", "three"):
            change(file, text)
            assert await told.next() == text


def test_a_change_takes_effect_within_a_second_on_an_idle_machine():
    """A notification waits for the writer to settle; where none comes, the look at stat finds it."""
    assert watch.TICK_MS + watch.SETTLE_MS < 1000


async def test_a_change_between_load_and_watch_is_not_missed(tmp_path: Path):
    file = tmp_path / "q.yaml"
    file.write_text("one")
    async with watching(file) as (_, told):
        file.write_text("two")  # the task has not run yet
        assert await told.next() == "two"


async def test_bad_content_is_told_once_and_good_content_after_it_is_handed_on(tmp_path: Path):
    file = tmp_path / "q.yaml"
    file.write_text("one")
    async with watching(file) as (_, told):
        replace(file, "bad 1")
        assert await told.next() == "!bad 1"
        assert await told.is_quiet()
        replace(file, "one")
        assert await told.next() == "one", "the good content is back in force: whoever counts bad files must know"


async def test_a_deleted_file_is_told_and_a_recreated_one_is_handed_on(tmp_path: Path):
    file = tmp_path / "q.yaml"
    file.write_text("one")
    async with watching(file) as (_, told):
        file.unlink()
        assert await told.next() == "!cannot be read"
        assert await told.is_quiet()
        file.write_text("two")
        assert await told.next() == "two"


async def test_the_same_content_is_no_change(tmp_path: Path):
    file = tmp_path / "q.yaml"
    file.write_text("one")
    async with watching(file) as (_, told):
        os.utime(file)
        replace(file, "one")
        (tmp_path / "other").write_text("x")
        assert await told.is_quiet()


@pytest.mark.parametrize("of", ["file", "directory"])
async def test_a_swapped_config_map_is_handed_on(tmp_path: Path, of: str):
    publish(tmp_path, "..1", a="one")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    async with watching(tmp_path / "a.yaml" if of == "file" else tmp_path) as (value, told):
        assert value == "one"
        publish(tmp_path, "..2", a="two")
        assert await told.next() == "two"
        publish(tmp_path, "..3", a="bad 3")
        assert await told.next() == "!bad 3"
        publish(tmp_path, "..4", a="four")
        assert await told.next() == "four"


async def test_files_that_come_and_go_in_a_directory_are_handed_on(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("a")
    async with watching(tmp_path) as (_, told):
        (tmp_path / "b.yaml").write_text("b")
        assert await told.next() == "a+b"
        (tmp_path / "a.yaml").unlink()
        assert await told.next() == "b"


async def test_a_directory_that_is_made_anew_is_looked_at(tmp_path: Path):
    directory = tmp_path / "a" / "b"
    directory.mkdir(parents=True)
    (directory / "q.yaml").write_text("one")
    async with watching(directory) as (_, told):
        (directory / "q.yaml").unlink()
        assert (await told.next()).startswith("!")
        directory.rmdir()
        directory.parent.rmdir()
        assert (await told.next()).startswith("!")
        directory.mkdir(parents=True)
        (directory / "q.yaml").write_text("two")
        while (text := await told.next()).startswith("!"):
            pass
        assert text == "two"


async def test_a_link_to_elsewhere_is_followed(tmp_path: Path):
    """No notification comes from there: a look at ``stat`` finds it."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "q.yaml").write_text("one")
    (tmp_path / "here" / "q.yaml").symlink_to(tmp_path / "there" / "q.yaml")
    async with watching(tmp_path / "here" / "q.yaml") as (_, told):
        (tmp_path / "there" / "q.yaml").write_text("two")
        assert await told.next() == "two"


async def test_without_notifications_changes_are_found_all_the_same(tmp_path: Path, monkeypatch):
    """As where the inotify instances of the machine are used up."""

    async def refuse(*_args, **_options):
        raise OSError("inotify: too many open files")
        yield

    monkeypatch.setattr("extauthz.files.watch.awatch", refuse)
    file = tmp_path / "q.yaml"
    file.write_text("one")
    async with watching(file) as (_, told):
        replace(file, "two")
        assert await told.next() == "two"


@pytest.mark.parametrize("place", ["q.yaml", "."])
async def test_a_log_that_is_written_beside_it_has_nothing_read_again(tmp_path: Path, monkeypatch, place: str):
    (tmp_path / "q.yaml").write_text("one")
    async with watching(tmp_path / place) as (_, told):
        (tmp_path / "q.yaml").write_text("two")
        assert await told.next() == "two"
        reads = []
        read = content.read
        monkeypatch.setattr(content, "read", lambda path: reads.append(path) or read(path))
        for number in range(10):
            (tmp_path / "gate.log").write_text(str(number))
            await asyncio.sleep(QUIET_S / 10)
        assert not reads
        (tmp_path / "q.yaml").write_text("three")
        assert await told.next() == "three"
        assert reads, "it is by this function that they are read"


def test_loading_bad_content_raises(tmp_path: Path):
    (tmp_path / "q.yaml").write_text("bad")
    with pytest.raises(FilesError, match="f:1: bad; mend it"):
        Watched(tmp_path / "q.yaml", parse).load()


async def test_after_a_load_that_failed_better_content_is_waited_for(tmp_path: Path):
    file = tmp_path / "q.yaml"
    watched = Watched(file, parse)
    with pytest.raises(FilesError):
        watched.load()
    told = Told()
    task = asyncio.create_task(watched.watch(told.accept, told.refuse))
    file.write_text("one")
    assert await told.next() == "one"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_loading_twice_gives_the_content_twice(tmp_path: Path):
    (tmp_path / "q.yaml").write_text("one")
    watched = Watched(tmp_path / "q.yaml", parse)
    assert [watched.load(), watched.load()] == ["one", "one"]
