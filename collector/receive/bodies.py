"""The bodies of requests, read and decompressed within their limits, and of responses, in the form of the request."""

import asyncio
import math
import zlib

import zstandard
from aiohttp import web
from google.protobuf.json_format import MessageToJson
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.admission.fair_limit import Holding
from collector.errors import BadInput, TooLarge
from collector.otlp.decode import Form, Signal
from collector.receive.rejection import Rejected

_GZIP, _GZIP_OR_ZLIB = 16 + zlib.MAX_WBITS, 32 + zlib.MAX_WBITS
_MAX_MEMBERS = 1_000
"""Members of a gzip stream. Senders write one; twenty bytes make an empty one, which costs as much as thousands."""
_SLICE = 64 * 1024
"""Compressed bytes that are decompressed at a time: at the end of every member, zlib copies the rest of them."""


async def read_body(request: web.BaseRequest, holding: Holding, *, limit: int, deadline: float) -> bytes:
    """Read the whole body, decompressed, and reserve its bytes as they come.

    `limit` (bytes) holds before and after decompression, `deadline` (s) for the arrival of all of it. The server must
    not decompress by itself: its errors end connections without an answer.

    Raises:
        Rejected: the encoding is unknown (415) or the body came too slowly (408).
        TooLarge: past the limit.
        BadInput: broken gzip or broken chunks, or the sender has gone.
        Overloaded: other requests take too much memory at present.
    """
    decompressor = _decompressor_of(request, limit) if "Content-Encoding" in request.headers else None
    if (request.content_length or 0) > limit:
        raise TooLarge(f"the body is larger than {limit} bytes")
    try:
        async with asyncio.timeout(deadline):
            body = await _collect(request, holding, decompressor, limit)
    except TimeoutError:
        raise Rejected(408, f"the body did not arrive within {deadline:g} s") from None
    except web.RequestPayloadError as error:
        raise BadInput("the body is cut off or badly chunked") from error
    except (ConnectionError, RuntimeError) as error:
        if request.transport is not None:  # where the sender has gone, aiohttp raises either
            raise
        raise BadInput("the sender has gone before all of the body came") from error
    if decompressor:
        decompressor.close()
    return body


def _decompressor_of(request: web.BaseRequest, limit: int) -> "GzipDecompressor | ZstdDecompressor | None":
    match request.headers.get("Content-Encoding", "identity").strip().lower():
        case "gzip":
            return GzipDecompressor(limit)
        case "deflate":
            return GzipDecompressor(limit, _GZIP_OR_ZLIB)
        case "zstd":
            return ZstdDecompressor(limit)
        case "identity" | "":
            return None
        case _:
            raise Rejected(415, "the content encoding is not supported; use gzip, deflate, zstd or identity")


async def _collect(
    request: web.BaseRequest, holding: Holding, decompressor: "GzipDecompressor | ZstdDecompressor | None", limit: int
) -> bytes:
    pieces: list[bytes] = []
    received = 0
    async for piece in request.content.iter_any():
        received += len(piece)
        holding.received = received
        if received > limit:
            raise TooLarge(f"the body is larger than {limit} bytes")
        plain = decompressor.feed(piece) if decompressor else piece
        holding.take_bytes(len(plain))
        pieces.append(plain)
    return b"".join(pieces)


