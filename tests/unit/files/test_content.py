"""Reading a file or a directory: what is read, in which order, and what is said when it cannot be."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extauthz.inputs.files import content, watch
from extauthz.inputs.files.content import Content, FileProblem, FilesError, read, signature
from extauthz.inputs.files.objects import objects
from extauthz.inputs.files.text import steps
from extauthz.inputs.files.watch import Watched


def test_a_file_is_read_whatever_its_name(tmp_path):
    (tmp_path / "quotas.txt").write_bytes(b"a: 1")
    assert read(tmp_path / "quotas.txt") == (Content(str(tmp_path / "quotas.txt"), b"a: 1"),)


def test_of_a_directory_yaml_and_json_files_are_read_by_name(tmp_path):
    for name in ("b.yml", "a.yaml", "c.json", "README.md", ".hidden.yaml", "a.yaml~"):
        (tmp_path / name).write_text(name)
    (tmp_path / "d.yaml").mkdir()
    assert [content.data for content in read(tmp_path)] == [b"a.yaml", b"b.yml", b"c.json"]


def test_a_mounted_config_map_is_read_once(tmp_path):
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "q.yaml").write_text("a: 1")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "q.yaml").symlink_to("..data/q.yaml")
    assert read(tmp_path) == (Content(str(tmp_path / "q.yaml"), b"a: 1"),)


def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a: 1",))
    writer.start()
    assert read(pipe)[0].data == b"a: 1"
    writer.join()
    assert signature(pipe) == (), "its times change as it is read: it must not look like a file that was replaced"


def test_what_changes_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    """As a directory half of which is replaced between the reading of its files."""
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("old")
    second.write_text("old")
    read_bytes = Path.read_bytes

    def read_and_replace(path: Path) -> bytes:
        data = read_bytes(path)
        if data == b"old":
            first.write_text("new!")
            second.write_text("new!")
        return data

    monkeypatch.setattr(Path, "read_bytes", read_and_replace)
    assert [content.data for content in read(tmp_path)] == [b"new!", b"new!"]


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(FilesError) as caught:
        read(tmp_path / "gone.yaml")
    assert str(caught.value) == (
        f"{tmp_path}/gone.yaml: cannot be read: No such file or directory; check the path and its permissions"
    )


def test_every_file_of_a_directory_that_cannot_be_read_is_told(tmp_path):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).symlink_to("nowhere")
    with pytest.raises(FilesError) as caught:
        read(tmp_path)
    assert [problem.file for problem in caught.value.problems] == [f"{tmp_path}/a.yaml", f"{tmp_path}/b.yaml"]


def test_a_directory_without_files_is_refused(tmp_path):
    with pytest.raises(FilesError, match=r"holds no such files; put at least one file there that ends in \.yaml"):
        read(tmp_path)


def test_the_signature_tells_a_replaced_file_from_a_kept_one(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: 1")
    before = signature(tmp_path)
    assert signature(tmp_path) == before
    (tmp_path / "new").write_text("a: 1")
    os.replace(tmp_path / "new", file)
    assert signature(tmp_path) != before
    file.unlink()
    assert signature(tmp_path) == ()
    assert signature(file) == ((str(file), 0, 0, 0, 0, 0),), "no file is not an empty directory"


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (FileProblem("f", 3, "spec.mode", "is bad", "mend it"), "f:3: spec.mode: is bad; mend it"),
        (FileProblem("f", 3, "", "is bad", "mend it"), "f:3: is bad; mend it"),
        (FileProblem("f", None, "", "is bad", "mend it"), "f: is bad; mend it"),
    ],
)
def test_a_problem_prints_as_compilers_do(problem, text):
    assert str(problem) == text


def test_an_error_prints_a_problem_a_line():
    one, two = FileProblem("f", 1, "", "a", "b"), FileProblem("g", 2, "", "c", "d")
    assert str(FilesError([one, two])) == "f:1: a; b\ng:2: c; d"


LIST = """\
apiVersion: v1
items:
- kind: A
  spec:
    hard:
      requests.cpu: "1"
