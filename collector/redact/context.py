"""Detection by context: a word such as "Passwort", "тел" or "身份证", and the value that follows it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from collector.redact.context_words import ACCOUNTS, CODES, COPULAS, NATIONAL_IDS, PASSWORDS, PHONES, SEEDS, words_of
from collector.redact.finding import Finding, looked_at
from collector.redact.matcher import ByteMatcher

_NAME_END = r"(?:\\?[\"'])?"
_STRONG = re.compile(
    rf"{_NAME_END}[ \u00a0]{{0,3}}(?:[:=\uff1a]|=>)[ ]{{0,3}}(?:\\?[\"'])?"
    r"([!#-&(-+\--:=-\[\]-z|~]{4,512}|[^\s\"'\\,;<>{}\u3001\u3002\uff0c\uff1b]{4,512})"
)
"""A colon or the like, and a value: one in ASCII ends before Chinese, which has no spaces."""
_COPULA = "|".join(map(re.escape, sorted(COPULAS.split("|"), key=len, reverse=True)))
_BEFORE_WEAK = rf"{_NAME_END}[ ]{{0,2}}(?:(?:{_COPULA})[ ]{{0,2}})?(?<![a-z0-9])"
_WEAK = re.compile(
    rf"{_BEFORE_WEAK}([!#-&(-+\--:=-\[\]-z|~]{{6,64}}|[^\s\"'\\,;<>{{}}\u3001\u3002\uff0c\uff1b]{{6,64}})"
)
_WEAK_IN_ASCII = re.compile(rf"{_BEFORE_WEAK}([!#-&(-+\--:=-\[\]-z|~]{{6,64}})")
"""The same in ASCII only, behind a word of a script without spaces: its sentence may go on."""
_AFTER_WORDS = re.compile(
    rf"[^\n0-9:=\uff1a\"'{{}}]{{0,24}}(?:[:=\uff1a][ ]{{0,2}}|[ ]|(?:{_COPULA}))([!#-&(-+\--:=-\[\]-z|~]{{8,64}})"
)
"""A few words and a value that cannot be a word: "Пароль от почты: …"."""
_LETTER = re.compile(r"[^\W\d_]")
_NUMBER = re.compile(r"[^\n0-9+(]{0,24}([+(]?[0-9][0-9 .()/\-\u00a0\u2007\u2009-\u2013\u202f]{5,24}[0-9])(?![0-9])")
_AMOUNT = re.compile(
    r"[0-9]{1,2}(?:[ .\u00a0\u202f][0-9]{3})+|[0-9]{3}(?:\.[0-9]{3})+|[0-9]{1,7}|[0-9]{4}-[0-9]{2}-[0-9]{2}.*"
)
"""Thousands in groups, a number too short to dial, and a date."""
_ID = re.compile(
    r"[^\n0-9]{0,24}?(?<![A-Za-z0-9])([A-Z]{0,6}[0-9][0-9A-Z]{0,24}(?:[ ]?[ ./\-]"
    r"(?:[0-9][0-9A-Z]{0,11}|[A-Z](?![A-Za-z])|[A-Z]{1,3}[0-9][0-9A-Z]{0,11})){0,6})(?![0-9A-Za-z])"
)
_BETWEEN = rf"[^\n\w]{{0,4}}(?:(?i:number|no|nr|num|code|{_COPULA})[^\n\w]{{1,3}}){{0,3}}"
_ACCOUNT = re.compile(rf"{_BETWEEN}([0-9]{{2,6}}(?:[ \-][0-9]{{2,6}}){{1,7}}|[0-9]{{4,19}})(?![0-9A-Za-z])")
_SHORT_CODE = re.compile(rf"{_BETWEEN}([0-9]{{2,4}}(?:[ \-][0-9]{{2,4}}){{1,3}}|[0-9]{{3,8}})(?![0-9A-Za-z%])")
_SEED = re.compile(
    r"[^\n\w]{0,4}(?:(?:is|ist|:|are)[^\n\w]{1,3})?"
    r"([a-z]{3,8}(?:[ ,]{1,2}[a-z]{3,8}){11,23}|[5KL][1-9A-HJ-NP-Za-km-z]{50,51})(?![A-Za-z])"
)
"""Twelve to 24 words, and a Bitcoin key in the import format of wallets."""
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}.{0,40}|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{4}|(?:(?:19|20)[0-9]{2}[ \-]?){2,8}"
)
_CJK = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def find_by_context(text: str, lowered: str) -> Iterator[Finding]:
    """The text behind a word of the context; `lowered` is the same text, of the same length."""
    data = lowered.encode("utf-8", "replace")
    if not _ANY_WORD.occurs_in(data):
        return
    for gate, words, value in _CONTEXTS:
        if gate.occurs_in(data):
            yield from _after(words, text, lowered, value)


_ENGLISH = frozenset(PASSWORDS["en"].split("|"))
_Words = tuple[tuple[str, bool], ...]
_PHONES, _IDS = words_of(PHONES), words_of(NATIONAL_IDS)
_ACCOUNTS, _CODES, _SEEDS = words_of(ACCOUNTS), words_of(CODES), words_of(SEEDS)
_PASSWORDS = tuple((word, word not in _ENGLISH) for word, _ in words_of(PASSWORDS))  # words for passwords are inflected
PASSWORD_NAMES = "|".join(
    re.escape(word).replace(r"\ ", "[ _-]?") for word, _ in _PASSWORDS if word not in {"pass", "pin", "pw"}
)
"""Names of fields with a password, as a pattern."""


def _after(
    words: _Words, text: str, lowered: str, value: Callable[[str, int, str], Finding | None]
) -> Iterator[Finding]:
    is_ascii = text.isascii()
    for word, has_ending in words:
        if is_ascii and not word.isascii():
            continue
        where = lowered if word == word.lower() else text
        start = where.find(word)
        while start >= 0:
            end = start + len(word)
            yield looked_at(start)
            if _is_whole(where, start, end, word, has_ending=has_ending):
                if has_ending and not _CJK.match(word):
                    end = _end_of_word(where, end)
                if finding := value(text, end, word):
                    yield finding
                    end = finding.end
            start = where.find(word, end)


def _is_whole(text: str, start: int, end: int, word: str, *, has_ending: bool) -> bool:
    if _CJK.match(word):
        return True
    if start and text[start - 1].isalnum():
        return False
    return has_ending or end >= len(text) or not text[end].isalpha() or bool(_CJK.match(text[end]))


def _end_of_word(text: str, end: int) -> int:
    last = min(len(text), end + 24)
    while end < last and text[end].isalpha():
        end += 1
    return end


def _password(text: str, end: int, word: str) -> Finding | None:
    match = _STRONG.match(text, end)
    if match:
        return _secret(text, match.start(1), match.end(1), least=4 if word == "pin" else 6)
    if word in _ENGLISH:
        return None
    is_glued = _CJK.match(word)
    match = (_WEAK_IN_ASCII if is_glued else _WEAK).match(text, end)
    if match and _has_both(match[1]):
        return _secret(text, match.start(1), match.end(1), least=6)
    match = None if is_glued else _AFTER_WORDS.match(text, end)
    if match and _has_both(match[1]) and not match[1].islower():
        return _secret(text, match.start(1), match.end(1), least=8)
    return None


def _has_both(value: str) -> bool:
    return any(map(str.isdigit, value)) and _LETTER.search(value) is not None


def _secret(text: str, start: int, end: int, least: int) -> Finding | None:
    while end > start and text[end - 1] in ".!?)":
        end -= 1
    return None if end - start < least or is_prose(text, start, end) else Finding(start, end, "SECRET")


_CODE = re.compile(
    r"[$%*{<\[].{0,600}|[A-Z]{2,20}(?:_[A-Z]{2,20}){1,6}|\*+|[A-Za-z_][\w.]{0,80}[(\[].{0,600}", re.DOTALL
)
_NO_VALUE = frozenset({
    "string", "number", "boolean", "object", "integer", "required", "optional", "secretstr", "undefined", "literal",
    "process.env", "none", "hidden",
})  # fmt: skip


def is_prose(text: str, start: int, end: int) -> bool:
    """Whether what stands where a secret would is a word of a sentence, a type, a placeholder or a piece of code."""
    value = text[start:end]
    if _CODE.fullmatch(value) or value.lower().rstrip(".,;)|") in _NO_VALUE:
        return True
    if value.startswith(("process.env", "os.environ")):
        return True
    if (start > 0 and text[start - 1] in "\"'") or not value.rstrip(".,;:!?\u3002").isalpha():
        return False
    return not value.isascii() or (text[end : end + 1].isspace() and text[end + 1 : end + 2].isalpha())


def precedes_number(name: str) -> bool:
    """Whether a number in a field of this name may be a telephone number, an account or the like."""
    return any(words is not _PASSWORDS and gate.occurs_in(name.lower().encode()) for gate, words, _ in _CONTEXTS)


@dataclass(frozen=True, slots=True)
class _ValueForm:
    """A number behind a word: its form and kind, the excluded form, and how many digits it may have."""

    form: re.Pattern[str]
    kind: str
    excluded: re.Pattern[str] | None = None
    fewest: int = 0
    most: int = 512

    def find(self, text: str, end: int, _word: str) -> Finding | None:
        match = self.form.match(text, end)
        if not match or (self.excluded is not None and self.excluded.fullmatch(match[1])):
            return None
        digits = sum(map(str.isdigit, match[1]))
        return Finding(match.start(1), match.end(1), self.kind) if self.fewest <= digits <= self.most else None


def _gate(words: _Words) -> ByteMatcher:
    """Finds any of the words, those in ASCII at the beginning of a word only."""
    in_ascii = "|".join(re.escape(word.lower()) for word, _ in words if word.isascii())
    others = "|".join(re.escape(word.lower().encode().decode("latin-1")) for word, _ in words if not word.isascii())
    return ByteMatcher(rf"(?:^|[^a-z0-9])(?:{in_ascii})|{others}")


_CONTEXTS: tuple[tuple[ByteMatcher, _Words, Callable[[str, int, str], Finding | None]], ...] = (
    (_gate(_PASSWORDS), _PASSWORDS, _password),
    (_gate(_PHONES), _PHONES, _ValueForm(_NUMBER, "PHONE", _AMOUNT, 7, 15).find),
    (_gate(_IDS), _IDS, _ValueForm(_ID, "NATIONAL_ID", _DATE, 5, 18).find),
    (_gate(_ACCOUNTS), _ACCOUNTS, _ValueForm(_ACCOUNT, "ACCOUNT", _DATE, 6, 30).find),
    (_gate(_CODES), _CODES, _ValueForm(_SHORT_CODE, "SECRET").find),
    (_gate(_SEEDS), _SEEDS, _ValueForm(_SEED, "SECRET").find),
)
_ANY_WORD = _gate((*_PASSWORDS, *_PHONES, *_IDS, *_ACCOUNTS, *_CODES, *_SEEDS))
"""The gates of all contexts as one."""
