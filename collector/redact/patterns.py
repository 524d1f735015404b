"""The built-in detector: e-mail, phone, card, IBAN, keys, tokens, JWT, private keys, passwords, IP addresses.

Most texts hold none of them, so each pattern is tried only where a cheap look says that it might match. Quantifiers are
bounded, and starts are tied to the edge of a word, so that no text makes the search slow.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from collector.errors import ConfigError
from collector.redact.checksums import iban, iban_length, luhn
from collector.redact.finding import Detector, Finding
from collector.redact.skimming import quiet, quiet_bytes

_MARKS = r"\u00ad\u0300-\u036f\u0900-\u109f\u200b-\u200d\u2060\ufeff"
"""What is no letter to `\\w`: accents that are characters of their own, vowels of Indian scripts, what nobody sees."""
_AT = ("@", "%40", "&#64;", "&#x40;", "\\u0040", "(at)", "[at]", " (at) ", " [at] ")
"""As it is; in a URL; in HTML; in JSON that is cut off, so that nobody reads it; and as people hide it from robots."""
_LOCAL_PART = re.compile(rf"[\w.%+\-{_MARKS}]{{1,128}}\\{{0,3}}\Z")
_DOMAIN = re.compile(
    rf"(?:[\w\-{_MARKS}]{{1,63}}[.\u3002]){{1,8}}"
    r"(?:[Xx][Nn]--[A-Za-z0-9\-]{2,59}"
    r"|[A-Za-z]{2,24}(?![^\W\d_\u2e80-\uffff])"  # whatever is glued behind; Chinese is written without spaces
    rf"|(?:[^\W\d_]|[{_MARKS}]){{2,24}})"
)
_CREDENTIALS = re.compile(r"(?<=://)[^/\s:@]{0,128}:([^/\s@]{1,256})(?=@)")
_GAP = r" \-\u00a0\u2007\u2009-\u2013\u202f"
"""Spaces and hyphens between digits, those that a typesetter uses among them."""
_DIGITS = re.compile(rf"[0-9][0-9.()/{_GAP}]{{5,}}[0-9]")
_CARD = re.compile(rf"(?<![0-9])[2-6][0-9]{{3}}(?:(?:[{_GAP}]?[0-9]){{9,15}}|(?:\.[0-9]{{4}}){{3}})(?![0-9])")
_IBAN = re.compile(rf"(?<![A-Za-z0-9])([A-Za-z]{{2}})[0-9]{{2}}[{_GAP}]?[A-Za-z0-9](?:[{_GAP}]?[A-Za-z0-9]){{9,31}}")
_NO_DIGIT = re.compile(r"[^0-9]")
_GAPS = re.compile(rf"[{_GAP}]")
_IBAN_START = re.compile(rf"[0-9]{{2}}(?<=[A-Za-z]{{2}}[0-9]{{2}})[{_GAP}A-Za-z0-9]")
_PHONE = re.compile(
    r"(?:(?<![\w+.\-])(?:\+|%2[Bb])[1-9][0-9]{0,2}"  # also wa.me/+49 30 123456, and in a URL
    rf"(?:[./{_GAP}]{{0,2}}(?:\([0-9]{{1,5}}\)|[0-9]{{1,5}})){{2,6}}"  # +49 (0)30 123 456-78
    r"|(?<![\w+.\-/])(?:"
    rf"\([0-9]{{2,5}}\)[{_GAP}]?[0-9]{{2,5}}(?:[.{_GAP}][0-9]{{2,5}}){{1,3}}"  # (415) 555-2671
    rf"|[2-9][0-9]{{2}}[.{_GAP}][0-9]{{3}}[.{_GAP}][0-9]{{4}}"  # 415-555-2671
    rf"|00[1-9][0-9]{{0,2}}[./{_GAP}][0-9]{{1,5}}(?:[./{_GAP}]?[0-9]{{2,5}}){{1,4}}"  # 0049 30 123456
    rf"|0[0-9]{{1,4}}[/{_GAP}][0-9]{{3,8}}(?:[{_GAP}]?[0-9]{{2,5}}){{0,2}}"  # 030 1234567
    rf"))(?![\w{_GAP}]?[0-9])"
)
_IPV4 = re.compile(
    r"(?<![0-9.])(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(?!\.?[0-9])"
)
_IPV6 = re.compile(r"(?<![\w:])[0-9A-Fa-f:]{2,39}(?:%[\w]{1,15})?(?![\w:])")
_COLONS = re.compile(r":(?:[0-9A-Fa-f]{1,4})?:")
_JWT = re.compile(r"(?<![\w\-])eyJ[\w\-]{8,8000}\.[\w\-]{2,16000}(?:\.[\w\-]{0,4000})?")
_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[\w\-]{16,250}"  # OpenAI, Anthropic and many that follow them
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|glpat-[\w\-]{20,255}"
    r"|xox[abeoprs]-[\w\-]{10,255}|xapp-[\w\-]{10,255}"  # Slack
    r"|AIza[\w\-]{30,60}|ya29\.[\w\-]{20,400}"  # Google
    r"|(?:sk|rk|pk|whsec)_(?:live|test)_\w{10,255}"  # Stripe
    r"|hf_[A-Za-z0-9]{20,100}|npm_[A-Za-z0-9]{30,60}|pypi-[\w\-]{40,255}|dop_v1_[a-f0-9]{64}"
    r"|hooks\.slack\.com/services/[\w/]{20,100}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}|ATATT3[\w\-=]{20,255}"
    r"|(?:xai|pplx)-[A-Za-z0-9]{20,100}|r8_[A-Za-z0-9]{20,100}|hvs\.[\w\-]{20,255}"  # xAI, Perplexity, Replicate, Vault
    r"|SG\.[\w\-]{16,64}\.[\w\-]{16,64}|gsk_[A-Za-z0-9]{20,100}|sntrys_[\w\-=]{20,255}|lin_api_\w{20,100}"
    r")"
)
_KEY_HINTS = ("AKIA", "ASIA", "ABIA", "ACCA", "AIza", "ya29.", "SG.", "hooks.slack.com", "ATATT3", "hvs.")
_DASHED_HINTS = ("sk-", "glpat-", "xox", "xapp-", "pypi-", "xai-", "pplx-")
_UNDERSCORED_HINTS = (
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "_live_", "_test_", "hf_", "npm_", "dop_v1_", "gsk_",
    "sntrys_", "lin_api_", "shpat_", "shpca_", "shppa_", "shpss_", "r8_",
)  # fmt: skip
_BEARER = re.compile(r"(?i:\b(?:bearer|basic))[ ]{1,4}([A-Za-z0-9._~+/=\-]{16,4000})")
_SECRET = re.compile(
    r"(?:\\?[\"'])?[ ]{0,3}(?:[:=]|=>|is(?=[ ]{1,3}[^\s0-9]{0,64}[0-9]))[ ]{0,3}(?:\\?[\"'])?"
    r"([^\s\"'\\,;<>{}]{6,512})"
)
_SECRET_WORDS = {
    "key": re.compile(r"(?:api|access|secret|private|account|encryption)[_\- ]?$"),
    "token": re.compile(r"(?:auth|access|refresh|api|id|session|bearer)[_\- ]?$"),
    "secret": re.compile(r""),
    "password": re.compile(r""),
    "passwd": re.compile(r""),
    "passphrase": re.compile(r""),
    "pwd": re.compile(r"(?<![a-z0-9])$"),
}
"""Words that a secret may follow, and what has to stand before them."""
_LOCAL = frozenset({"127.0.0.1", "0.0.0.0", "255.255.255.255", "::1", "::"})  # noqa: S104 - an address in a text


class _BuiltIn:
    """Finds everything that the built-in patterns know."""

    def __call__(self, text: str) -> Iterator[Finding]:
        return _find(text)

    quiet = staticmethod(quiet)
    quiet_message = staticmethod(quiet_bytes)


find = _BuiltIn()
"""The built-in detector."""


def _find(text: str) -> Iterator[Finding]:
    if len(text) < _SHORT and not ("@" in text or ":" in text or "=" in text or _DIGITS.search(text)):
        return
    for at in _AT:
        if at in text:
            yield from _emails(text, at)
    if "@" in text and "://" in text:
        yield from _groups(_CREDENTIALS, text, "SECRET")
    number = None
    for number in _DIGITS.finditer(text):
        yield from _numbers(text, max(0, number.start() - 4), number.end() + 2)
    if number and _IBAN_START.search(text):
        yield from _ibans(text)
    if ":" in text and _COLONS.search(text):
        yield from _whole(_IPV6, text, "IP", _ipv6)
    if "eyJ" in text:
        yield from _whole(_JWT, text, "JWT")
    if "PRIVATE KEY" in text:
        yield from _private_keys(text)
    if _may_hold_key(text):
        yield from _whole(_KEY, text, "KEY")
    lowered = text.lower()
    if "bearer " in lowered or "basic " in lowered:
        yield from _groups(_BEARER, text, "TOKEN")
    if len(lowered) == len(text):  # a few letters become two when lowered; those texts are lowered letter by letter
        yield from _secrets(text, lowered)
    else:
        yield from _secrets(text, "".join(char.lower()[0] for char in text))


_SECRET_NAME = re.compile(
    r"(?i:.{0,64}(?:api[_\-]?key|access[_\-]?key|secret[_\-]?key|client[_\-]?secret|auth[_\-]?token|access[_\-]?token"
    r"|refresh[_\-]?token|private[_\-]?key|password|passwd|passphrase|authorization|set-cookie|cookie))"
)
_SHORT = 16
"""Below so many characters nothing but an address, a number or a password can be found."""


@lru_cache(maxsize=4096)
def names_secret(name: str) -> bool:
    """Whether a field of this name holds a secret, whatever it looks like."""
    return _SECRET_NAME.fullmatch(name) is not None


def built_in() -> Detector:
    """The entry point `patterns`."""
    return find


def configured(patterns: Mapping[str, str]) -> Detector:
    """A detector of one's own regular expressions, by the kind each finds. A group named `value` narrows what goes.

    Raises:
        ConfigError: one of them is no regular expression, or matches nothing at all.
    """
    compiled = {kind: _compile(kind, pattern) for kind, pattern in patterns.items()}

    def find_configured(text: str) -> Iterator[Finding]:
        for kind, pattern in compiled.items():
            group = "value" if "value" in pattern.groupindex else 0
            for match in pattern.finditer(text):
                yield Finding(match.start(group), match.end(group), kind)

    return find_configured


def _compile(kind: str, pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"redact.patterns.{kind}: is no regular expression: {error}") from None
    if compiled.match(""):
        raise ConfigError(f"redact.patterns.{kind}: matches the empty text; write what must be there")
    return compiled


def _whole(
    pattern: re.Pattern[str],
    text: str,
    kind: str,
    wanted: Callable[[str], bool] = bool,
    start: int = 0,
    end: int = sys.maxsize,
) -> Iterator[Finding]:
    for match in pattern.finditer(text, start, end):
        if wanted(match[0]):
            yield Finding(match.start(), match.end(), kind)


def _emails(text: str, sign: str) -> Iterator[Finding]:
    at = text.find(sign)
    while at >= 0:
        domain = _DOMAIN.match(text, at + len(sign))
        name = _LOCAL_PART.search(text[max(0, at - 128) : at]) if domain else None
        if name and domain:
            yield Finding(at - len(name[0]), domain.end(), "EMAIL")
        at = text.find(sign, at + len(sign))


def _numbers(text: str, start: int, end: int) -> Iterator[Finding]:
    yield from _cards(text, start, end)
    yield from _whole(_PHONE, text, "PHONE", _phone, start, end)
    yield from _whole(_IPV4, text, "IP", _no_local, start, end)


def _may_hold_key(text: str) -> bool:
    return (
        any(hint in text for hint in _KEY_HINTS)
        or ("-" in text and any(hint in text for hint in _DASHED_HINTS))
        or ("_" in text and any(hint in text for hint in _UNDERSCORED_HINTS))
    )


def _groups(pattern: re.Pattern[str], text: str, kind: str) -> Iterator[Finding]:
    for match in pattern.finditer(text):
        yield Finding(match.start(1), match.end(1), kind)


def _secrets(text: str, lowered: str) -> Iterator[Finding]:
    for word, before in _SECRET_WORDS.items():
        start = lowered.find(word)
        while start >= 0:
            end = start + len(word)
            match = _SECRET.match(text, end)
            if match and before.search(lowered[max(0, start - 12) : start]):
                yield Finding(match.start(1), match.end(1), "SECRET")
            start = lowered.find(word, end)


def _cards(text: str, start: int, end: int) -> Iterator[Finding]:
    for match in _CARD.finditer(text, start, end):
        digits = _NO_DIGIT.sub("", match[0])
        if 13 <= len(digits) <= 19 and luhn(digits):
            yield Finding(match.start(), match.end(), "CARD")


def _phone(text: str) -> bool:
    return 7 <= sum(map(str.isdigit, text)) <= 17


def _ibans(text: str) -> Iterator[Finding]:
    for match in _IBAN.finditer(text):
        length = iban_length(match[1])
        end = _end_of(match[0], length) if length else None
        if end is not None and iban(_GAPS.sub("", match[0][:end])):
            yield Finding(match.start(), match.start() + end, "IBAN")


def _end_of(text: str, length: int) -> int | None:
    """Where in a text with spaces its first so many characters end: the words behind an IBAN are none of it."""
    for place, char in enumerate(text):
        length -= char.isascii() and char.isalnum()
        if not length:
            return place + 1
    return None


def _no_local(text: str) -> bool:
    return text not in _LOCAL


def _ipv6(text: str) -> bool:
    if text in _LOCAL or len(text) < 6 or not any(map(str.isdigit, text)):  # a::b is more often code
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _private_keys(text: str) -> Iterator[Finding]:
    """From the first line to the last; one whose last line is missing goes to the end of the text."""
    for match in _PRIVATE_KEY.finditer(text):
        last = text.find("-----END ", match.end())
        end = text.find("-----", last + 9) if last >= 0 else -1
        yield Finding(match.start(), end + 5 if end >= 0 else len(text), "PRIVATE_KEY")
