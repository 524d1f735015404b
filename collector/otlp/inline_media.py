"""Pictures, recordings and files inside a request: content longer than permitted becomes its hash and size.

Libraries write them as base64 into texts: data URLs, the sources of Anthropic's blocks, Gemini's inline data, blobs of
the conventions. Megabytes of it in a log help no one. Their replacement is `omitted-sha256-<64 hex>-<bytes>`, which
dialects read as they read the content: the rest of the message stays.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.otlp.decode import MAX_DEPTH, Request, scopes_of

LEAST = 2048
"""Content of fewer characters of base64 stays as it is, whatever the limit: 1,536 bytes, an icon."""

_SHORTEST = 24
"""Characters; a shorter run is a word, like a mask."""

_STRIDE = LEAST // 2
_RUN = re.compile(rb"(?:[A-Za-z0-9+/_-]++|\\{1,15}+[nr/]|[\r\n]++)++={0,2}")
"""Base64 as it stands in texts and in JSON, of up to four levels: lines may be broken, slashes escaped."""

_BREAKS = re.compile(rb"\\{1,15}+[nr]|[\r\n]++|\\{1,15}+(?=/)")
_IN_DATA_URL = re.compile(rb";base64,\Z", re.IGNORECASE)
_UNDER_KEY = re.compile(
    rb"(?:data|bytes|base64|file_data|fileData|b64_json|base64_image|image_base64|image_bytes|imageBytes)"
    rb"(?:\\*+[\"'])?\s{0,2}[:=]\s{0,2}(?:\\*+[\"'])?\Z"
)
_CONTEXT = 40
_MAGIC: dict[bytes, str | None] = {
    b"\x89PNG\r\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": None,
    b"%PDF-": "application/pdf",
    **dict.fromkeys((b"ID3", b"\xff\xfb", b"\xff\xf3"), "audio/mpeg"),
    b"OggS": "audio/ogg",
    b"fLaC": "audio/flac",
    **dict.fromkeys((b"II*\x00", b"MM\x00*"), "image/tiff"),
    b"PK\x03\x04": "application/zip",
    b"\x1aE\xdf\xa3": "video/webm",
}
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/avi"}
_FTYP = {b"avif": "image/avif", b"heic": "image/heic", b"M4A ": "audio/mp4"}
_OMITTED = re.compile(r"omitted-sha256-([0-9a-f]{64})-(\d{1,15})")


class InlineContent(NamedTuple):
    """A piece of content: its size in bytes, its SHA-256 in hex, and the bytes, None if they were omitted."""

    size: int
    sha256: str
    data: bytes | None


def find_media_type(data: bytes) -> str | None:
    """Find the media type by the first bytes; None if they are none of the usual ones."""
    if data[4:8] == b"ftyp":
        return _FTYP.get(data[8:12], "video/mp4")
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12])
    return next((named for magic, named in _MAGIC.items() if data.startswith(magic)), None)


def parse_content(text: str) -> InlineContent | None:
    """Parse base64, or what stands for it; None if it is neither."""
    omitted = _OMITTED.fullmatch(text)
    if omitted is not None:
        return InlineContent(int(omitted[2]), omitted[1], None)
    data = _decoded(text.encode("ascii", "replace")) if len(text) >= _SHORTEST else None
    return None if data is None else InlineContent(len(data), hashlib.sha256(data).hexdigest(), data)


def omit_from_json(body: bytes, longest: int) -> tuple[bytes, int]:
    """A JSON document without media longer than `longest` bytes, and the number of omitted bytes."""
    return _omit(body, longest, b"")


def omit_from_request(request: Request, body: bytes, longest: int) -> int:
    """Omit from a parsed request what is longer than `longest` bytes; returns how much. `body` is what was parsed."""
    count = 0
    # a log record's structured values may be bytes, which show no run of base64
    if isinstance(request, ExportLogsServiceRequest) or may_hold_media(body):
        for _, scope in scopes_of(request):
            for item in scope.spans if hasattr(scope, "spans") else scope.log_records:
                count += sum(_omit_from_value(value, key, longest) for key, value in _values_of(item))
    return count


def may_hold_media(body: bytes) -> bool:
    """Whether there is any run of base64 of the least length. Linear: each probe ends where the next one begins."""
    return next(_runs(body), None) is not None


def _runs(body: bytes) -> Iterator[tuple[int, int]]:
    """The runs of characters of base64 that are long enough, by probing: a long run covers one of the places."""
    place = 0
    while place < len(body):
        match = _RUN.match(body, place)
        if match is None or match.end() - place < _STRIDE:
            place += _STRIDE
            continue
        # it begins behind the probe before this one, which would have found it otherwise
        before = [each for each in _RUN.finditer(body, max(0, place - _STRIDE), place) if each.end() == place]
        start = before[0].start() if before else place
        if match.end() - start >= LEAST:
            yield start, match.end()
        place = match.end() + 1


def _omit(body: bytes, longest: int, key: bytes) -> tuple[bytes, int]:
    pieces: list[bytes] = []
    last = 0
    for start, end in _runs(body):
        content = _content_of(body[start:end], body[max(0, start - _CONTEXT) : start] or key)
        if content is None or len(content) <= longest:
            continue
        pieces += (body[last:start], _mark(content))
        last = end
    return (b"".join([*pieces, body[last:]]), len(pieces) // 2) if pieces else (body, 0)


def _mark(content: bytes) -> bytes:
    return f"omitted-sha256-{hashlib.sha256(content).hexdigest()}-{len(content)}".encode()


def _content_of(run: bytes, context: bytes) -> bytes | None:
    """The bytes of a run that is content by what stands before it or by how it begins; None if it may be anything."""
    named = _IN_DATA_URL.search(context) or _UNDER_KEY.search(context)
    if not named and find_media_type(_decoded(_BREAKS.sub(b"", run[:128])[:64]) or b"") is None:
        return None
    return _decoded(run) or (run if named else None)


def _decoded(text: bytes) -> bytes | None:
    """The bytes of base64, of either alphabet; None if it is no base64."""
    clean = _BREAKS.sub(b"", text).rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    try:
        return base64.b64decode(clean + b"=" * (-len(clean) % 4), validate=True)
    except binascii.Error:
        return None


def _values_of(item: Any) -> Iterator[tuple[str, AnyValue]]:
    """The values of a span or log record with their keys, lists and objects included."""
    stack: list[tuple[str, AnyValue, int]] = [(pair.key, pair.value, MAX_DEPTH) for pair in _pairs_of(item)]
    if item.DESCRIPTOR.fields_by_name.get("body") is not None:
        stack.append(("body", item.body, MAX_DEPTH))
    while stack:
        key, value, depth = stack.pop()
        kind = value.WhichOneof("value")
        if kind == "kvlist_value" and depth:
            stack += [(pair.key, pair.value, depth - 1) for pair in value.kvlist_value.values]
        elif kind == "array_value" and depth:
            stack += [(key, any_value, depth - 1) for any_value in value.array_value.values]
        elif kind in {"string_value", "bytes_value"}:
            yield key, value


def _pairs_of(item: Any) -> Iterable[KeyValue]:
    yield from item.attributes
    for event in getattr(item, "events", ()):
        yield from event.attributes


def _omit_from_value(value: AnyValue, key: str, longest: int) -> int:
    if value.WhichOneof("value") == "bytes_value":
        if len(value.bytes_value) <= max(longest, LEAST * 3 // 4):
            return 0
        value.string_value = _mark(value.bytes_value).decode()
        return 1
    text = value.string_value
    if len(text) < LEAST:
        return 0
    shorter, count = _omit(text.encode("utf-8", "surrogatepass"), longest, f"{key}=".encode())
    if count:
        value.string_value = shorter.decode("utf-8", "replace")
    return count
