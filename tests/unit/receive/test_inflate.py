from __future__ import annotations

import gzip

import pytest

from collector.errors import BadInput
from collector.receive.inflate import Inflate
from collector.receive.refusal import TooLarge

TEXT = b"what is said " * 1000


def inflate(data: bytes, *, piece: int = 7, limit: int = 1 << 20) -> bytes:
    stream = Inflate(limit)
    out = b"".join(stream.feed(data[at : at + piece]) for at in range(0, len(data), piece))
    stream.close()
    return out


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_decompresses_in_any_pieces(piece: int):
    assert inflate(gzip.compress(TEXT), piece=piece) == TEXT


def test_takes_several_members_as_gzip_does():
    assert inflate(gzip.compress(TEXT) + gzip.compress(b"more")) == TEXT + b"more"


def test_nothing_is_an_empty_stream():
    assert inflate(b"") == b""


@pytest.mark.parametrize(
    "broken", [b"no gzip at all", gzip.compress(TEXT)[:-3], gzip.compress(TEXT) + b"junk", gzip.compress(TEXT)[:20]]
)
def test_broken_streams_are_bad_input(broken: bytes):
    with pytest.raises(BadInput):
        inflate(broken)


def test_a_wrong_checksum_is_bad_input():
    broken = bytearray(gzip.compress(TEXT))
    broken[-6] ^= 1
    with pytest.raises(BadInput):
        inflate(bytes(broken))


def test_the_limit_is_exact():
    data = gzip.compress(TEXT)
    assert inflate(data, limit=len(TEXT)) == TEXT
    with pytest.raises(TooLarge):
        inflate(data, limit=len(TEXT) - 1)


def test_the_limit_holds_over_members():
    with pytest.raises(TooLarge):
        inflate(gzip.compress(TEXT) * 3, limit=2 * len(TEXT))
