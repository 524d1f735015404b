"""Pictures, recordings and files among the parts of a message, in every spelling in use."""

import base64
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from collector.dialects.attributes import find_text
from collector.dialects.decode import as_dict, as_list
from collector.otlp.inline_media import find_media_type, parse_content
from evaluators.cases import Attachment, AttachmentKind, Json

JsonObject = dict[str, Any]

MEDIA_TYPES = frozenset(
    {
        "image", "image_url", "input_image", "output_image", "image-url", "blob", "file", "uri", "input_file",
        "file_url", "input_audio", "output_audio", "audio", "audio_url", "audio-url", "video", "video_url", "video-url",
        "document-url", "binary", "media",
    }
)  # fmt: skip
"""Types of parts that are not text, whatever texts they hold."""

MEDIA_KEYS = frozenset(
    {"inline_data", "inlineData", "file_data", "fileData", "image", "document", "video", "audio", "media"}
)
"""Keys that make an object without a `type` such a part."""

_KINDS: tuple[AttachmentKind, ...] = ("image", "audio", "video")
_LONGEST_URL, _LONGEST_TYPE, _LONGEST_TRANSCRIPT = 2000, 100, 100_000
_DATA_URL = re.compile(r"data:([\w.+-]{1,60}/[\w.+-]{1,60})?((?:;[\w.+=-]{1,60}){0,5}),", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}:")
_LANGFUSE = re.compile(r"@@@langfuseMedia:type=([\w.+/-]{1,100})\|id=([\w-]{1,100})\|source=\w{1,40}@@@")

_TYPE_KEYS = (
    "media_type", "mime_type", "mimeType", "mediaType", "contentType", "content_type", "image_mimetype", "mimetype",
    "audio.mime_type", "image.mime_type",
)  # fmt: skip
_URL_KEYS = ("url", "uri", "file_uri", "fileUri", "file_url", "image_url", "audio_url", "video_url", "document_url")
_DATA_KEYS = (
    "data", "bytes", "file_data", "base64", "base64_image", "b64_json", "image_bytes", "content", "image", "body",
)  # fmt: skip
_INNER_KEYS = (
    "source", "image_url", "input_audio", "audio_url", "video_url", "file", "inline_data", "inlineData", "file_data",
    "fileData", "image", "document", "video", "audio", "media", "s3Location", "resource", "blob",
)  # fmt: skip
_FORMATS: Mapping[str, str] = {"mp3": "audio/mpeg", "jpg": "image/jpeg", "pdf": "application/pdf", "txt": "text/plain"}
_DEPTH = 4
_MOST_BESIDE = 64


class _Facts(NamedTuple):
    """The values of a part's layers, the innermost last."""

    layers: tuple[JsonObject, ...]

    def find(self, *keys: str) -> str | None:
        for layer in reversed(self.layers):
            text = find_text(layer, *keys)
            if text is not None:
                return text
        return None


def find_attachment(part: JsonObject, kind: str = "") -> Attachment | None:
    """The attachment of a part of type `kind` ("" where it has none); None if the part is a text or something else."""
    if kind not in MEDIA_TYPES and not _is_media(part):
        return None
    return _attachment(_Facts(tuple(_layers(part))), kind)


def as_attachment(text: str, kind: AttachmentKind) -> Attachment:
    """The attachment of a bare text: a data URL, an address, or base64."""
    return _attachment(_Facts(({"url" if ":" in text[:30] or text.startswith("@@@") else "data": text},)), kind)


def find_transcript(part: JsonObject) -> str | None:
    """The transcript of a recording, if the part has it."""
    text = _Facts(tuple(_layers(part))).find("transcript", "audio.transcript")
    return text[:_LONGEST_TRANSCRIPT] if text else None


def _is_media(part: JsonObject) -> bool:
    if part.get("type") == "document":  # Anthropic's; some libraries call any text so
        return isinstance(part.get("source"), dict) and as_dict(part["source"]).get("type") != "text"
    if "type" in part and part["type"] not in (None, "image", "audio", "video"):
        return False
    return any(isinstance(part.get(key), dict) for key in MEDIA_KEYS) or part.get("block_type") in _KINDS


