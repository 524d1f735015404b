"""Gzip within a limit."""

from __future__ import annotations

import zlib

from collector.errors import BadInput
from collector.receive.refusal import TooLarge

_GZIP = 16 + zlib.MAX_WBITS


class Inflate:
    """Decompresses a gzip stream piece by piece; never holds more than `limit` bytes of result."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._member = zlib.decompressobj(_GZIP)
        self._fed = False

    def feed(self, piece: bytes) -> bytes:
        """The next piece, decompressed.

        Raises:
            TooLarge: the result passes the limit.
            BadInput: this is not gzip.
        """
        pieces: list[bytes] = []
        while piece:
            if self._member.eof:  # a gzip file may have several members
                self._member = zlib.decompressobj(_GZIP)
            pieces.append(self._decompress(piece))
            piece = self._member.unused_data
        return b"".join(pieces)

    def close(self) -> None:
        """End the stream.

        Raises:
            BadInput: it is cut off.
        """
        if self._fed and not self._member.eof:
            raise BadInput("the gzip stream is cut off")

    def _decompress(self, piece: bytes) -> bytes:
        self._fed = True
        try:
            out = self._member.decompress(piece, self._limit - self._size + 1)
        except zlib.error as error:
            raise BadInput("the body is not valid gzip") from error
        self._size += len(out)
        if self._size > self._limit:
            raise TooLarge(f"the decompressed body is larger than {self._limit} bytes")
        return out
