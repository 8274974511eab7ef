"""What a gate records, and what is read of it again."""

from __future__ import annotations

import gzip
import json
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.model import Decision, Operation, Requester, Verdict, WorkloadRef, Write
from extauthz.tell.record import files as record_files
from extauthz.tell.record import reading
from extauthz.tell.record import recorder as recorders
from extauthz.tell.record.files import Files
from extauthz.tell.record.lines import Ask, Gap, Gone, Load
from extauthz.tell.record.reading import Begun, Record, RecordError
from extauthz.testing import create, owned_by, quota, scale, workload
from extauthz.tools.replay.run import Replay
from tests.support.recording import BEGINS_S, Recorded

FIVE = quota("acme", {"pods": "5"})


def web(replicas: int, version: int = 1) -> dict[str, Any]:
    return workload("web", replicas, version=str(version))


def lines(gate: Recorded) -> list[dict[str, Any]]:
    """Of all files of a record, which ends with that, in the order of their names."""
    gate.close()
    return [json.loads(line) for path in sorted(gate.folder.iterdir()) for line in gzip.open(path)]


def of_kind(gate: Recorded, kind: str) -> list[dict[str, Any]]:
    return [line for line in lines(gate) if line["k"] == kind]


@pytest.fixture
def gate(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path, [FIVE], web(2), workload("batch", 1))


def test_a_file_begins_with_the_settings_and_the_whole_state(gate: Recorded):
    first, *state = lines(gate)
    assert (first["k"], first["schema"], first["gate"], first["state"]) == ("start", 1, "gate-0", len(state))
    assert first["settings"]["window_s"] == 90.0
    assert [line["k"] for line in state] == ["quota", "ns", "load", "load"]
    assert state[0]["spec"]["hard"] == {"pods": "5"}
    assert state[2]["workload"] == "deployments.apps/team-a/web"
    assert (state[2]["replicas"], state[2]["pod"]["requests.cpu"], state[2]["labels"]) == (2, "1", {"app": "web"})


def test_a_grant_its_landing_and_an_end_are_a_line_each(gate: Recorded):
    gate.ask(scale("web", 4))
    gate.later(2)
    gate.observe(web(4, 2))
    gate.gone(workload("batch", 1))
    said = [(one["k"], one.get("workload"), one.get("to"), one.get("replicas")) for one in lines(gate)[5:]]
    assert said == [
        ("ask", "deployments.apps/team-a/web", 4, None),
        ("load", "deployments.apps/team-a/web", None, 4),
        ("gone", "deployments.apps/team-a/batch", None, None),
    ]


def test_a_name_that_only_a_state_file_may_have_breaks_no_line(tmp_path: Path):
    gate = Recorded(tmp_path, [FIVE], workload('w"eb', 2))
    write = Write(WorkloadRef("apps", "deployments", "team-a", 'w"eb'), Operation.PATCH, True, False, 3)
    gate.recorder.decided(gate.gate.decide(write, "d1", gate.now_s), write)
    (ask,) = of_kind(gate, "ask")
    assert (ask["workload"], ask["to"]) == ('deployments.apps/team-a/w"eb', 3)


