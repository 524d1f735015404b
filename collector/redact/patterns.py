"""The built-in detector: e-mail, phone, card, IBAN, keys, tokens, JWT, private keys, passwords, IP addresses.

Most texts hold none of them, so each pattern is tried only where a cheap look says that it might match. Quantifiers are
bounded, starts are tied to the edge of a word, and digits divide into groups in one way only, so that no text makes the
search slow.
"""

import ipaddress
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from collector.errors import ConfigError
from collector.redact import prefilter
from collector.redact.checksums import iban, iban_length, luhn
from collector.redact.context import PASSWORD_NAMES, find_by_context, is_prose
from collector.redact.finding import Detector, Finding, looked_at
from collector.redact.folding import fold
from collector.redact.national_ids import LETTERED, find_lettered, find_numbered, is_inside_machine_id, may_be_numbered
from evaluators.texts.linear_regex import translate
from evaluators.texts.word_lists import load_words

_MARKS = r"\u00ad\u0300-\u036f\u0900-\u109f\u200b-\u200d\u2060\ufeff"
"""Characters within words that `\\w` omits: combining accents, vowels of Indian scripts, invisible ones."""
_AT = (
    "@", "%40", "&#64;", "&#x40;", "\\u0040",
    "(at)", "[at]", " (at) ", " [at] ", " @ ", " (ät) ", "(ät)", " [ät] ", " [собака] ",
)  # fmt: skip
"""As it is; in a URL; in HTML; in JSON that is cut off and therefore never parsed; and as people hide it from
robots."""
_LOCAL_PART_BACKWARDS = re.compile(rf"\\{{0,3}}[\w.%+\-{_MARKS}]{{1,128}}")
_DOMAIN = re.compile(
    rf"(?:[\w\-{_MARKS}]{{1,63}}[.\u3002]){{1,8}}"
    r"(?:[Xx][Nn]--[A-Za-z0-9\-]{2,59}"
    r"|[A-Za-z]{2,24}(?![^\W\d_\u2e80-\uffff])"  # whatever is glued behind; Chinese is written without spaces
    rf"|(?:[^\W\d_]|[{_MARKS}]){{2,24}})"
)
_SPELT_OUT = re.compile(
    rf"(?<![\w.+\-])[\w.+\-]{{1,64}} ?[(\[ ](?i:{prefilter.AT_WORDS})[)\] ] ?(?!the |an? |our |this )[\w\-]{{1,63}}"
    rf"(?: ?[(\[ ](?:(?i:{prefilter.DOT_WORDS})|POINT)[)\] ] ?[\w\-]{{2,63}}){{1,4}}"
    rf"|(?<![\w.+\-])[\w.+\-]{{1,64}} (?:{prefilter.FOREIGN_AT}) [\w\-]{{1,63}}"
    rf"(?: ?[(\[ .](?:(?i:{prefilter.DOT_WORDS}|{prefilter.FOREIGN_DOT}) )?[\w\-]{{2,63}}){{1,4}}"
)
"""ada (at) example (dot) com."""
_DOT_WORD = rf"[(\[ ](?:(?i:{prefilter.DOT_WORDS})|POINT)[)\] ]| (?:{prefilter.raw_form(prefilter.FOREIGN_AT)}) "
_DOT = prefilter.ByteMatcher(_DOT_WORD)
_NO_PERSON = frozenset({"git", "hg", "svn"})
_NO_MAILBOX = re.compile(r"[0-9](?:\.[0-9])?x\.(?:png|jpe?g|gif|webp|svg)|[\w.\-]{1,80}:[/~]|[A-Za-z]\.[a-z]{2,24}\(")
"""icon@2x.png, user@host:/path, and the multiplication of matrices."""
_CREDENTIALS = re.compile(r"(?<=://)[^/\s:@]{0,128}:([^/\s@]{1,256})(?=@)")
_GAP = r" \-\u00a0\u2007\u2009-\u2013\u202f"
"""Spaces and hyphens between digits, those that a typesetter uses among them."""
_DIGITS = re.compile(rf"[0-9][0-9.()/_{_GAP}]{{5,}}[0-9]")
_CARD = re.compile(rf"(?<![0-9])[2-6][0-9]{{3}}(?:(?:[{_GAP}]{{0,3}}[0-9]){{9,15}}|(?:[._/][0-9]{{4}}){{3}})(?![0-9])")
_IBAN = re.compile(
    rf"(?<![A-Za-z0-9])([A-Za-z]{{2}})[0-9]{{2}}[{_GAP}]{{0,2}}[A-Za-z0-9](?:[{_GAP}]{{0,2}}[A-Za-z0-9]){{9,31}}"
)
_AMOUNT = re.compile(r"[0-9]{1,2}(?:[ \u00a0\u202f][0-9]{3})+")
_NO_DIGIT = re.compile(r"[^0-9]")
_GAPS = re.compile(rf"[{_GAP}]")
_IBAN_START = re.compile(rf"[0-9]{{2}}(?<=[A-Za-z]{{2}}[0-9]{{2}})[{_GAP}A-Za-z0-9]")
_GROUP = r"(?:[0-9]{5}|[0-9]{1,4}+(?![0-9]))"
"""Up to five digits. Digits without a separator divide into groups in one way only: nothing to try again."""
_LONG_GROUP = r"(?:[0-9]{2,5}+(?![0-9])|[0-9]{5}(?=[0-9]{2})|[0-9]{4}(?=[0-9]{2}(?![0-9])))"
"""The same for groups of two to five."""
_PHONE = re.compile(
    r"(?:(?<![\w+.\-])(?:\(\+[1-9][0-9]{0,2}\)|(?:\+|%2[Bb])[1-9][0-9]{0,2}+)"  # also wa.me/+49 30 123456, and in a URL
    rf"(?:[./{_GAP}]{{0,2}}(?:\([0-9]{{1,5}}\)|{_GROUP})){{1,6}}"  # +49 (0)30 123 456-78
    r"|(?<![\w+.\-/])(?:"
    rf"\([0-9]{{2,5}}\)[{_GAP}]?[0-9]{{2,5}}(?:[.{_GAP}][0-9]{{2,5}}){{1,3}}"  # (415) 555-2671
    rf"|[2-9][0-9]{{2}}[.{_GAP}][0-9]{{3}}[.{_GAP}][0-9]{{4}}"  # 415-555-2671
    rf"|\(0[0-9]{{2,4}}\)[{_GAP}]?[0-9]{{5,8}}"  # (0141) 4960666
    rf"|0[1-9][0-9]{{1,3}}-[0-9]{{2,3}}(?:[{_GAP}][0-9]{{2}}){{2}}"  # 0219-93 51 81
    rf"|[0-9]{{9,14}}(?=[{_GAP}]{{1,2}}(?i:{prefilter.LABELS}))"  # 05131373537 office
    rf"|00[1-9][0-9]{{0,2}}[./{_GAP}]"  # 0049 30 123456
    rf"(?:(?:[0-9](?![0-9])|{_LONG_GROUP})(?:[./{_GAP}]?{_LONG_GROUP}){{1,4}}|[0-9]{{3,5}}+)"
    rf"|0[1-9][0-9]{{0,3}}[/{_GAP}][0-9]{{3,8}}(?:[{_GAP}]?[0-9]{{2,5}}){{0,2}}"  # 030 1234567
    rf"|0[1-9](?:[.{_GAP}][0-9]{{2}}){{4}}"  # 06 39 98 12 34
    rf"|8[{_GAP}]?\(?[3489][0-9]{{2}}\)?[{_GAP}]?[0-9]{{3}}[{_GAP}][0-9]{{2}}[{_GAP}][0-9]{{2}}"  # 8 (495) 123-45-67
    rf"))(?:x[0-9]{{2,6}})?(?![\w{_GAP}]?[0-9])"
)
_IPV4 = re.compile(
    r"(?<![0-9.])(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(?!\.?[0-9])"
)
_IPV6 = re.compile(r"(?<![\w:])[0-9A-Fa-f:]{2,39}(?:%[\w]{1,15})?(?![\w:])")
_COLONS = re.compile(r":(?:[0-9A-Fa-f]{1,4})?:")
_JWT = re.compile(r"(?<![\w\-])eyJ[\w\-]{8,8000}\.[\w\-]{2,16000}(?:\.[\w\-]{0,4000})?")
_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----|Private-Lines: [0-9]{1,4}")
_KEYS = "|".join(load_words("collector.redact", "key_forms.txt")["KEYS"])
_KEY = re.compile(rf"(?<![A-Za-z0-9])(?:{_KEYS})")
_MAY_BE_KEY = prefilter.ByteMatcher(prefilter.KEY_STARTS)
_ANY_START = prefilter.ByteMatcher(f"{prefilter.KEY_STARTS}|{LETTERED}|{_DOT_WORD}")
"""The common start of keys, ids that begin with letters and spelt-out addresses, as one search."""
_BEARER = re.compile(
    r"(?i:\b(?:bearer|basic))[ ]{1,4}(?=[A-Za-z.\-]{0,200}(?:[0-9+/=_~]|[a-z][A-Z]))"
    r"([A-Za-z0-9._~+/=\-]{16,4000})"
)
_SECRET = re.compile(
    r"(?:\\?[\"'])?(?:[ ]value)?[ ]{0,3}(?:[:=\uff1a]|=>|is(?=[ ]{1,3}[^\s0-9]{0,64}[0-9]))[ ]{0,3}(?:\\?[\"'])?"
    r"([^\s\"'\\,;<>{}]{6,512})"
)
_RANDOM = re.compile(r"(?=[^A-Z]{0,64}[A-Z])(?=[^a-z]{0,64}[a-z])(?=[^0-9]{0,64}[0-9])[A-Za-z0-9+/=]{20,255}")
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
_QUERY = re.compile(rf"[?&;](?i:{prefilter.QUERY_NAMES})=([^&\s#\"'<>]{{12,4000}})")
_AUTHORIZATION = re.compile(
    r"uthorization(?:\\?[\"'])?[:=] {0,3}(?:\\?[\"'])?([A-Za-z\-]{1,20} {1,2}[^\r\n\"']{8,4000})"
)
_USER = re.compile(r" (?:-u|--user)[ =]{0,2}[\"']?([^\s\"':]{1,64}:[^\s\"']{1,128})")
_COOKIE = re.compile(r"[Cc]ookie: {0,3}([^\r\n]{6,4000})")
_OPTION = re.compile(r"(?:mysql|mysqldump|mariadb|sshpass)[^\n]{0,80} -p([^\s\-\"'][^\s\"']{5,100})")
_LONGEST_WORD = 16
"""Characters of a name, with what joins it to its value: it may begin at the end of another's value."""
_LOCAL = frozenset({"127.0.0.1", "0.0.0.0", "255.255.255.255", "::1", "::"})  # noqa: S104 - an address in a text


