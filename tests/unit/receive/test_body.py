from __future__ import annotations

import gzip

import pytest

from collector.errors import BadInput, TooLarge
from collector.receive.bodies import GzipDecompressor

TEXT = b"what is said " * 1000


def inflate(data: bytes, *, piece: int = 7, limit: int = 1 << 20) -> bytes:
    stream = GzipDecompressor(limit)
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
    "broken",
    [b"no gzip at all", gzip.compress(TEXT)[:-3], gzip.compress(TEXT) + b"junk", gzip.compress(TEXT)[:20]],
    ids=["prose", "cut off", "more behind it", "half"],
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


def test_a_body_of_empty_members_is_refused_before_it_costs_anything():
    stream = GzipDecompressor(1 << 20)
    with pytest.raises(BadInput, match="more than 1000 members; send one"):
        stream.feed(gzip.compress(b"") * 200_000)
    assert stream._members == 1001


def test_members_may_end_anywhere_in_a_body():
    parts = [bytes([number % 251]) * number for number in range(1, 900)]
    stream = GzipDecompressor(1 << 20)
    assert stream.feed(b"".join(map(gzip.compress, parts))) == b"".join(parts)
    stream.close()
