"""National ids that their form and check digits give away, without a word before them.

Machines make ids too: a UUID, or 16 to 64 hexadecimal digits. One in a thousand has digits like a card's.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from collector.redact.checksums import luhn
from collector.redact.finding import Finding, looked_at
from collector.redact.matcher import ByteMatcher
from evaluators.texts.word_lists import load_words

_DAY, _MONTH = r"(?:0[1-9]|[12][0-9]|3[01])", r"(?:0[1-9]|1[0-2])"
_FORMS: Mapping[str, Mapping[str, str]] = {
    kind: {
        name: form.replace("<DD>", _DAY).replace("<MM>", _MONTH)
        for name, _, form in (line.partition(" ") for line in lines)
    }
    for kind, lines in load_words("collector.redact", "national_ids.txt").items()
}
_NUMBERED, _LETTERED = _FORMS["NUMBERED"], _FORMS["LETTERED"]


def _alternatives(forms: Mapping[str, str]) -> str:
    return "|".join(f"(?P<{name}>{form})" for name, form in forms.items())


_BY_DIGITS = re.compile(
    rf"(?<![A-Za-z0-9])(?<![0-9][.\-/])(?:{_alternatives(_NUMBERED)})(?![A-Za-z0-9])(?![.\-/][0-9])"
)
_BY_LETTERS = re.compile(rf"(?<![A-Za-z0-9])(?:{_alternatives(_LETTERED)})(?![A-Za-z0-9])")
_SEPARATORS = re.compile(r"[ .\-/+]")
LETTERED = "|".join(_LETTERED.values())
"""All as one pattern, for the Rust engine."""
NUMBERED = "|".join(form.partition("(?!")[0] for form in _NUMBERED.values())
_MAY_BE_NUMBERED = ByteMatcher(NUMBERED)
_MAY_BE_LETTERED = ByteMatcher(LETTERED)


def may_be_numbered(text: str) -> bool:
    """Whether `find_numbered` may find something in the text."""
    return _MAY_BE_NUMBERED.occurs_in_text(text)


def find_numbered(text: str, start: int, end: int) -> Iterator[Finding]:
    """The ids between two offsets that are mostly digits."""
    yield from _valid(_BY_DIGITS, text, start, end)


def find_lettered(text: str) -> Iterator[Finding]:
    """The ids that begin with letters."""
    if _MAY_BE_LETTERED.occurs_in_text(text):
        yield from _valid(_BY_LETTERS, text, 0, len(text))


def _valid(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[Finding]:
    for match in pattern.finditer(text, start, end):
        check = _CHECKS.get(match.lastgroup or "")
        is_valid = check is None or check(_SEPARATORS.sub("", match[0]).upper())
        yield Finding(match.start(), match.end(), "NATIONAL_ID") if is_valid else looked_at(match.start())


def _weighted(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def _social_security(digits: str) -> bool:
    return digits[:3] not in {"000", "666"} and digits[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def _cpf(digits: str) -> bool:
    def check(count: int) -> int:
        rest = _weighted(digits, tuple(range(count + 1, 1, -1))) % 11
        return 0 if rest < 2 else 11 - rest

    return len(set(digits)) > 1 and check(9) == int(digits[9]) and check(10) == int(digits[10])


def _china(number: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return "10X98765432"[_weighted(number[:17], weights) % 11] == number[17]


def _france(number: str) -> bool:
    digits = number.replace("2A", "19").replace("2B", "18")
    return 97 - int(digits[:13]) % 97 == int(digits[13:])


def _snils(digits: str) -> bool:
    return _weighted(digits, tuple(range(9, 0, -1))) % 101 % 100 == int(digits[9:])


def _chile(number: str) -> bool:
    digit = 11 - sum(int(each) * (2 + at % 6) for at, each in enumerate(reversed(number[:-1]))) % 11
    return {11: "0", 10: "K"}.get(digit, str(digit)) == number[-1]


def _belgium(digits: str) -> bool:
    return int(digits[9:]) in {97 - int(digits[:9]) % 97, 97 - int("2" + digits[:9]) % 97}


def _ean(digits: str) -> bool:
    return sum(int(digit) * (3 if at % 2 else 1) for at, digit in enumerate(digits)) % 10 == 0


_PERMUTATION = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)


def _verhoeff(digits: str) -> bool:
    """See J. Verhoeff, Error detecting decimal codes (1969): multiplication in the dihedral group of ten elements."""
    total = 0
    for at, char in enumerate(reversed(digits)):
        digit = int(char)
        for _ in range(at % 8):
            digit = _PERMUTATION[digit]
        total = (total + digit if total < 5 else total - digit) % 5 + 5 * ((total < 5) != (digit < 5))
    return total == 0


def _spain(number: str) -> bool:
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number[:-1].translate(str.maketrans("XYZ", "012"))) % 23] == number[-1]


def _finland(number: str) -> bool:
    digits = number[:6] + number[-4:-1]
    return digits.isdigit() and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(digits) % 31] == number[-1]


def _singapore(number: str) -> bool:
    total = _weighted(number[1:8], (2, 7, 6, 5, 4, 3, 2)) + (4 if number[0] in "TG" else 0)
    return ("JZIHGFEDCBA" if number[0] in "ST" else "XWUTRQPNMLK")[total % 11] == number[8]


_ODD = dict(
    zip("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16,
         10, 22, 25, 24, 23), strict=True)
)  # fmt: skip


def _italy(code: str) -> bool:
    total = sum(_ODD[char] if at % 2 == 0 else int(char, 36) - 10 * char.isalpha() for at, char in enumerate(code[:15]))
    return chr(65 + total % 26) == code[15]


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "us": _social_security, "br": _cpf, "se": lambda number: luhn(number[-10:]), "fi": _finland, "cn": _china,
    "fr": _france, "ru": _snils, "cl": _chile, "cz": lambda number: int(number) % 11 == 0, "be": _belgium, "ch": _ean,
    "in": _verhoeff, "ae": luhn, "es": _spain, "sg": _singapore, "it": _italy,
}  # fmt: skip


_HEX = frozenset("0123456789abcdefABCDEF")
_DIGITS = frozenset("0123456789")
_LENGTHS = frozenset({16, 24, 32, 40, 64})
"""The lengths of ids of spans, documents, traces, commits and digests. A UUID has 32 digits in groups of these
sizes:"""
_GROUPS = [8, 4, 4, 4, 12]
_LONGEST = 64


def is_inside_machine_id(text: str, start: int, end: int) -> bool:
    """Whether characters `start` to `end` are a part of such an id, and not all of it."""
    first, last = start, end
    while first > 0 and start - first <= _LONGEST and (text[first - 1] in _HEX or text[first - 1] == "-"):
        first -= 1
    while last < len(text) and last - end <= _LONGEST and (text[last] in _HEX or text[last] == "-"):
        last += 1
    if (first > 0 and text[first - 1].isalnum()) or (last < len(text) and text[last].isalnum()):
        return False
    token = text[first:last]
    if _is_uuid(token):
        return last - first > end - start
    return (
        last - first > end - start
        and len(token) in _LENGTHS
        and _HEX.issuperset(token)
        and not _DIGITS.issuperset(token)
        and token in (token.lower(), token.upper())
    )


def _is_uuid(token: str) -> bool:
    groups = token.split("-")
    return [len(group) for group in groups] == _GROUPS and not _DIGITS.issuperset("".join(groups))