class _BuiltIn:
    """Finds everything that the built-in patterns know."""

    def __call__(self, text: str) -> Iterator[Finding]:
        return _find(text)

    has_no_pii = staticmethod(prefilter.has_no_pii)
    suspects_of = staticmethod(prefilter.suspects_of)


find = _BuiltIn()
"""The built-in detector."""


def _find(text: str) -> Iterator[Finding]:
    text = fold(text)
    if len(text) < _SHORT and text.isascii() and not any(map(text.__contains__, "@:=0123456789")):
        return
    has_letters = not text.isascii() or text.lower() != text.upper()
    for at in _AT if has_letters else ():
        if at in text:
            yield from _emails(text, at)
    if "@" in text and "://" in text:
        yield from _groups(_CREDENTIALS, text, "SECRET")
    number, may_be_id = None, None
    for number in _DIGITS.finditer(text):
        yield looked_at(number.start())
        if may_be_id is None:
            may_be_id = may_be_numbered(text)
        if may_be_id:
            yield from _apart(find_numbered(text, max(0, number.start() - 4), number.end() + 8), text)
        yield from _numbers(text, max(0, number.start() - 4), number.end() + 10)
    if number and _IBAN_START.search(text):
        yield from _apart(_ibans(text), text)
    if ":" in text and _COLONS.search(text):
        yield from _whole(_IPV6, text, "IP", _ipv6)
    if has_letters or "//" in text:
        yield from _find_by_letters(text)


