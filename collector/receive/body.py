"""Reads a request's body within its limits."""

from __future__ import annotations

import asyncio

from aiohttp import web

from collector.errors import BadInput
from collector.receive.admission import Place
from collector.receive.inflate import Inflate
from collector.receive.refusal import Refused, TooLarge


async def read_body(request: web.BaseRequest, place: Place, *, limit: int, deadline: float) -> bytes:
    """The whole body, decompressed.

    `limit` (bytes) holds before and after decompression, `deadline` (s) for the arrival of all of it. The server must
    not decompress by itself: its errors end connections without an answer.

    Raises:
        Refused: the encoding is unknown (415) or the body came too slowly (408).
        TooLarge: past the limit.
        BadInput: broken gzip or broken chunks, or the sender has gone.
        Overloaded: no room for it now.
    """
    inflate = _inflate(request, limit)
    if (request.content_length or 0) > limit:
        raise TooLarge(f"the body is larger than {limit} bytes")
    try:
        async with asyncio.timeout(deadline):
            body = await _collect(request, place, inflate, limit)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {deadline:g} s") from None
    except web.RequestPayloadError as error:
        raise BadInput("the body is cut off or badly chunked") from error
    except (ConnectionError, RuntimeError) as error:
        if request.transport is not None:  # where the sender has gone, aiohttp raises either
            raise
        raise BadInput("the sender has gone before all of the body came") from error
    if inflate:
        inflate.close()
    return body


def _inflate(request: web.BaseRequest, limit: int) -> Inflate | None:
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    match encoding:
        case "gzip":
            return Inflate(limit)
        case "identity" | "":
            return None
        case _:
            raise Refused(415, "the content encoding is not supported; use gzip or identity")


async def _collect(request: web.BaseRequest, place: Place, inflate: Inflate | None, limit: int) -> bytes:
    pieces: list[bytes] = []
    received = 0
    async for piece in request.content.iter_any():
        received += len(piece)
        if received > limit:
            raise TooLarge(f"the body is larger than {limit} bytes")
        plain = inflate.feed(piece) if inflate else piece
        place.take(len(plain))
        pieces.append(plain)
    return b"".join(pieces)
