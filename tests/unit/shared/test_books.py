"""What a gate makes of the ledger objects that it sees, one by one."""

from __future__ import annotations

from extauthz.core.ledger.payload import Payload, encode
from extauthz.shared.memory import MemoryStore
from extauthz.shared.store import Stored
from extauthz.testing.builders import gate, quota, scale, workload
from tests.unit.shared.gates import Member, members

QUOTAS = [quota("acme", {"pods": "7"}), quota("wide", {"pods": "12"}, namespaces={})]
WEB = workload("web", 1)


async def test_a_gate_that_starts_while_a_write_is_being_taken_out_does_not_write_on_for_its_sake_once_it_is_out():
    async with members(1, QUOTAS, WEB) as (other,):
        granted = await other.ask(scale("web", 2))
        intents = dict(other.committer.books["wide"].payload.intents)
    books = Member(gate(QUOTAS, WEB), MemoryStore()).committer.books
    books.take(Stored("wide", encode(Payload(intents, quotas=("wide",))), "1", "u1"))
    books.keep_up()
    books.take(Stored("acme", encode(Payload(quotas=("acme",))), "2", "u2"))
    assert books.wants_write(books["acme"]), "it should hold what the other object holds"
    books.take(Stored("wide", encode(Payload(quotas=("wide",))), "3", "u1"))
    assert granted.id in intents
    assert not [book.root for book in books if books.wants_write(book)]
