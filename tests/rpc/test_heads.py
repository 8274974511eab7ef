"""Header blocks: what is known by its bytes, and for how long."""

from __future__ import annotations

import pytest
from hpack import Encoder

from extauthz.rpc.frames import BadConnectionError, Error
from extauthz.rpc.heads import EMPTY_TABLE, Decoder
from tests.rpc.client import head


def decoder_that_knows() -> tuple[Decoder, bytes]:
    """One that knows a block which leans on its table, and that block."""
    decoder, encoder = Decoder(16_384), Encoder()
    decoder.head(encoder.encode(head()))
    known = encoder.encode(head())
    assert decoder.head(known) is decoder.head(known)
    return decoder, known


def test_a_block_with_the_same_bytes_is_read_once():
    decoder, known = decoder_that_knows()
    assert [*decoder._known] == [known]


@pytest.mark.parametrize("is_trailer", [False, True], ids=["head", "trailer"])
def test_a_block_is_forgotten_when_the_table_gets_smaller(is_trailer: bool):
    decoder, known = decoder_that_knows()
    (decoder.fields if is_trailer else decoder.head)(EMPTY_TABLE)
    with pytest.raises(BadConnectionError) as fault:
        decoder.head(known)
    assert fault.value.code is Error.COMPRESSION_ERROR


def test_a_block_is_forgotten_when_trailers_add_to_the_table():
    decoder, _ = decoder_that_knows()
    decoder.fields(b"\x40\x01a\x01b")
    assert decoder._known == {}


def test_long_blocks_are_not_kept():
    decoder = Decoder(16_384)
    long = Encoder().encode([(name, value, True) for name, value in head(x="v" * 600)])
    decoder.head(long)
    assert decoder._known == {}
