"""The corpus of spellings, a row each of ``tests/data/spellings.jsonl``: all are sent to a real API server, and
what it took each for is recorded.

Run as ``python -m tests.controlplane.record_spellings`` (tests/controlplane/README.md); it writes
``tests/data/spellings.jsonl`` and ``tests/data/spellings-before.json``.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.controlplane import fixtures
from tests.controlplane.judging import packed_body
from tests.controlplane.plane import running_plane
from tests.controlplane.wire import Reply, Wire, spell

Tree = Any
Headers = tuple[tuple[str, str], ...]
LONG_BODY = 4000
"""Longer ones are stored compressed."""

DATA = Path(__file__).parents[1] / "data"
FLAGS = {"default": (), "cbor": ("--feature-gates=CBORServingAndStorage=true",)}


class Spelling(NamedTuple):
    """One request of the corpus, and why it is there. ``@rv@`` and ``@uid@`` in the body stand for the object's own."""

    id: str
    why: str
    before: str
    method: str
    target: str
    headers: Headers
    body: bytes
    ordinary: bool = False
    """What an honest tool would send: must never be unreadable."""
    version: str = "1.1"
    chunked: bool = False
    server: str = "default"
    """``cbor``: an API server with the feature gate CBORServingAndStorage."""
    echo: tuple[str, bytes, bytes] | None = None
    """(media type, old, new): the body is what the server itself prints at the path, with the first old made new."""


def all_spellings() -> list[Spelling]:
    """The corpus: the requests of all rows. Raises ValueError where two share an id."""
    corpus = [_spelling(json.loads(line)) for line in (DATA / "spellings.jsonl").read_text().splitlines()]
    ids = [spelling.id for spelling in corpus]
    if doubled := {id for id in ids if ids.count(id) > 1}:
        raise ValueError(f"ids used twice: {sorted(doubled)}")
    return corpus


def _spelling(row: Tree) -> Spelling:
    asked = row["request"]
    body, echo = packed_body(asked), None
    if "echo" in asked:
        media, old, new = asked["echo"]
        body, echo = b"", (media, old.encode("latin-1"), new.encode("latin-1"))
    elif "resourceVersion" in row:
        body = body.replace(row["uid"].encode(), b"@uid@").replace(row["resourceVersion"].encode(), b"@rv@")
    more = {name: asked[name] for name in ("version", "chunked", "server") if name in asked}
    headers = tuple((name, value) for name, value in asked["headers"])
    request = asked["method"], asked["target"], headers, body, row.get("ordinary", False)
    return Spelling(row["id"], row["why"], row["before"], *request, **more, echo=echo)


