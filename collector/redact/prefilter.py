r"""A prefilter that shows, for most texts, that the built-in patterns find nothing in them.

Why not just run the patterns: they are tens, each field of each span would be parsed for JSON and searched, and nearly
all texts have nothing to redact. The prefilter is a few regular expressions no narrower than all of `patterns.py`
together, run once over a whole message. It may be wrong in one direction only: where a pattern would match, or the name
of a field says that it is a secret, one of these matches (`tests/unit/redact/test_prefilter.py` searches for
counter-examples; a new pattern there needs its trace here). It also covers what is inside:

- JSON, and JSON in JSON: what an escape could hide (`\u0040` is an @) matches by itself, and other escapes only
  lengthen what is between two parts of a pattern. So JSON need not be parsed to know that nothing is in it.
- A serialised message of OTLP: its strings are in it unchanged, an attribute's name is followed by the tag 0x12 of
  its value, and a whole number that could be a card is the tag 0x18 and more than five bytes.

Word boundaries are not used, as the byte before a string is its length, which may be a letter. The engine is RE2: it
takes linear time, and one pass over the bytes for many traces together. So counted repetitions are few: each multiplies
the states of that pass.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from collector.redact.checksums import IBAN_COUNTRIES
from collector.redact.context_words import ACCOUNTS, CODES, NATIONAL_IDS, PASSWORDS, PHONES, SEEDS, words_of
from collector.redact.folding import FOLDED_SIGNS, FOREIGN_DIGITS
from collector.redact.matcher import ByteMatcher
from collector.redact.national_ids import LETTERED, NUMBERED

_OTHER = r"\x80-\xff"
"""The bytes of characters that are not ASCII."""
_FOLDED = r"\xe2\x84\xaa|\xc5\xbf|\xc4[\xb0\xb1]"  # U+212A, U+017F, U+0130 and U+0131 are k, s and i in another case
_PART = rf"[A-Za-z0-9_.\\\-{_OTHER}]{{8}}"
"""The beginning of what follows the first letters of a key, with all that may be an escape in it."""
_GAP = rf"(?:[ \-]|[{_OTHER}]{{2,3}})"
"""A space or hyphen between digits, or one that is not ASCII."""
KEY_STARTS = (
    r"sk-|gl(?:pat|rt|dt|cbt|ptt|ft|soat)-|xox[a-z]-|xapp-|pypi-|gh[pousr]_|github_pat_|_live_|_test_|hf_|npm_|dop_v1_"
    r"|gsk_|sntrys_|lin_api_|A(?:KIA|SIA|BIA|CCA)|AIza|ya29\.|SG\.|shp(?:at|ca|pa|ss)_|ATATT3|xai-|pplx-|r8_|hvs\.|whsec_"
    r"|GOCSPX-|1//0|EAA[A-Z]|dckr_pat_|sbp_|figd_|key-[0-9a-f]{8}|xkeysib-|SK[0-9a-f]{8}|dapi[0-9a-f]{8}|sq0(?:atp|csp)-"
    r"|[A-Za-z0-9]{12}\.[\w\-]{6}\.[\w\-]|:AA|PMAK-|NRAK-|lsv2_|nvapi-|tvly-|ph[cx]_|tskey-|rubygems_|glsa_|glc_|ops_|ntn_|AGE-SECRET|api/webhooks|hooks\.slack\.com"
)
"""How keys begin."""
QUERY_NAMES = (
    "sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature|token|access_token|refresh_token|id_token|auth"
    "|key|apikey|api_key|code|password|secret|client_secret|jwt|sid|session|sessionid"
)
"""Parameters of a URL that carry a secret."""
LABELS = "office|fax|mobile|mobil|cell|desk|handy|portable|móvil|celular"
"""Words behind a telephone number."""
AT_WORDS = "at|arroba|arobase|chiocciola|apenstaartje|snabel-a"
DOT_WORDS = "dot|punkt|punto|ponto|kropka|nokta|titik"
FOREIGN_AT = "małpa|собака|ät|アット|(?i:AROBASE)"
FOREIGN_DOT = "point|точка|点|ドット|點"
"""How people write out the signs of an address."""
_VALUE = rf"""(?:\\[nrtbf]?|[ \t\r\n"'])*(?:value[ \\"']*)?(?:\x12|[:=]|is |[{_OTHER}]{{2}}|\\+u(?i:ff1a|00a0))"""
"""The characters between a name and its value: quotes and spaces, escaped as often as JSON is in JSON."""


def raw_form(text: str) -> str:
    """The UTF-8 of a text, byte by byte: the look of a message that is decoded as Latin-1."""
    return text.encode().decode("latin-1")


def _either_form(word: str) -> str:
    """A pattern of a word whose characters are as they are, in any case, or escaped as in JSON."""
    return "".join(
        re.escape(char)
        if char.isascii()
        else "(?:" + "|".join(form for each in sorted({char, char.upper()}) for form in _forms(each)) + ")"
        for char in word
    )


def _forms(char: str) -> tuple[str, ...]:
    return re.escape(raw_form(char)), rf"\\+u(?i:{ord(char[0]):04x})"


_BEFORE_WORD = r"(?s:^.?|[^A-Za-z0-9].?|b.|\\u[0-9A-Fa-f]{4})"
"""The characters before the start of a word: no letter or digit, or one that is part of an escape, or the string's
length in a message, behind its tag (`b` is that of a log record's event name). Without it the ids of most answers,
`chatcmpl-…`, have the word `tc` of a Turkish id.
"""
_UNTIL_NUMBER = r"(?:[^0-9\n]|u[0-9A-Fa-f]{4})*?"
"""The characters between a word and the first number behind it: anything on the same line, with escapes."""
_AFTER_WORD = r"[^0-9ac-ik-oq-y]"
"""The characters behind a word without an ending: no letter. In a message it is the next tag, b, j, p or z at the
worst; capitals are let through. Without it most resources have the word `tel`, of `telemetry.sdk.name`.
"""
_ANY_NUMBER = r"[0-9][0-9 .()/\-\x80-\xff]{5,}[0-9]|[0-9][0-9A-Z ./\-]{3,}[0-9A-Z]"
"""A telephone number, or a national id."""


def _words(*by_language: Mapping[str, str], are_ascii: bool) -> str:
    words = {word.lower() for each in by_language for word, _ in words_of(each) if word.isascii() == are_ascii}
    patterns = (re.escape(word) if are_ascii else _either_form(word) for word in sorted(words))
    return "|".join(patterns).replace(r"\ ", "[ _-]?")


def _words_before_numbers(*by_language: Mapping[str, str]) -> str:
    """Words in ASCII, and a number behind them; a word in capitals is one in capitals alone."""
    words = {language for languages in by_language for language in words_of(languages) if language[0].isascii()}
    forms: dict[tuple[bool, bool], list[str]] = {}
    for word, has_ending in sorted(words):
        forms.setdefault((has_ending, word == word.lower()), []).append(re.escape(word).replace(r"\ ", "[ _-]?"))
    return "|".join(
        rf"{'(?i:' if in_any_case else '(?:'}{'|'.join(form)})(?:{'' if has_ending else _AFTER_WORD}{_UNTIL_NUMBER})?"
        for (has_ending, in_any_case), form in forms.items()
    )


def _digits_of(first: str, last: str) -> str:
    raw, escaped = raw_form(first), f"{ord(first):04x}"
    return rf"{raw[:-1]}[{raw[-1]}-{raw_form(last)[-1]}]|\\+u(?i:{escaped[:-1]}[{escaped[-1]}-{ord(last):x}])".replace(
        f"-{ord(last):x}]", f"-{ord(last):x}"[:1] + f"{ord(last):x}"[-1] + "]"
    )


_PASSWORDS_ELSEWHERE = {language: words for language, words in PASSWORDS.items() if language != "en"}
_FOREIGN = (
    f"(?i:{_words(PASSWORDS, are_ascii=False)})",
    *(
        _either_form(sign)
        for sign in ("(ät)", "[ät]", "[собака]", " ät ", " małpa ", " собака ", " アット ", *FOLDED_SIGNS)
    ),
    rf"(?i:{_words(CODES, are_ascii=False)}){_UNTIL_NUMBER}[0-9]{{2}}",
    *(_digits_of(*each) for each in FOREIGN_DIGITS),
    f"(?i:{_words(PHONES, NATIONAL_IDS, ACCOUNTS, are_ascii=False)}){_UNTIL_NUMBER}(?:{_ANY_NUMBER})",
)
"""Traces that are not ASCII, as they are or escaped."""
_NUMBERS = (
    rf"\x18[{_OTHER}]{{5}}",
    rf"[2-6][0-9]{{3}}(?:{_GAP}{{0,3}}[0-9]){{9}}|[2-6][0-9]{{3}}(?:[._/][0-9]{{4}}){{3}}",
    NUMBERED,
    rf"0[1-9](?:(?:\.|{_GAP})[0-9]{{2}}){{4}}",
    rf"8{_GAP}?\(?[3489][0-9]{{2}}\)?{_GAP}?[0-9]{{3}}{_GAP}[0-9]{{2}}{_GAP}[0-9]{{2}}",
    rf"(?:\+|%2[Bb])[1-9][0-9 .()/\-{_OTHER}]{{2}}",
    rf"\([0-9]{{2,5}}\){_GAP}?[0-9]{{2,5}}(?:\.|{_GAP})[0-9]{{2}}",
    rf"[2-9][0-9]{{2}}(?:\.|{_GAP})[0-9]{{3}}(?:\.|{_GAP})[0-9]{{4}}",
    rf"\(0[0-9]{{2,4}}\){_GAP}?[0-9]{{5}}|0[1-9][0-9]{{1,3}}-[0-9]{{2,3}}(?:{_GAP}[0-9]{{2}}){{2}}",
    rf"[0-9]{{9}}{_GAP}{{1,2}}(?i:{LABELS.replace('móvil', 'm')})",
    rf"00[1-9][0-9]{{0,2}}(?:[./]|{_GAP})[0-9]{{1,5}}(?:[./]|{_GAP})?[0-9]{{2}}",
    rf"0[1-9][0-9]{{2,3}}(?:/|{_GAP})[0-9]{{3}}",  # seven digits suffice: 0151 200
    rf"0[1-9][0-9](?:/|{_GAP})[0-9]{{3}}[0-9]*{_GAP}?[0-9]",  # 030 9018
    rf"0[1-9](?:/|{_GAP})[0-9]{{3}}[0-9]*(?:{_GAP}?[0-9]){{2}}",
    # An address of IPv4, any but 127.0.0.1, which most traces have.
    r"[0-689]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]|7\.(?:[1-9][0-9]{0,2}|0[0-9]{1,2})\.[0-9]{1,3}\.[0-9]",
    r"7\.0\.(?:[1-9][0-9]{0,2}|0[0-9]{1,2})\.[0-9]|7\.0\.0\.(?:[02-9]|1[0-9.])",
    # The 1, or 12, before 27.0.0.1 or 7.0.0.1 may be the end of an escape.
    r"(?:(?:^|[^2])7|(?:^|[^1])27|[0-9.]127|u[0-9A-Fa-f]{2,3}127)\.0\.0\.1",
)
_NAMES_AND_SIGNS = (
    rf"[A-Za-z0-9_.%+\-\\{_OTHER}]@[A-Za-z0-9_\-\\{_OTHER}]+(?:\.|u3002|\xe3\x80\x82)|://[^/@\s]*@",
    rf" @ |(?i:authorization|{_words(SEEDS, are_ascii=True)})|(?:curl|wget) [^\n]*-u|--user|(?i: arobase )",
    rf"%40|&#(?:64|x40);|\(at\)|\[at\]|::|PRIVATE KEY|Private-Lines|hooks\.slack\.com|api/webhooks|{_FOLDED}",
    r"\\/|\\u(?:00[0-7]|212[Aa]|017[Ff]|013[01])|[0-9]\\+u(?:00[Aa]0|20(?:0[79A-Fa-f]|1[0-3]|2[Ff]))",
    r":[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:",  # IPv6 has seven colons, or two together
    r"(?i:bearer|basic) {1,4}[A-Za-z0-9._~+/=\-]{16}",
    rf"(?i:key|token|secret|pass(?:word|wd|phrase)|pwd|cookie|authorization|{PASSWORDS['en']}){_VALUE}",
    f"(?i:{_words(_PASSWORDS_ELSEWHERE, are_ascii=True)})",
    rf"[?&;](?i:{QUERY_NAMES})=|(?i:mysql|mariadb|sshpass)[^\n]* -p",
    *_FOREIGN,
)
_SHAPES_AND_CONTEXTS = (
    rf"(?:{KEY_STARTS}|eyJ){_PART}",
    LETTERED,
    rf"(?i:{'|'.join(IBAN_COUNTRIES)})[0-9]{{2}}{_GAP}{{0,2}}[A-Za-z0-9](?:{_GAP}{{0,2}}[A-Za-z0-9]){{9}}",
    rf"(?i:[(\[ ](?:{AT_WORDS})[)\] ] ?[\w\-\\{_OTHER}]+ ?[(\[ ](?:{DOT_WORDS}|(?-i:POINT))[)\] ])",
    f"{_BEFORE_WORD}(?:{_words_before_numbers(PHONES, NATIONAL_IDS, ACCOUNTS)})(?:{_ANY_NUMBER})",
    f"{_BEFORE_WORD}(?:{_words_before_numbers(CODES)})(?:[0-9]{{2}})",
)
_MATCHERS = tuple(
    ByteMatcher("|".join(f"(?:{trace})" for trace in traces))
    for traces in (_NAMES_AND_SIGNS, _NUMBERS, _SHAPES_AND_CONTEXTS)
)
"""Three passes and not one: in real text the states of one automaton for all multiply beyond its memory.

RE2 then searches without it, at 1 to 5 MB a second instead of 300; text that repeats itself does not show that.
"""


def has_no_pii(text: str) -> bool:
    """Whether the built-in patterns certainly find nothing in the text, nor in anything nested in it."""
    try:
        return bytes_have_no_pii(text.encode())
    except UnicodeEncodeError:  # a lone surrogate: it was not searched
        return False


def bytes_have_no_pii(data: bytes) -> bool:
    """The same for UTF-8, and for a serialised message."""
    for matcher in _MATCHERS:  # noqa: SIM110 - a generator costs as much as a look
        if matcher.occurs_in(data):
            return False
    return True


def suspects_of(parts: Iterable[bytes]) -> set[bytes]:
    """Those of some texts or messages in which something may be found: for others `bytes_have_no_pii` holds.

    Many are looked over at once: to ask RE2 takes as long as to look over half a kilobyte.
    """
    suspects: set[bytes] = set()
    window: list[bytes] = []
    size = 0
    for part in parts:
        if len(part) >= _WINDOW:
            if not bytes_have_no_pii(part):
                suspects.add(part)
            continue
        window.append(part)
        size += len(part)
        if size >= _WINDOW:
            suspects.update(_suspects_among(window))
            window, size = [], 0
    if window:
        suspects.update(_suspects_among(window))
    return suspects


_WINDOW = 1 << 13
"""Bytes that are searched at once. A hit causes another search of the rest, so they are few."""
_BETWEEN = b"\n"
"""Stands before each part: it is no letter or digit, as the patterns have it for a beginning, and ends a line."""


def _suspects_among(parts: Sequence[bytes]) -> Iterator[bytes]:
    """The same of some parts as one text, in which something may also seem to go from one into the next."""
    data = _BETWEEN + _BETWEEN.join(parts)
    starts: list[int] = []
    for matcher in _MATCHERS:
        start = matcher.find(data, 0)
        while start >= 0:
            starts = starts or [0, *accumulate(len(part) + 1 for part in parts)]
            number = bisect_right(starts, start) - 1
            yield parts[number]
            start = matcher.find(data, starts[number + 1])
