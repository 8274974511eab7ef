"""Reading a file or a directory: what is read, in which order, and what is said when it cannot be."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from extauthz.files.content import Content, FileProblem, FilesError, read, signature


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
