"""Other readings of a text in which instructions may hide: look-alike letters, encodings, spaces between letters.

Linear in the length of the text. Only a few pieces are decoded, each of bounded length.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from pydantic_core import SchemaValidator, core_schema

_PIECES = 16


def _matcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


_TAGS = re.compile("[\U000e0020-\U000e007e]")
_UNTAGGED = {code: code - 0xE0000 for code in range(0xE0020, 0xE007F)}
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_MIXED = re.compile("[A-Za-z][\u0370-\u052f]|[\u0370-\u052f][A-Za-z]")
_LOOK_ALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u043a\u043c\u0442\u043d\u0432"
    "\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b1\u03b5\u03b9\u03bd\u03bf\u03c1\u03c5"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0405",
    "aeopcyxijshdqkmthbABEHIKMNOPTYXaeivopuABEKMHOPCTXIS",
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_\-]{24,4000}={0,2}")
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2}){16,2000}")
_SPACED = re.compile(r"(?:\b\w[ \u00a0]){5,200}\w\b(?:[ \u00a0]{2,5}\w(?:[ \u00a0]\w){0,40}\b)*")
_MAY_BE_SPACED = _matcher(r"(?:[\pL\d][ \x{a0}]+){5}[\pL\d]")
_MAY_BE_ENCODED = _matcher(r"[A-Za-z0-9+/_\-]{24}")
_ROT13 = ("vtaber", "qvfertneq", "vafgehpgvba", "rinyhngbe", "tenqre", "fpber", "ireqvpg", "ernfba")


def normalize(text: str) -> str:
    """The text as a reader sees it: without unseen characters, compatibility forms and look-alike letters replaced."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    return text.translate(_LOOK_ALIKES) if _MIXED.search(text) else text


def has_any(text: str, words: Iterable[str]) -> bool:
    """Whether one of some words is in a text."""
    for word in words:  # noqa: SIM110 - a generator costs more than the search
        if word in text:
            return True
    return False


def decoded(text: str) -> Iterator[str]:
    """What is hidden in the text: each encoded piece that decodes to text."""
    if not text.isascii() and _TAGS.search(text):
        yield "".join(_TAGS.findall(text)).translate(_UNTAGGED)
    if "&#" in text:
        yield html.unescape(text)
    if "%20" in text:
        yield unquote(text)
    lowered = text.lower()
    if has_any(lowered, _ROT13):
        yield codecs.decode(text, "rot13")
    if _MAY_BE_SPACED.isinstance_python(text):
        for match, _ in zip(_SPACED.finditer(text), range(_PIECES), strict=False):
            yield _joined(match[0])
    if _MAY_BE_ENCODED.isinstance_python(text):
        yield from _decoded_pieces(text)


def _decoded_pieces(text: str) -> Iterator[str]:
    for match, _ in zip(_HEXADECIMAL.finditer(text), range(_PIECES), strict=False):
        yield from _as_text(bytes.fromhex(match[0]))
    for match, _ in zip(_BASE64.finditer(text), range(_PIECES), strict=False):
        piece = match[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            yield from _as_text(base64.b64decode(piece[: len(piece) - (len(piece) % 4 == 1)] + "=" * (-len(piece) % 4)))
        except (binascii.Error, ValueError):
            continue


def _joined(spaced: str) -> str:
    """Words whose letters are separated by one space, and which are separated by more."""
    return " ".join(word.replace(" ", "") for word in spaced.replace("\u00a0", " ").split("  "))


def _as_text(data: bytes) -> Iterator[str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if sum(char.isalpha() or char.isspace() for char in text) > 0.7 * len(text):
        yield text