def _layers(part: JsonObject) -> list[JsonObject]:
    layers = [part]
    for _ in range(_DEPTH):
        inner = next((as_dict(layers[-1].get(key)) for key in _INNER_KEYS if as_dict(layers[-1].get(key))), None)
        if inner is None:
            break
        layers.append(inner)
    return layers


def _attachment(facts: _Facts, kind: str) -> Attachment:
    media_type, url, content = facts.find(*_TYPE_KEYS), facts.find(*_URL_KEYS), None
    if url is None or not _is_address(url):
        data = url or facts.find(*_DATA_KEYS)
        if data is not None and (_is_address(data) or data.startswith("@@@")):
            url, data = data, None
        content = data
    if content is None and url is not None and (data_url := _DATA_URL.match(url[:400])):
        media_type, content, url = data_url[1] or media_type, url[data_url.end() :], None
    if url is not None and (token := _LANGFUSE.fullmatch(url)):
        media_type, url = media_type or token[1], f"langfuse:{token[2]}"
    if content is not None and url == content:
        url = None
    if content is None and url is None:
        url = facts.find("file_id", "fileId", "file_name", "id")
    parsed = parse_content(content) if content is not None else None
    media_type = _media_type(media_type, facts) or (find_media_type(parsed.data) if parsed and parsed.data else None)
    return Attachment(
        kind=_kind(kind, media_type, facts),
        media_type=media_type,
        size=parsed.size if parsed else None,
        sha256=parsed.sha256 if parsed else None,
        url=url if url is not None and len(url) <= _LONGEST_URL else None,
        transcript=(facts.find("transcript", "audio.transcript") or "")[:_LONGEST_TRANSCRIPT] or None,
        data=base64.b64encode(parsed.data).decode() if parsed and parsed.data else None,
    )


def _is_address(text: str) -> bool:
    return _SCHEME.match(text[:30]) is not None


def _media_type(named: str | None, facts: _Facts) -> str | None:
    if named is None:
        form = facts.find("format")
        if form is not None and form.isalnum() and len(form) <= 10:
            named = _FORMATS.get(form.lower()) or f"{_outer_kind(facts) or 'application'}/{form.lower()}"
    if named is None or len(named) > _LONGEST_TYPE:
        return None
    named = named.partition(";")[0].strip().lower()
    return named if _MEDIA_TYPE.fullmatch(named) else None


def _outer_kind(facts: _Facts) -> AttachmentKind | None:
    """The kind that a key or a type names: `image`, `input_audio`, `video_url`."""
    words = [str(layer.get(key)) for layer in facts.layers for key in ("modality", "type", "block_type", "kind")]
    words += [key for layer in facts.layers for key in layer if key in _INNER_KEYS or "." in key]
    return next((kind for word in words for kind in _KINDS if kind in word.lower()), None)


def _kind(kind: str, media_type: str | None, facts: _Facts) -> AttachmentKind:
    """The kind by the media type, else by the names; without either it is a file."""
    for each in _KINDS:
        if (media_type or "").startswith(f"{each}/"):
            return each
    if media_type is not None and not media_type.startswith("application/octet-stream"):
        return "file"
    named: AttachmentKind | None = next((known for known in _KINDS if known in kind), None)
    return named or _outer_kind(facts) or "file"


def find_beside(body: Mapping[str, Json]) -> list[Attachment]:
    """Attachments beside a message's content: Ollama's and OpenRouter's `images`."""
    images = as_list(body.get("images"))[:_MOST_BESIDE]
    return [attachment for image in images if (attachment := _beside(image)) is not None]


def _beside(image: Json) -> Attachment | None:
    if isinstance(image, str):
        return as_attachment(image, "image")
    return find_attachment(as_dict(image), "image") if image else None