def test_in_a_burst_of_changes_each_end_has_its_own_time(tmp_path: Path):
    """As late as the last of them, a pod and the one in its place counted both until then."""
    pods = [workload(f"pod-{number}", 1) for number in range(8)]
    gate = Recorded(tmp_path, [quota("acme", {"pods": "9"})], *pods)
    begins_s = gate.now_s
    for number, pod in enumerate(pods):
        gate.now_s = begins_s + 0.03 * (number + 1)
        gate.gone(pod)
        gate.observe(workload(f"next-{number}", 1))
    gate.close()
    events = [one for one in Record(tmp_path).events() if isinstance(one, Gone | Load)][len(pods) :]
    assert [one.at_s - begins_s for one in events] == pytest.approx(
        [0.03 * (at // 2 + 1) for at in range(16)], abs=1e-3
    )
    assert {type(one) for one in events[::2]} | {type(one) for one in events[1::2]} == {Gone, Load}
    there = 8
    for one in events:
        there += 1 if isinstance(one, Load) else -1
        assert 7 <= there <= 9


def test_what_ends_without_landing_is_a_line_too(gate: Recorded):
    decision = gate.ask(scale("web", 4))
    gate.later(2)
    gate.gate.ledger.pending.forget(str(decision.pending_write))
    (load,) = of_kind(gate, "load")[2:]
    assert (load["replicas"], "most" in load) == (2, False)


def test_equal_refused_retries_are_one_line_that_says_how_many(gate: Recorded, tmp_path: Path):
    for _ in range(4):
        gate.ask(scale("web", 9))
        gate.later(15)
    gate.ask(scale("web", 8))
    (first, retries, other) = of_kind(gate, "ask")
    assert (first["id"], "n" in first) == (retries["id"], False)
    assert (retries["n"], retries["last"], retries["t"]) == (4, BEGINS_S + 45, BEGINS_S)
    assert other["to"] == 8
    found = [event for event in Record(tmp_path).events() if isinstance(event, Ask)]
    assert [(one.to, one.n, one.ends_s - one.at_s) for one in found] == [(9, 4, 45.0), (8, 1, 0.0)]


def test_what_becomes_free_in_its_tree_ends_a_row_of_retries(gate: Recorded):
    """So no retry of a row may have met other room than the first."""
    gate.ask(scale("web", 9))
    gate.later(1)
    gate.gone(workload("batch", 1))
    gate.ask(scale("web", 9))
    assert len({one["id"] for one in of_kind(gate, "ask")}) == 2


def test_a_status_write_is_no_line(gate: Recorded):
    gate.observe(web(2, 7))
    assert len(of_kind(gate, "load")) == 2


def test_questions_and_what_is_no_write_are_not_recorded(gate: Recorded):
    gate.recorder.decided(Decision("d1", Verdict.ALLOW, "read", "reads"), None)
    dry = create(workload("new", 1), query="?dryRun=All")
    gate.ask(dry)
    assert of_kind(gate, "ask") == []


def test_an_object_brings_the_cost_of_its_pods(gate: Recorded):
    gate.ask(create(workload("new", 2, {"cpu": "500m"})))
    (ask,) = of_kind(gate, "ask")
    assert (ask["operation"], ask["to"], ask["pod"]["requests.cpu"]) == ("create", 2, "500m")
    assert ask["labels"] == {"app": "new"}


def test_what_a_deployment_covers_is_beside_it(tmp_path: Path):
    owned = workload("web-1", 3, kind="ReplicaSet", ownerReferences=owned_by("web"), labels={"app": "web"})
    gate = Recorded(tmp_path, [FIVE], web(2), owned)
    (load,) = of_kind(gate, "load")
    assert (load["replicas"], load["beside"]["count/replicasets.apps"]) == (2, "1")
    (read,) = [event for event in Record(tmp_path).events() if isinstance(event, Load)]
    assert read.beside["count/replicasets.apps"] == 10**9


def test_nothing_about_persons_is_recorded(tmp_path: Path):
    """Neither users, nor annotations, nor whom a quota binds, nor what it says to owners."""
    secret = quota("acme", {"pods": "5"}, requesters={"include": {"users": ["mallory"]}})
    gate = Recorded(tmp_path, [secret], workload("web", 2, annotations={"x": "mallory"}))
    gate.ask(scale("web", 4)._replace(source="mallory", requester="mallory", headers={"user-agent": "mallory"}))
    reading = gate.ask(create(workload("new", 1, annotations={"x": "mallory"})))
    assert reading.verdict is Verdict.ALLOW
    assert Requester("mallory").user == "mallory"
    assert "mallory" not in json.dumps(lines(gate))


@pytest.mark.parametrize(
    ("user", "user_agent", "asker"),
    [
        ("system:serviceaccount:kube-system:horizontal-pod-autoscaler", "", "kube-system/horizontal-pod-autoscaler"),
        (
            "",
            "kube-controller-manager/v1.36.3 (linux/amd64) kubernetes/abc/system:serviceaccount:kube-system:"
            "horizontal-pod-autoscaler",
            "kube-system/horizontal-pod-autoscaler",
        ),
        ("mallory", "x/system:serviceaccount:keda:keda-operator", ""),
        ("system:serviceaccount:a:b/../c", "", ""),
        ('system:serviceaccount:a:b","to":9', "", ""),
    ],
    ids=["a service account", "in the user agent alone", "a person", "no name", "no JSON"],
)
@pytest.mark.parametrize("is_granted", [True, False])
def test_an_autoscaler_is_told_by_its_service_account(
    tmp_path: Path, is_granted: bool, user: str, user_agent: str, asker: str
):
    gate = Recorded(tmp_path, [quota("acme", {"pods": "5"})], workload("web", 2))
    request = scale("web", 4 if is_granted else 9)
    gate.ask(request._replace(requester=user, headers={**request.headers, "user-agent": user_agent}))
    (ask,) = of_kind(gate, "ask")
    assert ask.get("asker", "") == asker
    (read,) = [event for event in Record(tmp_path).events() if isinstance(event, Ask)]
    assert (read.asker, read.to) == (asker, 4 if is_granted else 9)


def test_files_are_for_their_owner_alone(gate: Recorded, tmp_path: Path):
    gate.close()
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]


def test_a_file_ends_after_an_hour_and_the_next_one_says_all_anew(gate: Recorded, tmp_path: Path):
    gate.ask(scale("web", 9))
    gate.later(3601)
    gate.observe(web(3, 2))
    gate.later(1)
    gate.close()
    first, second = sorted(tmp_path.iterdir())
    rows = [json.loads(line) for line in gzip.decompress(second.read_bytes()).splitlines()]
    assert rows[0]["state"] == 4
    assert [row["replicas"] for row in rows if row["k"] == "load"] == [3, 1]
    assert first.stat().st_size > 0


def test_a_file_ends_when_it_is_full(gate: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_files, "FILE", 1000)
    for number in range(8):
        gate.ask(scale("web", 3 + number % 2))
    gate.later(1)
    gate.close()
    assert len(list(tmp_path.iterdir())) == 2


def test_the_oldest_files_go_first(tmp_path: Path):
    for number in range(4):
        path = tmp_path / f"g.{number}.jsonl.gz"
        path.write_bytes(b"x" * 100)
        os.utime(path, (1000.0 + number, 1000.0 + number))
    (tmp_path / "other.1.jsonl.gz").write_bytes(b"x" * 9)
    kept = Files(tmp_path, "g", 250, 1e9, lambda: 2000.0)
    kept.begin(2000.0, [])
    kept.close()
    assert sorted(path.name for path in tmp_path.iterdir())[:2] == [
        "g.19700101T003320Z." + name(tmp_path),
        "g.2.jsonl.gz",
    ]
    old = Files(tmp_path, "g", 1 << 30, 10.0, lambda: 2000.0)
    old.begin(1e10, [])
    old.close()
    assert not (tmp_path / "g.3.jsonl.gz").exists()


def test_what_gates_left_that_are_gone_goes_too(tmp_path: Path):
    """A pod has a new name after each rollout, and a claim outlives it. Others may still write to what is young."""
    for name, changed_s in (("gone.1", 1000.0), ("gone.2", 2000.0), ("young.1", 9000.0)):
        path = tmp_path / f"{name}.jsonl.gz"
        path.write_bytes(b"x" * 100)
        os.utime(path, (changed_s, changed_s))
    (tmp_path / "notes.txt").write_text("not ours")
    kept = Files(tmp_path, "g", 150, 1e9, lambda: 10_000.0)
    kept.begin(10_000.0, [])
    kept.close()
    left = {path.name.partition(".")[0] for path in tmp_path.iterdir()}
    assert left == {"young", "g", "notes"}


def name(folder: Path) -> str:
    return next(path.name for path in folder.glob("g.1970*")).removeprefix("g.19700101T003320Z.")


def test_a_full_queue_drops_counts_and_leaves_a_gap(gate: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recorders, "MOST", 3)
    for number in range(5):
        gate.ask(scale("web", 3 + number))
    assert (gate.recorder.dropped, gate.recorder.is_incomplete) == (2, True)
    monkeypatch.undo()
    gate.later(10)
    gate.tell_all()
    gate.ask(scale("web", 3))
    (gap,) = of_kind(gate, "gap")
    assert (gap["lost"], gap["from"], gap["to"]) == (2, BEGINS_S, BEGINS_S + 10)
    found = [event for event in Record(tmp_path).events() if isinstance(event, Gap)]
    assert [(one.at_s, one.until_s) for one in found] == [(BEGINS_S, BEGINS_S + 10)]
    assert Replay(Record(tmp_path), None).run().gap_s == 10
    assert len(list(tmp_path.iterdir())) == 2, "what is there is said anew"


def test_a_folder_that_cannot_be_written_costs_lines_and_nothing_else(tmp_path: Path):
    (tmp_path / "taken").write_text("a file")
    gate = Recorded(tmp_path / "taken", [FIVE], web(2))
    gate.ask(scale("web", 3))
    gate.later(1)
    gate.recorder.flush()
    assert gate.files.trouble
    assert gate.recorder.dropped > 0
    (tmp_path / "taken").unlink()
    gate.later(5)
    gate.recorder.flush()
    gate.close()
    assert gate.files.trouble == ""
    assert len(of_kind(gate, "gap")) == 1


def cut(folder: Path, to: Path, size: int) -> Path:
    to.mkdir()
    (path,) = folder.iterdir()
    (to / path.name).write_bytes(path.read_bytes()[:size])
    return to


def test_cut_anywhere_the_rest_reads(gate: Recorded, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path):
    for number in range(30):
        gate.ask(scale("web", 3 + number % 3))
        gate.later(1)
    gate.close()
    (path,) = tmp_path.iterdir()
    whole = list(Record(tmp_path).events())
    sizes = range(400, path.stat().st_size, 37)
    for size in sizes:
        record = Record(cut(tmp_path, tmp_path_factory.mktemp("cut") / "x", size))
        found = list(record.events())
        assert found[1:] == whole[1 : len(found)], size
        assert len(record.warnings) <= 1
    assert len(sizes) > 20


def test_a_member_in_the_middle_that_is_broken_is_a_gap(gate: Recorded, tmp_path: Path):
    for number in range(6):
        gate.ask(scale("web", 3 + number % 3))
        gate.later(10)
    gate.close()
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    members = [at for at in range(len(data)) if data[at : at + 3] == b"\x1f\x8b\x08"]
    data[members[3] + 12] ^= 0xFF
    path.write_bytes(data)
    record = Record(tmp_path)
    found = list(record.events())
    assert [(one.at_s, one.until_s) for one in found if isinstance(one, Gap)] == [(BEGINS_S + 10, BEGINS_S + 30)]
    assert len([one for one in found if isinstance(one, Ask)]) == 5
    assert len(record.warnings) == 1


def test_between_two_runs_of_a_gate_is_a_gap(tmp_path: Path):
    gate = Recorded(tmp_path, [FIVE], web(2))
    gate.later(10)
    gate.ask(scale("web", 3))
    gate.close()
    again = Recorded(tmp_path, [FIVE], web(2), at_s=BEGINS_S + 100)
    again.close()
    events = list(Record(tmp_path).events())
    (gap,) = [one for one in events if isinstance(one, Gap)]
    assert (gap.at_s, gap.until_s) == (BEGINS_S + 10, BEGINS_S + 100)
    assert [one.is_new for one in events if isinstance(one, Begun)] == [True, True]


def bad(change: Callable[[list[bytes]], Iterator[bytes]]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        rows = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        path.write_bytes(gzip.compress(b"".join(change(rows))))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        pytest.param(bad(lambda rows: iter([*rows[:3], b"{nonsense\n"])), ":4: JSON is malformed", id="no JSON"),
        pytest.param(bad(lambda rows: iter([*rows[:2], b'{"k":"load","t":1}\n'])), ":3: Object missing", id="field"),
        pytest.param(bad(lambda rows: iter(rows[1:])), ":1: k: a file begins", id="no start"),
        pytest.param(bad(lambda rows: iter([rows[0].replace(b'"schema":1', b'"schema":2')])), "schema", id="schema"),
        pytest.param(bad(lambda rows: iter([b"[]\n"])), ":1: Expected `object`", id="no object"),
    ],
)
def test_a_bad_line_is_told_with_its_place(gate: Recorded, tmp_path: Path, spoil: Callable[[Path], None], told: str):
    gate.close()
    (path,) = tmp_path.iterdir()
    spoil(path)
    with pytest.raises(RecordError) as found:
        list(Record(tmp_path).events())
    assert told in str(found.value)
    assert str(path) in str(found.value)