def _find_by_letters(text: str) -> Iterator[Finding]:
    """The kinds that only a text with letters has; and of the keys, one kind begins with 1//0."""
    if "eyJ" in text:
        yield from _whole(_JWT, text, "JWT")
    if "PRIVATE KEY" in text or "Private-Lines" in text:
        yield from _private_keys(text)
    if _ANY_START.occurs_in_text(text):
        if _MAY_BE_KEY.occurs_in_text(text):
            yield from _whole(_KEY, text, "KEY")
        yield from _apart(find_lettered(text), text)
        if _DOT.occurs_in_text(text):
            yield from _whole(_SPELT_OUT, text, "EMAIL")
    if "=" in text and ("?" in text or "&" in text):
        yield from _groups(_QUERY, text, "SECRET")
    if "ookie:" in text:
        yield from _groups(_COOKIE, text, "SECRET")
    if "uthorization" in text:
        yield from _groups(_AUTHORIZATION, text, "SECRET")
    if "curl " in text or "wget " in text:
        yield from _groups(_USER, text, "SECRET")
    if "-p" in text:
        yield from _groups(_OPTION, text, "SECRET")
    lowered = text.lower()
    if "bearer " in lowered or "basic " in lowered:
        yield from _groups(_BEARER, text, "TOKEN")
    if len(lowered) != len(text):  # a few letters become two when lowered; those texts are lowered letter by letter
        lowered = "".join(char.lower()[0] for char in text)
    yield from _secrets(text, lowered)
    yield from find_by_context(text, lowered)