class GzipDecompressor:
    """Decompresses a gzip stream piece by piece; never holds more than `limit` bytes of result.

    `form` is zlib's number for what the stream may be: HTTP's deflate is zlib's own.
    """

    def __init__(self, limit: int, form: int = _GZIP) -> None:
        self._limit = limit
        self._form = form
        self._size = 0
        self._member = zlib.decompressobj(form)
        self._members = 1
        self._has_input = False

    def feed(self, piece: bytes) -> bytes:
        """The next piece, decompressed.

        Raises:
            TooLarge: the result passes the limit.
            BadInput: this is not gzip, or has more than a thousand members.
        """
        pieces: list[bytes] = []
        for start in range(0, len(piece), _SLICE):
            rest = piece[start : start + _SLICE]
            while rest:
                if self._member.eof:
                    self._open_member()
                pieces.append(self._decompress(rest))
                rest = self._member.unused_data
        return b"".join(pieces)

    def close(self) -> None:
        """End the stream.

        Raises:
            BadInput: it is cut off.
        """
        if self._has_input and not self._member.eof:
            raise BadInput("the gzip stream is cut off")

    def _open_member(self) -> None:
        self._members += 1
        if self._members > _MAX_MEMBERS:
            raise BadInput(f"the gzip stream has more than {_MAX_MEMBERS} members; send one")
        self._member = zlib.decompressobj(self._form)

    def _decompress(self, piece: bytes) -> bytes:
        self._has_input = True
        try:
            out = self._member.decompress(piece, self._limit - self._size + 1)
        except zlib.error as error:
            raise BadInput("the body is not valid gzip") from error
        self._size += len(out)
        if self._size > self._limit:
            raise TooLarge(f"the decompressed body is larger than {self._limit} bytes")
        return out


class ZstdDecompressor:
    """Decompresses one zstd frame piece by piece; refuses more than `limit` bytes of result."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._frame = zstandard.ZstdDecompressor(max_window_size=max(_SMALLEST_WINDOW, 1 << limit.bit_length()))
        self._stream = self._frame.decompressobj(read_across_frames=False)

    def feed(self, piece: bytes) -> bytes:
        """The next piece, decompressed.

        Raises:
            TooLarge: the result passes the limit.
            BadInput: this is not zstd.
        """
        pieces: list[bytes] = []
        for start in range(0, len(piece), _ZSTD_SLICE):
            try:
                out = self._stream.decompress(piece[start : start + _ZSTD_SLICE])
            except zstandard.ZstdError as error:
                raise BadInput("the body is not valid zstd") from error
            self._size += len(out)
            if self._size > self._limit:
                raise TooLarge(f"the decompressed body is larger than {self._limit} bytes")
            pieces.append(out)
        return b"".join(pieces)

    def close(self) -> None:
        """End the stream.

        Raises:
            BadInput: it is cut off.
        """
        if not self._stream.eof:
            raise BadInput("the zstd stream is cut off")


_SMALLEST_WINDOW = 1 << 20
_ZSTD_SLICE = 64
"""Compressed bytes that are decompressed at a time: one block of them may become 128 KiB."""


Answer = ExportTraceServiceResponse | ExportLogsServiceResponse

FORMS: dict[str, Form] = {"application/x-protobuf": "protobuf", "application/json": "json"}
"""The forms by content type."""
_TYPES: dict[Form, str] = {form: type_ for type_, form in FORMS.items()}


def success(signal: Signal, *, rejected: int = 0, message: str = "") -> Answer:
    """The answer that a request is durable, except the `rejected` spans or log records."""
    answer, items = (
        (ExportTraceServiceResponse(), "rejected_spans")
        if signal == "traces"
        else (ExportLogsServiceResponse(), "rejected_log_records")
    )
    if rejected:
        setattr(answer.partial_success, items, rejected)
        answer.partial_success.error_message = message
    return answer


def rejected(form: Form | None, rejection: Rejected) -> web.Response:
    """The answer to a request that is not taken: a `google.rpc.Status`, as JSON where the form is unknown."""
    status = Status(code=Code.Value(rejection.meaning.over_http), message=rejection.message)
    response = response_of(rejection.status, form or "json", status)
    response.headers.update(rejection.headers)
    if rejection.retry_after is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(rejection.retry_after)))
    return response


def response_of(status: int, form: Form, answer: Answer | Status) -> web.Response:
    """An answer as an HTTP response in this form."""
    body = answer.SerializeToString() if form == "protobuf" else MessageToJson(answer, indent=None).encode()
    return web.Response(status=status, body=body, content_type=_TYPES[form])