class Recorder:
    """One server's objects: sends a spelling, looks what became of them, and puts them back."""

    def __init__(self, wire: Wire, raw: Wire) -> None:
        self._wire, self._raw = wire, raw
        self.before: dict[str, Tree] = {}

    def set_up(self) -> None:
        """Create definitions, namespaces and fixtures, and wait until all can be listed."""
        for definition in fixtures.DEFINITIONS:
            reply = self._wire.json("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            assert reply.status == 201, reply
        self._wire.json("POST", "/api/v1/namespaces", {"metadata": {"name": "scale"}})
        for plural in ("gadgets", "widgets"):
            self._await(f"/apis/example.dev/v1/namespaces/default/{plural}")
        self._await("/api/v1/namespaces/scale")
        self._await("/api/v1/namespaces/default")
        for ref in (*fixtures.FIXTURES, *fixtures.APPLIED):
            fixtures.create(self._wire, ref)
        self.before = dict(fixtures.everything(self._wire))

    def _await(self, path: str) -> None:
        deadline = time.monotonic() + 30
        while self._wire.json("GET", path).status != 200:
            assert time.monotonic() < deadline, path
            time.sleep(0.1)

    def record(self, spelling: Spelling) -> Tree:
        """Send it; the row that says what happened. The objects are as before when this returns."""
        metadata = self.before[spelling.before]["metadata"]
        body = self._echo(spelling) if spelling.echo else spelling.body
        body = body.replace(b"@rv@", metadata["resourceVersion"].encode())
        body = body.replace(b"@uid@", metadata["uid"].encode())
        raw = spell(spelling.method, spelling.target, list(spelling.headers), body, spelling.version, spelling.chunked)
        reply = self._raw.send(raw)
        refused = 400 <= reply.status < 500
        now = self.before if refused else dict(fixtures.everything(self._wire))
        row: Tree = {"id": spelling.id, "why": spelling.why, "before": spelling.before}
        row["request"] = _request(spelling, body)
        if body != spelling.body:  # it quotes them
            row |= {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}
        if spelling.ordinary:
            row["ordinary"] = True
        row |= {"status": reply.status, "reason": _reason(reply)}
        row["changed"] = {ref: _difference(ref, self.before, now) for ref in sorted(_touched(self.before, now))}
        answered = None if row["changed"] else _answered(spelling, reply, self.before)
        if answered is not None:
            row["answered"] = answered
        self._restore(now)
        return row

    def _echo(self, spelling: Spelling) -> bytes:
        """The object at the spelling's path as the server prints it, changed in one place."""
        assert spelling.echo is not None
        media, old, new = spelling.echo
        reply = self._wire.send(spell("GET", spelling.target, [("accept", media)], b""))
        assert reply.status == 200, (spelling.id, reply)
        assert old in reply.body, (spelling.id, reply.body)
        return reply.body.replace(old, new, 1)

    def _restore(self, now: dict[str, Tree]) -> None:
        versions = {ref: tree["metadata"]["resourceVersion"] for ref, tree in self.before.items()}
        stale = {ref for ref, tree in now.items() if versions.get(ref) != tree["metadata"]["resourceVersion"]}
        stale |= set(self.before) - set(now)
        if not stale:
            return
        for ref in stale:
            if ref in now:
                fixtures.remove(self._wire, ref)
            if ref in self.before:
                fixtures.create(self._wire, ref)
        self.before = dict(fixtures.everything(self._wire))


def _touched(before: dict[str, Tree], now: dict[str, Tree]) -> Iterator[str]:
    for ref in before.keys() | now.keys():
        if _digest(ref, before.get(ref)) != _digest(ref, now.get(ref)):
            yield ref


def _difference(ref: str, before: dict[str, Tree], now: dict[str, Tree]) -> Tree:
    """The parts of the digest that are not as before; None for an object that is gone."""
    old, new = _digest(ref, before.get(ref)) or {}, _digest(ref, now.get(ref))
    return new and {key: value for key, value in new.items() if old.get(key) != value or key not in old}


def _digest(ref: str, tree: Tree) -> Tree:
    return None if tree is None else fixtures.digest(ref, tree)


def _reason(reply: Reply) -> str:
    tree = reply.tree()
    is_status = isinstance(tree, dict) and tree.get("kind") == "Status"
    return str(tree.get("reason", "")) if is_status else ""


def _answered(spelling: Spelling, reply: Reply, before: dict[str, Tree]) -> Tree:
    """What an accepted write that changed nothing would have made of the object: the sign of a dry run."""
    tree = reply.tree()
    if reply.status not in (200, 201) or not isinstance(tree, dict) or tree.get("kind") in ("Status", "Table", None):
        return None
    old = fixtures.digest(spelling.before, before[spelling.before])
    if tree["kind"].endswith("List"):
        return None
    if tree["kind"] == "Scale":
        replicas = tree["spec"].get("replicas", 0)
        return None if replicas == old["replicas"] else {"replicas": replicas}
    new = fixtures.digest(spelling.before, tree)
    return None if new == old else new


def _request(spelling: Spelling, body: bytes) -> Tree:
    request: Tree = {"method": spelling.method, "target": spelling.target}
    request["headers"] = [list(pair) for pair in spelling.headers]
    if len(body) > LONG_BODY:
        request["body_zlib_b64"] = base64.b64encode(zlib.compress(body, 9)).decode()
    else:
        try:
            request["body"] = body.decode()
        except UnicodeDecodeError:
            request["body_b64"] = base64.b64encode(body).decode()
    if spelling.version != "1.1":
        request["version"] = spelling.version
    if spelling.chunked:
        request["chunked"] = True
    if spelling.server != "default":
        request["server"] = spelling.server
    if spelling.echo is not None:
        request["echo"] = [spelling.echo[0], *(part.decode("latin-1") for part in spelling.echo[1:])]
    return request


def _record_all(server: str, corpus: Iterable[Spelling]) -> tuple[list[Tree], dict[str, Tree]]:
    with running_plane(FLAGS[server]) as plane:
        wire, raw = Wire(plane), Wire(plane)
        recorder = Recorder(wire, raw)
        recorder.set_up()
        first = {ref: _compact(tree) for ref, tree in recorder.before.items()}
        rows = [recorder.record(spelling) for spelling in corpus]
        wire.close()
        raw.close()
        return rows, first


def _compact(tree: Tree) -> Tree:
    tree["metadata"].pop("managedFields", None)
    return tree


def main() -> None:
    """Record the whole corpus."""
    corpus, rows, before = all_spellings(), {}, {}
    for server in FLAGS:
        mine, first = _record_all(server, [spelling for spelling in corpus if spelling.server == server])
        rows |= {row["id"]: row for row in mine}
        before = before or first
    lines = [json.dumps(rows[spelling.id], separators=(",", ":"), ensure_ascii=True) for spelling in corpus]
    (DATA / "spellings.jsonl").write_text("\n".join(lines) + "\n")
    (DATA / "spellings-before.json").write_text(json.dumps(before, indent=1, sort_keys=True) + "\n")
    grown = sum(1 for row in rows.values() if row["changed"])
    dry = sum("answered" in row for row in rows.values())
    print(f"{len(rows)} spellings, {grown} of them changed something, {dry} dry runs")


if __name__ == "__main__":
    main()