_SECRET_NAME = re.compile(
    r"(?i:.{0,64}(?:api[_\-]?key|access[_\-]?key|secret[_\-]?key|client[_\-]?secret|auth[_\-]?token|access[_\-]?token"
    r"|refresh[_\-]?token|private[_\-]?key|password|passwd|passphrase|authorization|set-cookie|cookie"
    rf"|{PASSWORD_NAMES}))"
)
_LONGEST_SECRET_NAME = 64 + 14
"""Characters that the pattern can match; longer names are not cached either."""
_SHORT = 16
"""Below so many characters nothing but an address, a number or a password can be found."""


def names_secret(name: str) -> bool:
    """Whether a field of this name holds a secret, whatever it looks like."""
    return len(name) <= _LONGEST_SECRET_NAME and _names_secret(name)


@lru_cache(maxsize=4096)
def _names_secret(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None


def built_in() -> Detector:
    """The entry point `patterns`."""
    return find


def configured(patterns: Mapping[str, str], clock: Callable[[], float] = time.thread_time) -> Detector:
    """A detector of configured regular expressions, each with its kind. A group named `value` narrows what goes.

    They are searched by RE2, in linear time for each match. If many matches that each look far ahead take longer
    than a text of its length may, the search ends with TimeoutError; `clock` gives seconds of CPU.

    Raises:
        ConfigError: one of them is not a regular expression for RE2, or matches nothing at all.
    """
    compiled = {kind: _compile(kind, pattern) for kind, pattern in patterns.items()}

    def find_configured(text: str) -> Iterator[Finding]:
        text = text.encode("utf-8", "replace").decode()  # of the same length: a lone surrogate becomes a question mark
        deadline = clock() + _CONFIGURED_SECONDS + _CONFIGURED_SECONDS_PER_CHARACTER * len(text)
        for kind, pattern in compiled.items():
            group = pattern.groupindex.get("value", 0)
            for match in pattern.finditer(text):
                if clock() > deadline:
                    raise TimeoutError
                yield Finding(match.start(group), match.end(group), kind)

    return find_configured


_CONFIGURED_SECONDS = 0.1
_CONFIGURED_SECONDS_PER_CHARACTER = 5e-6


def _compile(kind: str, pattern: str) -> Any:
    re2: Any = import_module("re2")  # untyped
    options = re2.Options()
    options.log_errors = False
    try:
        translated = translate(pattern)
        compiled = re2.compile(translated, options)
    except ValueError as error:
        raise ConfigError(f"redact.patterns.{kind}: {error}") from None
    except re2.error:
        raise ConfigError(f"redact.patterns.{kind}: is too large a regular expression; repeat less of it") from None
    if not pattern.isascii() and ("\\b" in translated or "\\B" in translated):
        raise ConfigError(
            f"redact.patterns.{kind}: \\b and \\B know no letters beyond ASCII, which the pattern has; leave them out"
        )
    if compiled.match(""):
        raise ConfigError(f"redact.patterns.{kind}: matches the empty text; write what must be there")
    return compiled


def _whole(pattern: re.Pattern[str], text: str, kind: str, wanted: Callable[[str], bool] = bool) -> Iterator[Finding]:
    for match in pattern.finditer(text):
        yield Finding(match.start(), match.end(), kind) if wanted(match[0]) else looked_at(match.start())


def _emails(text: str, sign: str) -> Iterator[Finding]:
    at = text.find(sign)
    while at >= 0:
        yield looked_at(at)
        domain = _DOMAIN.match(text, at + len(sign))
        name = _LOCAL_PART_BACKWARDS.match(text[max(0, at - 128) : at][::-1]) if domain else None
        if (
            name
            and domain
            and len(name[0]) > 2 * (sign == " @ ")
            and not (sign == "@" and (name[0][::-1] in _NO_PERSON or _NO_MAILBOX.match(text, at + 1)))
        ):
            yield Finding(at - len(name[0]), domain.end(), "EMAIL")
        at = text.find(sign, at + len(sign))


def _numbers(text: str, start: int, end: int) -> Iterator[Finding]:
    yield from _apart(_cards(text, start, end), text)
    for match in _PHONE.finditer(text, start, end):
        digits = sum(map(str.isdigit, match[0]))
        is_phone = 7 <= digits <= 17 and not _BEFORE_ARTICLE.search(text, max(0, match.start() - 16), match.start())
        yield Finding(match.start(), match.end(), "PHONE") if is_phone else looked_at(match.start())
    for match in _IPV4.finditer(text, start, end):
        if (
            match[0] not in _LOCAL
            and not match[0].startswith("255.")
            and not _is_version(text, match.start(), match.end())
        ):
            yield Finding(match.start(), match.end(), "IP")


def _groups(pattern: re.Pattern[str], text: str, kind: str) -> Iterator[Finding]:
    yield from (Finding(match.start(1), match.end(1), kind) for match in pattern.finditer(text))


def _secrets(text: str, lowered: str) -> Iterator[Finding]:
    for word, before in _SECRET_WORDS.items():
        start = lowered.find(word)
        while start >= 0:
            yield looked_at(start)
            end = start + len(word)
            match = _SECRET.match(text, end)
            is_named = match and (
                before.search(lowered[max(0, start - 12) : start])
                or (start > 0 and text[start - 1] in "_-" and _RANDOM.fullmatch(match[1]))
            )
            if match and is_named and not is_prose(text, *match.span(1)):
                yield Finding(match.start(1), match.end(1), "SECRET")
                end = max(end, match.end(1) - _LONGEST_WORD)  # what lies inside is found already
            start = lowered.find(word, end)


def _apart(findings: Iterable[Finding], text: str) -> Iterator[Finding]:
    """The matches that are not part of a machine's id: check digits of some are right by chance."""
    return (finding for finding in findings if not is_inside_machine_id(text, finding.start, finding.end))


def _cards(text: str, start: int, end: int) -> Iterator[Finding]:
    for match in _CARD.finditer(text, start, end):
        digits = _NO_DIGIT.sub("", match[0])
        is_card = 13 <= len(digits) <= 19 and luhn(digits) and not _AMOUNT.fullmatch(match[0])
        yield Finding(match.start(), match.end(), "CARD") if is_card else looked_at(match.start())


def _ibans(text: str) -> Iterator[Finding]:
    for match in _IBAN.finditer(text):
        length = iban_length(match[1])
        end = _end_of(match[0], length) if length else None
        is_iban = end is not None and iban(_GAPS.sub("", match[0][:end]))
        yield Finding(match.start(), match.start() + (end or 0), "IBAN") if is_iban else looked_at(match.start())


def _end_of(text: str, length: int) -> int | None:
    """The end of the first so many characters in a text with spaces: the words behind an IBAN are not part of it."""
    for place, char in enumerate(text):
        length -= char.isascii() and char.isalnum()
        if not length:
            return place + 1
    return None


_BEFORE_VERSION = re.compile(
    r"(?:[A-Za-z]/|[=~^<>]=?[ ]?|\bv(?:er)?\.?[ ]?|(?:version|release|section|paragraph|chapter|clause|build|abschnitt"
    r"|kapitel|oid|article|версия|версии|раздел|sección|seção|sezione|versión|versão|versione|versie|wersja|sürüm"
    r"|版本|バージョン|버전|第|§)[ ]?)$",
    re.IGNORECASE,
)
_BEFORE_ARTICLE = re.compile(
    r"\b(?:part|article|item|serial|model|artikel|teile?|sku|pièce)[ \-]?(?:no|nr|number)?[.:]? ?$", re.IGNORECASE
)
_AFTER_VERSION = re.compile(r"-(?:alpha|beta|rc|dev|snapshot|pre)|\+[0-9a-f]|(?:-[a-z]{2,12})?\.[0-9]", re.IGNORECASE)


def _is_version(text: str, start: int, end: int) -> bool:
    """Whether four numbers with dots are a version or a section and no address; `ip=` says that they are one."""
    before = text[max(0, start - 14) : start]
    if _AFTER_VERSION.match(text, end):
        return True
    match = _BEFORE_VERSION.search(before)
    return match is not None and not (match[0].startswith("=") and not before.endswith("=="))


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
    end = 0
    for match in _PRIVATE_KEY.finditer(text):
        if match.start() < end:
            continue
        ending, dashes = ("-----END ", "-----") if match[0][0] == "-" else ("Private-MAC", "\n")
        last = text.find(ending, match.end())
        closed = text.find(dashes, last + len(ending)) if last >= 0 else -1
        end = closed + len(dashes) if closed >= 0 else len(text)
        yield Finding(match.start(), end, "PRIVATE_KEY")