# é ü: not one byte each
- kind: B
  spec: {hard: {pods: 1,
    "requests.cpu": 2}}
  list:
  - x
  - y: [1,
     2]
kind: List
---
kind: C
spec:
  hard: {}
"""
JSON = '{"kind": "List", "items": [\n{"a": {"b":\n[1,\n2]}},\n\n{"a":\n{"b": [{"c":\t3}]}}]}'


def line(text: str, item: int, *path: str | int) -> int | None:
    return objects([Content("f", text.encode())]).objects[item].problem(path, "", "", "").line


@pytest.mark.parametrize(
    ("text", "item", "path", "number"),
    [
        (LIST, 0, (), 3),
        (LIST, 0, ("spec",), 4),
        (LIST, 0, ("spec", "hard", "requests.cpu"), 6),
        (LIST, 1, ("kind",), 8),
        (LIST, 1, ("spec", "hard", "pods"), 9),
        (LIST, 1, ("spec", "hard", "requests.cpu"), 10),
        (LIST, 1, ("list", 0), 12),
        (LIST, 1, ("list", 1), 13),
        (LIST, 1, ("list", 1, "y", 1), 14),
        (LIST, 1, ("list", "1", "y"), 13),
        (LIST, 2, (), 17),
        (LIST, 2, ("spec", "hard"), 19),
        (JSON, 0, (), 2),
        (JSON, 0, ("a", "b", 1), 4),
        (JSON, 1, ("a",), 6),
        (JSON, 1, ("a", "b", 0, "c"), 7),
    ],
)
def test_a_field_is_found(text, item, path, number):
    assert line(text, item, *path) == number


@pytest.mark.parametrize(
    ("path", "number"),
    [
        pytest.param(("metadata", "name"), 3, id="nothing-of-it"),
        pytest.param(("spec", "mode"), 4, id="a-part-of-it"),
        pytest.param(("spec", 0), 4, id="a-number-in-a-mapping"),
        pytest.param(("kind", "x"), 3, id="below-a-scalar"),
    ],
)
def test_of_a_field_that_is_not_there_the_line_is_that_of_the_nearest_above(path, number):
    assert line(LIST, 0, *path) == number


@pytest.mark.parametrize("path", [("list", 7), ("list", "x")])
def test_of_an_element_that_is_not_there_the_line_is_that_of_the_list(path):
    assert line(LIST, 1, *path) == 11


def test_an_anchor_from_another_item_does_not_matter():
    text = "items:\n- &a {b: 1}\n- c: 1\n  d: *a\n  e:\n    f: 2\nkind: List\n"
    assert line(text, 1, "e", "f") == 6
    assert line(text, 1, "d", "b") == 2, "where it is written"


def test_an_empty_item_stands_where_its_dash_is():
    assert line("items:\n- a: 1\n-\nkind: List\n", 1, "kind") == 3


def test_where_json_is_not_yaml_the_line_is_that_of_what_was_reached():
    assert line('{"a":\n1,\n"b":\n"\\ud83d\\ude00", "c": {"d":\n1}}', 0, "c", "d") == 1


@pytest.mark.parametrize(
    ("dotted", "path"),
    [
        ("", []),
        ("spec.replicas", ["spec", "replicas"]),
        ("spec.containers[0].name", ["spec", "containers", "0", "name"]),
        ("resources.requests[nvidia.com/gpu]", ["resources", "requests", "nvidia.com/gpu"]),
    ],
)
def test_steps_of_a_path_in_a_message(dotted, path):
    assert steps(dotted) == path


# Watching files: every way of replacing content is noticed within a second, and bad content changes nothing.


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
    assert watch.TICK_S + watch.SETTLES * watch.SETTLE_S < 1.0


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
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "q.yaml").write_text("one")
    (tmp_path / "here" / "q.yaml").symlink_to(tmp_path / "there" / "q.yaml")
    async with watching(tmp_path / "here" / "q.yaml") as (_, told):
        (tmp_path / "there" / "q.yaml").write_text("two")
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
