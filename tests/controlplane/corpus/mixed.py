"""Spellings put together from all others by a seed: odd paths around odd bodies under odd content types.

The rest of the corpus is odd in one place at a time, and recorded. These are never recorded: each run against a live
server makes new ones (``tests/e2e/test_differential.py``), and the same seed makes the same ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from tests.controlplane.corpus import generated
from tests.controlplane.corpus.base import (
    APPLY,
    APPLY_CBOR,
    CBOR,
    GROWN,
    JSON,
    JSON_PATCH,
    MERGE,
    PROTOBUF,
    STRATEGIC,
    YAML,
    Headers,
    Spelling,
    patch,
    path_of,
    put,
    scale,
    to,
)
from tests.controlplane.fixtures import FIXTURES

MAX_BODY = 16_384
"""Bodies at the server's limits are in the corpus, and slow."""

MEDIA = (
    JSON, JSON, YAML, CBOR, PROTOBUF, MERGE, MERGE, STRATEGIC, JSON_PATCH, APPLY, APPLY_CBOR, "", "*/*", "text/plain",
    "application/json;charset=utf-8", "Application/JSON", "application/merge-patch+json; a=b", " application/yaml ",
    "application/json, application/yaml", "application/json-patch", "application/apply-patch+yaml;x",
)  # fmt: skip

PIECES = (
    b'"replicas":9,', b'"replicas":', b"null", b"9", b"0", b"-", b"e0", b".0", b'"', b",", b"{", b"}", b"[", b"]", b":",
    b" ", b"\n", b"\t", b"\x00", b"\xff", b"\xc3\xa9", b"\\u0072", b"\\", b"//", b"#", b"---\n", b"...", b"&a ", b"*a",
    b"!!int ", b"~", b"<<: ", b"spec", b'"spec":{"replicas":7},', b'"Replicas":8,', b'"$patch":"replace",', b"700m",
    b'"dryRun":["All"],', b'"op":"add",', b"/spec/replicas", b"~1", b"\x08\x09", b"\x80\x01", b"\xd9\xd9\xf7", b"true",
)  # fmt: skip
"""What is put into a body at some place."""

COUNTS = (0, 1, 3, GROWN, 7, 2**31 - 1, 2**31, -1, None, "5", 5.0, 2.5, True, [5], {"replicas": 5})

Source: TypeAlias = Callable[[random.Random, Sequence[Spelling]], Iterator[Spelling]]


def spellings(seed: int, count: int, corpus: Sequence[Spelling]) -> Iterator[Spelling]:
    """``count`` of them, mixed from ``corpus``."""
    chance = random.Random(seed)
    fit = [spelling for spelling in corpus if _fit(spelling)]
    sources = [source(chance) for source in generated.SOURCES]
    sources += [source(chance, fit) for source, share in SHARES.items() for _ in range(share)]
    mixed = (next(chance.choice(sources)) for _ in iter(int, 1))
    for number, spelling in enumerate(islice(mixed, count)):
        yield spelling._replace(id=f"seed-{seed}-{number}", why="by chance")


def _fit(spelling: Spelling) -> bool:
    """Writes to the default server that are sent as they stand."""
    if spelling.server != "default" or spelling.echo is not None or len(spelling.body) > MAX_BODY:
        return False
    return spelling.method in ("PATCH", "PUT", "POST") and spelling.target.count("/") > 4


def _bitten(chance: random.Random, corpus: Sequence[Spelling]) -> Iterator[Spelling]:
    """Bodies with a few bytes cut out, doubled or put in."""
    while True:
        spelling = chance.choice(corpus)
        body = spelling.body
        for _ in range(chance.randint(1, 2)):
            body = _bite(chance, body)
        yield spelling._replace(body=body)


def _bite(chance: random.Random, body: bytes) -> bytes:
    at = chance.randint(0, len(body))
    to_ = min(len(body), at + chance.choice((1, 1, 2, 4, 9, 30)))
    match chance.randrange(4):
        case 0:
            return body[:at] + body[to_:]
        case 1:
            return body[:to_] + body[at:]
        case 2:
            return body[:at] + chance.choice(PIECES) + body[at:]
        case _:
            return body[:at] + chance.choice(PIECES) + body[to_:]


def _elsewhere(chance: random.Random, corpus: Sequence[Spelling]) -> Iterator[Spelling]:
    """Bodies of the corpus at odd paths, or with odd queries."""
    while True:
        spelling = chance.choice(corpus)
        path, _, query = spelling.target.partition("?")
        if chance.random() < 0.6:
            path = generated.odd_path(chance, path.split("/"))
        if chance.random() < 0.4:
            query = "&".join(filter(None, (query, generated.odd_query(chance))))
        yield spelling._replace(target=f"{path}?{query}" if query else path)


def _otherwise_named(chance: random.Random, corpus: Sequence[Spelling]) -> Iterator[Spelling]:
    """Bodies of the corpus under another content type."""
    while True:
        spelling = chance.choice(corpus)
        others: Headers = tuple(pair for pair in spelling.headers if pair[0].lower() != "content-type")
        name = chance.choice(("content-type", "Content-Type"))
        yield spelling._replace(headers=(*others, (name, chance.choice(MEDIA))))


def _counts(chance: random.Random, corpus: Sequence[Spelling]) -> Iterator[Spelling]:
    """Counts of every kind of object, by every way to write one."""
    while True:
        ref = chance.choice(tuple(FIXTURES))
        name, count = ref.rpartition("/")[2], chance.choice(COUNTS)
        target = path_of(ref) + chance.choice(("", "/scale", "/scale", "/status"))
        pointer = chance.choice(("/spec/replicas", "/spec/replicas", "/spec/size/count", "/spec"))
        value = {"replicas": count} if pointer == "/spec" else count
        yield chance.choice(
            (
                patch("", "", to(count), chance.choice((MERGE, STRATEGIC)), target=target, before=ref),
                patch("", "", [{"op": "add", "path": pointer, "value": value}], JSON_PATCH, target=target, before=ref),
                put("", "", scale(count, name), chance.choice(MEDIA), target=path_of(ref) + "/scale", before=ref),
            )
        )


SHARES: dict[Source, int] = {_bitten: 8, _elsewhere: 6, _otherwise_named: 3, _counts: 3}
"""Beside one share for each source of ``generated``."""
