r"""One look over a text that tells, for most texts, that the built-in patterns find nothing in it.

The look is a few regular expressions that are no narrower than all of `patterns.py` together: where a pattern would
match, or the name of a field would say that it is a secret, one of these matches. It also holds for what is inside:

- JSON, and JSON in JSON: what an escape could hide (`\u0040` is an @) matches by itself, and other escapes only
  lengthen what stands between two parts of a pattern. So JSON need not be read to know that nothing is in it.
- A serialised message of OTLP: its strings stand in it as they are, an attribute's name is followed by the tag 0x12 of
  its value, and a whole number that could be a card is the tag 0x18 and more than five bytes.

Bounds of words are left out, for the byte before a string is its length, which may be a letter. The engine is that of
pydantic, in Rust: it takes linear time, and looks for letters rather than at each of them.
"""

from __future__ import annotations

from pydantic_core import SchemaValidator, core_schema

from collector.redact.checksums import IBAN_COUNTRIES

_OTHER = r"\x0B\x0C\x0E-\x10\x1C\x1D\x7F"
"""What stands for a byte of a character that is not ASCII."""
_STAND_INS = {0xB0: 0x0B, 0xB1: 0x0B, 0xBF: 0x0C, 0xC4: 0x0E, 0xC5: 0x0F, 0xE2: 0x10, 0x84: 0x1C, 0xAA: 0x1D}
_PLAIN = bytes.maketrans(
    bytes(range(128, 256)),
    bytes(_STAND_INS.get(byte, 0x7F) for byte in range(128, 256)),
)
"""Makes ASCII of UTF-8, in which the letters can be told that are equal to k, s and i where case does not count."""
_FOLDED = r"\x10\x1C\x1D|\x0F\x0C|\x0E\x0B"  # U+212A, U+017F, U+0130 and U+0131
_PART = rf"[A-Za-z0-9_.\\\-{_OTHER}]{{8}}"
"""The beginning of what follows the first letters of a key, with all that may be an escape in it."""
_GAP = rf"(?:[ \-]|[{_OTHER}]{{2,3}})"
"""A space or hyphen between digits, or one that is not ASCII."""
_KEYS = (
    r"sk-|glpat-|xox[a-z]-|xapp-|pypi-|gh[pousr]_|github_pat_|_live_|_test_|hf_|npm_|dop_v1_|gsk_|sntrys_|lin_api_"
    r"|A(?:KIA|SIA|BIA|CCA)|AIza|ya29\.|SG\.|eyJ|shp(?:at|ca|pa|ss)_|ATATT3|xai-|pplx-|r8_|hvs\."
)
_VALUE = r"""(?:\\[nrtbf]?|[ \t\r\n"'])*(?:\x12|[:=]|is )"""
"""What stands between a name and its value: quotes and spaces, escaped as often as JSON is in JSON."""


def _matcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))


_TRACES = tuple(
    map(
        _matcher,
        (
            rf"@|%40|&#(?:64|x40);|\(at\)|\[at\]|::|PRIVATE KEY|hooks\.slack\.com|{_FOLDED}",
            r"\\/|\\u(?:00[0-7]|212[Aa]|017[Ff]|013[01])|[0-9]\\+u(?:00[Aa]0|20(?:0[79A-Fa-f]|1[0-3]|2[Ff]))",
            r":[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:",  # IPv6 has seven colons, or two together
            rf"(?:{_KEYS}){_PART}",
            r"(?i:bearer|basic) {1,4}[A-Za-z0-9._~+/=\-]{16}",
            rf"(?i:key|token|secret|pass(?:word|wd|phrase)){_VALUE}",
            rf"(?i:pwd|cookie|authorization){_VALUE}",
            rf"\x18[{_OTHER}]{{5}}",
        ),
    )
)
_DIGITS = _matcher(rf"[0-9][0-9 .()/\-{_OTHER}]{{5,}}[0-9]")
"""Without so many there is no card, phone, IPv4 or IBAN."""
_NUMBERS = _matcher(
    rf"[2-6][0-9]{{3}}(?:{_GAP}?[0-9]){{9}}|[2-6][0-9]{{3}}(?:\.[0-9]{{4}}){{3}}"
    rf"|(?:\+|%2[Bb])[1-9][0-9 .()/\-{_OTHER}]{{2}}"
    rf"|\([0-9]{{2,5}}\){_GAP}?[0-9]{{2,5}}(?:\.|{_GAP})[0-9]{{2}}"
    rf"|[2-9][0-9]{{2}}(?:\.|{_GAP})[0-9]{{3}}(?:\.|{_GAP})[0-9]{{4}}"
    rf"|00[1-9][0-9]{{0,2}}(?:[./]|{_GAP})[0-9]{{1,5}}(?:[./]|{_GAP})?[0-9]{{2}}|0[0-9]{{1,4}}(?:/|{_GAP})[0-9]{{3}}"
    r"|[0-9]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]"
    rf"|(?i:{'|'.join(IBAN_COUNTRIES)})[0-9]{{2}}{_GAP}?[A-Za-z0-9](?:{_GAP}?[A-Za-z0-9]){{9}}"
)


def quiet(text: str) -> bool:
    """Whether the built-in patterns surely find nothing in the text, nor in anything that is nested in it."""
    if text.isascii():
        return _quiet(text)
    try:
        return quiet_bytes(text.encode())
    except UnicodeEncodeError:  # a lone surrogate: it was not looked through
        return False


def quiet_bytes(data: bytes) -> bool:
    """The same for UTF-8, and for a serialised message."""
    return _quiet(data.translate(_PLAIN).decode("latin-1"))


def _quiet(text: str) -> bool:
    for trace in _TRACES:
        if trace.isinstance_python(text):
            return False
    return not (_DIGITS.isinstance_python(text) and _NUMBERS.isinstance_python(text))