def test_a_file_that_is_itself_too_large_is_refused_unread(
    gate: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "MOST_IN_FILE", 4096)
    gate.close()
    (path,) = tmp_path.iterdir()
    os.truncate(path, 4097)
    with pytest.raises(RecordError, match="it has more than 4,096 bytes; no gate writes such a file, remove it"):
        list(Record(tmp_path).events())


LATER = b'{"k":"later","t":1}\n'


@pytest.mark.parametrize(
    ("sizes_mib", "told"),
    [
        pytest.param([256], "it unpacks to more than 16 MiB", id="one member"),
        pytest.param([4] * 3, "it unpacks to more than 8 MiB", id="many members"),
    ],
)
def test_a_small_file_that_unpacks_to_much_is_refused_by_name(
    gate: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes_mib: list[int], told: str
):
    """4 MB that unpacked to 4 GiB ended ``replay`` with a MemoryError."""
    monkeypatch.setattr(reading, "MOST_IN_FILE", 8 << 20)
    gate.close()
    (path,) = tmp_path.iterdir()
    members = {size: gzip.compress(LATER * ((size << 20) // len(LATER)), 1) for size in sizes_mib}
    with path.open("ab") as file:
        file.writelines(members[size] for size in sizes_mib)
    tracemalloc.start()
    try:
        with pytest.raises(RecordError, match=told):
            list(Record(tmp_path).events())
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_kinds_and_fields_of_a_later_release_are_passed_over(gate: Recorded, tmp_path: Path):
    gate.close()
    (path,) = tmp_path.iterdir()
    bad(lambda rows: iter([*rows, b'{"k":"new","t":1800000000}\n']))(path)
    assert len(list(Record(tmp_path).events())) == 5


def test_a_folder_without_files_is_told(tmp_path: Path):
    with pytest.raises(RecordError, match="there is no file of a record"):
        Record(tmp_path)


def test_mode_audit_says_what_it_would_have_refused(tmp_path: Path):
    gate = Recorded(tmp_path, [FIVE], web(2), policy=Policy(mode="audit"))
    gate.ask(scale("web", 9))
    (ask,) = of_kind(gate, "ask")
    assert (ask["verdict"], ask["would"]) == ("allow", "deny")


def test_the_thread_goes_on_after_a_bug_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recorders, "EVERY_S", 0.01)
    gate = Recorded(tmp_path, [FIVE], web(2))
    gate.recorder._notes.append(None)  # type: ignore[arg-type]
    told: list[str] = []
    failed = threading.Event()

    def tell(level: str, event: str, **_: object) -> None:
        told.append(event)
        failed.set()

    thread = recorders.RecordThread(gate.recorder, gate.files, tell)
    assert failed.wait(10)
    gate.ask(scale("web", 3))
    thread.close()
    assert told == ["record-failed"]
    assert len(of_kind(gate, "ask")) == 1
