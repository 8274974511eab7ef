"""Reading a file or a directory: what is read, in which order, and what is said when it cannot be."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from extauthz.files.content import Content, FileProblem, FilesError, read, signature
from extauthz.files.lines import steps
from extauthz.files.objects import objects


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
    assert signature(tmp_path) == signature(file) == ()


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
    placed = list(objects(Content("f", text.encode())))[item]
    return placed.problem(path, "", "", "").line


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
    assert line(text, 1, "d", "b") == 4


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
