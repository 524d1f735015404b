"""The language of a user's words, by script and by frequent words: small, offline, and linear in the text.

It names a language only if the words are clear, since a wrong segment is worse than none. A script that only one
language uses names it; words and letters that few languages have tell apart languages in Latin, Cyrillic or Arabic
letters. Models of text classification know more languages, but need 75 to 100 MB (measurements:
deploy/docs/attributes.md).
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

LONGEST = 2000
"""The most characters that are read."""

_SCRIPTS = re.compile(
    "(?P<kana>[\u3040-\u30ff])|(?P<han>[\u4e00-\u9fff])|(?P<ko>[\uac00-\ud7af])|(?P<th>[\u0e00-\u0e7f])"
    "|(?P<el>[\u0370-\u03ff])|(?P<he>[\u0590-\u05ff])|(?P<hi>[\u0900-\u097f])|(?P<bn>[\u0980-\u09ff])"
    "|(?P<ta>[\u0b80-\u0bff])|(?P<te>[\u0c00-\u0c7f])|(?P<ka>[\u10a0-\u10ff])|(?P<hy>[\u0530-\u058f])"
    "|(?P<arabic>[\u0600-\u06ff])|(?P<cyrillic>[\u0400-\u04ff])"
)
_LATIN_LETTER = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
"""A word in lower-case ASCII: this pattern is twice as fast."""
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NOT_PROSE = re.compile(r"[@\\/_{}<>=`#]")

_CYRILLIC = frozenset({"ru", "uk", "bg"})
_ARABIC = frozenset({"ar", "fa", "ur"})

_ENOUGH = 1.0
"""The evidence that is enough to name a language: two words or letters; a word counts 1, shared among those that have
it."""
_LEAD = 1.5
"""The least ratio of the evidence to the next language's evidence."""


class _FrequentWords(NamedTuple):
    """The languages of each frequent word, the language of each rare letter, and the languages with Latin letters."""

    languages_of: Mapping[str, tuple[str, ...]]
    of_letter: Mapping[str, str]
    letters: re.Pattern[str]
    latin: frozenset[str]


@cache
def _frequent_words() -> _FrequentWords:
    languages_of: dict[str, tuple[str, ...]] = {}
    of_letter: dict[str, str] = {}
    languages: set[str] = set()
    for line in (Path(__file__).parent / "frequent_words.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        language, _, rest = line.partition(": ")
        words, _, letters = rest.partition(" | ")
        languages.add(language)
        of_letter.update(dict.fromkeys(letters, language))
        for word in words.split():
            languages_of[word] = (*languages_of.get(word, ()), language)
    pattern = re.compile(f"[{''.join(of_letter)}]")
    return _FrequentWords(languages_of, of_letter, pattern, frozenset(languages) - _CYRILLIC - _ARABIC)


def language_of(text: str) -> str | None:
    """The ISO 639-1 code of the language; None if the words are too few or unclear."""
    prose = _prose(text[:LONGEST])
    if prose.isascii():  # most texts: no other script, and nothing to count
        return _by_words(prose, _frequent_words().latin) if _LATIN_LETTER.search(prose) else None
    scripts, latin = _letters(prose)
    if not scripts:
        return _by_words(prose, _frequent_words().latin) if latin else None
    script, letters = scripts.most_common(1)[0]
    if scripts["kana"] and scripts["kana"] + scripts["han"] >= letters:
        script, letters = "ja", scripts["kana"] + scripts["han"]
    if letters * 2 < latin and script not in {"ja", "han", "ko"}:  # one character of these scripts counts as a word
        return _by_words(prose, _frequent_words().latin)
    if letters * 6 < latin:
        return _by_words(prose, _frequent_words().latin)
    match script:
        case "han":
            return "zh" if letters > 1 else None
        case "cyrillic":
            return _by_words(prose, _CYRILLIC)
        case "arabic":
            return _by_words(prose, _ARABIC)
        case _:
            return script if letters > 2 else None


def _prose(text: str) -> str:
    """The words without code, addresses and markup."""
    words = _CODE.sub(" ", text).split()
    if _NOT_PROSE.search(text):
        words = [word for word in words if not _NOT_PROSE.search(word)]
    return " ".join(words)


def _letters(prose: str) -> tuple[Counter[str], int]:
    """The numbers of letters of each script, and of Latin letters."""
    scripts: Counter[str] = Counter()
    latin = 0
    for letter, number in Counter(prose).items():
        if _LATIN_LETTER.match(letter):
            latin += number
        elif match := _SCRIPTS.match(letter):
            scripts[match.lastgroup or ""] += number
    return scripts, latin


def _by_words(prose: str, among: frozenset[str]) -> str | None:
    evidence: dict[str, float] = {}
    pieces: dict[str, int] = {}
    known = _frequent_words()
    lowered = prose.lower().replace("\u2019", "'")
    word, few_have = (_ASCII_WORD, ()) if lowered.isascii() else (_WORD, known.letters.findall(lowered))
    for languages in filter(None, map(known.languages_of.get, word.findall(lowered))):
        share = 1.0 / len(languages)
        for language in languages:
            evidence[language] = evidence.get(language, 0.0) + share
            pieces[language] = pieces.get(language, 0) + 1
    for letter in few_have:
        language = known.of_letter[letter]
        evidence[language] = evidence.get(language, 0.0) + 0.5
        pieces[language] = pieces.get(language, 0) + 1
    ranked = [(amount, language) for language, amount in evidence.items() if language in among]
    if not ranked:
        return None
    ranked.sort(reverse=True)
    amount, best = ranked[0]
    second = ranked[1][0] if len(ranked) > 1 else 0.0
    return best if pieces[best] > 1 and amount >= _ENOUGH and amount >= _LEAD * second else None
